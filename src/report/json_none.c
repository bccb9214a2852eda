/* SPDX-License-Identifier: BSD-3-Clause */
/* The JSON view of a build without jansson. */
#include "report/json.h"

#include <errno.h>

int tt_report_json(const struct taut_result *r, FILE *out)
{
	(void)r;
	(void)out;
	return -ENOSYS;
}

const char *tt_report_json_package(void)
{
	return "libjansson-dev";
}
