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
 * keep to the kernel, which is always right. A program that inherits the socket stays counted, too; it may hear that
 * it is alone (heir.c).
 */
#include "socket/sock.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/raw.h"
#include "socket/dgram.h"
#include "socket/epoll.h"
#include "socket/heir.h"

#define CELLS 65536u
#define TRIES 64u /* cells looked at for a free one */

/* An exec that has not happened by then, in seconds, has failed, and its caller has taken the cell back. */
#define TOLD_AGE_S 60u

static struct tt_share_cell *cells;
static uint32_t cell_next;
/* Where no cell could be had: never alone. */
static struct tt_share_cell for_ever = {.holders = 2};
static uint32_t fork_epoch;

static uint32_t now_s(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint32_t)ts.tv_sec;
}

static bool cell_take(struct tt_share_cell *cell)
{
	uint32_t seen = tt_load_acquire(&cell->holders);

	if (seen && (!(seen & TT_SHARE_TOLD) || now_s() - tt_load_relaxed(&cell->told_s) < TOLD_AGE_S))
		return false;
	return tt_cas_acq_rel(&cell->holders, &seen, 1u);
}

static struct tt_share_cell *cell_get(void)
{
	if (!cells) {
		long p = tt_raw6(SYS_mmap, 0, CELLS * sizeof(*cells), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (p < 0 && p > -4096)
			return &for_ever;
		cells = (struct tt_share_cell *)p;
	}
	for (uint32_t i = 0; i < TRIES; i++) {
		struct tt_share_cell *cell = &cells[cell_next++ % CELLS];

		if (cell_take(cell))
			return cell;
	}
	return &for_ever;
}

static bool has_cell(const struct tt_sock *s)
{
	return s->share && s->share != &for_ever;
}

/* One holder less: bits of holders before. Who leaves an heir alone tells it. */
static void holder_leave(struct tt_share_cell *cell)
{
	uint32_t was = __atomic_fetch_sub(&cell->holders, 1, __ATOMIC_ACQ_REL);

	if (tt_likely(!(was & TT_SHARE_HEIR)) || (was & TT_SHARE_COUNT) != 2)
		return;
	tt_heir_tell(tt_load_relaxed(&cell->nonce));
	tt_store_relaxed(&cell->told_s, now_s());
	__atomic_fetch_or(&cell->holders, TT_SHARE_TOLD, __ATOMIC_ACQ_REL);
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
		__atomic_fetch_add(&s->share->holders, 1, __ATOMIC_SEQ_CST);
	s->fork_epoch = fork_epoch;
}

void tt_share_fork_before(void)
{
	fork_epoch++;
	tt_sock_for_each(holder_add, NULL);
	/* Counted before this look, and in tt_heir_exec() the other way round: one of the two threads sees the other. */
	if (tt_unlikely(__atomic_load_n(&tt_heir_leaving, __ATOMIC_SEQ_CST)))
		tt_heir_revoke();
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
	if ((s->forked & TT_FORKED_TX) && s->tx.dir && tt_load_acquire(&s->tx.dir->fin)) {
		/* The other one has left the ring for us, too, and R believes it. */
		(void)tt_again(s, fd);
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
	if (has_cell(s))
		holder_leave(s->share);
	s->share = NULL;
}

void tt_share_given(struct tt_sock *s)
{
	if (has_cell(s) && !s->given)
		__atomic_fetch_add(&s->share->holders, 1, __ATOMIC_ACQ_REL);
	s->given = true;
	if (tt_unlikely(__atomic_load_n(&tt_heir_leaving, __ATOMIC_SEQ_CST)))
		tt_heir_revoke();
}

static void given(struct tt_sock *s, void *arg)
{
	(void)arg;
	tt_share_given(s);
}

void tt_share_given_all(void)
{
	if (!tt_process_confined)
		tt_sock_for_each(given, NULL);
}

/* ---- exec ---- */

static void holder_move(struct tt_sock *s, void *arg)
{
	if (!has_cell(s) || s->exec_keeps)
		return;
	if (*(const bool *)arg)
		__atomic_fetch_add(&s->share->holders, 1, __ATOMIC_ACQ_REL);
	else
		holder_leave(s->share);
}

void tt_share_exec(bool failed)
{
	if (cells)
		tt_sock_for_each(holder_move, &failed);
}

int tt_share_bequeath(struct tt_sock *s, uint64_t nonce, bool *alone)
{
	uint32_t holders;

	*alone = true;
	if (!s->share)
		return 0;
	if (s->share == &for_ever || (tt_load_acquire(&s->share->holders) & TT_SHARE_HEIR))
		return -EBUSY; /* another one has gone before us */
	s->share->nonce = nonce;
	holders = __atomic_or_fetch(&s->share->holders, TT_SHARE_HEIR, __ATOMIC_SEQ_CST);
	*alone = (holders & TT_SHARE_COUNT) == 1;
	if (*alone) {
		tt_store_relaxed(&s->share->told_s, now_s());
		__atomic_fetch_or(&s->share->holders, TT_SHARE_TOLD, __ATOMIC_ACQ_REL);
	}
	return 0;
}

void tt_share_take_back(struct tt_sock *s)
{
	if (has_cell(s))
		__atomic_fetch_and(&s->share->holders, ~(TT_SHARE_HEIR | TT_SHARE_TOLD), __ATOMIC_ACQ_REL);
}

/* ---- the end ---- */

/*
 * Cells of sockets that this process has forgotten under a seccomp filter. It holds them until it ends, and then lets go of them
 * without a system call.
 */
#define LOST_MAX 1024u
static struct tt_share_cell *lost[LOST_MAX];
static uint32_t lost_count;

void tt_share_lost(struct tt_sock *s)
{
	if (has_cell(s) && tt_process_confined && lost_count < LOST_MAX)
		lost[lost_count++] = s->share;
	s->share = NULL; /* still counted */
}

void tt_share_lost_forked(void)
{
	for (uint32_t i = 0; i < lost_count; i++)
		__atomic_fetch_add(&lost[i]->holders, 1, __ATOMIC_ACQ_REL);
}

void tt_share_lost_given(void)
{
	lost_count = 0; /* for ever */
}

void tt_share_lost_exit(void)
{
	for (uint32_t i = 0; i < lost_count; i++)
		__atomic_fetch_sub(&lost[i]->holders, 1, __ATOMIC_ACQ_REL);
	lost_count = 0;
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
