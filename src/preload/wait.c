/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait.c - poll, select, epoll. While nothing of this process is accelerated they are the C
 * library's.
 */
#include "preload/wait.h"

#include <limits.h>
#include <time.h>

#include "base/copy.h"

#define NS_PER_S 1000000000L
#define US_PER_S 1000000L
#define MS_PER_S 1000
#define NS_PER_MS 1000000L
#define NS_PER_US 1000L

/* The C library's own function is the right one: nothing is accelerated, or this is a vfork child.
 */
static bool native(void)
{
	return tt_vfork_active || !tt_preload_started() || tt_wait_native();
}

/* NULL (for ever) for a negative number of milliseconds. */
static const struct timespec *from_ms(int ms, struct timespec *ts)
{
	if (ms < 0)
		return NULL;
	ts->tv_sec = ms / MS_PER_S;
	ts->tv_nsec = (long)(ms % MS_PER_S) * NS_PER_MS;
	return ts;
}

/* False: for the kernel to refuse. */
static bool timespec_good(const struct timespec *ts)
{
	return !ts || (tt_copy_readable(ts, sizeof(*ts)) && ts->tv_sec >= 0 && ts->tv_nsec >= 0 && ts->tv_nsec < NS_PER_S);
}

/* A list that is not there, or longer than any: for the kernel to refuse. */
static bool list_good(const struct pollfd *fds, nfds_t n)
{
	return n <= TT_FD_MAX && tt_copy_readable(fds, n * sizeof(*fds));
}

static bool sets_good(int n, const fd_set *in, const fd_set *out, const fd_set *err)
{
	size_t bytes = n > 0 ? ((size_t)n + 7) / 8 : 0;

	return (!in || tt_copy_readable(in, bytes)) && (!out || tt_copy_readable(out, bytes)) &&
	       (!err || tt_copy_readable(err, bytes));
}

int poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	struct timespec ts;
	int saved = errno;

	if (native() || !list_good(fds, n))
		return tt_sys.poll(fds, n, timeout_ms);
	return tt_preload_result_int(tt_poll(fds, n, from_ms(timeout_ms, &ts), NULL), saved);
}

int __poll_chk(struct pollfd *fds, nfds_t n, int timeout_ms, size_t fds_len)
{
	if (fds_len / sizeof(*fds) < n)
		__chk_fail();
	return poll(fds, n, timeout_ms);
}

int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
	int saved = errno;

	if (native() || !timespec_good(timeout) || !list_good(fds, n))
		return tt_sys.ppoll(fds, n, timeout, mask);
	return tt_preload_result_int(tt_poll(fds, n, timeout, mask), saved);
}

int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask,
    size_t fds_len)
{
	if (fds_len / sizeof(*fds) < n)
		__chk_fail();
	return ppoll(fds, n, timeout, mask);
}

bool tt_wait_left(const struct timespec *start, struct timespec *timeout)
{
	struct timespec now;
	long sec, nsec;

	if (timeout->tv_sec == 0 && timeout->tv_nsec == 0)
		return false;
	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	sec = now.tv_sec - start->tv_sec;
	nsec = now.tv_nsec - start->tv_nsec;
	timeout->tv_sec -= sec;
	timeout->tv_nsec -= nsec;
	if (timeout->tv_nsec < 0) {
		timeout->tv_nsec += NS_PER_S;
		timeout->tv_sec--;
	} else if (timeout->tv_nsec >= NS_PER_S) {
		timeout->tv_nsec -= NS_PER_S;
		timeout->tv_sec++;
	}
	if (timeout->tv_sec < 0)
		timeout->tv_sec = timeout->tv_nsec = 0;
	return true;
}

