/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * again.c - an attached connection leaves its slot and goes on by the kernel, to be attached anew.
 *
 * When one end's program is replaced (exec), or the process that had attached it has closed its copy after a fork, nobody of that end
 * will use the slot again, but the connection lives on. The end that goes has said so: fin in the direction that it sent on,
 * r_gone in the one that it received. This end then reads what is left in its ring, sees that the other one has taken all
 * of its own, and lets go: it is as it was before the first attach, and looks for the other end again. What either has
 * sent and taken, the kernel knows.
 *
 * A process made by fork, whose parent had attached the connection and has closed it since, lets go likewise; the
 * slot stays the parent's, who has left it.
 *
 * Other threads may be in calls on the socket. Those that hold a pointer into the slot are counted (inside, sleepers) or hold a lock;
 * the others look at dir again before each use.
 */
#include "socket/epoll.h"
#include "socket/lease.h"
#include "socket/trace.h"

static bool rings_empty(const struct tt_sock *s)
{
	const struct tt_dir *rx = s->rx.dir;
	const struct tt_dir *tx = s->tx.dir;

	return rx && tx && tt_load_acquire(&rx->tail) == tt_load_acquire(&rx->head) &&
	    tt_load_acquire(&tx->head) == (s->foreign ? tt_load_acquire(&tx->tail) : s->tx.tail);
}

/* Stopped by a fork alone. */
static bool may_go_on(const struct tt_sock *s)
{
	return tt_attach_state(s) == TT_ATTACH_DONE && !s->hostile && !s->barred && !s->tx.last &&
	    (!s->tx.kernel_only || (s->forked & TT_FORKED_TX)) && (!s->rx.kernel_only || (s->forked & TT_FORKED_RX)) &&
	    !tt_share_held(s);
}

/* As before the first attach. */
static void views_reset(struct tt_sock *s)
{
	s->rx.open = false;
	s->rx.counted = false;
	s->rx.kernel_counted = false;
	s->rx.kernel_only = false;
	s->rx.busy_tsc = 0;
	s->rx.behind_tsc = 0;
	s->rx.eagain_run = 0;
	s->tx.kernel_only = false;
	s->tx.gate_lost = false;
	s->forked = 0;
	s->shared = false;
	s->foreign = false;
	s->recount = true;
	tt_store_relaxed(&s->msgs, 0);
	tt_store_relaxed(&s->kernel_bytes, 0);
	tt_store_relaxed(&s->probe_at, tt_tun.attach_after);
	tt_store_relaxed(&s->probe_bytes, 0);
	tt_store_relaxed(&s->stat->tx, (uint16_t)TT_TRANSPORT_KERNEL);
	tt_store_relaxed(&s->stat->rx, (uint16_t)TT_TRANSPORT_KERNEL);
	tt_stat_reason(s->stat, TT_REASON_PEER_CHANGED);
}

/* All locks held. */
static bool slot_leave(struct tt_sock *s)
{
	struct tt_dir *rx = s->rx.dir;
	struct tt_dir *tx = s->tx.dir;

	bool foreign = s->foreign;

	if (!may_go_on(s) || !rings_empty(s) || (!foreign && tt_lease_close(s)) || s->ref.gov || !rings_empty(s))
		return false;
	/* A thread that is about to tell of a send counts itself and then looks at dir. */
	__atomic_store_n(&s->tx.dir, NULL, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&s->inside, __ATOMIC_SEQ_CST) || __atomic_load_n(&s->sleepers, __ATOMIC_SEQ_CST)) {
		__atomic_store_n(&s->tx.dir, tx, __ATOMIC_SEQ_CST);
		return false;
	}
	__atomic_store_n(&s->rx.dir, NULL, __ATOMIC_SEQ_CST);
	tt_store_release(&rx->r_gone, 1);
	tt_store_release(&tx->fin, 1);
	__atomic_sub_fetch(&tt_attached_count, 1, __ATOMIC_RELAXED);
	views_reset(s);
	tt_attach_set(s, TT_ATTACH_NONE); /* before the slot can be another connection's */
	if (!foreign)
		tt_link_slot_release(&s->ref);
	return true;
}

bool tt_again(struct tt_sock *s, int fd)
{
	bool left = false;

	if (!may_go_on(s) || !rings_empty(s) || !tt_ident_tcp_established(fd))
		return false;
	tt_epoll_settle_sock(s);
	if (!tt_link_trylock())
		return false;
	if (tt_lock_try(&s->tx_lock)) {
		if (tt_lock_try(&s->rx_lock)) {
			left = slot_leave(s);
			tt_unlock(&s->rx_lock);
		}
		tt_unlock(&s->tx_lock);
	}
	tt_link_unlock();
	if (left)
		tt_trace_sock(fd, s->stat, "left", TT_REASON_PEER_CHANGED);
	return left;
}
