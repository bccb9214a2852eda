/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/clock.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Several threads at once meet a clock that nobody has started. */
static void *first_use(void *arg)
{
	uint64_t c = tt_clock_cycles();
	uint64_t ns = tt_cycles_to_ns(1000000000);

	(void)arg;
	return (void *)(uintptr_t)(c && ns);
}

static void the_first_use_may_race(void **state)
{
	pthread_t thread[4];
	void *good;

	(void)state;
	memset(&tt_clock, 0, sizeof(tt_clock));
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, first_use, NULL), 0);
	for (int i = 0; i < 4; i++) {
		pthread_join(thread[i], &good);
		assert_non_null(good);
	}
	assert_int_not_equal(tt_clock_source_get(), TT_CLOCK_UNSET);
}

/* The kernel's reading before and after encloses ours; what the machine does in between only widens
 * the enclosure. */
static void stretch(uint64_t least_ns, uint64_t parts)
{
	uint64_t k0 = tt_clock_monotonic_ns();
	uint64_t c0 = tt_clock_cycles();
	uint64_t k1 = tt_clock_monotonic_ns();
	uint64_t k2, k3, c1, ns;

	while (tt_clock_monotonic_ns() - k1 < least_ns)
		tt_cpu_relax();
	k2 = tt_clock_monotonic_ns();
	c1 = tt_clock_cycles_ordered();
	k3 = tt_clock_monotonic_ns();
	ns = tt_cycles_to_ns(c1 - c0);
	assert_true(ns >= (k2 - k1) - (k2 - k1) / parts - 1);
	assert_true(ns <= (k3 - k0) + (k3 - k0) / parts + 1);
}

static void cycles_agree_with_the_kernel(void **state)
{
	(void)state;
	tt_clock_init();
	stretch(2000000, 200);
	tt_clock_recalibrate(50);
	stretch(20000000, 2000);
	assert_true(llabs(tt_clock_drift_ppb()) < 5000000);
}

static void conversions_are_inverse(void **state)
{
	static const uint64_t ns[] = {
	    0, 1, 1000, 50000, 1000000000, 3600ull * 1000000000, 1ull << 58};

	(void)state;
	for (size_t i = 0; i < tt_array_len(ns); i++) {
		uint64_t back = tt_cycles_to_ns(tt_ns_to_cycles(ns[i]));
		uint64_t slack = ns[i] / 10000000 + 2;

		assert_true(back + slack >= ns[i] && back <= ns[i] + slack);
	}
}

static void without_a_tsc_a_cycle_is_a_nanosecond(void **state)
{
	struct tt_clock saved = tt_clock;
	uint64_t before, after, c;
	char text[128];

	(void)state;
	tt_clock = (struct tt_clock){.source = TT_CLOCK_MONOTONIC};
	before = tt_clock_monotonic_ns();
	c = tt_clock_cycles();
	after = tt_clock_monotonic_ns();
	assert_true(before <= c && c <= after);
	assert_int_equal(tt_cycles_to_ns(12345), 12345);
	assert_int_equal(tt_ns_to_cycles(12345), 12345);
	assert_int_equal(tt_clock_drift_ppb(), 0);
	tt_clock_recalibrate(1);
	assert_int_equal(tt_cycles_to_ns(12345), 12345);
	tt_clock_describe(text, sizeof(text));
	assert_memory_equal(text, "CLOCK_MONOTONIC (", 17);
	tt_clock = saved;
}

static void the_source_says_its_name(void **state)
{
	char text[128];

	(void)state;
	tt_clock_describe(text, sizeof(text));
	if (tt_clock_source_get() == TT_CLOCK_TSC) {
		assert_memory_equal(text, "TSC at ", 7);
		/* A counter between 100 MHz and 10 GHz. */
		assert_true(tt_ns_to_cycles(1000) > 100 && tt_ns_to_cycles(1000) < 10000);
	} else {
		assert_memory_equal(text, "CLOCK_MONOTONIC (", 17);
	}
	print_message("clock: %s\n", text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_first_use_may_race),
	    cmocka_unit_test(cycles_agree_with_the_kernel),
	    cmocka_unit_test(conversions_are_inverse),
	    cmocka_unit_test(without_a_tsc_a_cycle_is_a_nanosecond),
	    cmocka_unit_test(the_source_says_its_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
