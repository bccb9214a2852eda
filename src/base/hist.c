/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/hist.h"

#include <math.h>
#include <string.h>

#include "base/stats.h"

#define HALF (1u << (TT_HIST_SUB_BITS - 1))

_Static_assert(
    TT_HIST_MAX_NS < 1ull << (TT_HIST_SUB_BITS + 31), "31 doublings above the exact range");

static uint64_t slot_low(uint32_t slot)
{
	uint32_t shift = slot < 2 * HALF ? 0 : slot / HALF - 1;

	return (uint64_t)(slot - shift * HALF) << shift;
}

static uint64_t slot_high(uint32_t slot)
{
	return slot_low(slot + 1) - 1;
}

void tt_hist_reset(struct tt_hist *h)
{
	memset(h, 0, sizeof(*h));
	h->min = UINT64_MAX;
}

void tt_hist_merge(struct tt_hist *h, const struct tt_hist *from)
{
	for (uint32_t i = 0; i < TT_HIST_SLOTS; i++)
		h->slots[i] += from->slots[i];
	h->count += from->count;
	h->over += from->over;
	h->sum += from->sum;
	h->min = tt_min(h->min, from->min);
	h->max = tt_max(h->max, from->max);
}

uint64_t tt_hist_percentile(const struct tt_hist *h, double p)
{
	struct tt_hist_step step = {0};
	uint64_t rank;

	if (h->count == 0)
		return 0;
	rank = tt_nearest_rank(h->count, p);
	if (rank == 1)
		return h->min;
	if (rank == h->count)
		return h->max;
	while (step.up_to < rank) {
		bool more = tt_hist_next(h, &step);

		TT_ASSERT(more); /* count is the sum of the slots */
	}
	return tt_min(step.high, h->max);
}

double tt_hist_mean(const struct tt_hist *h)
{
	return h->count == 0 ? 0.0 : (double)h->sum / (double)h->count;
}

double tt_hist_stddev(const struct tt_hist *h)
{
	double mean = tt_hist_mean(h);
	struct tt_hist_step step = {0};
	double squares = 0.0;

	if (h->count < 2)
		return 0.0;
	while (tt_hist_next(h, &step)) {
		double d = ((double)step.low + (double)step.high) / 2.0 - mean;

		squares += d * d * (double)step.count;
	}
	return sqrt(squares / (double)(h->count - 1));
}

bool tt_hist_next(const struct tt_hist *h, struct tt_hist_step *step)
{
	for (; step->slot < TT_HIST_SLOTS; step->slot++) {
		if (h->slots[step->slot] == 0)
			continue;
		step->low = slot_low(step->slot);
		step->high = slot_high(step->slot);
		step->count = h->slots[step->slot];
		step->up_to += step->count;
		step->slot++;
		return true;
	}
	return false;
}
