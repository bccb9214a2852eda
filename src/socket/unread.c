/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unread.c - bytes that lie unread in a ring when their reader stops being the one who reads (same-host.md rule 21).
 *
 * exec, descriptor passing, stdio: from then on somebody reads the kernel's queue who knows nothing of rings. The bytes can't be
 * put there from the reading end R; the sender S can send them again, by the kernel, as long as it has not sent others since.
 * So R asks (dir->back), closes its lease, and S gives them back at its next kernel send. A peer that has said all it had to say
 * may never make one: therefore R also queues S's process the signal SIGURG, which is ignored by default, so that
 * it can do no harm where S has changed meanwhile; ours stands in front of the program's disposition (preload/fault.c).
 * S's calls are restarted after it, but for those that never are (poll and its kin, sleeps).
 *
 * A sender that does not answer in RETURN_NS (the signal is blocked, the process stopped or in another pid namespace), that
 * has sent more by the kernel, or whose queue is full leaves the bytes stranded: they are counted and said, and this process
 * can still read them.
 */
#include "socket/sock.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "base/raw.h"
#include "socket/lease.h"
#include "socket/spin.h"
#include "socket/trace.h"

#define RETURN_NS 50000000ull
#define AGAIN_NS 5000000ull
#define NAP_NS 50000

enum { BACK_NONE, BACK_ASKED, BACK_AT_IT, BACK_DONE };

/* ---- the sender ---- */

/* Bytes [from, from + n) of our own ring by the kernel, as many as it takes at once. */
static uint64_t ring_resend(const struct tt_tx *tx, int fd, uint64_t from, uint64_t n)
{
	uint64_t done = 0;

	while (done < n) {
		uint64_t at = (from + done) & (tx->size - 1);
		uint64_t part = tt_min(n - done, tx->size - at);
		long r = tt_raw6(SYS_sendto, fd, tx->ring + at, part, MSG_DONTWAIT | MSG_NOSIGNAL, 0, 0);

		if (r <= 0)
			break;
		done += (uint64_t)r;
	}
	return done;
}

/* Under tx_lock. */
static void resend(struct tt_sock *s)
{
	struct tt_tx *tx = &s->tx;
	struct tt_dir *dir = tx->dir;
	uint64_t head = tt_load_acquire(&dir->head);
	uint64_t accepted;
	uint64_t n;

	/* What went by the kernel since would come before them. */
	if (tt_load_acquire(&tx->kernel_gen) != tx->ring_gen || tt_load_acquire(&dir->kpend))
		return;
	do {
		n = tx->tail - head;
		if (n == 0 || n > tx->size)
			return;
	} while (!__atomic_compare_exchange_n(&dir->head, &head, tx->tail, false, __ATOMIC_ACQ_REL,
	    __ATOMIC_ACQUIRE));
	__atomic_add_fetch(&tx->kernel_gen, 1, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&dir->kpend, 1, __ATOMIC_SEQ_CST);
	accepted = ring_resend(tx, s->fd, head, n);
	__atomic_fetch_add(&dir->kpub, accepted, __ATOMIC_SEQ_CST);
	if (accepted < n) { /* the rest stays in the ring, behind all that the kernel has */
		tt_store_relaxed(&dir->mark, tt_load_relaxed(&dir->kpub));
		tt_store_release(&dir->head, head + accepted);
	}
	__atomic_fetch_sub(&dir->kpend, 1, __ATOMIC_RELEASE);
	s->stat->n.tx_kernel_bytes += accepted;
	s->stat->n.tx_kernel_msgs++;
}

