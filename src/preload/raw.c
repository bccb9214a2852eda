/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * raw.c - syscall(): the calls of the table by their number. Some programs reach the kernel that
 * way (Node.js, allocators, sanitizers). It needs nothing of the C library and works before
 * anything else does.
 *
 * A number of the table goes to its wrapper when that would do more than the kernel; all else is
 * the system call itself. The C library's syscall() is no cancellation point, so neither is the
 * direct way.
 */
#include "preload/wait.h"

#include <linux/seccomp.h>
#include <sched.h>
#include <time.h>

#include "base/raw.h"

#define KERNEL_SIGSET_BYTES 8

struct raw {
	long nr;
	long a[6];
};

/* AddressSanitizer guards the caller's frame against the words that were not passed. */
__attribute__((no_sanitize("address"))) void tt_preload_args(va_list ap, long *args, int n)
{
	for (int i = 0; i < n; i++)
		args[i] = va_arg(ap, long);
}

static long kernel(const struct raw *c)
{
	long ret = tt_raw6(c->nr, c->a[0], c->a[1], c->a[2], c->a[3], c->a[4], c->a[5]);

	if (ret < 0 && ret >= -4095) {
		errno = (int)-ret;
		return -1;
	}
	return ret;
}

#define INT(i) ((int)c->a[i])
#define UINT(i) ((unsigned int)c->a[i])
#define SIZE(i) ((size_t)c->a[i])
#define PTR(i) ((void *)c->a[i])

/* clang-format off */

/* Calls whose first argument is a socket of ours. False: not one of them. */
static bool by_socket(const struct raw *c, long *ret)
{
	switch (c->nr) {
	case SYS_read: *ret = read(INT(0), PTR(1), SIZE(2)); return true;
	case SYS_readv: *ret = readv(INT(0), PTR(1), INT(2)); return true;
	case SYS_preadv2: *ret = preadv2(INT(0), PTR(1), INT(2), c->a[3], INT(5)); return true;
	case SYS_write: *ret = write(INT(0), PTR(1), SIZE(2)); return true;
	case SYS_writev: *ret = writev(INT(0), PTR(1), INT(2)); return true;
	case SYS_pwritev2: *ret = pwritev2(INT(0), PTR(1), INT(2), c->a[3], INT(5)); return true;
	case SYS_recvfrom:
		*ret = recvfrom(INT(0), PTR(1), SIZE(2), INT(3), PTR(4), PTR(5));
		return true;
	case SYS_sendto:
		*ret = sendto(INT(0), PTR(1), SIZE(2), INT(3), PTR(4), (socklen_t)UINT(5));
		return true;
	case SYS_bind: *ret = bind(INT(0), PTR(1), (socklen_t)UINT(2)); return true;
	case SYS_listen: *ret = listen(INT(0), INT(1)); return true;
	case SYS_connect: *ret = connect(INT(0), PTR(1), (socklen_t)UINT(2)); return true;
	case SYS_accept4: *ret = accept4(INT(0), PTR(1), PTR(2), INT(3)); return true;
#ifdef SYS_accept
	case SYS_accept: *ret = accept(INT(0), PTR(1), PTR(2)); return true;
#endif
	case SYS_shutdown: *ret = shutdown(INT(0), INT(1)); return true;
	case SYS_getsockopt: *ret = getsockopt(INT(0), INT(1), INT(2), PTR(3), PTR(4)); return true;
	case SYS_setsockopt:
		*ret = setsockopt(INT(0), INT(1), INT(2), PTR(3), (socklen_t)UINT(4));
		return true;
	case SYS_ioctl: *ret = ioctl(INT(0), (unsigned long)c->a[1], PTR(2)); return true;
	case SYS_sendfile: *ret = sendfile(INT(0), INT(1), PTR(2), SIZE(3)); return true;
	default: return false;
	}
}

/* Calls that concern any descriptor, because they may make, copy, pass or close one of ours. */
static bool by_any(const struct raw *c, long *ret)
{
	switch (c->nr) {
	case SYS_socket: *ret = socket(INT(0), INT(1), INT(2)); return true;
	case SYS_close: *ret = close(INT(0)); return true;
	case SYS_close_range: *ret = close_range(UINT(0), UINT(1), INT(2)); return true;
	case SYS_dup: *ret = dup(INT(0)); return true;
#ifdef SYS_dup2
	case SYS_dup2: *ret = dup2(INT(0), INT(1)); return true;
#endif
	case SYS_dup3: *ret = dup3(INT(0), INT(1), INT(2)); return true;
	case SYS_fcntl: *ret = fcntl(INT(0), INT(1), PTR(2)); return true;
	case SYS_recvmsg: *ret = recvmsg(INT(0), PTR(1), INT(2)); return true;
	case SYS_recvmmsg: *ret = recvmmsg(INT(0), PTR(1), UINT(2), INT(3), PTR(4)); return true;
	case SYS_sendmsg: *ret = sendmsg(INT(0), PTR(1), INT(2)); return true;
	case SYS_sendmmsg: *ret = sendmmsg(INT(0), PTR(1), UINT(2), INT(3)); return true;
	case SYS_splice:
		*ret = splice(INT(0), PTR(1), INT(2), PTR(3), SIZE(4), UINT(5));
		return true;
	case SYS_pidfd_getfd: *ret = pidfd_getfd(INT(0), INT(1), UINT(2)); return true;
#ifdef SYS_epoll_create
	case SYS_epoll_create: *ret = epoll_create(INT(0)); return true;
#endif
	case SYS_epoll_create1: *ret = epoll_create1(INT(0)); return true;
	case SYS_epoll_ctl: *ret = epoll_ctl(INT(0), INT(1), INT(2), PTR(3)); return true;
	default: return false;
	}
}

