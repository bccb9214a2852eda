/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/base.h"

#include <stdlib.h>

#include "base/atomic.h"
#include "base/fmt.h"
#include "base/raw.h"
#include "base/tid.h"

#ifdef TT_TSAN
unsigned int tt_fence_word;
#endif

void tt_assert_fail(const char *file, int line, const char *expr)
{
	char text[512];
	size_t n =
	    tt_fmt(text, sizeof(text), "taut: %s:%d: assertion failed: %s\n", file, line, expr);

	tt_raw_write(2, text, tt_min(n, sizeof(text) - 1));
	abort();
}

__thread int tt_tid_cache;

int tt_tid_load(void)
{
	tt_tid_cache = (int)tt_raw0(SYS_gettid);
	return tt_tid_cache;
}