void tt_unread_give(struct tt_sock *s)
{
	struct tt_dir *dir = tt_load_acquire(&s->tx.dir);
	uint32_t asked = BACK_ASKED;

	if (!dir || s->foreign || s->fd < 0 || tt_load_acquire(&dir->back) != BACK_ASKED ||
	    !tt_lock_try(&s->tx_lock))
		return; /* it is asked again */
	if (s->tx.dir == dir && __atomic_compare_exchange_n(&dir->back, &asked, BACK_AT_IT, false,
				    __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
		resend(s);
		tt_store_release(&dir->back, BACK_DONE);
	}
	tt_unlock(&s->tx_lock);
}

static void give_one(struct tt_sock *s, void *arg)
{
	(void)arg;
	if (s->type == SOCK_STREAM)
		tt_unread_give(s);
}

void tt_unread_asked(void)
{
	tt_sock_for_each(give_one, NULL);
}

/* ---- the reader ---- */

static void ask(const struct tt_sock *s)
{
	int pid = s->ref.link->peer_pid;
	siginfo_t info;

	if (pid == tt_raw_getpid()) {
		tt_unread_asked();
		return;
	}
	if (pid <= 0)
		return;
	memset(&info, 0, sizeof(info));
	info.si_signo = SIGURG;
	info.si_code = SI_QUEUE;
	info.si_pid = tt_raw_getpid();
	info.si_uid = (uid_t)tt_raw0(SYS_getuid);
	info.si_value.sival_int = TT_UNREAD_VALUE;
	(void)tt_raw3(SYS_rt_sigqueueinfo, pid, SIGURG, &info);
}

static bool nothing_left(const struct tt_sock *s, const struct tt_dir *dir)
{
	uint64_t head = s->shared ? tt_load_acquire(&dir->head) : s->rx.head;

	return tt_load_acquire(&dir->tail) == head;
}

/* Until S has answered. */
static void wait_back(const struct tt_sock *s, struct tt_dir *dir)
{
	uint64_t start = tt_tsc();
	uint64_t next = start;
	uint32_t asked = BACK_ASKED;

	while (tt_load_acquire(&dir->back) != BACK_DONE) {
		struct timespec nap = {.tv_nsec = NAP_NS};
		uint64_t now = tt_tsc();

		if (now - start > tt_ns_to_tsc(RETURN_NS) &&
		    (__atomic_compare_exchange_n(&dir->back, &asked, BACK_NONE, false, __ATOMIC_ACQ_REL,
			 __ATOMIC_RELAXED) ||
			now - start > tt_ns_to_tsc(20 * RETURN_NS)))
			return;
		asked = BACK_ASKED;
		if (now >= next) {
			ask(s);
			next = now + tt_ns_to_tsc(AGAIN_NS);
			continue;
		}
		(void)tt_raw4(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &nap, 0);
	}
	tt_store_release(&dir->back, BACK_NONE);
}

void tt_unread_return(struct tt_sock *s, int fd)
{
	struct tt_close_turns t = {0};
	struct tt_dir *dir;

	if (s->type != SOCK_STREAM || !tt_lock_wait(&s->rx_lock))
		return;
	dir = s->rx.dir;
	if (!dir)
		goto out;
	/* Before the lease closes: S, finding it closed, must find the question as well. */
	if (!nothing_left(s, dir))
		tt_store_release(&dir->back, BACK_ASKED);
	if (!s->foreign)
		while (tt_lease_close(s) && tt_close_turn(&t))
			;
	if (nothing_left(s, dir)) {
		tt_store_release(&dir->back, BACK_NONE);
		goto out;
	}
	tt_store_release(&dir->back, BACK_ASKED);
	wait_back(s, dir);
	s->rx.head = tt_load_acquire(&dir->head);
	s->rx.kernel_event = true;
	if (!nothing_left(s, dir)) {
		tt_stat_reason(s->stat, TT_REASON_STRANDED);
		tt_trace_sock(fd, s->stat, "unread", TT_REASON_STRANDED);
	}
out:
	tt_unlock(&s->rx_lock);
}

static void return_one(struct tt_sock *s, void *arg)
{
	(void)arg;
	if (s->rx.dir && s->fd >= 0)
		tt_unread_return(s, s->fd);
}

void tt_unread_return_all(void)
{
	if (!tt_process_confined)
		tt_sock_for_each(return_one, NULL);
}
