/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * spin.h - the loop of a wait that spins: time, looks at the kernel, lost processors, signals.
 */
#ifndef TT_SOCKET_SPIN_H
#define TT_SOCKET_SPIN_H

#include <sys/single_threaded.h>

#include "base/clock.h"
#include "socket/sock.h"

#define TT_SPIN_BATCH 16
/* Between two steps: more than this means that the thread did not have the processor. */
#define TT_SPIN_LOST_NS 30000

enum tt_spin_next {
	TT_SPIN_GO,
	TT_SPIN_LOOK,	   /* time to look at what only the kernel knows */
	TT_SPIN_SIGNALLED, /* a handler of the program has run in this thread: the call's rule says what that means */
	TT_SPIN_END,
};

struct tt_spin {
	uint64_t end; /* 0: endless */
	uint64_t last;
	uint64_t look;
	uint64_t turn; /* its turn on a shared processor began */
	const volatile uint32_t *signals; /* the count that ends this wait, see socket.h */
	uint32_t signals_seen;
	bool preempted;
};

static inline uint64_t tt_tsc(void)
{
	return tt_clock_cycles();
}

static inline uint64_t tt_ns_to_tsc(uint64_t ns)
{
	return tt_ns_to_cycles(ns);
}

static inline uint64_t tt_tsc_to_ns(uint64_t cycles)
{
	return tt_cycles_to_ns(cycles);
}

static inline void tt_pause(void)
{
	tt_cpu_relax();
}

static inline void tt_spin_start(struct tt_spin *spin, int64_t budget_ns,
    const volatile uint32_t *signals, uint32_t signals_seen)
{
	uint64_t now = tt_tsc();

	spin->end = budget_ns < 0 ? 0 : now + tt_ns_to_tsc((uint64_t)budget_ns);
	spin->last = now;
	spin->turn = now;
	spin->look = now + tt_ns_to_tsc((uint64_t)tt_tun.kernel_poll_us * 1000);
	spin->signals = signals;
	spin->signals_seen = signals_seen;
	spin->preempted = false;
}

/* Some thread has spun without end in this process, beside others. */
extern bool tt_spin_marked;

/* A step of one that does: gives its processor to threads of this process that are known to need it. */
void tt_spin_share(struct tt_spin *spin, uint64_t now);
/* The processor to a thread of ours that spins on it. See tt_spin_sent(). */
void tt_spin_give(void);

/* After a message has gone by a ring, no lock held: the answer may be for a thread that can't run while we do. */
static inline void tt_spin_sent(void)
{
	if (tt_unlikely(tt_load_relaxed(&tt_spin_marked)))
		tt_spin_give();
}

static inline enum tt_spin_next tt_spin_step(struct tt_spin *spin)
{
	uint64_t now = tt_tsc();

	if (now - spin->last > tt_ns_to_tsc(TT_SPIN_LOST_NS))
		spin->preempted = true;
	spin->last = now;
	if (tt_unlikely(*spin->signals != spin->signals_seen))
		return TT_SPIN_SIGNALLED;
	if (spin->end && now >= spin->end)
		return TT_SPIN_END;
	if (!spin->end && !__libc_single_threaded)
		tt_spin_share(spin, now);
	if (now < spin->look)
		return TT_SPIN_GO;
	spin->look = now + tt_ns_to_tsc((uint64_t)tt_tun.kernel_poll_us * 1000);
	return TT_SPIN_LOOK;
}

#endif
