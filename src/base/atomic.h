/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * atomic.h - memory ordering by name.
 *
 * Together with ring.h, pool.h and the headers of shared memory this is where atomics live; other
 * code says what it means with these words. They work on plain integers and pointers (structs in
 * shared memory hold no _Atomic types, so that the layout is the same for every compiler). Objects
 * must be naturally aligned and at most 8 bytes.
 *
 *   relaxed   only the object itself: counters, hints, values checked again under an ordered
 *             access.
 *   acquire   a load that sees a release store also sees all that was written before that store.
 *   release   publishes all that was written before it to whoever acquires the value.
 *   acq_rel   both, for read-modify-write: entering and leaving something.
 *
 * tt_fence_full() orders an earlier store against a later LOAD, which acquire and release do not
 * ("flag and check": both sides set their own flag, fence, then look at the other's; without it
 * both can miss each other).
 *
 * On x86-64 acquire loads and release stores are plain moves; a read-modify-write of any order and
 * the full fence cost some 20 cycles. So the order named should be the one that is argued for at
 * its use, in a comment there.
 */
#ifndef TT_BASE_ATOMIC_H
#define TT_BASE_ATOMIC_H

#include "base/base.h"

#define tt_load_relaxed(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define tt_load_acquire(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define tt_store_relaxed(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
#define tt_store_release(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)

#define tt_add_relaxed(p, v) __atomic_fetch_add((p), (v), __ATOMIC_RELAXED)
#define tt_sub_relaxed(p, v) __atomic_fetch_sub((p), (v), __ATOMIC_RELAXED)

#define tt_swap_acquire(p, v) __atomic_exchange_n((p), (v), __ATOMIC_ACQUIRE)

/* Strong compare-and-swap. On failure *expected is what was found; a failure orders as relaxed, or
 * acquire. */
#define tt_cas_relaxed(p, expected, v)                                                             \
	__atomic_compare_exchange_n((p), (expected), (v), false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)
#define tt_cas_acquire(p, expected, v)                                                             \
	__atomic_compare_exchange_n((p), (expected), (v), false, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)
#define tt_cas_release(p, expected, v)                                                             \
	__atomic_compare_exchange_n((p), (expected), (v), false, __ATOMIC_RELEASE, __ATOMIC_RELAXED)
#define tt_cas_acq_rel(p, expected, v)                                                             \
	__atomic_compare_exchange_n((p), (expected), (v), false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)

/*
 * Store-load order. ThreadSanitizer does not know fences, so under it a read-modify-write of a
 * shared word stands in (it orders more than the fence, never less).
 */
#if defined(__SANITIZE_THREAD__)
#define TT_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TT_TSAN 1
#endif
#endif
#ifdef TT_TSAN
extern unsigned int tt_fence_word;
static inline void tt_fence_full(void)
{
	__atomic_fetch_add(&tt_fence_word, 1, __ATOMIC_SEQ_CST);
}
#else
static inline void tt_fence_full(void)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}
#endif

/* One turn of a spin: gives the sibling hyperthread and the memory pipeline room. */
static inline void tt_cpu_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("isb" ::: "memory");
#endif
}

#endif
