/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * spin.c - threads of one process that share a processor while one of them spins without end.
 *
 * A program that sends by one thread and receives by another, both on one processor (pinned so, or for want of more), meets the worst of
 * "latency": the receiver spins through its time slice before the sender may run, and the answer waits for the sender's slice.
 * Milliseconds, where a sleeping receiver has tens of microseconds. So the two take turns: who spins leaves a mark at its
 * processor, who sends and finds it gives the processor away, and gets it back a moment later, because the one that spins
 * then knows that somebody else has work here.
 *
 * Marks and times are hints. What is stale costs one yield.
 */
#include "socket/spin.h"

#include <sched.h>

#include "base/raw.h"

#define CPUS 1024u /* more of them share marks */
/* So long it spins in its turn: an answer that needs no other processor's work to wait for is there by then. */
#define TURN_NS 2000u
/* A sender gives its processor away no more often: one that sends without pause keeps about half of it. */
#define GIVE_NS 8000u
/* After that it is no longer thought to be here. */
#define GAVE_NS 50000000u

struct place {
	const void *spinner; /* whose mark: an address that is its own while it spins; NULL: nobody's */
	uint64_t gave_tsc;   /* a sender had the processor back from the one that spins; 0: never */
};

static struct place places[CPUS];
bool tt_spin_marked;

static struct place *place(void)
{
	return &places[(uint32_t)sched_getcpu() % CPUS];
}

void tt_spin_share(struct tt_spin *spin, uint64_t now)
{
	struct place *p = place();
	const void *other = tt_load_relaxed(&p->spinner);
	uint64_t gave;

	if (other != spin) {
		tt_store_relaxed(&p->spinner, spin);
		tt_store_relaxed(&tt_spin_marked, true);
	}
	gave = tt_load_relaxed(&p->gave_tsc);
	if (now - spin->turn < tt_ns_to_tsc(TURN_NS))
		return;
	if ((other && other != spin) || (gave && now - gave < tt_ns_to_tsc(GAVE_NS))) {
		(void)tt_raw0(SYS_sched_yield);
		spin->turn = spin->last = tt_tsc();
	}
}

void tt_spin_give(void)
{
	struct place *p = place();
	uint64_t gave = tt_load_relaxed(&p->gave_tsc);

	if (!tt_load_relaxed(&p->spinner) || tt_tsc() - gave < tt_ns_to_tsc(GIVE_NS))
		return;
	tt_store_relaxed(&p->spinner, NULL);
	tt_store_relaxed(&p->gave_tsc, tt_tsc());
	(void)tt_raw0(SYS_sched_yield);
	tt_store_relaxed(&p->gave_tsc, tt_tsc());
}
