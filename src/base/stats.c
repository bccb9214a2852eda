/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/stats.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define POWER 0.8

_Static_assert(TT_RUNS_MAX <= 64, "u_distribution() counts in 128 bits");

void tt_welford_add(struct tt_welford *w, double x)
{
	double d = x - w->mean;

	w->n++;
	w->mean += d / (double)w->n;
	w->m2 += d * (x - w->mean);
	w->min = w->n == 1 || x < w->min ? x : w->min;
	w->max = w->n == 1 || x > w->max ? x : w->max;
}

void tt_welford_merge(struct tt_welford *w, const struct tt_welford *from)
{
	double n = (double)w->n + (double)from->n;
	double d = from->mean - w->mean;

	if (from->n == 0)
		return;
	if (w->n == 0) {
		*w = *from;
		return;
	}
	w->m2 += from->m2 + d * d * (double)w->n * (double)from->n / n;
	w->mean += d * (double)from->n / n;
	w->n += from->n;
	w->min = from->min < w->min ? from->min : w->min;
	w->max = from->max > w->max ? from->max : w->max;
}

double tt_welford_variance(const struct tt_welford *w)
{
	return w->n < 2 ? 0.0 : w->m2 / (double)(w->n - 1);
}

double tt_welford_stddev(const struct tt_welford *w)
{
	return sqrt(tt_welford_variance(w));
}

static int compare(const void *a, const void *b)
{
	double x, y;

	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return (x > y) - (x < y);
}

void tt_sort_double(double *v, size_t n)
{
	qsort(v, n, sizeof(*v), compare);
}

uint64_t tt_nearest_rank(uint64_t n, double p)
{
	double exact = p / 100.0 * (double)n;
	double near = nearbyint(exact);
	double rank;

	TT_ASSERT(n > 0);
	/* 99.9 / 100 * 1000 is 999.0000000000001: what is meant to be whole is whole. */
	rank = fabs(exact - near) <= 1e-12 * (double)n + 1e-9 ? near : ceil(exact);
	if (rank <= 1.0)
		return 1;
	return rank >= (double)n ? n : (uint64_t)rank;
}

double tt_percentile_sorted(const double *sorted, size_t n, double p)
{
	return sorted[tt_nearest_rank(n, p) - 1];
}

bool tt_percentile_supported(uint64_t n, double p)
{
	double tail = (p < 50.0 ? p : 100.0 - p) / 100.0;

	if (n == 0 || p < 0.0 || p > 100.0)
		return false;
	if (p <= 0.0 || p >= 100.0)
		return true;
	return tail * (double)n >= TT_PERCENTILE_BEYOND - 1e-6;
}

double tt_median_sorted(const double *sorted, size_t n)
{
	TT_ASSERT(n > 0);
	return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0;
}

double tt_mad(const double *v, size_t n)
{
	double d[TT_RUNS_MAX];
	double median;

	TT_ASSERT(n > 0 && n <= TT_RUNS_MAX);
	memcpy(d, v, n * sizeof(*v));
	tt_sort_double(d, n);
	median = tt_median_sorted(d, n);
	for (size_t i = 0; i < n; i++)
		d[i] = fabs(d[i] - median);
	tt_sort_double(d, n);
	return tt_median_sorted(d, n);
}

/* Continued fraction of the incomplete beta function (modified Lentz), converging for x < (a + 1) /
 * (a + b + 2). */
static double beta_fraction(double a, double b, double x)
{
	double c = 1.0, d = 1.0 - (a + b) * x / (a + 1.0);
	double h;

	d = 1.0 / d;
	h = d;
	for (int m = 1; m <= 300; m++) {
		double k = m;
		double even = k * (b - k) * x / ((a + 2.0 * k - 1.0) * (a + 2.0 * k));
		double odd = -(a + k) * (a + b + k) * x / ((a + 2.0 * k) * (a + 2.0 * k + 1.0));

		d = 1.0 / (1.0 + even * d);
		c = 1.0 + even / c;
		h *= d * c;
		d = 1.0 / (1.0 + odd * d);
		c = 1.0 + odd / c;
		h *= d * c;
		if (fabs(d * c - 1.0) < 1e-14)
			break;
	}
	return h;
}

static double beta_incomplete(double a, double b, double x)
{
	double front;

	if (x <= 0.0 || x >= 1.0)
		return x <= 0.0 ? 0.0 : 1.0;
	front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
	if (x < (a + 1.0) / (a + b + 2.0))
		return front * beta_fraction(a, b, x) / a;
	return 1.0 - front * beta_fraction(b, a, 1.0 - x) / b;
}

static double t_upper_tail(double t, double df)
{
	return 0.5 * beta_incomplete(df / 2.0, 0.5, df / (df + t * t));
}

double tt_t_quantile(double p, double df)
{
	double tail = p < 0.5 ? p : 1.0 - p;
	double low = 0.0, high = 1.0;

	TT_ASSERT(p > 0.0 && p < 1.0 && df >= 1.0);
	while (t_upper_tail(high, df) > tail && high < 1e12)
		high *= 2.0;
	for (int i = 0; i < 200 && high - low > 1e-12 * high; i++) {
		double middle = (low + high) / 2.0;

		if (t_upper_tail(middle, df) > tail)
			low = middle;
		else
			high = middle;
	}
	return p < 0.5 ? -(low + high) / 2.0 : (low + high) / 2.0;
}

