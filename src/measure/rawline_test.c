/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

#include "measure/compare.h"
#include "measure/rawline.h"

static void test_two_cores(void **state)
{
	struct tt_rawline raw;
	int a = -1, b = -1, rc;

	(void)state;
	tt_compare_cpus(&a, &b);
	assert_true(a >= 0 && b >= 0);
	if (a == b) {
		print_message("one processor: nothing to cross\n");
		skip();
	}
	rc = tt_rawline(a, b, &raw);
	if (rc == -ETIMEDOUT) {
		print_message("the machine is too busy for one sample\n");
		skip();
	}
	assert_int_equal(rc, 0);
	/* Light crosses a chip in a nanosecond; a preempted thread loses milliseconds. */
	assert_true(raw.min_ns > 1 && raw.min_ns <= raw.p50_ns && raw.p50_ns < 1e8);
	assert_true(raw.samples > 0 && raw.samples <= TT_RAWLINE_SAMPLES);
}

static void test_wrong_cores(void **state)
{
	struct tt_rawline raw;
	int a = -1, b = -1;

	(void)state;
	tt_compare_cpus(&a, &b);
	assert_int_equal(tt_rawline(a, a, &raw), -EDOM);
	assert_int_equal(tt_rawline(a, CPU_SETSIZE - 1, &raw), -EINVAL);
	assert_int_equal(tt_rawline(-1, a, &raw), -EINVAL);
}

/* Chosen processors are ours, differ where that can be, and a given one is kept. */
static void test_choice(void **state)
{
	cpu_set_t mine, one;
	int a = -1, b = -1;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(mine), &mine), 0);
	tt_compare_cpus(&a, &b);
	assert_true(CPU_ISSET((unsigned int)a, &mine) && CPU_ISSET((unsigned int)b, &mine));
	assert_int_equal(a != b, CPU_COUNT(&mine) > 1);
	int kept = a, other = -1;
	tt_compare_cpus(&kept, &other);
	assert_int_equal(kept, a);
	assert_int_equal(other != a, CPU_COUNT(&mine) > 1);
	CPU_ZERO(&one);
	CPU_SET((unsigned int)b, &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	int x = -1, y = -1;
	tt_compare_cpus(&x, &y);
	assert_int_equal(x, b);
	assert_int_equal(y, b);
	assert_int_equal(sched_setaffinity(0, sizeof(mine), &mine), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_two_cores),
	    cmocka_unit_test(test_wrong_cores),
	    cmocka_unit_test(test_choice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
