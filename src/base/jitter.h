/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * jitter.h - what the machine takes from a thread that never gives way (the method of sysjitter):
 * spin reading the clock, and every gap between two readings that is longer than a threshold is
 * time the thread was stopped.
 *
 * The caller pins the calling thread, raises its priority and locks memory, as the measurement asks
 * for; this is the loop alone. It makes no system call (where the clock is the TSC) and allocates
 * nothing. The result and the raw array are touched once before the loop, so that no page fault of
 * our own is measured.
 */
#ifndef TT_BASE_JITTER_H
#define TT_BASE_JITTER_H

#include "base/base.h"
#include "base/hist.h"

#define TT_JITTER_THRESHOLD_TIMES                                                                  \
	8u /* default threshold: so many times the smallest gap (hiccups does the same) */

struct tt_jitter_gap {
	uint64_t at_ns; /* start, from the begin of the loop */
	uint64_t ns;
};

struct tt_jitter_config {
	uint64_t duration_ns;
	uint64_t threshold_ns; /* 0: TT_JITTER_THRESHOLD_TIMES the smallest gap of a short trial */
	const volatile bool *stop; /* NULL, or ends the loop early when it turns true */
	struct tt_jitter_gap *raw; /* NULL, or room for the first raw_max gaps */
	size_t raw_max;
};

struct tt_jitter {
	uint64_t elapsed_ns;
	uint64_t threshold_ns; /* in force */
	uint64_t smallest_ns;  /* between two readings: what the loop can see */
	uint64_t lost_ns;      /* sum of all gaps */
	size_t raw_count;
	struct tt_hist gaps; /* count, max, percentiles */
};

/* Runs for duration_ns. The result is reset first. Any number of threads, each with its own result.
 */
void tt_jitter_run(const struct tt_jitter_config *config, struct tt_jitter *result);

#endif
