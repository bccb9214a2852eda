/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unread.c - bytes that lie unread in a ring when their reader stops being the one who reads (same-host.md rule 21).
 *
 * exec, descriptor passing: from then on somebody reads the kernel's queue who knows nothing of rings. A byte gets there from the
 * sending end S alone. So the reading end R borrows S's socket (pidfd_getfd(2)) and sends the bytes once more, by the
 * kernel, as S would have done had the lease been closed: S need not run, nor be in any call, and sees nothing of it. Both ends
 * belong to one user, which was proved before they shared memory; the borrowed descriptor is the peer's socket only
 * if its cookie says so.
 *
 * Their order: the bytes may go only where S has sent nothing by the kernel behind them (kpub is the mark of what the ring holds, and
 * no send is under way), and while they go S sends nothing else. R claims `back` and then looks at kpend; S raises kpend and then
 * looks at `back`. Each is a full fence, so at least one of the two sees the other, and gives way.
 *
 * Where S has sent more by the kernel, R takes that out of the kernel's queue, too, and then sends all of it once more, in its order
 * (roll()). S still waits; what it is in the middle of sending comes to an end, because R reads.
 *
 * Where the kernel does not let R borrow the socket (ptrace is restricted, another pid namespace) the question stays in `back`, and S
 * answers it before its next send by the kernel. What nobody has given back when R goes is counted as stranded and said; this
 * process, and its children, can still read it.
 */
#include "socket/sock.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/fmt.h"
#include "base/raw.h"
#include "socket/lease.h"
#include "socket/spin.h"
#include "socket/trace.h"

/* How long R waits for bytes to find room in S's queue, or for an S whose socket it can't borrow. */
#define RETURN_NS 20000000ull
#define NAP_NS 50000
/* An R that is in the middle of it for so long is stopped or dead. */
#define GATE_NS 100000000ull
#define GATE_YIELD_NS 1000000ull
#define GATE_TIMES 10

enum {
	BACK_NONE,
	BACK_ASKED,
	BACK_BY_S, /* S is at it */
	BACK_BY_R,
	BACK_MOVED, /* R has sent some: to S they are kernel sends of its own that it has yet to learn of */
};

