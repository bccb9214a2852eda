/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait.c - poll and select over any mixture of descriptors.
 *
 * The kernel is asked about everything that only it knows, with the program's own array; the rings add POLLIN for what lies
 * in them. Before a thread sleeps in the kernel the leases of all accelerated sockets in the list are closed and
 * their rings looked at once more.
 */
#include "socket/sock.h"

#include <errno.h>
#include <string.h>

#include "base/raw.h"
#include "socket/cancel.h"
#include "socket/dgram.h"
#include "socket/epoll.h"
#include "socket/lease.h"
#include "socket/mask.h"
#include "socket/timeout.h"

#define WANTED_IN (POLLIN | POLLRDNORM)

/* A thread asleep on a socket that is not attached yet must be counted, too: another thread may attach and open it. */
bool tt_wait_native(void)
{
	return tt_tun.disable || tt_fd_high() < 0;
}

static struct tt_sock *live(int fd)
{
	struct tt_sock *s = tt_fd_sock(fd);

	if (!s)
		return NULL;
	if (tt_unlikely(tt_attach_state(s) == TT_ATTACH_OFFERED))
		tt_attach_check(s);
	return tt_load_acquire(&s->rx.dir) || tt_dgram_lanes(s) ? s : NULL;
}

/* In the ring. What S has sent by the kernel is the kernel's to report: it may be on its way still, or read by plain code. */
static bool readable(const struct tt_sock *s)
{
	const struct tt_dir *dir;

	if (s->dgram)
		return tt_dgram_readable(s);
	dir = tt_load_acquire(&s->rx.dir);
	return dir && tt_load_acquire(&dir->tail) != s->rx.head;
}

/* S has told of bytes that it sent by the kernel: worth a look before its time. */
static bool told(const struct tt_sock *s)
{
	const struct tt_dir *dir = tt_load_acquire(&s->rx.dir);

	return dir && tt_load_acquire(&dir->kpub) > s->rx.kcons;
}

/* An error that a call of ours took from the kernel and could not return (recvmmsg()). */
static bool failed(int fd)
{
	const struct tt_sock *s = tt_fd_sock(fd);

	return tt_unlikely(s != NULL && tt_load_relaxed(&s->pending_err) != 0);
}

/* Datagrams: nobody may be there any more, which only we can find out. In a call that doesn't sleep. */
static void gone_check(const struct pollfd *fds, nfds_t n)
{
	for (nfds_t i = 0; i < n; i++) {
		struct tt_sock *s = tt_fd_sock(fds[i].fd);

		if (s && s->dgram)
			tt_dgram_look_check(s, fds[i].fd);
	}
}

/* Adds what the rings have to revents; returns how many entries became non-zero by that. */
static int rings_add(struct pollfd *fds, nfds_t n)
{
	int more = 0;

	for (nfds_t i = 0; i < n; i++) {
		struct tt_sock *s;

		if (failed(fds[i].fd)) {
			more += fds[i].revents == 0;
			fds[i].revents = (short)(fds[i].revents | POLLERR);
		}
		if (!(fds[i].events & WANTED_IN))
			continue;
		s = live(fds[i].fd);
		if (!s)
			continue;
		if (fds[i].revents & ~POLLOUT)
			tt_store_relaxed(&s->rx.kernel_event, true);
		if (readable(s)) {
			more += fds[i].revents == 0;
			fds[i].revents = (short)(fds[i].revents | (fds[i].events & WANTED_IN));
		}
	}
	return more;
}

/* *hint, when not NULL: the kernel should have something. */
static bool rings_any(const struct pollfd *fds, nfds_t n, bool *hint)
{
	for (nfds_t i = 0; i < n; i++) {
		const struct tt_sock *s;

		if (failed(fds[i].fd))
			return true;
		if (!(fds[i].events & WANTED_IN))
			continue;
		s = tt_fd_sock(fds[i].fd);
		if (!s)
			continue;
		if (readable(s))
			return true;
		if (hint && told(s))
			*hint = true;
	}
	return false;
}

static int kernel_poll(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
    const sigset_t *mask)
{
	int r = tt_sys.ppoll(fds, n, timeout, mask);

	return r < 0 ? -errno : r;
}

/* The kernel's answer now, with the rings' added. */
static int look(struct pollfd *fds, nfds_t n, const sigset_t *mask)
{
	static const struct timespec none;
	int r = kernel_poll(fds, n, &none, mask);

	return r < 0 ? r : r + rings_add(fds, n);
}

/* Those counted as asleep on; the pointers, because another thread may close a descriptor and use its number anew. */
#define SLEEPERS_KEPT 512
struct sleepers {
	nfds_t count;
	struct tt_sock *socks[SLEEPERS_KEPT];
};

static struct tt_sock *sleeper_of(int fd)
{
	struct tt_sock *s = tt_fd_sock(fd);

	return s && tt_attach_state(s) != TT_ATTACH_NEVER && s->role != TT_ROLE_LISTENER ? s : NULL;
}

