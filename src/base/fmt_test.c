/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/fmt.h"

#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Whatever is served must read as the C library writes it. */
#define SAME(...)                                                                                  \
	do {                                                                                       \
		char ours[256], theirs[256];                                                       \
		size_t n = tt_fmt(ours, sizeof(ours), __VA_ARGS__);                                \
		int m = snprintf(theirs, sizeof(theirs), __VA_ARGS__);                             \
		assert_string_equal(ours, theirs);                                                 \
		assert_int_equal(n, m);                                                            \
	} while (0)

static void served_conversions_read_as_in_libc(void **state)
{
	(void)state;
	SAME("plain 100%% text");
	SAME("%d %d %d %i", 0, INT_MIN, INT_MAX, -7);
	SAME("%u %x %lx %llx", UINT_MAX, 0xdeadbeefu, ULONG_MAX, 0ull);
	SAME("%ld %lld %zu %zd", LONG_MIN, LLONG_MAX, SIZE_MAX, (ssize_t)-1);
	SAME("[%5d] [%-5d] [%05d] [%05d] [%2d]", 42, 42, 42, -42, 12345);
	SAME("[%*d] [%-*s]", 8, 3, 6, "ab");
	SAME("[%s] [%.2s] [%.*s] [%6s] [%-6s]", "abc", "abc", 1, "abc", "abc", "abc");
	SAME("%c%c %p", 'x', 'y', (void *)&served_conversions_read_as_in_libc);
}

static void a_short_buffer_is_cut_and_ends(void **state)
{
	char buf[8] = "#######";

	(void)state;
	assert_int_equal(tt_fmt(buf, 4, "%s", "abcdef"), 6);
	assert_string_equal(buf, "abc");
	assert_int_equal(buf[4], '#');
	assert_int_equal(tt_fmt(buf, 1, "%d", 12345), 5);
	assert_string_equal(buf, "");
	assert_int_equal(tt_fmt(NULL, 0, "%d", 12345), 5);
}

static void bad_input_is_shown(void **state)
{
	char buf[64];
	const char *volatile none = NULL;
	const char *volatile fmt = "%d then %e and %d";

	(void)state;
	tt_fmt(buf, sizeof(buf), "<%s>", none);
	assert_string_equal(buf, "<(null)>");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	tt_fmt(buf, sizeof(buf), fmt, 1, 2.0, 3);
	assert_string_equal(buf, "1 then %e and %d");
	fmt = "ends in %";
	tt_fmt(buf, sizeof(buf), fmt, 0);
	assert_string_equal(buf, "ends in %");
#pragma GCC diagnostic pop
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(served_conversions_read_as_in_libc),
	    cmocka_unit_test(a_short_buffer_is_cut_and_ends),
	    cmocka_unit_test(bad_input_is_shown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