static bool back_change(struct tt_dir *dir, uint32_t from, uint32_t to)
{
	return __atomic_compare_exchange_n(&dir->back, &from, to, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static void nap(void)
{
	struct timespec ts = {.tv_nsec = NAP_NS};

	(void)tt_raw4(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &ts, 0);
}

struct bytes {
	const uint8_t *ring;
	uint64_t size;
	uint64_t at;
	uint64_t n;
};

/* By the kernel, as many as it takes at once. */
static uint64_t resend(int fd, const struct bytes *b)
{
	uint64_t done = 0;

	while (done < b->n) {
		uint64_t at = (b->at + done) & (b->size - 1);
		uint64_t part = tt_min(b->n - done, b->size - at);
		long r = tt_raw6(SYS_sendto, fd, b->ring + at, part, MSG_DONTWAIT | MSG_NOSIGNAL, 0, 0);

		if (r <= 0)
			break;
		done += (uint64_t)r;
	}
	return done;
}

/*
 * With `back` claimed: what lies in the ring, once more by the kernel. b->at is where R stands, as far as the caller knows; tail is the
 * ring's end. Returns what has gone.
 */
static uint64_t move(struct tt_dir *dir, int fd, struct bytes *b, uint64_t tail)
{
	uint64_t done;

	/* What went by the kernel since would come before them. */
	if (__atomic_load_n(&dir->kpend, __ATOMIC_SEQ_CST) || tt_load_acquire(&dir->kpub) != tt_load_acquire(&dir->mark))
		return 0;
	b->at = tt_load_acquire(&dir->head);
	do {
		b->n = tail - b->at;
		if (b->n == 0 || b->n > b->size)
			return 0;
	} while (!__atomic_compare_exchange_n(&dir->head, &b->at, tail, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
	__atomic_fetch_add(&dir->kpend, 1, __ATOMIC_SEQ_CST);
	done = resend(fd, b);
	__atomic_fetch_add(&dir->kpub, done, __ATOMIC_SEQ_CST);
	/* What comes next in the ring, if anything, comes behind all that the kernel has. */
	tt_store_relaxed(&dir->mark, tt_load_relaxed(&dir->kpub));
	if (done < b->n)
		tt_store_release(&dir->head, b->at + done);
	__atomic_fetch_sub(&dir->kpend, 1, __ATOMIC_RELEASE);
	return done;
}

/* ---- the sender ---- */

/* False: in a handler that interrupted the very place, or this process is not the one that fills the ring. */
static bool give(struct tt_sock *s, struct tt_dir *dir)
{
	struct tt_tx *tx = &s->tx;
	uint64_t done;

	if (s->foreign || s->fd < 0 || !tt_lock_wait(&s->tx_lock))
		return false;
	if (tx->dir == dir && back_change(dir, BACK_ASKED, BACK_BY_S)) {
		struct bytes b = {.ring = tx->ring, .size = tx->size};

		__atomic_add_fetch(&tx->kernel_gen, 1, __ATOMIC_SEQ_CST);
		done = move(dir, s->fd, &b, tx->tail);
		tt_store_release(&dir->back, BACK_NONE);
		if (done) {
			s->stat->n.tx_kernel_bytes += done;
			s->stat->n.tx_kernel_msgs++;
		}
	}
	tt_unlock(&s->tx_lock);
	return true;
}

void tt_unread_give(struct tt_sock *s)
{
	struct tt_dir *dir = tt_load_acquire(&s->tx.dir);

	if (dir && tt_unlikely(tt_load_acquire(&dir->back) == BACK_ASKED))
		(void)give(s, dir);
}

/* By time: on a busy machine a yield takes as long as the others like. False: it has been long enough. */
static bool gate_turn(uint64_t start)
{
	uint64_t passed = tt_tsc() - start;

	if (passed < tt_ns_to_tsc(GATE_YIELD_NS))
		(void)tt_raw0(SYS_sched_yield);
	else
		nap();
	return passed < tt_ns_to_tsc(GATE_NS);
}

/* Until nobody is at it. False: it has been long enough. */
static bool gate_wait(const struct tt_dir *dir)
{
	uint64_t start = tt_tsc();
	uint32_t back;

	do
		back = tt_load_acquire(&dir->back);
	while ((back == BACK_BY_R || back == BACK_BY_S) && gate_turn(start));
	return back != BACK_BY_R && back != BACK_BY_S;
}

void tt_unread_gate(struct tt_sock *s, struct tt_dir *dir)
{
	for (int i = 0; i < GATE_TIMES; i++) {
		uint32_t back = __atomic_load_n(&dir->back, __ATOMIC_SEQ_CST);

		if (back == BACK_NONE || s->tx.gate_lost)
			return;
		if (back == BACK_MOVED) {
			/* The caller has told of a kernel send: that is all there is to learn. */
			(void)back_change(dir, BACK_MOVED, BACK_NONE);
			continue;
		}
		__atomic_fetch_sub(&dir->kpend, 1, __ATOMIC_SEQ_CST);
		if (back == BACK_ASKED && !give(s, dir))
			i = GATE_TIMES;
		if (!gate_wait(dir))
			s->tx.gate_lost = true; /* once, not at each send */
		__atomic_fetch_add(&dir->kpend, 1, __ATOMIC_SEQ_CST);
	}
}

/* ---- the reader ---- */

static bool is_socket(int pid, int fd)
{
	char path[64];
	char name[16] = {0};

	(void)tt_fmt(path, sizeof(path), "/proc/%d/fd/%d", pid, fd);
	return tt_raw3(SYS_readlink, path, name, sizeof(name) - 1) > 0 && memcmp(name, "socket:", 7) == 0;
}

/*
 * S's socket; negative errno where it can't be had. Only a socket is borrowed: to close anything else may mean something, to record
 * locks for one.
 */
static int borrow(const struct tt_sock *s, const struct tt_dir *dir)
{
	int pid = tt_load_relaxed(&s->ref.link->peer_pid);
	uint32_t number = tt_load_acquire(&dir->s_fd);
	int fd;
	int pidfd;

	if (pid <= 0 || !number || number > TT_FD_MAX || !s->peer_cookie || !is_socket(pid, (int)number - 1))
		return -ENOENT;
	pidfd = (int)tt_raw2(SYS_pidfd_open, pid, 0);
	if (pidfd < 0)
		return pidfd;
	fd = (int)tt_raw3(SYS_pidfd_getfd, pidfd, (int)number - 1, 0);
	(void)tt_raw_close(pidfd);
	if (fd < 0)
		return fd;
	if (tt_ident_cookie(fd) == s->peer_cookie)
		return fd;
	(void)tt_raw_close(fd);
	return -ENOENT;
}

static bool nothing_left(const struct tt_sock *s, const struct tt_dir *dir)
{
	uint64_t head = s->shared ? tt_load_acquire(&dir->head) : s->rx.head;

	return tt_load_acquire(&dir->tail) == head;
}

/* ---- bytes that are not the last ones ---- */

/* All of it lies in memory for a moment. */
#define ROLL_MAX (64ull << 20)
#define ROLL_STEP (1ull << 20)
/* On this host what S's kernel has taken is there as fast as it can be read. */
#define ROLL_NS 2000000000ull

struct roll {
	uint8_t *at;
	uint64_t size;
	uint64_t n;
};

static bool roll_room(struct roll *roll, uint64_t more)
{
	uint64_t size = (roll->n + more + ROLL_STEP - 1) / ROLL_STEP * ROLL_STEP;
	long p;

	if (roll->n + more <= roll->size)
		return true;
	if (size > ROLL_MAX)
		return false;
	p = roll->at ? tt_raw4(SYS_mremap, roll->at, roll->size, size, MREMAP_MAYMOVE)
		     : tt_raw6(SYS_mmap, 0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p < 0 && p > -4096)
		return false;
	roll->at = (uint8_t *)p;
	roll->size = size;
	return true;
}

/* Up to most bytes of the kernel's queue: > 0, 0 none now, or -1. */
static long roll_read(struct tt_sock *s, int fd, struct roll *roll, uint64_t most)
{
	long n;

	if (!roll_room(roll, tt_min(most, (uint64_t)ROLL_STEP / 4)))
		return -1;
	n = tt_raw6(SYS_recvfrom, fd, roll->at + roll->n, tt_min(most, roll->size - roll->n), MSG_DONTWAIT, 0, 0);
	if (n > 0) {
		roll->n += (uint64_t)n;
		s->rx.kcons += (uint64_t)n;
	}
	return n == -EAGAIN ? 0 : n > 0 ? n : -1;
}

/*
 * Reads what S's kernel has taken, up to `upto` of its count, or to the end of all that S is in the middle of. False: it does not
 * come.
 */
static bool roll_kernel(struct tt_sock *s, struct tt_dir *dir, int fd, int s_fd, struct roll *roll, uint64_t upto)
{
	uint64_t start = tt_tsc();

	while (tt_tsc() - start < tt_ns_to_tsc(ROLL_NS)) {
		bool sends = __atomic_load_n(&dir->kpend, __ATOMIC_SEQ_CST) != 0;
		uint64_t accepted;
		uint64_t end;
		long n;

		if (tt_ident_tcp_accepted(s_fd, &accepted))
			return false;
		end = tt_min(upto, accepted);
		if (s->rx.kcons >= end && (!sends || end == upto))
			return true;
		n = s->rx.kcons < end ? roll_read(s, fd, roll, end - s->rx.kcons) : 0;
		if (n < 0)
			return false;
		if (n == 0)
			(void)tt_raw0(SYS_sched_yield);
	}
	return false;
}

static bool roll_ring(const struct tt_sock *s, struct tt_dir *dir, struct roll *roll, uint64_t tail)
{
	uint64_t head = tt_load_acquire(&dir->head);
	uint64_t n = tail - head;
	uint64_t at = head & (s->rx.size - 1);
	uint64_t part;

	if (n > s->rx.size || !roll_room(roll, n))
		return false;
	part = tt_min(n, s->rx.size - at);
	memcpy(roll->at + roll->n, s->rx.ring + at, part);
	memcpy(roll->at + roll->n + part, s->rx.ring, n - part);
	if (!tt_cas_acq_rel(&dir->head, &head, tail))
		return false;
	roll->n += n;
	return true;
}

/* `back` is claimed, the lease closed, rx_lock held. False: as far as it got it is lost, and the connection is reset. */
static bool roll(struct tt_sock *s, struct tt_dir *dir, int fd, int s_fd)
{
	struct roll all = {0};
	uint64_t tail = tt_load_acquire(&dir->tail);
	uint64_t mark = tt_load_acquire(&dir->mark);
	uint64_t start;
	struct bytes b;
	bool good;

	if (__atomic_load_n(&s->sleepers, __ATOMIC_SEQ_CST) || !tt_ident_tcp_established(s_fd) || tt_ident_tcp_consumed(fd, &s->rx.kcons) ||
	    !roll_room(&all, tail - tt_load_acquire(&dir->head)))
		return true; /* nothing has been done */
	good = (mark <= s->rx.kcons || roll_kernel(s, dir, fd, s_fd, &all, mark)) && roll_ring(s, dir, &all, tail) &&
	    roll_kernel(s, dir, fd, s_fd, &all, UINT64_MAX);
	b = (struct bytes){.ring = all.at, .size = 1ull << 40, .n = all.n};
	start = tt_tsc();
	__atomic_fetch_add(&dir->kpend, 1, __ATOMIC_SEQ_CST);
	while (good && b.n) {
		uint64_t done = resend(s_fd, &b);

		__atomic_fetch_add(&dir->kpub, done, __ATOMIC_SEQ_CST);
		b.at += done;
		b.n -= done;
		good = b.n == 0 || tt_tsc() - start < tt_ns_to_tsc(RETURN_NS);
		if (good && b.n)
			nap();
	}
	tt_store_relaxed(&dir->mark, tt_load_relaxed(&dir->kpub));
	__atomic_fetch_sub(&dir->kpend, 1, __ATOMIC_RELEASE);
	if (all.at)
		(void)tt_raw2(SYS_munmap, all.at, all.size);
	return good;
}

/* Also where S has just looked at what it was asked, and found that it could do nothing. */
static bool take_claim(struct tt_dir *dir)
{
	uint64_t start = tt_tsc();

	while (!back_change(dir, BACK_ASKED, BACK_BY_R) && !back_change(dir, BACK_MOVED, BACK_BY_R) &&
	    !back_change(dir, BACK_NONE, BACK_BY_R))
		if (!gate_turn(start))
			return false;
	return true;
}

/* By S's own socket. */
static void take_back(struct tt_sock *s, struct tt_dir *dir, int own_fd, int fd, bool leaving)
{
	uint64_t start = tt_tsc();
	uint64_t tail = tt_load_acquire(&dir->tail);
	bool moved = false;

	if (!take_claim(dir))
		return;
	for (;;) {
		struct bytes b = {.ring = s->rx.ring, .size = s->rx.size};
		uint64_t done = move(dir, fd, &b, tail);

		moved = moved || done;
		if (tt_load_acquire(&dir->head) == tail || (!done && !b.n) ||
		    tt_tsc() - start > tt_ns_to_tsc(RETURN_NS))
			break;
		nap();
	}
	/* Not where they found no room: they would find none again. */
	if (leaving && tt_load_acquire(&dir->head) != tail &&
	    (tt_load_acquire(&dir->kpend) || tt_load_acquire(&dir->kpub) != tt_load_relaxed(&dir->mark))) {
		moved = true;
		if (!roll(s, dir, own_fd, fd)) {
			tt_stat_reason(s->stat, TT_REASON_STRANDED);
			tt_peer_hostile(s);
		}
	}
	tt_store_release(&dir->back, moved ? BACK_MOVED : BACK_ASKED);
}

/* S has been asked and may answer, if it happens to send. */
static void wait_back(const struct tt_dir *dir)
{
	uint64_t start = tt_tsc();

	while (tt_load_acquire(&dir->back) != BACK_NONE && tt_tsc() - start < tt_ns_to_tsc(RETURN_NS))
		nap();
}

/* Both ends in one process. */
static void give_here(struct tt_sock *s, void *arg)
{
	(void)arg;
	if (s->type == SOCK_STREAM)
		tt_unread_give(s);
}

static void bring_back(struct tt_sock *s, struct tt_dir *dir, int own_fd, bool leaving)
{
	int fd;

	if (tt_load_relaxed(&s->ref.link->peer_pid) == tt_raw_getpid()) {
		tt_sock_for_each(give_here, NULL);
		return;
	}
	fd = borrow(s, dir);
	if (fd < 0) {
		wait_back(dir);
		return;
	}
	take_back(s, dir, own_fd, fd, leaving);
	(void)tt_raw_close(fd);
}

/* Unread bytes are R's again, unless S has them in hand at this moment. */
static void ask_no_more(struct tt_dir *dir)
{
	uint64_t start = tt_tsc();

	while (!back_change(dir, BACK_ASKED, BACK_NONE) && tt_load_acquire(&dir->back) == BACK_BY_S)
		if (!gate_turn(start))
			return;
}

/* Unread bytes of a lease that is closed. */
static void rest_return(struct tt_sock *s, struct tt_dir *dir, int fd, bool leaving)
{
	uint32_t back = BACK_NONE;

	/* MOVED from an earlier time stays: S has yet to learn of it, and publishes nothing before. */
	(void)__atomic_compare_exchange_n(&dir->back, &back, BACK_ASKED, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	bring_back(s, dir, fd, leaving);
	if (!leaving)
		ask_no_more(dir);
	s->rx.head = tt_load_acquire(&dir->head);
	tt_store_relaxed(&s->rx.kernel_event, true);
	if (nothing_left(s, dir))
		return;
	if (leaving) /* S may still be at it: from now on whoever moves head has the bytes */
		s->shared = true;
	tt_stat_reason(s->stat, TT_REASON_STRANDED);
	tt_trace_sock(fd, s->stat, "unread", TT_REASON_STRANDED);
}

void tt_unread_return(struct tt_sock *s, int fd, bool leaving)
{
	struct tt_close_turns t = {0};
	struct tt_dir *dir;

	if (s->type != SOCK_STREAM || !tt_lock_wait(&s->rx_lock))
		return;
	dir = s->rx.dir;
	if (dir && !s->foreign)
		while (tt_lease_close(s) && !tt_lease_ended(s, fd) && tt_close_turn(&t))
			;
	if (dir && !nothing_left(s, dir))
		rest_return(s, dir, fd, leaving);
	tt_unlock(&s->rx_lock);
}

static void return_one(struct tt_sock *s, void *arg)
{
	(void)arg;
	if (s->rx.dir && s->fd >= 0)
		tt_unread_return(s, s->fd, false);
}

void tt_unread_return_all(void)
{
	if (!tt_process_confined)
		tt_sock_for_each(return_one, NULL);
}