static void sleepers_add(struct sleepers *on, const struct pollfd *fds, nfds_t n)
{
	on->count = 0;
	for (nfds_t i = 0; i < n; i++) {
		struct tt_sock *s = sleeper_of(fds[i].fd);

		if (!s)
			continue;
		if (on->count == SLEEPERS_KEPT) { /* too many to remember: its lease stays closed for good */
			tt_sock_rx_stop(s, TT_REASON_LIMIT);
			continue;
		}
		__atomic_add_fetch(&s->sleepers, 1, __ATOMIC_SEQ_CST);
		on->socks[on->count++] = s;
	}
}

static void asleep(const struct sleepers *on, bool yes)
{
	for (nfds_t i = 0; i < on->count; i++)
		if (on->socks[i]->type == SOCK_STREAM)
			tt_lease_asleep(on->socks[i], yes);
}

static void sleepers_sub(struct sleepers *on)
{
	for (nfds_t i = 0; i < on->count; i++)
		__atomic_sub_fetch(&on->socks[i]->sleepers, 1, __ATOMIC_SEQ_CST);
	on->count = 0;
}

/* The thread was cancelled: see cancel.h. */
static void sleepers_lost(struct sleepers *on)
{
	if (tt_likely(!on->count))
		return;
	asleep(on, false);
	sleepers_sub(on);
}

static int64_t budget_of(const struct pollfd *fds, nfds_t n)
{
	int64_t most = 0;

	for (nfds_t i = 0; i < n; i++) {
		struct tt_sock *s = (fds[i].events & WANTED_IN) ? live(fds[i].fd) : NULL;
		int64_t budget;

		if (!s)
			continue;
		budget = s->dgram ? tt_dgram_spin_budget(s) : tt_spin_budget(s);
		if (budget < 0)
			most = budget;
		else if (most >= 0 && budget > most)
			most = budget;
	}
	return most;
}

/* Open while the program works, too: it will come back and look. */
static void leases_open(const struct pollfd *fds, nfds_t n)
{
	for (nfds_t i = 0; i < n; i++) {
		struct tt_sock *s = (fds[i].events & WANTED_IN) ? live(fds[i].fd) : NULL;

		if (s && s->dgram) {
			tt_dgram_open(s);
		} else if (s) {
			tt_store_relaxed(&s->rx.polled, true);
			if (!s->rx.open)
				tt_lease_open(s);
		}
	}
}

static void spin_told(const struct pollfd *fds, nfds_t n, bool hit, bool preempted)
{
	for (nfds_t i = 0; i < n; i++) {
		struct tt_sock *s = (fds[i].events & WANTED_IN) ? live(fds[i].fd) : NULL;

		if (s && hit && readable(s))
			tt_spin_hit(s);
		else if (s && !hit)
			tt_spin_miss(s, preempted);
	}
}

/* > 0 or negative: the answer; 0: nothing came while spinning. */
static int spin(struct pollfd *fds, nfds_t n, int64_t budget, uint32_t signals)
{
	bool hinted = false;
	struct tt_spin spin;
	int r;

	tt_spin_start(&spin, budget, &tt_signals.all, signals);
	for (;;) {
		bool hint = false;

		for (int i = 0; i < TT_SPIN_BATCH; i++) {
			hint = false;
			if (rings_any(fds, n, &hint) || (hint && !hinted)) {
				r = look(fds, n, NULL);
				if (r) {
					spin_told(fds, n, true, false);
					return r;
				}
			}
			hinted = hint; /* once: what does not show may be read by code that we don't see */
			tt_pause();
		}
		switch (tt_spin_step(&spin)) {
		case TT_SPIN_GO:
			break;
		case TT_SPIN_LOOK:
			r = look(fds, n, NULL);
			if (r)
				return r;
			break;
		case TT_SPIN_SIGNALLED:
			return -EINTR;
		case TT_SPIN_END:
			spin_told(fds, n, false, spin.preempted);
			return 0;
		}
	}
}

static int spin_poll(struct pollfd *fds, nfds_t n, int64_t limit_ns, const sigset_t *mask,
    uint32_t signals)
{
	int64_t budget = budget_of(fds, n);
	sigset_t old;
	int r;

	if (limit_ns >= 0 && (budget < 0 || budget > limit_ns))
		budget = limit_ns;
	if (budget == 0)
		return 0;
	tt_mask_begin(mask, &old);
	r = spin(fds, n, budget, signals);
	tt_mask_end(mask, &old);
	return r;
}

/* Closes every lease in the list. False: something can be read. */
static bool leases_close(const struct pollfd *fds, nfds_t n)
{
	for (nfds_t i = 0; i < n; i++) {
		struct tt_sock *s = live(fds[i].fd);

		if (!s) {
			s = tt_fd_sock(fds[i].fd);
			if (s && s->dgram)
				tt_dgram_sleep_check(s, fds[i].fd);
			continue;
		}
		if (s->dgram ? !tt_dgram_close_wait(s, fds[i].fd) : !tt_lease_close_wait(s, fds[i].fd))
			return false;
	}
	return !rings_any(fds, n, NULL);
}

