/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * share.c - sockets that several processes hold since a fork (same-host.md rule 20).
 *
 * Which of them will read or write next nobody can know, and what lies in a ring can be read only by those that have mapped it. So a
 * ring is used only by a process that is alone with the socket:
 *
 *  - one that is not attached may be attached once its holders are down to one: the child of a server that forks for
 *    each connection, when the parent has closed its copy, or the parent whose child has gone or executed another
 *    program. Until then every process uses the kernel, and there is nothing to take over;
 *  - one that is attached stays with the process that attached it. While others hold it, both directions go by the kernel (each
 *    process tells R of its sends); what lies unread may be taken by either, whoever moves head first. When it is alone again it
 *    goes back to the rings, with the counts from the kernel. In the others it is "foreign" for good.
 *
 * The holders of a socket are counted in memory that all processes since the first fork share. A process takes
 * itself out when it closes its last descriptor, when it executes another program that does not inherit one, and when it
 * ends in an orderly way. One that is killed, or closes by calls that we don't see, stays counted: then the others
 * keep to the kernel, which is always right.
 */
#include "socket/sock.h"

#include <string.h>
#include <sys/mman.h>

#include "base/raw.h"
#include "socket/dgram.h"
#include "socket/epoll.h"

#define CELLS 65536u
#define TRIES 64u /* cells looked at for a free one */

/* Counts of holders; 0 is free. */
static uint32_t *cells;
static uint32_t cell_next;
/* Where no cell could be had: never alone. */
static uint32_t for_ever = 2;
static uint32_t fork_epoch;

static uint32_t *cell_get(void)
{
	if (!cells) {
		long p = tt_raw6(SYS_mmap, 0, CELLS * sizeof(*cells), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (p < 0 && p > -4096)
			return &for_ever;
		cells = (uint32_t *)p;
	}
	for (uint32_t i = 0; i < TRIES; i++) {
		uint32_t *cell = &cells[cell_next++ % CELLS];
		uint32_t unused = 0;

		if (__atomic_compare_exchange_n(cell, &unused, 1, false, __ATOMIC_ACQ_REL,
			__ATOMIC_RELAXED))
			return cell;
	}
	return &for_ever;
}

static bool counts(const struct tt_sock *s)
{
	return s->role != TT_ROLE_LISTENER;
}

static void holder_add(struct tt_sock *s, void *arg)
{
	(void)arg;
	if (!counts(s))
		return;
	if (!s->share)
		s->share = cell_get();
	if (s->share != &for_ever)
		__atomic_fetch_add(s->share, 1, __ATOMIC_ACQ_REL);
	s->fork_epoch = fork_epoch;
}

void tt_share_fork_before(void)
{
	fork_epoch++;
	tt_sock_for_each(holder_add, NULL);
}

static void stop(struct tt_sock *s)
{
	if (!s->tx.kernel_only)
		s->forked |= TT_FORKED_TX;
	if (!s->rx.kernel_only)
		s->forked |= TT_FORKED_RX;
	s->tx.kernel_only = true;
	s->rx.kernel_only = true;
	s->shared = true;
	s->stat->tx = s->stat->rx = TT_TRANSPORT_KERNEL;
	tt_stat_reason(s->stat, TT_REASON_FORKED);
}

void tt_share_forked(struct tt_sock *s, bool child)
{
	bool attached = tt_attach_state(s) == TT_ATTACH_DONE || tt_attach_state(s) == TT_ATTACH_OFFERED;

	if (s->role == TT_ROLE_LISTENER) {
		s->shared = true;
		return;
	}
	/* Made by another thread between the count and the fork: the two know nothing of each other. */
	if (counts(s) && s->fork_epoch != fork_epoch) {
		s->share = &for_ever;
		if (child && !attached)
			tt_attach_never(s, TT_REASON_FORKED);
	}
	if (!attached)
		return;
	stop(s);
	if (!child && s->type == SOCK_STREAM && s->rx.dir)
		__atomic_store_n(&s->rx.dir->word.asleep, TT_SHARED, __ATOMIC_RELAXED);
	if (child) {
		s->foreign = true;
		s->ref.gov = 0; /* the parent's set governs */
	}
}

void tt_share_look(struct tt_sock *s, int fd)
{
	uint64_t consumed;

	if (!s->forked || s->foreign || tt_share_held(s) || tt_attach_state(s) != TT_ATTACH_DONE)
		return;
	if (s->type != SOCK_STREAM) {
		tt_dgram_alone(s);
		return;
	}
	if (!tt_lock_try(&s->tx_lock))
		return;
	if (tt_lock_try(&s->rx_lock)) {
		/* The other one may have read and written: the kernel has the counts. */
		if (s->tx.dir && s->rx.dir && tt_ident_tcp_consumed(fd, &consumed) == 0) {
			s->rx.head = tt_load_acquire(&s->rx.dir->head);
			s->rx.kcons = consumed;
			tt_store_relaxed(&s->rx.kernel_event, true);
			if (tt_load_relaxed(&s->rx.dir->word.asleep) == TT_SHARED)
				__atomic_store_n(&s->rx.dir->word.asleep, TT_AWAKE, __ATOMIC_RELAXED);
			__atomic_add_fetch(&s->tx.kernel_gen, 1, __ATOMIC_SEQ_CST);
			if (s->forked & TT_FORKED_TX)
				s->tx.kernel_only = false;
			if (s->forked & TT_FORKED_RX)
				s->rx.kernel_only = false;
			s->forked = 0;
			s->stat->tx = s->stat->rx = TT_TRANSPORT_SHM;
			tt_stat_reason(s->stat, TT_REASON_NONE);
		}
		tt_unlock(&s->rx_lock);
	}
	tt_unlock(&s->tx_lock);
	if (!s->forked)
		tt_epoll_attached(s);
}

void tt_share_leave(struct tt_sock *s)
{
	if (s->share && s->share != &for_ever)
		__atomic_fetch_sub(s->share, 1, __ATOMIC_ACQ_REL);
	s->share = NULL;
}

/* ---- exec and exit ---- */

static void mark_none(struct tt_sock *s, void *arg)
{
	(void)arg;
	s->exec_keeps = false;
}

static void holder_move(struct tt_sock *s, void *arg)
{
	if (s->share && s->share != &for_ever && !s->exec_keeps)
		__atomic_fetch_add(s->share, (uint32_t) * (const int32_t *)arg, __ATOMIC_ACQ_REL);
}

void tt_share_exec(bool failed)
{
	int32_t by = failed ? 1 : -1;

	if (!cells)
		return;
	if (!failed) {
		int high = tt_fd_high();

		tt_sock_for_each(mark_none, NULL);
		for (int fd = 0; fd <= high; fd++) {
			struct tt_sock *s = tt_fd_sock(fd);

			if (s && s->share && !(tt_raw2(SYS_fcntl, fd, F_GETFD) & FD_CLOEXEC))
				s->exec_keeps = true;
		}
	}
	tt_sock_for_each(holder_move, &by);
}

static void holder_gone(struct tt_sock *s, void *arg)
{
	(void)arg;
	tt_share_leave(s);
}

void tt_share_exit(void)
{
	if (cells)
		tt_sock_for_each(holder_gone, NULL);
}
