/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * syscall(): a program that names its system calls by number, in turns with one that names them by
 * function.
 */
#include "check.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#define KERNEL_SIGSET_BYTES 8

static long out_by(int form, int fd, const char *buf, size_t len)
{
	struct iovec iov = {(void *)(uintptr_t)buf, len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	struct mmsghdr many = {.msg_hdr = msg};

	switch (form % 7) {
	case 0:
		return syscall(SYS_write, fd, buf, len);
	case 1:
		return syscall(SYS_writev, fd, &iov, 1L);
	case 2:
		return syscall(SYS_sendto, fd, buf, len, 0L, NULL, 0L);
	case 3:
		return syscall(SYS_sendmsg, fd, &msg, 0L);
	case 4:
		CHECK_EQ(syscall(SYS_sendmmsg, fd, &many, 1L, 0L), 1);
		return (long)many.msg_len;
	case 5:
		return syscall(SYS_pwritev2, fd, &iov, 1L, -1L, -1L, 0L);
	default:
		return send(fd, buf, len, 0);
	}
}

static long in_by(int form, int fd, char *buf, size_t len)
{
	struct iovec iov = {buf, len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	struct mmsghdr many = {.msg_hdr = msg};

	switch (form % 7) {
	case 0:
		return syscall(SYS_read, fd, buf, len);
	case 1:
		return syscall(SYS_readv, fd, &iov, 1L);
	case 2:
		return syscall(SYS_recvfrom, fd, buf, len, 0L, NULL, NULL);
	case 3:
		return syscall(SYS_recvmsg, fd, &msg, 0L);
	case 4:
		CHECK_EQ(syscall(SYS_recvmmsg, fd, &many, 1L, 0L, NULL), 1);
		return (long)many.msg_len;
	case 5:
		return syscall(SYS_preadv2, fd, &iov, 1L, -1L, -1L, 0L);
	default:
		return recv(fd, buf, len, 0);
	}
}

static void data_peer(int fd)
{
	char buf[8];

	for (int i = 0; i < 98; i++) {
		CHECK_CALM(in_by(i, fd, buf, 8), 8);
		pattern_check(buf, 8, (size_t)i, 2);
		CHECK_CALM(out_by(i + 1, fd, buf, 8), 8);
	}
}

static void data(void)
{
	struct peer peer = peer_make(AF_INET, SOCK_STREAM, data_peer);
	char buf[8];

	for (int i = 0; i < 98; i++) {
		pattern_fill(buf, 8, (size_t)i, 2);
		CHECK_CALM(out_by(i, peer.fd, buf, 8), 8);
		memset(buf, 0, 8);
		CHECK_CALM(in_by(i / 7, peer.fd, buf, 8), 8);
		pattern_check(buf, 8, (size_t)i, 2);
	}
	peer_wait(&peer);
}

static void talk(int a, int b)
{
	char buf[4];

	for (int i = 0; i < 14; i++) {
		CHECK_EQ(out_by(i, a, "ping", 4), 4);
		CHECK_EQ(in_by(i + 2, b, buf, 4), 4);
		CHECK_EQ(memcmp(buf, "ping", 4), 0);
	}
}

static void life(void)
{
	struct sockaddr_in addr;
	socklen_t len = sizeof(addr);
	int value = 1, fd[3], listener;

	memset(&addr, 0, sizeof(addr));
	addr.sin_family = AF_INET;
	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	listener = (int)syscall(SYS_socket, AF_INET, SOCK_STREAM, 0);
	CHECK(listener >= 0);
	CHECK_CALM(syscall(SYS_bind, listener, &addr, len), 0);
	CHECK_CALM(syscall(SYS_listen, listener, 2), 0);
	CHECK_EQ(getsockname(listener, (struct sockaddr *)&addr, &len), 0);
	for (int i = 0; i < 2; i++) {
		fd[0] = (int)syscall(SYS_socket, AF_INET, SOCK_STREAM, 0);
		CHECK_CALM(syscall(SYS_connect, fd[0], &addr, len), 0);
		fd[1] = (int)(i ? syscall(SYS_accept, listener, NULL, NULL)
				: syscall(SYS_accept4, listener, NULL, NULL, SOCK_CLOEXEC));
		CHECK(fd[1] >= 0);
		talk(fd[0], fd[1]);
		fd[2] = (int)syscall(SYS_dup, fd[0]);
		talk(fd[2], fd[1]);
		CHECK_CALM(syscall(SYS_dup2, fd[0], 90), 90);
		CHECK_CALM(syscall(SYS_dup3, fd[0], 91, O_CLOEXEC), 91);
		CHECK_CALM(syscall(SYS_fcntl, fd[0], F_DUPFD, 92), 92);
		CHECK_CALM(syscall(SYS_close, fd[0]), 0);
		talk(90, fd[1]);
		talk(fd[1], 91);
		talk(92, fd[1]);
		CHECK_CALM(syscall(SYS_setsockopt, 90, SOL_SOCKET, SO_KEEPALIVE, &value, 4L), 0);
		value = 0;
		len = 4;
		CHECK_CALM(syscall(SYS_getsockopt, 92, SOL_SOCKET, SO_KEEPALIVE, &value, &len), 0);
		CHECK_EQ(value, 1);
		len = sizeof(addr);
		CHECK_CALM(syscall(SYS_ioctl, fd[1], FIONBIO, &value), 0);
		CHECK_ERR(recv(fd[1], &value, 1, 0), EAGAIN);
		CHECK_CALM(syscall(SYS_fcntl, fd[1], F_SETFL, 0L), 0);
		CHECK_CALM(syscall(SYS_shutdown, 90, SHUT_WR), 0);
		CHECK_EQ(recv(fd[1], &value, 1, 0), 0);
		value = 1;
		CHECK_CALM(syscall(SYS_close_range, 90L, 92L, 0L), 0);
		CHECK_CALM(syscall(SYS_close, fd[2]), 0);
		CHECK_CALM(syscall(SYS_close, fd[1]), 0);
		CHECK_ERR(syscall(SYS_close, fd[1]), EBADF);
	}
	CHECK_CALM(syscall(SYS_close, listener), 0);
	CHECK_ERR(syscall(SYS_write, listener, "x", 1L), EBADF);
}

static void waits(void)
{
	struct timespec ts = {5, 0};
	struct timeval tv = {5, 0};
	struct epoll_event ev = {.events = EPOLLIN};
	struct pollfd p;
	sigset_t mask;
	struct {
		const sigset_t *mask;
		size_t bytes;
	} sigs = {&mask, KERNEL_SIGSET_BYTES};
	fd_set in;
	int fd[2], set = (int)syscall(SYS_epoll_create1, 0L);

	sigemptyset(&mask);
	pair_make(fd, AF_INET, SOCK_STREAM);
	talk(fd[0], fd[1]);
	CHECK_CALM(syscall(SYS_epoll_ctl, set, EPOLL_CTL_ADD, fd[1], &ev), 0);
	for (int i = 0; i < 10; i++) {
		CHECK_CALM(syscall(SYS_epoll_wait, set, &ev, 1L, 0L), 0);
		CHECK_EQ(out_by(i, fd[0], "wake", 4), 4);
		CHECK_CALM(syscall(SYS_epoll_wait, set, &ev, 1L, -1L), 1);
		CHECK_CALM(
		    syscall(SYS_epoll_pwait, set, &ev, 1L, -1L, &mask, KERNEL_SIGSET_BYTES), 1);
		CHECK_ERR(syscall(SYS_epoll_pwait, set, &ev, 1L, -1L, &mask, 5L), EINVAL);
		p = (struct pollfd){fd[1], POLLIN, 0};
		CHECK_CALM(syscall(SYS_poll, &p, 1L, -1L), 1);
		ts = (struct timespec){5, 0};
		CHECK_CALM(syscall(SYS_ppoll, &p, 1L, &ts, &mask, KERNEL_SIGSET_BYTES), 1);
		CHECK(ts.tv_sec == 4); /* the bare call writes back what is left */
		FD_ZERO(&in);
		FD_SET(fd[1], &in);
		tv = (struct timeval){5, 0};
		CHECK_CALM(syscall(SYS_select, fd[1] + 1, &in, NULL, NULL, &tv), 1);
		CHECK(tv.tv_sec == 4);
		ts = (struct timespec){5, 0};
		CHECK_CALM(syscall(SYS_pselect6, fd[1] + 1, &in, NULL, NULL, &ts, &sigs), 1);
		CHECK(ts.tv_sec == 4);
#ifdef SYS_epoll_pwait2
		ts = (struct timespec){5, 0};
		CHECK_CALM(
		    syscall(SYS_epoll_pwait2, set, &ev, 1L, &ts, &mask, KERNEL_SIGSET_BYTES), 1);
#endif
		CHECK_EQ(in_by(i, fd[1], (char[4]){0}, 4), 4);
	}
	ts = (struct timespec){0, 2000000};
	CHECK_CALM(syscall(SYS_ppoll, &p, 1L, &ts, NULL, 0L), 0);
	CHECK_EQ(ts.tv_sec + ts.tv_nsec, 0);
	CHECK_CALM(syscall(SYS_close, set), 0);
	set = (int)syscall(SYS_epoll_create, 1L);
	CHECK(set >= 0);
	CHECK_EQ(close(set), 0);
	pair_close(fd);
}

static void copies(void)
{
	char path[] = "/tmp/taut-calls-XXXXXX";
	int fd[2], pipes[2], file = mkstemp(path);
	off_t offset = 1;
	char buf[8];

	CHECK(file >= 0);
	CHECK_EQ(unlink(path), 0);
	CHECK_EQ(write(file, "abcdefgh", 8), 8);
	pair_make(fd, AF_INET, SOCK_STREAM);
	talk(fd[0], fd[1]);
	CHECK_EQ(pipe(pipes), 0);
	CHECK_CALM(syscall(SYS_sendfile, fd[0], file, &offset, 5L), 5);
	CHECK_EQ(offset, 6);
	recv_all(fd[1], buf, 5);
	CHECK_EQ(memcmp(buf, "bcdef", 5), 0);
	CHECK_EQ(write(pipes[1], "spliced", 7), 7);
	CHECK_CALM(syscall(SYS_splice, pipes[0], NULL, fd[0], NULL, 7L, 0L), 7);
	CHECK_CALM(syscall(SYS_splice, fd[1], NULL, pipes[1], NULL, 7L, 0L), 7);
	CHECK_EQ(read(pipes[0], buf, 8), 7);
	CHECK_EQ(memcmp(buf, "spliced", 7), 0);
	pair_close(pipes);
	pair_close(fd);
	CHECK_EQ(close(file), 0);
}

static void served(const int fd[2], pid_t pid)
{
	int status;

	CHECK(pid >= 0);
	if (pid == 0) {
		recv_all(fd[1], (char[4]){0}, 4);
		CHECK_EQ(send(fd[1], "back", 4, 0), 4);
		syscall(SYS_exit_group, 0L);
	}
	CHECK_EQ(send(fd[0], "ping", 4, 0), 4);
	recv_all(fd[0], (char[4]){0}, 4);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
}

static void processes(void)
{
	uint64_t clone_args[11] = {
	    [4] = SIGCHLD}; /* flags, pidfd, child_tid, parent_tid, exit_signal */
	int fd[2], status;
	pid_t pid;

	pair_make(fd, AF_INET, SOCK_STREAM);
	pair_raise(fd); /* 7, which the shell is told of, may be one of them */
	talk(fd[0], fd[1]);
	fflush(NULL);
#ifdef SYS_fork
	served(fd, (pid_t)syscall(SYS_fork));
#endif
	served(fd, (pid_t)syscall(SYS_clone, (long)SIGCHLD, 0L, 0L, 0L, 0L));
	served(fd, (pid_t)syscall(SYS_clone3, clone_args, sizeof(clone_args)));
	talk(fd[0], fd[1]);
	CHECK_EQ(dup2(fd[0], 7), 7);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		static const char *const argv[] = {"sh", "-c", "echo heir >&7", NULL};
		static const char *const envp[] = {NULL};

		CHECK_ERR(syscall(SYS_execve, "/nonexistent", argv, envp), ENOENT);
		syscall(SYS_execve, "/bin/sh", argv, envp);
		_exit(9);
	}
	recv_all(fd[1], (char[5]){0}, 5);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
	CHECK_EQ(close(7), 0);
	talk(fd[0], fd[1]);
	pair_close(fd);
}

/* Calls that are nobody's business, with all six arguments and large results. */
static void others(void)
{
	struct stat st;
	void *map;

	CHECK_CALM(syscall(SYS_getpid), getpid());
	errno = 4095;
	map = (void *)syscall(SYS_mmap, NULL, 4096L, (long)(PROT_READ | PROT_WRITE),
	    (long)(MAP_PRIVATE | MAP_ANONYMOUS), -1L, 0L);
	CHECK(map != MAP_FAILED && errno == 4095);
	memset(map, 1, 4096);
	CHECK_CALM(syscall(SYS_munmap, map, 4096L), 0);
	CHECK_CALM(syscall(SYS_fstat, 0L, &st), 0);
	CHECK_ERR(syscall(99999L), ENOSYS);
}

/* io_uring reads and writes where nobody sees it: the sockets must be right all the same. */
static void uring_child(void)
{
	char params[120] = {0};
	int fd[2], ring;

	pair_make(fd, AF_INET, SOCK_STREAM);
	talk(fd[0], fd[1]);
	ring = (int)syscall(SYS_io_uring_setup, 4L, params);
	if (ring < 0)
		CHECK(errno == EPERM || errno == ENOSYS);
	talk(fd[0], fd[1]);
	talk(fd[1], fd[0]);
	pair_close(fd);
	pair_make(fd, AF_INET, SOCK_STREAM);
	talk(fd[0], fd[1]);
	pair_close(fd);
}

static void uring(void)
{
	CHECK_EQ(forked_status(uring_child), 0);
}

static const struct test_case cases[] = {
    {"data", "syscall", data},
    {"life", "syscall", life},
    {"waits", "syscall", waits},
    {"copies", "syscall", copies},
    {"processes", "syscall", processes},
    {"others", "syscall", others},
    {"uring", "syscall", uring},
};

TESTS_MAIN(cases)
