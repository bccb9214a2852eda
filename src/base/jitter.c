/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/jitter.h"

#include <string.h>

#include "base/clock.h"

#define TRIAL_READINGS 20000u
#define STOP_LOOK_EVERY 1024u

static uint64_t smallest_gap(void)
{
	uint64_t smallest = UINT64_MAX;
	uint64_t last = tt_clock_cycles();

	for (uint32_t i = 0; i < TRIAL_READINGS; i++) {
		uint64_t now = tt_clock_cycles();

		if (now > last)
			smallest = tt_min(smallest, now - last);
		last = now;
	}
	return smallest == UINT64_MAX ? 1 : smallest;
}

static void gap_record(
    const struct tt_jitter_config *config, struct tt_jitter *r, uint64_t at, uint64_t cycles)
{
	uint64_t ns = tt_cycles_to_ns(cycles);

	tt_hist_record(&r->gaps, ns);
	r->lost_ns += ns;
	if (r->raw_count < config->raw_max && config->raw)
		config->raw[r->raw_count++] = (struct tt_jitter_gap){tt_cycles_to_ns(at), ns};
}

void tt_jitter_run(const struct tt_jitter_config *config, struct tt_jitter *r)
{
	uint64_t threshold, start, end, last, smallest;
	uint32_t turn = 0;

	memset(r, 0, sizeof(*r));
	tt_hist_reset(&r->gaps);
	if (config->raw)
		memset(config->raw, 0, config->raw_max * sizeof(*config->raw));
	smallest = smallest_gap();
	threshold = config->threshold_ns ? tt_ns_to_cycles(config->threshold_ns)
					 : smallest * TT_JITTER_THRESHOLD_TIMES;
	start = last = tt_clock_cycles();
	end = start + tt_ns_to_cycles(config->duration_ns);
	while (last < end) {
		uint64_t now = tt_clock_cycles();
		uint64_t gap = now - last;

		if (tt_unlikely(gap > threshold)) {
			gap_record(config, r, last - start, gap);
			/* What the recording took is not the machine's doing. */
			now = tt_clock_cycles();
		} else if (gap < smallest && gap > 0) {
			smallest = gap;
		}
		last = now;
		if (tt_unlikely(++turn % STOP_LOOK_EVERY == 0) && config->stop && *config->stop)
			break;
	}
	r->elapsed_ns = tt_cycles_to_ns(last - start);
	r->threshold_ns = tt_cycles_to_ns(threshold);
	r->smallest_ns = tt_cycles_to_ns(smallest);
}
