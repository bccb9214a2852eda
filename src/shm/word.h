/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * word.h - the sleep word, and the order of every access to a direction's shared counters.
 *
 * Why nothing is lost. S enters by an atomic add, and an atomic add is a full fence: either it sees the closed bit (and
 * sends by the kernel, whose message wakes R), or its add comes before R's compare-and-swap in the word's
 * modification order. R closes only when the publisher count is zero, so every S that entered before has left
 * by then, and S's leave is a release that R's compare-and-swap acquires: R's second look at the ring sees the
 * bytes. There is no third case.
 *
 * kpub before tail: R loads kpub (acquire), then tail (acquire). If tail shows an empty ring, every kernel byte counted in that
 * kpub was sent before anything S may publish later, so R may read that many and no more.
 */
#ifndef TT_SHM_WORD_H
#define TT_SHM_WORD_H

#include "base/atomic.h"
#include "shm/layout.h"

#define TT_WORD_CLOSED 1ull
#define TT_WORD_ONE 2ull
#define TT_WORD_PUBLISHERS 0xfffffffeull
#define TT_WORD_GENERATION (1ull << 32)

/* S: true when inside; then publish without waiting for anything, and leave. */
static inline bool tt_word_enter(struct tt_word *w)
{
	/* Sequentially consistent: see the head of this file. */
	if (tt_likely(!(__atomic_fetch_add(&w->v, TT_WORD_ONE, __ATOMIC_SEQ_CST) & TT_WORD_CLOSED)))
		return true;
	__atomic_fetch_sub(&w->v, TT_WORD_ONE, __ATOMIC_RELAXED);
	return false;
}

static inline void tt_word_leave(struct tt_word *w)
{
	__atomic_fetch_sub(&w->v, TT_WORD_ONE, __ATOMIC_RELEASE);
}

static inline bool tt_word_is_closed(const struct tt_word *w)
{
	return (__atomic_load_n(&w->v, __ATOMIC_ACQUIRE) & TT_WORD_CLOSED) != 0;
}

/* R: one attempt to close. False: a publisher is inside, try again. */
static inline bool tt_word_try_close(struct tt_word *w)
{
	uint64_t v = __atomic_load_n(&w->v, __ATOMIC_RELAXED);

	if (v & TT_WORD_CLOSED) {
		/* Closed by another thread: synchronise with the publishers that left before. */
		tt_fence_full();
		return true;
	}
	if (v & TT_WORD_PUBLISHERS)
		return false;
	return __atomic_compare_exchange_n(&w->v, &v, (v | TT_WORD_CLOSED) + TT_WORD_GENERATION, false,
	    __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

/* R: close although a publisher seems to be inside; for a sender known to be dead, or one that we give up. */
static inline void tt_word_force_close(struct tt_word *w)
{
	__atomic_fetch_or(&w->v, TT_WORD_CLOSED, __ATOMIC_SEQ_CST);
}

/* R: the process that sent is gone, and with it all publishers that died inside. Closed. */
static inline void tt_word_bury(struct tt_word *w)
{
	tt_word_force_close(w);
	__atomic_fetch_and(&w->v, ~TT_WORD_PUBLISHERS, __ATOMIC_SEQ_CST);
}

static inline void tt_word_open(struct tt_word *w)
{
	__atomic_fetch_and(&w->v, ~TT_WORD_CLOSED, __ATOMIC_SEQ_CST);
}

#endif
