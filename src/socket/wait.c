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
#include "socket/dgram.h"
#include "socket/epoll.h"
#include "socket/lease.h"
#include "socket/timeout.h"

#define WANTED_IN (POLLIN | POLLRDNORM)

bool tt_wait_native(void)
{
	return !__atomic_load_n(&tt_attached_count, __ATOMIC_RELAXED) &&
	    !__atomic_load_n(&tt_published_count, __ATOMIC_RELAXED);
}

static struct tt_sock *live(int fd)
{
	struct tt_sock *s = tt_fd_sock(fd);

	if (!s)
		return NULL;
	if (tt_unlikely(s->attach == TT_ATTACH_OFFERED))
		tt_attach_check(s);
	return s->rx.dir || tt_dgram_lanes(s) ? s : NULL;
}

static bool readable(const struct tt_sock *s)
{
	return s->dgram ? tt_dgram_readable(s) : s->rx.dir && tt_stream_readable(s);
}

/* Adds what the rings have to revents; returns how many entries became non-zero by that. */
static int rings_add(struct pollfd *fds, nfds_t n)
{
	int more = 0;

	for (nfds_t i = 0; i < n; i++) {
		struct tt_sock *s;

		if (!(fds[i].events & WANTED_IN))
			continue;
		s = live(fds[i].fd);
		if (!s)
			continue;
		if (fds[i].revents)
			s->rx.kernel_event = true;
		if (readable(s)) {
			more += fds[i].revents == 0;
			fds[i].revents = (short)(fds[i].revents | (fds[i].events & WANTED_IN));
		}
	}
	return more;
}

static bool rings_any(const struct pollfd *fds, nfds_t n)
{
	for (nfds_t i = 0; i < n; i++) {
		const struct tt_sock *s;

		if (!(fds[i].events & WANTED_IN))
			continue;
		s = tt_fd_sock(fds[i].fd);
		if (s && (s->rx.dir || s->dgram) && readable(s))
			return true;
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

static void sleepers_add(const struct pollfd *fds, nfds_t n, uint32_t by)
{
	for (nfds_t i = 0; i < n; i++) {
		struct tt_sock *s = tt_fd_sock(fds[i].fd);

		if (s && s->attach != TT_ATTACH_NEVER && s->role != TT_ROLE_LISTENER)
			__atomic_add_fetch(&s->sleepers, by, __ATOMIC_SEQ_CST);
	}
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

		if (s && s->dgram)
			tt_dgram_open(s);
		else if (s && !s->rx.open)
			tt_lease_open(s);
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
static int spin_poll(struct pollfd *fds, nfds_t n, int64_t limit_ns, const sigset_t *mask)
{
	int64_t budget = budget_of(fds, n);
	struct tt_spin spin;
	int r;

	if (limit_ns >= 0 && (budget < 0 || budget > limit_ns))
		budget = limit_ns;
	if (budget == 0)
		return 0;
	tt_spin_start(&spin, budget, &tt_signals.all, tt_signals.all);
	for (;;) {
		for (int i = 0; i < TT_SPIN_BATCH; i++) {
			if (rings_any(fds, n)) {
				spin_told(fds, n, true, false);
				return look(fds, n, mask);
			}
			tt_pause();
		}
		switch (tt_spin_step(&spin)) {
		case TT_SPIN_GO:
			break;
		case TT_SPIN_LOOK:
			r = look(fds, n, mask);
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

/* Closes every lease in the list. False: something can be read. */
static bool leases_close(const struct pollfd *fds, nfds_t n)
{
	for (nfds_t i = 0; i < n; i++) {
		struct tt_sock *s = live(fds[i].fd);

		if (!s)
			continue;
		if (s->dgram ? !tt_dgram_close_wait(s, fds[i].fd) : !tt_lease_close_wait(s, fds[i].fd))
			return false;
	}
	return !rings_any(fds, n);
}

static int sleep_poll(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
    const sigset_t *mask)
{
	int r;

	sleepers_add(fds, n, 1);
	if (leases_close(fds, n)) {
		r = kernel_poll(fds, n, timeout, mask);
		if (r > 0)
			r += rings_add(fds, n);
	} else {
		r = look(fds, n, mask);
	}
	sleepers_add(fds, n, UINT32_MAX);
	return r;
}

int tt_poll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
	struct tt_deadline deadline;
	struct timespec left;
	bool any = false;
	int r;

	tt_attach_poll();
	for (nfds_t i = 0; i < n; i++) {
		any = any || live(fds[i].fd);
		if (tt_epoll_is_set(fds[i].fd))
			tt_epoll_make_native(fds[i].fd);
	}
	if (timeout && timeout->tv_sec == 0 && timeout->tv_nsec == 0)
		return any ? look(fds, n, mask) : kernel_poll(fds, n, timeout, mask);
	if (any) {
		if (tt_tun.spin_ns)
			leases_open(fds, n);
		if (rings_any(fds, n))
			return look(fds, n, mask);
		tt_deadline_set(&deadline, timeout);
		r = spin_poll(fds, n, tt_deadline_left_ns(&deadline), mask);
		if (r)
			return r;
		timeout = tt_deadline_left(&deadline, &left);
	}
	return sleep_poll(fds, n, timeout, mask);
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
