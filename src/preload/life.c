/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * life.c - how descriptors come, get company and go.
 */
#include "preload/preload.h"

#include <limits.h>
#include <linux/close_range.h>
#include <sys/resource.h>

#include "base/raw.h"

int socket(int domain, int type, int protocol)
{
	int fd = tt_sys.socket(domain, type, protocol);

	if (fd >= 0)
		tt_preload_created(fd, domain, type, protocol);
	return fd;
}

int bind(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct tt_sock *s = tt_preload_sock(fd);
	int saved = errno;

	if (!s)
		return tt_sys.bind(fd, addr, len);
	return tt_preload_result_int(tt_sock_bind(s, fd, addr, len), saved);
}

int listen(int fd, int backlog)
{
	struct tt_sock *s = tt_preload_sock(fd);
	int saved = errno;

	if (!s)
		return tt_sys.listen(fd, backlog);
	return tt_preload_result_int(tt_sock_listen(s, fd, backlog), saved);
}

int accept(int fd, struct sockaddr *addr, socklen_t *len)
{
	struct tt_sock *s = tt_preload_sock(fd);
	int got;

	if (!s)
		return tt_sys.accept(fd, addr, len);
	got = tt_sys.accept(fd, addr, len);
	if (got >= 0)
		tt_preload_accepted(got, s);
	return got;
}

int accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	struct tt_sock *s = tt_preload_sock(fd);
	int got;

	if (!s)
		return tt_sys.accept4(fd, addr, len, flags);
	got = tt_sys.accept4(fd, addr, len, flags);
	if (got >= 0)
		tt_preload_accepted(got, s);
	return got;
}

int connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct tt_sock *s = tt_preload_sock(fd);
	int saved;

	if (!s)
		return tt_sys.connect(fd, addr, len);
	saved = errno;
	return tt_preload_result_int(tt_sock_connect(s, fd, addr, len), saved);
}

int shutdown(int fd, int how)
{
	struct tt_sock *s = tt_preload_sock(fd);
	int saved = errno;

	if (!s)
		return tt_sys.shutdown(fd, how);
	return tt_preload_result_int(tt_sock_shutdown(s, fd, how), saved);
}

int close(int fd)
{
	struct tt_sock *s = tt_preload_sock(fd);
	int saved;

	if (s) {
		saved = errno;
		return tt_preload_result_int(tt_sock_close(s, fd), saved);
	}
	if (fd >= 0) {
		tt_preload_vanish((unsigned int)fd, (unsigned int)fd); /* an epoll set, perhaps */
		if (tt_unlikely(tt_preload_started() && tt_fd_is_own(fd))) {
			errno = EBADF;
			return -1;
		}
	}
	return tt_sys.close(fd);
}

static int range_close(unsigned int first, unsigned int last, int flags)
{
	tt_sys_init();
	if (!tt_sys.close_range) {
		long ret = tt_raw3(SYS_close_range, first, last, flags);

		return tt_preload_result_int((int)ret, errno);
	}
	return tt_sys.close_range(first, last, flags);
}

/* Around the descriptors of ours. */
static int range_close_others(unsigned int first, unsigned int last, int flags)
{
	unsigned int own;

	while (tt_preload_started() && tt_fd_own_next(first, last, &own)) {
		if (own > first && range_close(first, own - 1, flags) < 0)
			return -1;
		if (own == last)
			return 0;
		first = own + 1;
	}
	return range_close(first, last, flags);
}

int close_range(unsigned int first, unsigned int last, int flags)
{
	const unsigned int known = CLOSE_RANGE_UNSHARE | CLOSE_RANGE_CLOEXEC;

	/* What the kernel refuses, and what only marks descriptors, closes nothing. */
	if (first <= last && !((unsigned int)flags & ~known) &&
	    !((unsigned int)flags & CLOSE_RANGE_CLOEXEC))
		tt_preload_vanish(first, last);
	if (first > last || ((unsigned int)flags & ~known) ||
	    ((unsigned int)flags & CLOSE_RANGE_CLOEXEC))
		return range_close(first, last, flags);
	return range_close_others(first, last, flags);
}

void closefrom(int low)
{
	unsigned int from = (unsigned int)tt_max(low, 0), own;
	int saved = errno;

	tt_preload_vanish(from, UINT_MAX);
	tt_sys_init();
	/* Where the kernel lacks close_range() the C library looks into /proc, and ours go, too. */
	if (tt_preload_started() && tt_fd_own_next(from, UINT_MAX, &own) &&
	    range_close_others(from, UINT_MAX, 0) == 0) {
		errno = saved;
		return;
	}
	errno = saved;
	if (tt_sys.closefrom)
		tt_sys.closefrom(low);
	else
		(void)tt_raw3(SYS_close_range, tt_max(low, 0), UINT_MAX, 0);
}

static int copied(int from, int to)
{
	int saved = errno;

	if (to >= 0 && from != to && tt_preload_started()) {
		tt_fd_dup(from, to);
		errno = saved;
	}
	return to;
}

int dup(int fd)
{
	return copied(fd, tt_sys.dup(fd));
}

/*
 * The kernel closes the target, so the socket room must have left it before; but not where the call
 * will fail and the target live on. The two reasons for that are looked at first. One that still
 * fails (another thread closed `from`) gives the target back as a socket of unknown history.
 */
static bool replaceable(int from, int to)
{
	struct rlimit limit;

	return to >= 0 && from != to && tt_sys.fcntl(from, F_GETFD) >= 0 &&
	       getrlimit(RLIMIT_NOFILE, &limit) == 0 && (rlim_t)to < limit.rlim_cur;
}

static int replace(int from, int to, int flags)
{
	int saved = errno;
	bool left = tt_preload_started() && replaceable(from, to);
	bool was_sock = left && tt_fd_sock(to);
	int ret;

	errno = saved;
	if (left) {
		tt_preload_vanish((unsigned int)to, (unsigned int)to);
		if (tt_unlikely(tt_fd_is_own(to)))
			tt_fd_own_move(to);
	}
	ret = flags < 0 ? tt_sys.dup2(from, to) : tt_sys.dup3(from, to, flags);
	saved = errno;
	if (ret < 0 && was_sock) {
		tt_sock_received(to);
		errno = saved;
	}
	return copied(from, ret);
}

int dup2(int from, int to)
{
	tt_sys_init();
	return replace(from, to, -1);
}

int dup3(int from, int to, int flags)
{
	if (flags & ~O_CLOEXEC)
		return tt_sys.dup3(from, to, flags);
	return replace(from, to, flags);
}

int pidfd_getfd(int pidfd, int target, unsigned int flags)
{
	int saved = errno;
	int fd = tt_preload_result_int((int)tt_raw3(SYS_pidfd_getfd, pidfd, target, flags), saved);

	if (fd >= 0 && tt_preload_ready()) {
		tt_preload_vanish((unsigned int)fd, (unsigned int)fd); /* what was closed unseen at this number */
		tt_sock_received(fd);
		if (tt_preload_uring)
			tt_preload_unseen(fd);
		errno = saved;
	}
	return fd;
}

#define TT_ALIAS_life TT_ALIAS_DEFINE
#include "preload/aliases.h"
