/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sys.h - the C library's own entry points, as they are below our interposition.
 *
 * Everything in socket/ and preload/ that means "the kernel" goes through tt_sys, never through the
 * plain name: in libtaut.so the plain name is our own wrapper. The C library's function (and not the bare
 * system call) is used, because it is a cancellation point and keeps errno, as the program expects.
 *
 * tt_sys is filled by tt_sys_init(), which is idempotent, allocates nothing itself and may be called before any
 * constructor has run. Every pointer is valid after it; a function that this C library lacks is NULL. Before it, the rows
 * that are one system call can be called as well: they resolve the table first, or enter the kernel
 * directly while that is under way (an allocator that is used by dlsym() and reads a file).
 */
#ifndef TT_SOCKET_SYS_H
#define TT_SOCKET_SYS_H

#include <aio.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include <utmp.h>

#define TT_SYS_CALLS(X) \
	X(socket) \
	X(socketpair) \
	X(bind) \
	X(listen) \
	X(accept) \
	X(accept4) \
	X(connect) \
	X(shutdown) \
	X(close) \
	X(getsockname) \
	X(getpeername) \
	X(getsockopt) \
	X(setsockopt) \
	X(read) \
	X(readv) \
	X(preadv2) \
	X(recv) \
	X(recvfrom) \
	X(recvmsg) \
	X(recvmmsg) \
	X(write) \
	X(writev) \
	X(pwritev2) \
	X(send) \
	X(sendto) \
	X(sendmsg) \
	X(sendmmsg) \
	X(sendfile) \
	X(splice) \
	X(poll) \
	X(ppoll) \
	X(select) \
	X(pselect) \
	X(epoll_create) \
	X(epoll_create1) \
	X(epoll_ctl) \
	X(epoll_wait) \
	X(epoll_pwait) \
	X(epoll_pwait2) \
	X(dup) \
	X(dup2) \
	X(dup3) \
	X(fcntl) \
	X(ioctl) \
	X(close_range) \
	X(closefrom) \
	X(fdopen) \
	X(fclose) \
	X(freopen) \
	X(fork) \
	X(daemon) \
	X(execve) \
	X(execvpe) \
	X(fexecve) \
	X(execveat) \
	X(posix_spawn) \
	X(posix_spawnp) \
	X(syscall) \
	X(_exit) \
	X(_Fork) \
	X(clone) \
	X(prctl) \
	X(forkpty) \
	X(login_tty) \
	X(system) \
	X(popen) \
	X(vdprintf) \
	X(aio_read) \
	X(aio_write) \
	X(lio_listio) \
	X(sigaction) \
	X(signal) \
	X(sysv_signal)

/* The headers do not declare these, or call them deprecated: name, type. */
#define TT_SYS_TYPED(X) \
	X(sigset, __typeof__(&signal)) \
	X(siginterrupt, int (*)(int, int)) \
	X(__vdprintf_chk, int (*)(int, int, const char *, va_list))

struct tt_sys {
#define X(name) __typeof__(&name) name;
	TT_SYS_CALLS(X)
#undef X
#define X(name, type) __typeof__(type) name;
	TT_SYS_TYPED(X)
#undef X
};

extern struct tt_sys tt_sys;

void tt_sys_init(void);

#endif
