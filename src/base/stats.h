/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stats.h - small statistics that stay honest with small numbers.
 *
 * All functions are pure; arrays belong to the caller. "Sorted" means ascending (tt_sort_double()).
 *
 * Comparing two sets of runs. A run's figure (its median latency, its rate) is one value; runs, not
 * samples, are what repeats independently, so intervals are made from runs. The question is always
 * a ratio A/B, so everything happens on logarithms. The interval is Hodges and Lehmann's, from the
 * exact distribution of a rank test:
 *
 *   unpaired  all nA * nB ratios a/b sorted; the interval runs between the k-th smallest and k-th
 *             largest, k from the exact null distribution of the Mann-Whitney U (counted out, no
 *             approximation). The estimate is their median.
 *   paired    turn i gave a[i] and b[i] one after the other; the interval is made of the n(n+1)/2
 *             Walsh averages of the log ratios and the exact distribution of Wilcoxon's signed
 *             rank sum. Machine moods that last longer than a turn cancel.
 *
 * Why not the others: a bootstrap can only reshuffle the few runs it has seen (of means, a 95 %
 * interval from 5 runs a side covers 88 %, from 10 runs 92 %; of medians it jumps between a handful
 * of values), and a t interval on logs is stretched or moved by the single run that the machine
 * disturbed. Rank intervals hold their level for any shape, and one wild run moves them little.
 * Their price is that very few runs give no interval at all: 95 % needs 4 + 4 unpaired or 6 paired
 * runs; below that `low` is 0 and `high` infinite. The true level is reported, it is at least the
 * one asked for.
 */
#ifndef TT_BASE_STATS_H
#define TT_BASE_STATS_H

#include "base/base.h"

#define TT_RUNS_MAX 64u           /* runs of one side */
#define TT_PERCENTILE_BEYOND 10.0 /* values expected beyond a percentile before it is printed */

/* Welford's running mean and variance. Start from all zeros. */
struct tt_welford {
	uint64_t n;
	double mean;
	double m2;
	double min, max;
};

void tt_welford_add(struct tt_welford *w, double x);
/* Chan's merge: as if all values had been added to one. */
void tt_welford_merge(struct tt_welford *w, const struct tt_welford *from);
/* Of a sample (n - 1); 0 for fewer than two values. */
double tt_welford_variance(const struct tt_welford *w);
double tt_welford_stddev(const struct tt_welford *w);

void tt_sort_double(double *v, size_t n);

/* 1 .. n: the smallest rank r with r >= p/100 * n, free of rounding surprises (99.9 of 1000 is
 * 999). n > 0. */
uint64_t tt_nearest_rank(uint64_t n, double p);
/* Value of nearest rank; n > 0. */
double tt_percentile_sorted(const double *sorted, size_t n, double p);
/*
 * Can n values tell this percentile? Yes when at least TT_PERCENTILE_BEYOND of them are expected
 * beyond it, on its nearer tail: 20 for p50, 1,000 for p99, 10,000 for p99.9. With fewer the figure
 * repeats a few largest values. p 0 and 100 are min and max and need one value.
 */
bool tt_percentile_supported(uint64_t n, double p);

/* Middle value, or mean of the two; n > 0. Right also for the few runs that no percentile would be
 * printed for. */
double tt_median_sorted(const double *sorted, size_t n);
/* Median absolute deviation from the median, unscaled (times 1.4826 it estimates a normal stddev).
 * n > 0, any order. n <= TT_RUNS_MAX. */
double tt_mad(const double *v, size_t n);

struct tt_ratio {
	double estimate;
	double low, high; /* 0 and infinity when there are too few runs for any interval */
	double level;     /* true coverage of low .. high, at least the one asked for; 0 without
			     interval */
	/*
	 * Smallest ratio above 1 that these runs would have shown (its interval clear of 1) four
	 * times in five, from their own spread: exp((t(level) + t(0.8)) * standard error of the log
	 * ratio). A ratio below 1/detectable likewise. Infinite when there is no interval.
	 */
	double detectable;
};

/* level like 0.95. Every value must be above 0. 0, or -EINVAL for a value that is not, for n 0 or
 * above TT_RUNS_MAX. */
tt_must_check int tt_ratio_unpaired(
    const double *a, size_t na, const double *b, size_t nb, double level, struct tt_ratio *out);
tt_must_check int tt_ratio_paired(
    const double *a, const double *b, size_t n, double level, struct tt_ratio *out);

/* Quantile of Student's t, p in (0, 1), df >= 1 (need not be whole). */
double tt_t_quantile(double p, double df);

#endif
