/* SPDX-License-Identifier: BSD-3-Clause */
#include "socket/lease.h"

#include <errno.h>
#include <sched.h>
#include <time.h>
#include <poll.h>

#include "base/raw.h"
#include "socket/epoll.h"
#include "socket/spin.h"

/* Waiting for a publisher: so long by yields, then by naps. By time: on a busy machine a yield takes as long as the others like. */
#define CLOSE_YIELD_NS 200000ull
#define CLOSE_NS 20000000ull
#define STUCK_NS 1000000000ull
#define TURNS_MAX 1000u
#define TURNS_NS 200000000ull
#define SPIN_NS_MIN 1000u
/* Every so many waits that did not spin, one spins again: the peer may have become quick. */
#define SPIN_RETRY 32u

bool tt_close_turn(struct tt_close_turns *t)
{
	if (t->turns == 0)
		t->begin = tt_tsc();
	(void)tt_raw0(SYS_sched_yield);
	return ++t->turns < TURNS_MAX && tt_tsc() - t->begin < tt_ns_to_tsc(TURNS_NS);
}

bool tt_lease_grantable(struct tt_sock *s)
{
	const struct tt_dir *dir = tt_load_acquire(&s->rx.dir);
	uint64_t consumed;

	if (!dir || tt_load_acquire(&dir->fin) || tt_load_acquire(&dir->kpub) == TT_KPUB_UNKNOWN || s->rx.peeked)
		return false;
	if (tt_likely(s->rx.counted))
		return true;
	if (tt_ident_tcp_consumed(s->fd, &consumed))
		return false;
	s->rx.kcons = tt_max(s->rx.kcons, consumed);
	s->rx.counted = true;
	return true;
}

void tt_lease_open(struct tt_sock *s)
{
	struct tt_close_turns t = {0};
	struct tt_word *word;
	struct tt_dir *dir;

	tt_lease_asleep(s, false);
	if (tt_attach_state(s) != TT_ATTACH_DONE || s->rx.kernel_only || s->foreign || !tt_load_relaxed(&s->rx_seen) ||
	    __atomic_load_n(&s->sleepers, __ATOMIC_SEQ_CST))
		return;
	tt_epoll_settle_sock(s);
	/* Out of an epoll set, but its group still governs: nobody would open that. */
	if (!tt_epoll_may_open(s, &s->ref) && (s->ep_sets || !tt_epoll_unjoin(s)))
		return;
	if (!tt_lock_try(&s->rx_lock))
		return;
	dir = tt_load_relaxed(&s->rx.dir);
	if (!dir || !tt_lease_grantable(s)) {
		tt_unlock(&s->rx_lock);
		return;
	}
	word = tt_rx_word(s, dir);
	s->rx.open = true;
	if (!tt_word_is_closed(word)) {
		tt_unlock(&s->rx_lock);
		return;
	}
	tt_word_open(word);
	s->stat->n.lease_opens++;
	tt_unlock(&s->rx_lock);
	/*
	 * A thread may have counted itself asleep after the look above and found the lease still closed: it would not be woken. Or
	 * the socket has entered an epoll set, or gone back to the kernel for good. What came in between is for this thread, which has yet to look at the ring.
	 */
	while (__atomic_load_n(&s->sleepers, __ATOMIC_SEQ_CST) || __atomic_load_n(&s->rx.kernel_only, __ATOMIC_SEQ_CST) ||
	    !tt_epoll_may_open(s, &s->ref))
		if (!tt_lease_close(s) || !tt_close_turn(&t))
			return;
}

int tt_lease_close(struct tt_sock *s)
{
	struct tt_dir *dir = tt_load_acquire(&s->rx.dir);
	struct tt_word *word;

	s->rx.open = false;
	if (!dir)
		return 0;
	/* The group may be opened again by the set's own wait. */
	if (tt_load_relaxed(&s->ref.gov) && !tt_epoll_unjoin(s))
		return -EBUSY;
	word = tt_rx_word(s, dir);
	if (tt_word_is_closed(word)) {
		tt_fence_full();
		s->rx.busy_tsc = 0;
		return 0;
	}
	if (!tt_word_try_close(word))
		return -EBUSY;
	s->rx.busy_tsc = 0;
	s->stat->n.lease_closes++;
	return 0;
}

