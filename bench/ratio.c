/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ratio - reads lines "A B", one per turn, and prints the medians, the spread of each, and the
 * ratio A/B with its 95 % interval by run: "medianA madA medianB madB ratio low high". With
 * --inverse the ratio is B/A.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/stats.h"
#include "bench.h"

int main(int argc, char **argv)
{
	bool inverse = argc > 1 && strcmp(argv[1], "--inverse") == 0;
	double a[TT_RUNS_MAX], b[TT_RUNS_MAX];
	struct tt_ratio r;
	size_t n = 0;

	if (argc > 1 + inverse)
		tt_bench_fail(2, "usage: ratio [--inverse] < LINES");
	while (n < TT_RUNS_MAX && scanf("%lf %lf", &a[n], &b[n]) == 2)
		n++;
	if (n == 0)
		tt_bench_fail(2, "no line \"A B\" was read");
	if (tt_ratio_paired(inverse ? b : a, inverse ? a : b, n, 0.95, &r) < 0)
		tt_bench_fail(1, "a figure is not above 0");
	double spread_a = tt_mad(a, n), spread_b = tt_mad(b, n);

	tt_sort_double(a, n);
	tt_sort_double(b, n);
	printf("%.6g %.3g %.6g %.3g %.3f %.3f %.3f\n", tt_median_sorted(a, n), spread_a,
	    tt_median_sorted(b, n), spread_b, r.estimate, r.low, isinf(r.high) ? 9999.0 : r.high);
	return 0;
}
