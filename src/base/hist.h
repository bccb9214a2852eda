/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hist.h - high dynamic range histogram of times: 1 ns to 1 h, three significant digits, constant
 * memory.
 *
 * The buckets are those of HdrHistogram with lowest 1 and 3 digits: 0 to 2047 ns exactly, then 1024
 * steps per doubling, so a value is known to better than 0.1 %. count, sum, min and max are exact.
 * Values above TT_HIST_MAX_NS go into the last bucket and are counted in `over`.
 *
 * One writer at a time. Recording is a few instructions and never allocates; threads keep one each
 * and merge after. The struct is 264 KiB: static, or on the heap. All zero bytes but min: use
 * tt_hist_reset().
 */
#ifndef TT_BASE_HIST_H
#define TT_BASE_HIST_H

#include "base/base.h"

#define TT_HIST_MAX_NS 3600000000000ull
#define TT_HIST_SUB_BITS 11u /* 2048: the power of two above 2 * 10^3 */
#define TT_HIST_SLOTS (32u * 1024u + 1024u)

struct tt_hist {
	uint64_t count;
	uint64_t over; /* values above TT_HIST_MAX_NS, also in count */
	uint64_t min;  /* UINT64_MAX while empty */
	uint64_t max;
	unsigned __int128 sum;
	uint64_t slots[TT_HIST_SLOTS];
};

static inline uint32_t tt_hist_slot(uint64_t ns)
{
	uint64_t v = tt_min(ns, (uint64_t)TT_HIST_MAX_NS);
	uint32_t shift = 64u - TT_HIST_SUB_BITS -
			 (uint32_t)__builtin_clzll(v | ((1ull << TT_HIST_SUB_BITS) - 1));

	return shift * (1u << (TT_HIST_SUB_BITS - 1)) + (uint32_t)(v >> shift);
}

static inline void tt_hist_record_n(struct tt_hist *h, uint64_t ns, uint64_t n)
{
	if (n == 0)
		return;
	h->slots[tt_hist_slot(ns)] += n;
	h->count += n;
	h->over += ns > TT_HIST_MAX_NS ? n : 0;
	h->sum += (unsigned __int128)ns * n;
	h->min = tt_min(h->min, ns);
	h->max = tt_max(h->max, ns);
}

static inline void tt_hist_record(struct tt_hist *h, uint64_t ns)
{
	tt_hist_record_n(h, ns, 1);
}

void tt_hist_reset(struct tt_hist *h);
/* Adds what `from` holds. */
void tt_hist_merge(struct tt_hist *h, const struct tt_hist *from);

/*
 * The value of nearest rank: the smallest recorded value that at least p percent of all values do
 * not exceed, told as the highest value of its bucket but never above max. p from 0 (min) to 100
 * (max). 0 while empty. Ask tt_percentile_supported() (stats.h) before printing it.
 */
uint64_t tt_hist_percentile(const struct tt_hist *h, double p);
/* 0 while empty. */
double tt_hist_mean(const struct tt_hist *h);
/* From bucket middles; 0 for fewer than two values. */
double tt_hist_stddev(const struct tt_hist *h);

/* Filled buckets in ascending order: start with slot 0 and count 0; false at the end. */
struct tt_hist_step {
	uint32_t slot; /* where to look next */
	uint64_t low;  /* values low .. high are in this bucket */
	uint64_t high;
	uint64_t count;
	uint64_t up_to; /* values in this bucket and below */
};
bool tt_hist_next(const struct tt_hist *h, struct tt_hist_step *step);

#endif