static bool sender_ended(int fd)
{
	struct pollfd look = {.fd = fd, .events = POLLRDHUP};
	struct timespec now = {0};

	return tt_raw5(SYS_ppoll, &look, 1, &now, 0, 8) > 0 &&
	    (look.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL));
}

bool tt_lease_ended(struct tt_sock *s, int fd)
{
	struct tt_dir *dir;

	if (s->type != SOCK_STREAM || !sender_ended(fd))
		return false;
	tt_store_relaxed(&s->rx.kernel_only, true);
	/* The group's word is not touched: other connections obey it, and their senders may live. */
	tt_epoll_detaching(s);
	dir = tt_load_acquire(&s->rx.dir);
	if (dir)
		tt_word_force_close(&dir->word);
	s->rx.busy_tsc = 0;
	return true;
}

bool tt_lease_stuck(struct tt_sock *s, int fd)
{
	struct pollfd look = {.fd = fd, .events = POLLIN};
	struct timespec none = {0};
	struct tt_dir *dir;
	uint64_t now = tt_tsc();

	if (tt_lease_ended(s, fd))
		return true;
	if (!s->rx.busy_tsc)
		s->rx.busy_tsc = now;
	if (now - s->rx.busy_tsc < tt_ns_to_tsc(STUCK_NS) || tt_raw5(SYS_ppoll, &look, 1, &none, 0, 8) <= 0)
		return false;
	dir = tt_load_acquire(&s->rx.dir);
	s->rx.kernel_only = true;
	tt_epoll_detaching(s);
	if (dir)
		tt_word_force_close(tt_rx_word(s, dir));
	tt_peer_hostile(s);
	return true;
}

bool tt_lease_close_wait(struct tt_sock *s, int fd)
{
	static const struct timespec nap = {.tv_nsec = 1000000};
	uint64_t begin = tt_tsc();

	while (tt_lease_close(s)) {
		uint64_t passed = tt_tsc() - begin;

		if (tt_stream_readable(s))
			return false;
		if (tt_lease_ended(s, fd)) /* killed between entering and leaving: nobody will ever publish here */
			return true;
		if (passed < tt_ns_to_tsc(CLOSE_YIELD_NS)) {
			(void)tt_raw0(SYS_sched_yield);
			continue;
		}
		if (tt_lease_stuck(s, fd) || passed > tt_ns_to_tsc(CLOSE_NS))
			return false;
		(void)tt_raw4(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &nap, 0);
	}
	return true;
}

int64_t tt_spin_budget(struct tt_sock *s)
{
	const struct tt_dir *dir = tt_load_acquire(&s->rx.dir);
	int64_t most = tt_tun.spin_ns;

	if (most == 0)
		return 0;
	/* The sender shares our core: while we spin it can't run. */
	if (dir && __atomic_load_n(&dir->s_cpu, __ATOMIC_RELAXED) == (uint32_t)sched_getcpu())
		return 0;
	if (!tt_tun.spin_adapt || most < 0)
		return most;
	if (s->spin_ns == 0)
		s->spin_ns = (uint32_t)most;
	if (s->spin_ns > SPIN_NS_MIN)
		return s->spin_ns;
	if (++s->spin_skipped < SPIN_RETRY)
		return 0;
	s->spin_skipped = 0;
	return most;
}

void tt_spin_hit(struct tt_sock *s)
{
	s->stat->n.spin_hits++;
	if (tt_tun.spin_adapt)
		s->spin_ns = (uint32_t)tt_tun.spin_ns;
}

void tt_spin_miss(struct tt_sock *s, bool preempted)
{
	s->stat->n.spin_misses++;
	if (!tt_tun.spin_adapt)
		return;
	/* A spin that lost its processor took it from somebody who had work: give up faster. */
	s->spin_ns = tt_max(s->spin_ns / (preempted ? 16 : 2), SPIN_NS_MIN);
}
