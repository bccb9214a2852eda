/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/stats.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define near(a, b, eps) assert_true(fabs((a) - (b)) <= (eps))

static uint64_t seed;

static double uniform(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return ((double)(seed >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(void)
{
	return sqrt(-2.0 * log(uniform())) * cos(6.283185307179586 * uniform());
}

static void welford_adds_and_merges(void **state)
{
	/* A large offset is what sums of squares lose. */
	static const double v[] = {1e9 + 4, 1e9 + 7, 1e9 + 13, 1e9 + 16};
	struct tt_welford w = {0}, left = {0}, right = {0}, empty = {0};

	(void)state;
	near(tt_welford_variance(&w), 0.0, 0.0);
	for (size_t i = 0; i < 4; i++) {
		tt_welford_add(&w, v[i]);
		tt_welford_add(i < 1 ? &left : &right, v[i]);
	}
	near(w.mean, 1e9 + 10, 1e-6);
	near(tt_welford_variance(&w), 30.0, 1e-6);
	near(tt_welford_stddev(&w), sqrt(30.0), 1e-6);
	tt_welford_merge(&left, &right);
	tt_welford_merge(&left, &empty);
	tt_welford_merge(&empty, &left);
	assert_int_equal(empty.n, 4);
	near(empty.mean, w.mean, 1e-6);
	near(empty.m2, w.m2, 1e-5);
	near(empty.min, 1e9 + 4, 0);
	near(empty.max, 1e9 + 16, 0);
}

static void nearest_rank_has_no_rounding_surprise(void **state)
{
	static const double five[] = {15, 20, 35, 40, 50};

	(void)state;
	/* The usual textbook example. */
	near(tt_percentile_sorted(five, 5, 5), 15, 0);
	near(tt_percentile_sorted(five, 5, 30), 20, 0);
	near(tt_percentile_sorted(five, 5, 40), 20, 0);
	near(tt_percentile_sorted(five, 5, 50), 35, 0);
	near(tt_percentile_sorted(five, 5, 100), 50, 0);
	assert_int_equal(tt_nearest_rank(1000, 99.9), 999);
	assert_int_equal(tt_nearest_rank(100000, 99.999), 99999);
	assert_int_equal(tt_nearest_rank(1000000, 99.9999), 999999);
	assert_int_equal(tt_nearest_rank(1000, 0.1), 1);
	assert_int_equal(tt_nearest_rank(1000, 0.11), 2);
	assert_int_equal(tt_nearest_rank(7, 0), 1);
	assert_int_equal(tt_nearest_rank(1, 50), 1);
	for (uint64_t n = 1; n <= 300; n++)
		for (uint64_t p = 1; p <= 99; p++)
			assert_int_equal(tt_nearest_rank(n, (double)p), (n * p + 99) / 100);
}

static void percentiles_need_enough_values(void **state)
{
	(void)state;
	assert_false(tt_percentile_supported(0, 50));
	assert_false(tt_percentile_supported(19, 50));
	assert_true(tt_percentile_supported(20, 50));
	assert_false(tt_percentile_supported(999, 99));
	assert_true(tt_percentile_supported(1000, 99));
	assert_false(tt_percentile_supported(9999, 99.9));
	assert_true(tt_percentile_supported(10000, 99.9));
	assert_true(tt_percentile_supported(1000000, 99.999));
	assert_true(tt_percentile_supported(1000, 1));
	assert_false(tt_percentile_supported(999, 1));
	assert_true(tt_percentile_supported(1, 0));
	assert_true(tt_percentile_supported(1, 100));
	assert_false(tt_percentile_supported(100, 101));
}

static void median_and_mad(void **state)
{
	static const double odd[] = {1, 2, 9}, even[] = {1, 2, 4, 9};
	static const double v[] = {6, 1, 1, 2, 2, 4, 9};

	(void)state;
	near(tt_median_sorted(odd, 3), 2, 0);
	near(tt_median_sorted(even, 4), 3, 0);
	near(tt_mad(v, 7), 1, 0);
}

static void t_quantiles_match_the_tables(void **state)
{
	(void)state;
	near(tt_t_quantile(0.975, 1), 12.7062047, 1e-6);
	near(tt_t_quantile(0.975, 4), 2.7764451, 1e-6);
	near(tt_t_quantile(0.975, 10), 2.2281389, 1e-6);
	near(tt_t_quantile(0.95, 18), 1.7340636, 1e-6);
	near(tt_t_quantile(0.8, 8), 0.8888895, 1e-6);
	near(tt_t_quantile(0.975, 1e6), 1.9599664, 1e-5);
	near(tt_t_quantile(0.025, 4), -2.7764451, 1e-6);
	near(tt_t_quantile(0.5, 3), 0, 1e-9);
}

static void intervals_come_from_the_exact_distributions(void **state)
{
	/* Ratios a/b are powers of 2 that are all different: order statistics can be named. */
	double a[10], b[10];
	struct tt_ratio r;

	(void)state;
	for (int i = 0; i < 10; i++) {
		a[i] = exp2(i);
		b[i] = exp2(i / 16.0);
	}
	assert_int_equal(tt_ratio_unpaired(a, 3, b, 3, 0.95, &r), 0);
	assert_true(r.low <= 0.0 && isinf(r.high) && r.level <= 0.0 && isinf(r.detectable));
	assert_int_equal(tt_ratio_unpaired(a, 4, b, 4, 0.95, &r), 0);
	near(r.level, 1.0 - 2.0 / 70.0, 1e-12);
	near(r.low, exp2(-3.0 / 16.0), 1e-9);
	near(r.high, 8.0, 1e-9);
	assert_int_equal(tt_ratio_unpaired(a, 5, b, 5, 0.95, &r), 0);
	near(r.level, 0.9682539682539683, 1e-12);
	near(r.low, exp2(-2.0 / 16.0), 1e-9);
	assert_int_equal(tt_ratio_unpaired(a, 5, b, 7, 0.95, &r), 0);
	near(r.level, 0.952020202020202, 1e-12);
	assert_int_equal(tt_ratio_unpaired(a, 10, b, 10, 0.95, &r), 0);
	near(r.level, 0.9567429474550218, 1e-12);
	assert_int_equal(tt_ratio_paired(a, b, 5, 0.95, &r), 0);
	assert_true(isinf(r.high));
	assert_int_equal(tt_ratio_paired(a, b, 6, 0.95, &r), 0);
	near(r.level, 0.96875, 1e-12);
	near(r.low, 1.0, 1e-9);
	near(r.high, exp2(5.0 * 15.0 / 16.0), 1e-9);
	near(r.estimate, exp2(2.5 * 15.0 / 16.0), 1e-9);
	assert_int_equal(tt_ratio_paired(a, b, 10, 0.95, &r), 0);
	near(r.level, 0.951171875, 1e-12);
}

static void many_runs_stay_exact(void **state)
{
	double a[TT_RUNS_MAX], b[TT_RUNS_MAX];
	struct tt_ratio r;

	(void)state;
	seed = 99;
	for (size_t i = 0; i < TT_RUNS_MAX; i++) {
		a[i] = 2.0 * exp(0.1 * normal());
		b[i] = exp(0.1 * normal());
	}
	assert_int_equal(tt_ratio_unpaired(a, TT_RUNS_MAX, b, TT_RUNS_MAX, 0.95, &r), 0);
	near(r.level, 0.950356025477866, 1e-12);
	assert_true(r.low < 2.0 && 2.0 < r.high && r.high / r.low < 1.1);
	near(r.estimate, 2.0, 0.1);
	assert_int_equal(tt_ratio_paired(a, b, TT_RUNS_MAX, 0.95, &r), 0);
	assert_true(r.level >= 0.95 && r.level < 0.9503);
	assert_true(r.low < 2.0 && 2.0 < r.high && r.high / r.low < 1.1);
}

static void bad_figures_are_refused(void **state)
{
	static const double good[] = {1, 2}, zero[] = {1, 0}, nan_[] = {1, NAN},
			    inf[] = {1, INFINITY};
	double many[TT_RUNS_MAX + 1];
	struct tt_ratio r;

	(void)state;
	assert_int_equal(tt_ratio_unpaired(good, 2, zero, 2, 0.95, &r), -EINVAL);
	assert_int_equal(tt_ratio_unpaired(nan_, 2, good, 2, 0.95, &r), -EINVAL);
	assert_int_equal(tt_ratio_paired(good, inf, 2, 0.95, &r), -EINVAL);
	assert_int_equal(tt_ratio_paired(good, good, 0, 0.95, &r), -EINVAL);
	for (size_t i = 0; i < tt_array_len(many); i++)
		many[i] = 1;
	assert_int_equal(tt_ratio_unpaired(good, 2, many, TT_RUNS_MAX + 1, 0.95, &r), -EINVAL);
	/* No spread at all is no reason to fail. */
	assert_int_equal(tt_ratio_unpaired(good, 1, good, 1, 0.95, &r), 0);
	near(r.estimate, 1.0, 1e-12);
}

#define TRIALS 4000

/* Simulated comparisons: how often the interval holds the truth, and how often it shows a
 * difference of the size it claims. */
static void intervals_keep_what_they_promise(void **state)
{
	int covered = 0, wild_covered = 0, paired_covered = 0, seen = 0;
	double a[10], b[10], c[10], d[10];
	struct tt_ratio r;

	(void)state;
	seed = 20240607;
	for (int trial = 0; trial < TRIALS; trial++) {
		for (int i = 0; i < 10; i++) {
			double mood = normal();

			a[i] = 3.0 * exp(0.05 * normal());
			b[i] = exp(0.05 * normal());
			/* One run in five is disturbed, by a factor of about 2. */
			c[i] =
			    3.0 * exp(0.05 * normal() + (uniform() < 0.2 ? fabs(normal()) : 0.0));
			d[i] = exp(0.05 * normal() + (uniform() < 0.2 ? fabs(normal()) : 0.0));
			a[i] *= exp(mood);
			b[i] *= exp(mood);
		}
		assert_int_equal(tt_ratio_paired(a, b, 10, 0.95, &r), 0);
		paired_covered += r.low <= 3.0 && 3.0 <= r.high;
		/* The mood is gone from the pairs: ten turns tell a ratio to a tenth. */
		assert_true(r.high / r.low < 1.6);
		assert_int_equal(tt_ratio_unpaired(c, 10, d, 10, 0.95, &r), 0);
		wild_covered += r.low <= 3.0 && 3.0 <= r.high;
		for (int i = 0; i < 10; i++) {
			a[i] = exp(0.05 * normal());
			b[i] = exp(0.05 * normal());
		}
		assert_int_equal(tt_ratio_unpaired(a, 5, b, 5, 0.95, &r), 0);
		covered += r.low <= 1.0 && 1.0 <= r.high;
		for (int i = 0; i < 10; i++)
			a[i] *= exp((2.1009 + 0.8620) * 0.05 * sqrt(0.2));
		assert_int_equal(tt_ratio_unpaired(a, 10, b, 10, 0.95, &r), 0);
		seen += r.low > 1.0;
		assert_true(r.detectable > 1.0 && r.detectable < 1.3);
	}
	assert_true(covered > TRIALS * 0.958 && covered < TRIALS * 0.979); /* exactly 0.968 */
	assert_true(paired_covered > TRIALS * 0.94 && paired_covered < TRIALS * 0.963);
	assert_true(wild_covered > TRIALS * 0.94 && wild_covered < TRIALS * 0.97);
	assert_true(seen > TRIALS * 0.72 && seen < TRIALS * 0.86);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(welford_adds_and_merges),
	    cmocka_unit_test(nearest_rank_has_no_rounding_surprise),
	    cmocka_unit_test(percentiles_need_enough_values),
	    cmocka_unit_test(median_and_mad),
	    cmocka_unit_test(t_quantiles_match_the_tables),
	    cmocka_unit_test(intervals_come_from_the_exact_distributions),
	    cmocka_unit_test(many_runs_stay_exact),
	    cmocka_unit_test(bad_figures_are_refused),
	    cmocka_unit_test(intervals_keep_what_they_promise),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