/* clang-format on */

/* The bare ppoll and pselect6 write the time left back; the C library's do not let the program see
 * that. */
static long timed_ppoll(const struct raw *c)
{
	struct timespec *timeout = PTR(2);
	struct timespec start;
	long ret;

	(void)clock_gettime(CLOCK_MONOTONIC, &start);
	ret = ppoll(PTR(0), (nfds_t)c->a[1], timeout, PTR(3));
	if (timeout)
		(void)tt_wait_left(&start, timeout);
	return ret;
}

static long timed_pselect(const struct raw *c)
{
	/* The sixth argument of the system call: a mask and its size. */
	const struct {
		const sigset_t *mask;
		size_t bytes;
	} *sigs = PTR(5);
	struct timespec *timeout = PTR(4);
	struct timespec start;
	long ret;

	(void)clock_gettime(CLOCK_MONOTONIC, &start);
	ret = pselect(INT(0), PTR(1), PTR(2), PTR(3), timeout, sigs ? sigs->mask : NULL);
	if (timeout)
		(void)tt_wait_left(&start, timeout);
	return ret;
}

/* clang-format off */
static bool by_wait(const struct raw *c, long *ret)
{
	switch (c->nr) {
#ifdef SYS_poll
	case SYS_poll: *ret = poll(PTR(0), (nfds_t)c->a[1], INT(2)); return true;
#endif
	case SYS_ppoll: *ret = timed_ppoll(c); return true;
#ifdef SYS_select
	case SYS_select: *ret = select(INT(0), PTR(1), PTR(2), PTR(3), PTR(4)); return true;
#endif
	case SYS_pselect6: *ret = timed_pselect(c); return true;
#ifdef SYS_epoll_wait
	case SYS_epoll_wait: *ret = epoll_wait(INT(0), PTR(1), INT(2), INT(3)); return true;
#endif
	case SYS_epoll_pwait:
		*ret = epoll_pwait(INT(0), PTR(1), INT(2), INT(3), PTR(4));
		return true;
#ifdef SYS_epoll_pwait2
	case SYS_epoll_pwait2:
		*ret = epoll_pwait2(INT(0), PTR(1), INT(2), PTR(3), PTR(4));
		return true;
#endif
	default: return false;
	}
}

/* clang-format on */

/* The size of the mask is the kernel's to refuse. */
static bool mask_good(const struct raw *c)
{
	switch (c->nr) {
	case SYS_ppoll:
		return !c->a[3] || c->a[4] == KERNEL_SIGSET_BYTES;
	case SYS_epoll_pwait:
		return !c->a[4] || c->a[5] == KERNEL_SIGSET_BYTES;
#ifdef SYS_epoll_pwait2
	case SYS_epoll_pwait2:
		return !c->a[4] || c->a[5] == KERNEL_SIGSET_BYTES;
#endif
	default:
		return true;
	}
}

/* Flags of a child that has its own memory, and returns from this very call. */
static bool clone_copies(const struct raw *c)
{
	if (c->nr == SYS_clone)
		return !(c->a[0] & CLONE_VM) && !c->a[1];
	/* struct clone_args begins with the flags; the stack is its sixth word. */
	return c->nr == SYS_clone3 && c->a[0] && SIZE(1) >= 64 &&
	       !(((const uint64_t *)c->a[0])[0] & CLONE_VM) && !((const uint64_t *)c->a[0])[5];
}

static long forked(const struct raw *c)
{
	long pid;

	tt_preload_fork_before();
	pid = kernel(c);
	tt_preload_fork_after(pid);
	return pid;
}

static bool by_process(const struct raw *c, long *ret)
{
	switch (c->nr) {
#ifdef SYS_fork
	case SYS_fork:
		*ret = forked(c);
		return true;
#endif
	case SYS_clone:
	case SYS_clone3:
		if (!clone_copies(c))
			return false;
		*ret = forked(c);
		return true;
	case SYS_execve:
	case SYS_execveat:
		tt_preload_exec();
		return false;
	case SYS_exit_group:
		tt_preload_end();
		return false;
	case SYS_prctl:
		if (INT(0) == PR_SET_SECCOMP)
			tt_preload_confine();
		return false;
	case SYS_seccomp:
		if (UINT(0) == SECCOMP_SET_MODE_STRICT || UINT(0) == SECCOMP_SET_MODE_FILTER)
			tt_preload_confine();
		return false;
	case SYS_io_uring_setup:
		/* Its reads, writes and polls are asked for in memory: no descriptor is safe from
		 * them. */
		__atomic_store_n(&tt_preload_uring, 1, __ATOMIC_RELAXED);
		tt_preload_unseen_all();
		return false;
	default:
		return false;
	}
}

long syscall(long nr, ...)
{
	struct raw c = {.nr = nr};
	va_list ap;
	long ret;

	va_start(ap, nr);
	tt_preload_args(ap, c.a, 6);
	va_end(ap);
	if (tt_vfork_active)
		return kernel(&c);
	if (c.a[0] >= 0 && tt_preload_sock((int)c.a[0]) && by_socket(&c, &ret))
		return ret;
	if (nr == SYS_socket ? tt_preload_ready() : tt_preload_started()) {
		if (by_any(&c, &ret))
			return ret;
		if (mask_good(&c) && !tt_wait_native() && by_wait(&c, &ret))
			return ret;
		if (by_process(&c, &ret))
			return ret;
	}
	return kernel(&c);
}
