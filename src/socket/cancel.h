/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cancel.h - what a call owes when its thread is cancelled in the kernel.
 *
 * A thread that is cancelled leaves by unwinding from the C library's call, and nothing behind that call runs: what was counted
 * (threads asleep, sends under way, sets in use) would stay so for ever. So each such count is kept in a variable whose cleanup
 * settles it; this room is compiled with -fexceptions for that, which costs nothing where nobody is cancelled. The same
 * holds for pthread_exit() in a signal handler. No lock is held in a call of tt_sys that is a cancellation point.
 *
 * A call that is served from shared memory again and again meets no cancellation point of the C library: tt_cancel_look().
 */
#ifndef TT_SOCKET_CANCEL_H
#define TT_SOCKET_CANCEL_H

#include <pthread.h>

#include "socket/lease.h"

#define TT_CLEANUP(fn) __attribute__((cleanup(fn), unused))

/* Before anything of the call is done. messages: of those that shared memory served; asked at every so many of them. */
static inline void tt_cancel_look(uint64_t messages)
{
	if (tt_unlikely(messages % 64 == 0))
		pthread_testcancel();
}

/* A thread that sleeps in the kernel on a socket, or is about to. */
struct tt_sleeper {
	struct tt_sock *s; /* NULL: not counted */
};

static inline void tt_sleeper_begin(struct tt_sleeper *sleeper, struct tt_sock *s)
{
	__atomic_add_fetch(&s->sleepers, 1, __ATOMIC_SEQ_CST);
	sleeper->s = s;
}

static inline void tt_sleeper_end(struct tt_sleeper *sleeper)
{
	__atomic_sub_fetch(&sleeper->s->sleepers, 1, __ATOMIC_SEQ_CST);
	sleeper->s = NULL;
}

/* The kernel may have given bytes to the call that was cancelled: the count of them is taken from it anew. */
static inline void tt_sleeper_lost(struct tt_sleeper *sleeper)
{
	if (tt_likely(!sleeper->s))
		return;
	tt_store_relaxed(&sleeper->s->rx.counted, false);
	tt_lease_asleep(sleeper->s, false);
	tt_sleeper_end(sleeper);
}

#define TT_SLEEPER(name) struct tt_sleeper name TT_CLEANUP(tt_sleeper_lost) = {NULL}
#define TT_TOLD(name) struct tt_told name TT_CLEANUP(tt_told_lost) = {0}

#endif
