/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * text.h - the text view of a result, for people.
 *
 * What it prints may change with any release; programs read the JSON view. Every number carries its
 * unit. Colour only when asked for (tt_report_colour(): a terminal, and NO_COLOR not set).
 */
#ifndef TT_REPORT_TEXT_H
#define TT_REPORT_TEXT_H

#include <stdio.h>

#include "base/base.h"
#include "taut/result.h"

/* 0 or -EIO (out refused it). */
tt_must_check int tt_report_text(const struct taut_result *r, FILE *out, bool colour);

/* May text to this stream be coloured? */
bool tt_report_colour(FILE *out);

/* "13.71 us", "14.9 Gbit/s", "1.25 M/s", "-" for an unknown value. Four significant digits. Returns
 * buf. */
const char *tt_report_value(double value, enum taut_unit unit, char *buf, size_t size);

#endif
