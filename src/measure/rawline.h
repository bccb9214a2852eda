/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rawline.h - the floor under every same-host figure: how long a pair of cache lines takes from one
 * core to another and back.
 *
 * Two threads, each pinned, each writing one line and spinning on the other's, once with a pause
 * instruction in the spin and once without; the faster of the two counts: a pause may cost 140
 * cycles, and between two threads of one core it helps. No message can be answered faster between
 * these two processors. On virtual machines this floor moves by the minute, so it is measured
 * beside every figure, in the same round. Takes twice TT_RAWLINE_MS at most; makes its own threads
 * and waits for their end.
 */
#ifndef TT_MEASURE_RAWLINE_H
#define TT_MEASURE_RAWLINE_H

#include "base/base.h"

#define TT_RAWLINE_MS 30u        /* limit of one measurement */
#define TT_RAWLINE_SAMPLES 2000u /* at most */
#define TT_RAWLINE_BATCH                                                                           \
	16u /* round trips per sample: reading the clock costs a good part of one */

struct tt_rawline {
	double p50_ns; /* round trip: median of the samples, each the mean of TT_RAWLINE_BATCH */
	double min_ns;
	unsigned int samples;
};

/*
 * 0, -EDOM when both are the same processor (there is no line to cross), -EINVAL when one of them
 * is not available to us, -ETIMEDOUT when not one sample was complete in time, -ENOMEM, -EAGAIN (no
 * thread).
 */
tt_must_check int tt_rawline(int cpu_a, int cpu_b, struct tt_rawline *out);

#endif
