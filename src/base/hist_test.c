/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/hist.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/stats.h"

static struct tt_hist h, other, both;

static uint64_t seed = 12345;

static uint64_t next_random(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

/* Spread over all magnitudes up to an hour. */
static uint64_t next_value(void)
{
	return (next_random() >> (22 + next_random() % 40)) % TT_HIST_MAX_NS;
}

static void slots_cover_every_value_to_three_digits(void **state)
{
	struct tt_hist_step step = {0};
	uint64_t expect = 0;
	uint32_t filled = 0;

	(void)state;
	tt_hist_reset(&h);
	for (uint32_t i = 0; i < TT_HIST_SLOTS; i++)
		h.slots[i] = 1;
	while (tt_hist_next(&h, &step)) {
		/* No hole, no overlap, never wider than a thousandth. */
		assert_int_equal(step.low, expect);
		assert_true(step.high >= step.low);
		assert_true(step.high - step.low <= step.low / 1000);
		assert_int_equal(tt_hist_slot(step.low), filled);
		if (step.high <= TT_HIST_MAX_NS)
			assert_int_equal(tt_hist_slot(step.high), filled);
		expect = step.high + 1;
		filled++;
		if (expect > TT_HIST_MAX_NS)
			break;
	}
	assert_true(expect > TT_HIST_MAX_NS);
	assert_true(tt_hist_slot(UINT64_MAX) < TT_HIST_SLOTS);
}

static void small_values_are_exact(void **state)
{
	(void)state;
	tt_hist_reset(&h);
	assert_int_equal(tt_hist_percentile(&h, 50), 0);
	assert_true(tt_hist_mean(&h) == 0.0 && tt_hist_stddev(&h) == 0.0);
	for (uint64_t v = 1; v <= 1000; v++)
		tt_hist_record(&h, v);
	assert_int_equal(h.count, 1000);
	assert_int_equal(h.min, 1);
	assert_int_equal(h.max, 1000);
	assert_int_equal(tt_hist_percentile(&h, 0), 1);
	assert_int_equal(tt_hist_percentile(&h, 50), 500);
	assert_int_equal(tt_hist_percentile(&h, 99), 990);
	assert_int_equal(tt_hist_percentile(&h, 99.9), 999);
	assert_int_equal(tt_hist_percentile(&h, 99.91), 1000);
	assert_int_equal(tt_hist_percentile(&h, 100), 1000);
	assert_true(fabs(tt_hist_mean(&h) - 500.5) < 1e-9);
	assert_true(fabs(tt_hist_stddev(&h) - sqrt(1001.0 * 1000.0 / 12.0)) < 1e-9);
}

static int ascending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void percentiles_follow_the_sorted_values(void **state)
{
	static const double p[] = {0, 1, 10, 25, 50, 75, 90, 99, 99.9, 99.99, 100};
	enum { N = 20000 };
	static uint64_t v[N];

	(void)state;
	tt_hist_reset(&h);
	for (size_t i = 0; i < N; i++) {
		v[i] = next_value();
		tt_hist_record(&h, v[i]);
	}
	qsort(v, N, sizeof(*v), ascending);
	for (size_t i = 0; i < tt_array_len(p); i++) {
		uint64_t truth = v[tt_nearest_rank(N, p[i]) - 1];
		uint64_t told = tt_hist_percentile(&h, p[i]);

		assert_true(told >= truth && told - truth <= truth / 1000);
	}
	assert_int_equal(h.min, v[0]);
	assert_int_equal(h.max, v[N - 1]);
}

static void merging_equals_recording_together(void **state)
{
	(void)state;
	tt_hist_reset(&h);
	tt_hist_reset(&other);
	tt_hist_reset(&both);
	tt_hist_merge(&h, &other);
	assert_int_equal(h.min, UINT64_MAX);
	for (int i = 0; i < 5000; i++) {
		uint64_t v = next_value();

		tt_hist_record(i % 3 ? &h : &other, v);
		tt_hist_record(&both, v);
	}
	tt_hist_merge(&h, &other);
	assert_memory_equal(&h, &both, sizeof(h));
}

static void values_beyond_an_hour_are_counted_and_exact_in_max(void **state)
{
	struct tt_hist_step step = {0};

	(void)state;
	tt_hist_reset(&h);
	tt_hist_record(&h, 5);
	tt_hist_record_n(&h, 0, 0);
	tt_hist_record_n(&h, UINT64_MAX - 1, 3);
	assert_int_equal(h.count, 4);
	assert_int_equal(h.over, 3);
	assert_true(h.max == UINT64_MAX - 1);
	assert_true(tt_hist_percentile(&h, 100) == UINT64_MAX - 1);
	assert_true(h.sum == (unsigned __int128)(UINT64_MAX - 1) * 3 + 5);
	assert_true(tt_hist_next(&h, &step));
	assert_int_equal(step.low, 5);
	assert_int_equal(step.high, 5);
	assert_int_equal(step.up_to, 1);
	assert_true(tt_hist_next(&h, &step));
	assert_int_equal(step.count, 3);
	assert_int_equal(step.up_to, 4);
	assert_false(tt_hist_next(&h, &step));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(slots_cover_every_value_to_three_digits),
	    cmocka_unit_test(small_values_are_exact),
	    cmocka_unit_test(percentiles_follow_the_sorted_values),
	    cmocka_unit_test(merging_equals_recording_together),
	    cmocka_unit_test(values_beyond_an_hour_are_counted_and_exact_in_max),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