static bool usable(const double *v, size_t n)
{
	if (n == 0 || n > TT_RUNS_MAX)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!(v[i] > 0.0) || !isfinite(v[i]))
			return false;
	return true;
}

/*
 * A rank statistic takes the values 0 .. top, value i with probability share[i], symmetric. Finds
 * the largest k such that the k outermost values of each side together weigh no more than 1 -
 * level: the interval then runs from the k-th smallest to the k-th largest of the sorted estimates.
 * 0: none. *true_level is the coverage.
 */
static size_t rank_cut(const double *share, size_t top, double level, double *true_level)
{
	double below = 0.0;
	size_t k = 0;

	*true_level = 0.0;
	while (k <= top / 2 && 2.0 * (below + share[k]) <= 1.0 - level + 1e-12) {
		below += share[k++];
		*true_level = 1.0 - 2.0 * below;
	}
	return k;
}

/*
 * Distribution of U for na and nb values: coefficients of the Gaussian binomial, product over i of
 * (1 - x^(nb+i)) / (1 - x^i), as probabilities. Counted in whole numbers, because the differences
 * cancel; their sum, at most (128 over 64), has 125 bits.
 */
static void u_distribution(double *share, size_t na, size_t nb)
{
	unsigned __int128 ways[TT_RUNS_MAX * TT_RUNS_MAX + 1] = {1};
	unsigned __int128 sum = 0;
	size_t top = na * nb;

	for (size_t i = 1; i <= na; i++) {
		for (size_t u = top; u + 1 > nb + i; u--)
			ways[u] -= ways[u - nb - i];
		for (size_t u = i; u <= top; u++)
			ways[u] += ways[u - i];
	}
	for (size_t u = 0; u <= top; u++)
		sum += ways[u];
	for (size_t u = 0; u <= top; u++)
		share[u] = (double)ways[u] / (double)sum;
}

/* Distribution of the signed rank sum of n values: each rank is in the sum or not. */
static void w_distribution(double *share, size_t n)
{
	size_t top = n * (n + 1) / 2;

	for (size_t w = 0; w <= top; w++)
		share[w] = w == 0;
	for (size_t rank = 1; rank <= n; rank++)
		for (size_t w = top + 1; w-- > 0;)
			share[w] = 0.5 * (share[w] + (w >= rank ? share[w - rank] : 0.0));
}

static void ratio_fill(
    struct tt_ratio *out, double *estimates, size_t count, size_t k, double true_level)
{
	tt_sort_double(estimates, count);
	out->estimate = exp(tt_median_sorted(estimates, count));
	out->level = k ? true_level : 0.0;
	out->low = k ? exp(estimates[k - 1]) : 0.0;
	out->high = k ? exp(estimates[count - k]) : INFINITY;
}

static double detectable(double error, double df, double level, size_t k)
{
	if (k == 0)
		return INFINITY;
	return exp((tt_t_quantile(0.5 + level / 2.0, df) + tt_t_quantile(POWER, df)) * error);
}

int tt_ratio_unpaired(
    const double *a, size_t na, const double *b, size_t nb, double level, struct tt_ratio *out)
{
	static const struct tt_welford none;
	double estimates[TT_RUNS_MAX * TT_RUNS_MAX], share[TT_RUNS_MAX * TT_RUNS_MAX + 1];
	struct tt_welford wa = none, wb = none;
	double va, vb, df, true_level;
	size_t k;

	if (!usable(a, na) || !usable(b, nb))
		return -EINVAL;
	for (size_t i = 0; i < na; i++)
		for (size_t j = 0; j < nb; j++)
			estimates[i * nb + j] = log(a[i]) - log(b[j]);
	for (size_t i = 0; i < na; i++)
		tt_welford_add(&wa, log(a[i]));
	for (size_t j = 0; j < nb; j++)
		tt_welford_add(&wb, log(b[j]));
	u_distribution(share, na, nb);
	k = rank_cut(share, na * nb, level, &true_level);
	ratio_fill(out, estimates, na * nb, k, true_level);
	/* Welch: each side its own spread. */
	va = tt_welford_variance(&wa) / (double)na;
	vb = tt_welford_variance(&wb) / (double)nb;
	df = va + vb > 0.0 && k
		 ? (va + vb) * (va + vb) / (va * va / (double)(na - 1) + vb * vb / (double)(nb - 1))
		 : 1.0;
	out->detectable = detectable(sqrt(va + vb), df, level, k);
	return 0;
}

int tt_ratio_paired(const double *a, const double *b, size_t n, double level, struct tt_ratio *out)
{
	double estimates[TT_RUNS_MAX * (TT_RUNS_MAX + 1) / 2];
	double share[TT_RUNS_MAX * (TT_RUNS_MAX + 1) / 2 + 1];
	double logs[TT_RUNS_MAX];
	struct tt_welford w = {0};
	double true_level;
	size_t count = 0;
	size_t k;

	if (!usable(a, n) || !usable(b, n))
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		logs[i] = log(a[i]) - log(b[i]);
		tt_welford_add(&w, logs[i]);
		for (size_t j = 0; j <= i; j++)
			estimates[count++] = (logs[i] + logs[j]) / 2.0;
	}
	w_distribution(share, n);
	k = rank_cut(share, count, level, &true_level);
	ratio_fill(out, estimates, count, k, true_level);
	out->detectable = detectable(
	    tt_welford_stddev(&w) / sqrt((double)n), n > 1 ? (double)(n - 1) : 1.0, level, k);
	return 0;
}
