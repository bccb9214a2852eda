/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * json.h - the JSON view of a result: include/taut/result.schema.json, version 1.
 *
 * Built without jansson, tt_report_json() returns -ENOSYS and writes nothing;
 * tt_report_json_package() then names the Debian package to build with. Not thread safe with a
 * writer of the same result.
 */
#ifndef TT_REPORT_JSON_H
#define TT_REPORT_JSON_H

#include <stdio.h>

#include "base/base.h"
#include "taut/result.h"

/* One object and a newline. 0, -ENOMEM, -ENOSYS, -EIO (out refused it). */
tt_must_check int tt_report_json(const struct taut_result *r, FILE *out);

/* NULL: JSON is built in. Else the package it needs. */
const char *tt_report_json_package(void);

#endif
