/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * clock.h - time from the processor's time stamp counter where that is sound, else from
 * CLOCK_MONOTONIC.
 *
 * The counter is used when the processor says it is invariant (CPUID 80000007h EDX bit 8) and the
 * kernel's own clock is made of it (tsc, kvm-clock, hyperv_clocksource_tsc_page in sysfs); where
 * sysfs can't be read, CPUID decides. Otherwise a "cycle" is a nanosecond of CLOCK_MONOTONIC and
 * everything else works the same.
 *
 * tt_clock_init() notes the time on both clocks (1 us); it may be left out. The source is settled
 * by the first tt_clock_cycles() or conversion (some 50 us in a virtual machine, where CPUID is
 * slow) and never changes afterwards. The rate is measured against CLOCK_MONOTONIC when the first
 * conversion needs it: over the time since tt_clock_init(), and at least TT_CLOCK_CALIBRATE_NS, so
 * the call spins for 1 ms at worst. That is good to some 50 ppm, enough for limits on waits;
 * measurement tools call tt_clock_recalibrate(), good to well below 1 ppm, and look at
 * tt_clock_drift_ppb() before they believe a result.
 *
 * No malloc, no threads, no locks, no descriptor kept: usable in the preload library. Any thread;
 * all state is published as single words. Async-signal-safe. Not affected by fork.
 */
#ifndef TT_BASE_CLOCK_H
#define TT_BASE_CLOCK_H

#include "base/atomic.h"
#include "base/base.h"

#define TT_CLOCK_CALIBRATE_NS 1000000u

enum tt_clock_source { TT_CLOCK_UNSET, TT_CLOCK_TSC, TT_CLOCK_MONOTONIC };

/* ns = cycles * ns_per_cycle / 2^32. 0: not calibrated yet. */
struct tt_clock {
	uint32_t source;
	uint64_t ns_per_cycle;
	uint64_t cycles_per_ns; /* the inverse, also times 2^32 */
};

extern struct tt_clock tt_clock;

void tt_clock_init(void);
enum tt_clock_source tt_clock_source_get(void);

uint64_t tt_clock_cycles_slow(void);
uint64_t tt_clock_calibrate(void);
uint64_t tt_clock_calibrate_inverse(void);

/* Now, in cycles of an arbitrary zero. Not ordered with the memory accesses around it. */
static inline uint64_t tt_clock_cycles(void)
{
#if defined(__x86_64__)
	/* Relaxed: the source is settled once and says nothing about other memory. */
	if (tt_likely(tt_load_relaxed(&tt_clock.source) == TT_CLOCK_TSC))
		return __builtin_ia32_rdtsc();
#endif
	return tt_clock_cycles_slow();
}

/* The same after all earlier loads are done and before any later instruction: for the ends of a
 * measured stretch. */
static inline uint64_t tt_clock_cycles_ordered(void)
{
#if defined(__x86_64__)
	if (tt_likely(tt_load_relaxed(&tt_clock.source) == TT_CLOCK_TSC)) {
		uint64_t c;

		__builtin_ia32_lfence();
		c = __builtin_ia32_rdtsc();
		__builtin_ia32_lfence();
		return c;
	}
#endif
	return tt_clock_cycles_slow();
}

/* Differences only; up to centuries. */
static inline uint64_t tt_cycles_to_ns(uint64_t cycles)
{
	uint64_t rate = tt_load_relaxed(&tt_clock.ns_per_cycle);

	if (tt_unlikely(!rate))
		rate = tt_clock_calibrate();
	return (uint64_t)((unsigned __int128)cycles * rate >> 32);
}

static inline uint64_t tt_ns_to_cycles(uint64_t ns)
{
	uint64_t rate = tt_load_relaxed(&tt_clock.cycles_per_ns);

	if (tt_unlikely(!rate))
		rate = tt_clock_calibrate_inverse();
	return (uint64_t)((unsigned __int128)ns * rate >> 32);
}

/* CLOCK_MONOTONIC in nanoseconds, from the kernel. */
uint64_t tt_clock_monotonic_ns(void);

/* Measures the rate anew over `ms` milliseconds of sleep (100 and more is worth it). For tools. */
void tt_clock_recalibrate(unsigned int ms);

/*
 * How far the clock has run from CLOCK_MONOTONIC since tt_clock_init(), in parts per
 * thousand million (1000 = 1 ppm); positive: it runs fast. A stretch of less than 10 ms answers 0.
 * Large values after a long recalibration mean that the counter was changed below us (suspend, live
 * migration) and the results of that stretch are worthless.
 */
int64_t tt_clock_drift_ppb(void);

/* "TSC at 2399.998 MHz (kernel clock kvm-clock)" or "CLOCK_MONOTONIC (the TSC is not invariant)".
 * Calibrates. */
size_t tt_clock_describe(char *buf, size_t size);

#endif
