/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lease.h - the receiver's side of the sleep word: open before spinning, close before sleeping.
 *
 * A lease is opened only by a wait that will look at the ring again by itself: a blocking call, or poll, select and epoll
 * on this descriptor (same-host.md rule 12). It stays open when the wait ends, so that the sender can go on by the ring
 * while the program works. It is closed, and the ring looked at once more, before any thread of this process
 * sleeps in the kernel on the descriptor.
 */
#ifndef TT_SOCKET_LEASE_H
#define TT_SOCKET_LEASE_H

#include "socket/sock.h"

/* The word this connection obeys now; dir is its receiving direction. */
static inline struct tt_word *tt_rx_word(const struct tt_sock *s, struct tt_dir *dir)
{
	uint32_t gov = tt_load_relaxed(&s->ref.gov);

	if (gov == 0)
		return &dir->word;
	return &tt_link_group(s->ref.link, tt_link_rx(s->ref.link), gov - 1)->word;
}

/*
 * With an open lease R reads from the kernel only what S has told of, so the count of what R has taken must be right: it is taken
 * from the kernel once, for calls that we did not see before. And not right after a peek, which may have shown bytes that S has
 * yet to tell of: the next call is to give them. Under rx_lock.
 */
tt_must_check bool tt_lease_grantable(struct tt_sock *s);

/* Opens the lease if nothing speaks against it. */
void tt_lease_open(struct tt_sock *s);
/*
 * Closes it. 0 when closed; -EBUSY when a publisher is inside: look at the ring, then try again. The caller has
 * counted itself in sleepers before.
 */
tt_must_check int tt_lease_close(struct tt_sock *s);
/*
 * As above, waiting a while: yields, then naps of 1 ms, until closed, readable or the sender has ended. False: look again; at
 * the ring, and at what else may end the call.
 */
tt_must_check bool tt_lease_close_wait(struct tt_sock *s, int fd);
/*
 * After -EBUSY, with no lock but rx_lock held. True: S has ended its sending half, or is gone, and with it the lease for good, closed
 * now. Whoever of S is inside the word then is dead: S leaves it before it tells the kernel of an end (tt_sock_shutdown(), tt_detach()).
 */
bool tt_lease_ended(struct tt_sock *s, int fd);
/*
 * After -EBUSY, with no lock held. A publisher is inside for as long as a copy takes, or its whole process stands still; then the
 * kernel gets nothing from it. One whose connection has ended is dead; one that has been inside for long while the kernel has
 * something never was there: true, and the stream has been taken from the ring, or reset.
 */
tt_must_check bool tt_lease_stuck(struct tt_sock *s, int fd);

/*
 * Between two tries to close, where there is no lock to give up and no end to wait for: yields. False: it has been long enough. On
 * a busy machine a yield takes as long as the others want it to.
 */
struct tt_close_turns {
	uint32_t turns;
	uint64_t begin;
};
tt_must_check bool tt_close_turn(struct tt_close_turns *t);

/* For S's statistics alone: a thread sleeps on it, its lease closed; or no longer. */
static inline void tt_lease_asleep(struct tt_sock *s, bool yes)
{
	struct tt_dir *dir = tt_load_acquire(&s->rx.dir);

	if (dir && tt_load_relaxed(&dir->word.asleep) == (yes ? TT_AWAKE : TT_ASLEEP))
		__atomic_store_n(&dir->word.asleep, yes ? TT_ASLEEP : TT_AWAKE, __ATOMIC_RELAXED);
}

/* How long a wait on this socket may spin now, in ns; TT_SPIN_ENDLESS, or 0: sleep at once. */
int64_t tt_spin_budget(struct tt_sock *s);
void tt_spin_hit(struct tt_sock *s);
void tt_spin_miss(struct tt_sock *s, bool preempted);

#endif