/* Linux writes the time left back, also after an error; a timeout of zero is left alone. */
int select(int n, fd_set *in, fd_set *out, fd_set *err, struct timeval *timeout)
{
	struct timespec ts, start;
	int saved = errno;
	int ret;

	if (native() || !sets_good(n, in, out, err) ||
	    (timeout && (!tt_copy_readable(timeout, sizeof(*timeout)) || timeout->tv_sec < 0 ||
			    timeout->tv_usec < 0))) {
		tt_sys_init();
		return tt_sys.select(n, in, out, err, timeout);
	}
	if (!timeout)
		return tt_preload_result_int(tt_select(n, in, out, err, NULL, NULL), saved);
	/* More than a second in tv_usec is taken as that, as in the kernel. */
	ts.tv_sec = timeout->tv_sec + timeout->tv_usec / US_PER_S;
	ts.tv_nsec = timeout->tv_usec % US_PER_S * NS_PER_US;
	if (ts.tv_sec < timeout->tv_sec)
		ts.tv_sec = LONG_MAX;
	(void)clock_gettime(CLOCK_MONOTONIC, &start);
	ret = tt_select(n, in, out, err, &ts, NULL);
	if (tt_wait_left(&start, &ts)) {
		timeout->tv_sec = ts.tv_sec;
		timeout->tv_usec = ts.tv_nsec / NS_PER_US;
	}
	return tt_preload_result_int(ret, saved);
}

int pselect(int n, fd_set *in, fd_set *out, fd_set *err, const struct timespec *timeout,
    const sigset_t *mask)
{
	int saved = errno;

	if (native() || !timespec_good(timeout) || !sets_good(n, in, out, err)) {
		tt_sys_init();
		return tt_sys.pselect(n, in, out, err, timeout, mask);
	}
	return tt_preload_result_int(tt_select(n, in, out, err, timeout, mask), saved);
}

static int created(int fd)
{
	int saved = errno;

	if (fd >= 0 && tt_preload_ready()) {
		tt_epoll_created(fd);
		errno = saved;
	}
	return fd;
}

int epoll_create(int size)
{
	return created(tt_sys.epoll_create(size));
}

int epoll_create1(int flags)
{
	return created(tt_sys.epoll_create1(flags));
}

int epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	int saved = errno;

	if (!tt_preload_started())
		return tt_sys.epoll_ctl(epfd, op, fd, event);
	return tt_preload_result_int(tt_epoll_ctl(epfd, op, fd, event), saved);
}

/* With nowhere to put events the kernel waits for one all the same, and then says so. */
static int set_wait(int epfd, struct epoll_event *events, int max, const struct timespec *timeout,
    const sigset_t *mask)
{
	struct epoll_event lost;
	int ret;

	if (tt_likely(max <= 0 || tt_copy_readable(events, sizeof(*events))))
		return tt_epoll_wait(epfd, events, max, timeout, mask);
	ret = tt_epoll_wait(epfd, &lost, 1, timeout, mask);
	return ret > 0 ? -EFAULT : ret;
}

int epoll_wait(int epfd, struct epoll_event *events, int max, int timeout_ms)
{
	struct timespec ts;
	int saved = errno;

	if (native())
		return tt_sys.epoll_wait(epfd, events, max, timeout_ms);
	return tt_preload_result_int(
	    set_wait(epfd, events, max, from_ms(timeout_ms, &ts), NULL), saved);
}

int epoll_pwait(int epfd, struct epoll_event *events, int max, int timeout_ms, const sigset_t *mask)
{
	struct timespec ts;
	int saved = errno;

	if (native())
		return tt_sys.epoll_pwait(epfd, events, max, timeout_ms, mask);
	return tt_preload_result_int(
	    set_wait(epfd, events, max, from_ms(timeout_ms, &ts), mask), saved);
}

int epoll_pwait2(int epfd, struct epoll_event *events, int max, const struct timespec *timeout,
    const sigset_t *mask)
{
	int saved = errno;

	if (!native() && timespec_good(timeout))
		return tt_preload_result_int(
		    set_wait(epfd, events, max, timeout, mask), saved);
	tt_sys_init();
	if (tt_sys.epoll_pwait2)
		return tt_sys.epoll_pwait2(epfd, events, max, timeout, mask);
	errno = ENOSYS;
	return -1;
}

#define TT_ALIAS_wait TT_ALIAS_DEFINE
#include "preload/aliases.h"
