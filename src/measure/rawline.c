/* SPDX-License-Identifier: BSD-3-Clause */
#include "measure/rawline.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/stats.h"

#define STOP UINT64_MAX
#define LOOK_EVERY 1024 /* spins between looks at the clock */

/* Two lines apart from each other's neighbours: adjacent-line prefetch moves pairs of lines. */
struct lines {
	tt_aligned(2 * TT_CACHE_LINE) uint64_t ping;
	tt_aligned(2 * TT_CACHE_LINE) uint64_t pong;
	tt_aligned(2 * TT_CACHE_LINE) int cpu[2];
	int error[2];
	bool relax; /* with the pause instruction in both spins */
	double sample[TT_RAWLINE_SAMPLES];
	unsigned int samples;
};

static int pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((unsigned int)cpu, &set);
	return pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

/*
 * Acquire and release as a message would need them: what was written before the word is seen with
 * it.
 */
static void *echo_main(void *arg)
{
	struct lines *l = arg;
	uint64_t seen = 0;

	l->error[1] = pin(l->cpu[1]);
	for (;;) {
		uint64_t now = tt_load_acquire(&l->ping);

		if (now == seen) {
			if (l->relax)
				tt_cpu_relax();
			continue;
		}
		if (now == STOP)
			return NULL;
		tt_store_release(&l->pong, now);
		seen = now;
	}
}

static void *ask_main(void *arg)
{
	struct lines *l = arg;
	uint64_t turn = 0, end = tt_clock_cycles() + tt_ns_to_cycles(TT_RAWLINE_MS * 1000000ull);
	uint64_t begin, now;

	l->error[0] = pin(l->cpu[0]);
	begin = tt_clock_cycles();
	while (l->error[0] == 0 && l->samples < TT_RAWLINE_SAMPLES) {
		for (unsigned int i = 0; i < TT_RAWLINE_BATCH; i++) {
			tt_store_release(&l->ping, ++turn);
			for (unsigned int spins = 1; tt_load_acquire(&l->pong) != turn; spins++) {
				if (spins % LOOK_EVERY == 0 && tt_clock_cycles() > end)
					goto out;
				if (l->relax)
					tt_cpu_relax();
			}
		}
		now = tt_clock_cycles();
		/* The first batches meet a thread that is still on its way to its core. */
		if (turn > 8 * TT_RAWLINE_BATCH)
			l->sample[l->samples++] =
			    (double)tt_cycles_to_ns((now - begin) * 16) / 16 / TT_RAWLINE_BATCH;
		begin = now;
	}
out:
	tt_store_release(&l->ping, STOP);
	return NULL;
}

static int measure(struct lines *l, int cpu_a, int cpu_b, bool relax)
{
	pthread_t echo, ask;
	int rc;

	memset(l, 0, sizeof(*l));
	l->cpu[0] = cpu_a;
	l->cpu[1] = cpu_b;
	l->relax = relax;
	rc = pthread_create(&echo, NULL, echo_main, l);
	if (rc)
		return -rc;
	rc = pthread_create(&ask, NULL, ask_main, l);
	if (rc)
		tt_store_release(&l->ping, STOP);
	else
		pthread_join(ask, NULL);
	pthread_join(echo, NULL);
	if (rc)
		return -rc;
	if (l->error[0] || l->error[1])
		return -EINVAL;
	if (l->samples == 0)
		return -ETIMEDOUT;
	tt_sort_double(l->sample, l->samples);
	return 0;
}

int tt_rawline(int cpu_a, int cpu_b, struct tt_rawline *out)
{
	static struct lines l; /* one measurement at a time: they would disturb each other */
	static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
	int rc = 0;

	memset(out, 0, sizeof(*out));
	if (cpu_a == cpu_b)
		return -EDOM;
	if (cpu_a < 0 || cpu_b < 0 || cpu_a >= CPU_SETSIZE || cpu_b >= CPU_SETSIZE)
		return -EINVAL;
	(void)tt_ns_to_cycles(1); /* settles the clock's rate outside the loop */
	pthread_mutex_lock(&one);
	for (int relax = 0; relax < 2; relax++) {
		double p50;

		rc = measure(&l, cpu_a, cpu_b, relax);
		if (rc < 0)
			continue;
		p50 = tt_median_sorted(l.sample, l.samples);
		if (out->samples == 0 || p50 < out->p50_ns)
			*out = (struct tt_rawline){p50, l.sample[0], l.samples};
	}
	pthread_mutex_unlock(&one);
	return out->samples ? 0 : rc;
}