static int sleep_poll(struct pollfd *fds, nfds_t n, const struct tt_deadline *deadline,
    const sigset_t *mask, uint32_t signals)
{
	struct sleepers on TT_CLEANUP(sleepers_lost);
	struct timespec left;
	int r;

	sleepers_add(&on, fds, n);
	asleep(&on, true);
	for (;;) {
		if (leases_close(fds, n)) {
			/* As if we had slept already. */
			r = tt_signals.all != signals ? -EINTR
						      : kernel_poll(fds, n, tt_deadline_left(deadline, &left), mask);
			if (r > 0)
				r += rings_add(fds, n);
			break;
		}
		r = look(fds, n, mask);
		if (!r && tt_signals.all != signals)
			r = -EINTR;
		if (r || tt_deadline_left_ns(deadline) == 0)
			break;
		/* Another thread has read it, or a publisher is inside. */
		(void)tt_raw0(SYS_sched_yield);
	}
	if (r <= 0 || !tt_tun.spin_ns) /* else when the leases are opened */
		asleep(&on, false);
	sleepers_sub(&on);
	return r;
}

int tt_poll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
	uint32_t signals = tt_signals.all;
	struct tt_deadline deadline;
	bool any = false;
	int r;

	tt_attach_poll();
	tt_epoll_lamps_look();
	for (nfds_t i = 0; i < n; i++) {
		any = any || live(fds[i].fd) || failed(fds[i].fd);
		if (tt_unlikely(tt_epoll_is_set(fds[i].fd)))
			tt_epoll_make_native(fds[i].fd);
	}
	tt_deadline_set(&deadline, timeout);
	if (tt_deadline_now(&deadline)) {
		gone_check(fds, n);
		return any ? look(fds, n, mask) : kernel_poll(fds, n, timeout, mask);
	}
	if (any) {
		if (tt_tun.spin_ns)
			leases_open(fds, n);
		if (rings_any(fds, n, NULL)) {
			r = look(fds, n, mask);
			if (r)
				return r;
		}
		r = spin_poll(fds, n, tt_deadline_left_ns(&deadline), mask, signals);
		if (r)
			return r;
	}
	r = sleep_poll(fds, n, &deadline, mask, signals);
	if (any && r > 0 && tt_tun.spin_ns) /* the rest of what woke us can go by the rings */
		leases_open(fds, n);
	return r;
}

/* ---- select ---- */

#define SELECT_ON_STACK 1024

static bool select_wants_us(int n, const fd_set *in)
{
	for (int fd = 0; in && fd < n; fd++)
		if (FD_ISSET(fd, in) && (tt_fd_sock(fd) || tt_epoll_is_set(fd)))
			return true;
	return false;
}

static int select_native(int n, fd_set *in, fd_set *out, fd_set *err, const struct timespec *timeout,
    const sigset_t *mask)
{
	int r = tt_sys.pselect(n, in, out, err, timeout, mask);

	return r < 0 ? -errno : r;
}

static nfds_t select_to_poll(int n, const fd_set *in, const fd_set *out, const fd_set *err,
    struct pollfd *fds)
{
	nfds_t count = 0;

	for (int fd = 0; fd < n; fd++) {
		short events = 0;

		if (in && FD_ISSET(fd, in))
			events = (short)(events | POLLIN);
		if (out && FD_ISSET(fd, out))
			events = (short)(events | POLLOUT);
		if (err && FD_ISSET(fd, err))
			events = (short)(events | POLLPRI);
		if (events)
			fds[count++] = (struct pollfd){.fd = fd, .events = events};
	}
	return count;
}

static int bit_answer(fd_set *set, int fd, bool yes)
{
	if (!set || !FD_ISSET(fd, set))
		return 0;
	if (yes)
		return 1;
	FD_CLR(fd, set);
	return 0;
}

int tt_select(int n, fd_set *in, fd_set *out, fd_set *err, const struct timespec *timeout,
    const sigset_t *mask)
{
	struct pollfd fds[SELECT_ON_STACK];
	nfds_t count;
	int answer = 0;
	int r;

	/* fd_set ends at FD_SETSIZE; a larger one (allocated by hand) stays with the kernel. */
	if (n < 0 || n > SELECT_ON_STACK || !select_wants_us(n, in))
		return select_native(n, in, out, err, timeout, mask);
	count = select_to_poll(n, in, out, err, fds);
	r = tt_poll(fds, count, timeout, mask);
	if (r < 0)
		return r;
	for (nfds_t i = 0; i < count; i++)
		if (fds[i].revents & POLLNVAL)
			return -EBADF;
	for (nfds_t i = 0; i < count; i++) {
		short got = fds[i].revents;

		/* The kernel's own mapping (fs/select.c): POLLIN_SET, POLLOUT_SET, POLLEX_SET. */
		answer += bit_answer(in, fds[i].fd, got & (POLLIN | POLLHUP | POLLERR));
		answer += bit_answer(out, fds[i].fd, got & (POLLOUT | POLLERR));
		answer += bit_answer(err, fds[i].fd, got & POLLPRI);
	}
	return answer;
}
