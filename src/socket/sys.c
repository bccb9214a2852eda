/* SPDX-License-Identifier: BSD-3-Clause */
#include "socket/sys.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>

#include "base/base.h"
#include "base/raw.h"
#include "socket/socket.h"

#define KERNEL_SIGSET_BYTES 8
#define RESOLVE_YIELDS_MAX 1000

enum { TABLE_RAW, TABLE_RUNNING, TABLE_READY };

__thread int tt_vfork_active;
__thread volatile struct tt_signal_count tt_signals;

static int table_state = TABLE_RAW;
static long table_owner; /* thread that resolves, valid while TABLE_RUNNING */

/*
 * True when every pointer is resolved. False while this very thread is resolving them (dlsym()
 * called the program's allocator, and that called us), or when another thread does not get done
 * with it: then the caller enters the kernel itself.
 */
static bool table_resolve(void)
{
	int state = TABLE_RAW;

	if (__atomic_compare_exchange_n(
		&table_state, &state, TABLE_RUNNING, false, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
		__atomic_store_n(&table_owner, tt_raw0(SYS_gettid), __ATOMIC_RELAXED);
		/* Relaxed stores: a thread that still sees the early function gets the same result
		 * by it. */
#define X(name)                                                                                    \
	__atomic_store_n(                                                                          \
	    &tt_sys.name, (__typeof__(tt_sys.name))dlsym(RTLD_NEXT, #name), __ATOMIC_RELAXED);
		TT_SYS_CALLS(X)
#undef X
#define X(name, type)                                                                              \
	__atomic_store_n(                                                                          \
	    &tt_sys.name, (__typeof__(tt_sys.name))dlsym(RTLD_NEXT, #name), __ATOMIC_RELAXED);
		TT_SYS_TYPED(X)
#undef X
		__atomic_store_n(&table_state, TABLE_READY, __ATOMIC_RELEASE);
		return true;
	}
	for (int i = 0; state == TABLE_RUNNING && i < RESOLVE_YIELDS_MAX; i++) {
		if (__atomic_load_n(&table_owner, __ATOMIC_RELAXED) == tt_raw0(SYS_gettid))
			return false;
		(void)tt_raw0(SYS_sched_yield);
		state = __atomic_load_n(&table_state, __ATOMIC_ACQUIRE);
	}
	return state == TABLE_READY;
}

void tt_sys_init(void)
{
	if (__atomic_load_n(&table_state, __ATOMIC_ACQUIRE) != TABLE_READY)
		(void)table_resolve();
}

static long result(long ret)
{
	if (ret >= 0)
		return ret;
	errno = (int)-ret;
	return -1;
}

/* clang-format off */

/* The rows that are one system call, as they are before the table is resolved. */
#define EARLY(type, name, params, args, kernel)                                                    \
	static type early_##name params                                                            \
	{                                                                                          \
		if (table_resolve())                                                               \
			return tt_sys.name args;                                                   \
		return (type)result(kernel);                                                       \
	}

EARLY(int, socket, (int d, int t, int p), (d, t, p), tt_raw3(SYS_socket, d, t, p))
EARLY(int, bind, (int fd, const struct sockaddr *a, socklen_t n), (fd, a, n),
    tt_raw3(SYS_bind, fd, a, n))
EARLY(int, listen, (int fd, int n), (fd, n), tt_raw2(SYS_listen, fd, n))
EARLY(int, accept, (int fd, struct sockaddr *a, socklen_t *n), (fd, a, n),
    tt_raw4(SYS_accept4, fd, a, n, 0))
EARLY(int, accept4, (int fd, struct sockaddr *a, socklen_t *n, int f), (fd, a, n, f),
    tt_raw4(SYS_accept4, fd, a, n, f))
EARLY(int, connect, (int fd, const struct sockaddr *a, socklen_t n), (fd, a, n),
    tt_raw3(SYS_connect, fd, a, n))
EARLY(int, shutdown, (int fd, int how), (fd, how), tt_raw2(SYS_shutdown, fd, how))
EARLY(int, close, (int fd), (fd), tt_raw1(SYS_close, fd))
EARLY(int, getsockopt, (int fd, int l, int o, void *v, socklen_t *n), (fd, l, o, v, n),
    tt_raw5(SYS_getsockopt, fd, l, o, v, n))
EARLY(int, setsockopt, (int fd, int l, int o, const void *v, socklen_t n), (fd, l, o, v, n),
    tt_raw5(SYS_setsockopt, fd, l, o, v, n))
EARLY(ssize_t, read, (int fd, void *b, size_t n), (fd, b, n), tt_raw3(SYS_read, fd, b, n))
EARLY(ssize_t, readv, (int fd, const struct iovec *v, int n), (fd, v, n),
    tt_raw3(SYS_readv, fd, v, n))
EARLY(ssize_t, write, (int fd, const void *b, size_t n), (fd, b, n), tt_raw3(SYS_write, fd, b, n))
EARLY(ssize_t, writev, (int fd, const struct iovec *v, int n), (fd, v, n),
    tt_raw3(SYS_writev, fd, v, n))
EARLY(ssize_t, preadv2, (int fd, const struct iovec *v, int n, off_t o, int f), (fd, v, n, o, f),
    tt_raw6(SYS_preadv2, fd, v, n, o, 0, f))
EARLY(ssize_t, pwritev2, (int fd, const struct iovec *v, int n, off_t o, int f), (fd, v, n, o, f),
    tt_raw6(SYS_pwritev2, fd, v, n, o, 0, f))
EARLY(ssize_t, recv, (int fd, void *b, size_t n, int f), (fd, b, n, f),
    tt_raw6(SYS_recvfrom, fd, b, n, f, 0, 0))
EARLY(ssize_t, recvfrom, (int fd, void *b, size_t n, int f, struct sockaddr *a, socklen_t *l),
    (fd, b, n, f, a, l), tt_raw6(SYS_recvfrom, fd, b, n, f, a, l))
EARLY(
    ssize_t, recvmsg, (int fd, struct msghdr *m, int f), (fd, m, f), tt_raw3(SYS_recvmsg, fd, m, f))
EARLY(int, recvmmsg, (int fd, struct mmsghdr *m, unsigned int n, int f, struct timespec *t),
    (fd, m, n, f, t), tt_raw5(SYS_recvmmsg, fd, m, n, f, t))
EARLY(ssize_t, send, (int fd, const void *b, size_t n, int f), (fd, b, n, f),
    tt_raw6(SYS_sendto, fd, b, n, f, 0, 0))
EARLY(ssize_t, sendto,
    (int fd, const void *b, size_t n, int f, const struct sockaddr *a, socklen_t l),
    (fd, b, n, f, a, l), tt_raw6(SYS_sendto, fd, b, n, f, a, l))
EARLY(ssize_t, sendmsg, (int fd, const struct msghdr *m, int f), (fd, m, f),
    tt_raw3(SYS_sendmsg, fd, m, f))
EARLY(int, sendmmsg, (int fd, struct mmsghdr *m, unsigned int n, int f), (fd, m, n, f),
    tt_raw4(SYS_sendmmsg, fd, m, n, f))
EARLY(ssize_t, sendfile, (int out, int in, off_t *o, size_t n), (out, in, o, n),
    tt_raw4(SYS_sendfile, out, in, o, n))
EARLY(int, ppoll, (struct pollfd * p, nfds_t n, const struct timespec *t, const sigset_t *m),
    (p, n, t, m), tt_raw5(SYS_ppoll, p, n, t, m, KERNEL_SIGSET_BYTES))
EARLY(int, epoll_create1, (int f), (f), tt_raw1(SYS_epoll_create1, f))
EARLY(int, epoll_create, (int n), (n), n <= 0 ? -EINVAL : tt_raw1(SYS_epoll_create1, 0))
EARLY(int, epoll_ctl, (int e, int op, int fd, struct epoll_event *v), (e, op, fd, v),
    tt_raw4(SYS_epoll_ctl, e, op, fd, v))
EARLY(int, epoll_wait, (int e, struct epoll_event *v, int n, int ms), (e, v, n, ms),
    tt_raw6(SYS_epoll_pwait, e, v, n, ms, 0, KERNEL_SIGSET_BYTES))
EARLY(int, epoll_pwait, (int e, struct epoll_event *v, int n, int ms, const sigset_t *m),
    (e, v, n, ms, m), tt_raw6(SYS_epoll_pwait, e, v, n, ms, m, KERNEL_SIGSET_BYTES))
EARLY(int, dup, (int fd), (fd), tt_raw1(SYS_dup, fd))
EARLY(int, dup3, (int fd, int to, int f), (fd, to, f), tt_raw3(SYS_dup3, fd, to, f))

/* clang-format on */

static int early_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	struct timespec ts = {timeout_ms / 1000, (long)(timeout_ms % 1000) * 1000000};

	if (table_resolve())
		return tt_sys.poll(fds, n, timeout_ms);
	return (int)result(
	    tt_raw5(SYS_ppoll, fds, n, timeout_ms < 0 ? NULL : &ts, NULL, KERNEL_SIGSET_BYTES));
}

static int early_fcntl(int fd, int cmd, ...)
{
	va_list ap;
	void *arg;

	va_start(ap, cmd);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (table_resolve())
		return tt_sys.fcntl(fd, cmd, arg);
	return (int)result(tt_raw3(SYS_fcntl, fd, cmd, arg));
}

static int early_ioctl(int fd, unsigned long request, ...)
{
	va_list ap;
	void *arg;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (table_resolve())
		return tt_sys.ioctl(fd, request, arg);
	return (int)result(tt_raw3(SYS_ioctl, fd, request, arg));
}

/* clang-format off */
struct tt_sys tt_sys = {
#define X(name) .name = early_##name,
	X(socket) X(bind) X(listen) X(accept) X(accept4) X(connect) X(shutdown) X(close)
	X(getsockopt) X(setsockopt) X(read) X(readv) X(write) X(writev) X(preadv2) X(pwritev2)
	X(recv) X(recvfrom) X(recvmsg) X(recvmmsg) X(send) X(sendto) X(sendmsg) X(sendmmsg)
	X(sendfile) X(poll) X(ppoll) X(epoll_create1) X(epoll_create) X(epoll_ctl) X(epoll_wait)
	X(epoll_pwait) X(dup) X(dup3) X(fcntl) X(ioctl)
#undef X
};
