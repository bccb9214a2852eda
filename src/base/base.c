/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/syscall.h>

void tt_assert_fail(const char *file, int line, const char *expr)
{
	char text[512];
	int n = snprintf(text, sizeof(text), "taut: %s:%d: assertion failed: %s\n", file, line, expr);

	if (n > 0)
		(void)!syscall(SYS_write, 2, text, tt_min((size_t)n, sizeof(text) - 1));
	abort();
}
