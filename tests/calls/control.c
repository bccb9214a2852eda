/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flags and options: what is set is honoured and read back, on one descriptor and its copies.
 */
#include "check.h"

#include <stdarg.h>
#include <sys/ioctl.h>
#include <time.h>

#include <linux/sockios.h>

typedef int (*fcntl_fn)(int fd, int cmd, ...);

static void duplicates(fcntl_fn fn)
{
	int fd[2], copy;
	char buf[4];

	pair_make(fd, AF_INET, SOCK_STREAM);
	CHECK_CALM(fn(fd[0], F_DUPFD, 50), 50);
	CHECK_EQ(fn(50, F_GETFD), 0);
	copy = fn(fd[0], F_DUPFD_CLOEXEC, 50);
	CHECK_EQ(copy, 51);
	CHECK_EQ(fn(51, F_GETFD), FD_CLOEXEC);
	CHECK_CALM(fn(51, F_SETFD, 0), 0);
	CHECK_EQ(fn(51, F_GETFD), 0);
	CHECK_EQ(close(fd[0]), 0);
	for (int i = 0; i < 20; i++) {
		CHECK_EQ(send(i & 1 ? 50 : 51, "copy", 4, 0), 4);
		recv_all(fd[1], buf, 4);
		CHECK_EQ(send(fd[1], "back", 4, 0), 4);
		recv_all(i & 2 ? 50 : 51, buf, 4);
	}
	CHECK_ERR(fn(-1, F_DUPFD, 50), EBADF);
	CHECK_ERR(fn(50, F_DUPFD, -1), EINVAL);
	CHECK_ERR(fn(50, 9999, 0), EINVAL);
	CHECK_EQ(close(50), 0);
	CHECK_EQ(close(51), 0);
	CHECK_EQ(recv(fd[1], buf, 1, 0), 0);
	CHECK_EQ(close(fd[1]), 0);
}

static void status(fcntl_fn fn)
{
	int fd[2];
	char buf[4];
	int on = 1, off = 0;

	pair_make(fd, AF_INET, SOCK_STREAM);
	for (int i = 0; i < 10; i++) { /* so that it is accelerated where it can be */
		CHECK_EQ(send(fd[0], "mesg", 4, 0), 4);
		recv_all(fd[1], buf, 4);
	}
	CHECK_CALM(fn(fd[1], F_SETFL, O_NONBLOCK), 0);
	CHECK_EQ(fn(fd[1], F_GETFL), O_RDWR | O_NONBLOCK);
	CHECK_ERR(recv(fd[1], buf, 4, 0), EAGAIN);
	CHECK_ERR(read(fd[1], buf, 4), EAGAIN);
	CHECK_CALM(ioctl(fd[1], FIONBIO, &off), 0);
	CHECK_EQ(fn(fd[1], F_GETFL), O_RDWR);
	CHECK_CALM(ioctl(fd[1], FIONBIO, &on), 0);
	CHECK_EQ(fn(fd[1], F_GETFL), O_RDWR | O_NONBLOCK);
	CHECK_ERR(recv(fd[1], buf, 4, 0), EAGAIN);
	CHECK_EQ(send(fd[0], "1234", 4, 0), 4);
	CHECK_CALM(fn(fd[1], F_SETFL, 0), 0);
	recv_all(fd[1], buf, 4);
	CHECK_EQ(memcmp(buf, "1234", 4), 0);
	CHECK_CALM(fn(fd[1], F_SETOWN, getpid()), 0);
	CHECK_EQ(fn(fd[1], F_GETOWN), getpid());
	pair_close(fd);
	CHECK_ERR(fn(fd[1], F_GETFL), EBADF);
}

static void by_fcntl(void)
{
	const fcntl_fn fns[] = {fcntl, fcntl64, LIBC("__fcntl", fcntl)};

	for (size_t i = 0; i < array_len(fns); i++) {
		duplicates(fns[i]);
		status(fns[i]);
	}
	/* A file is nobody's business. */
	int file = open("/dev/null", O_WRONLY | O_CLOEXEC);

	CHECK_EQ(fcntl(file, F_GETFL) & O_ACCMODE, O_WRONLY);
	CHECK_EQ(close(file), 0);
}

static void by_ioctl(void)
{
	int fd[2], n = -1, mark = -1;
	char buf[16];

	pair_make(fd, AF_INET, SOCK_STREAM);
	for (int i = 0; i < 10; i++) {
		CHECK_EQ(send(fd[0], "mesg", 4, 0), 4);
		recv_all(fd[1], buf, 4);
	}
	CHECK_CALM(ioctl(fd[1], FIONREAD, &n), 0);
	CHECK_EQ(n, 0);
	CHECK_EQ(send(fd[0], "seven..", 7, 0), 7);
	CHECK_EQ(recv(fd[1], buf, 1, MSG_PEEK), 1); /* it has arrived */
	CHECK_CALM(ioctl(fd[1], FIONREAD, &n), 0);
	CHECK_EQ(n, 7);
	recv_all(fd[1], buf, 3);
	CHECK_CALM(ioctl(fd[1], SIOCINQ, &n), 0);
	CHECK_EQ(n, 4);
	recv_all(fd[1], buf, 4);
	CHECK_CALM(ioctl(fd[0], SIOCOUTQ, &n), 0);
	CHECK_CALM(ioctl(fd[1], SIOCATMARK, &mark), 0);
	CHECK_EQ(mark, 0);
	CHECK_ERR(ioctl(fd[0], 0x5555aaaa, &n), ENOTTY);
	pair_close(fd);
	CHECK_ERR(ioctl(fd[0], FIONREAD, &n), EBADF);

	pair_make(fd, AF_INET, SOCK_DGRAM);
	CHECK_EQ(send(fd[0], "three", 5, 0), 5);
	CHECK_EQ(send(fd[0], "four", 4, 0), 4);
	CHECK_EQ(recv(fd[1], buf, 1, MSG_PEEK), 1);
	CHECK_CALM(ioctl(fd[1], FIONREAD, &n), 0);
	CHECK_EQ(n, 5); /* the next datagram */
	pair_close(fd);
}

static int option(int fd, int level, int name)
{
	int value = -1;
	socklen_t len = sizeof(value);

	CHECK_CALM(getsockopt(fd, level, name, &value, &len), 0);
	CHECK_EQ(len, sizeof(value));
	return value;
}

static void option_set(int fd, int level, int name, int value)
{
	CHECK_CALM(setsockopt(fd, level, name, &value, sizeof(value)), 0);
}

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void options(void)
{
	struct timeval timeout = {0, 30000};
	struct linger linger = {1, 0};
	char buf[64];
	socklen_t len;
	double start;
	int fd[2];

	pair_make(fd, AF_INET, SOCK_STREAM);
	for (int i = 0; i < 10; i++) {
		CHECK_EQ(send(fd[0], "mesg", 4, 0), 4);
		recv_all(fd[1], buf, 4);
	}
	CHECK_EQ(option(fd[0], SOL_SOCKET, SO_TYPE), SOCK_STREAM);
	CHECK_EQ(option(fd[0], SOL_SOCKET, SO_DOMAIN), AF_INET);
	CHECK_EQ(option(fd[0], SOL_SOCKET, SO_ERROR), 0);
	CHECK_EQ(option(fd[0], SOL_SOCKET, SO_ACCEPTCONN), 0);
	CHECK_EQ(option(fd[0], IPPROTO_TCP, TCP_NODELAY), 0);
	option_set(fd[0], IPPROTO_TCP, TCP_NODELAY, 1);
	CHECK_EQ(option(fd[0], IPPROTO_TCP, TCP_NODELAY), 1);
	option_set(fd[0], IPPROTO_TCP, TCP_NODELAY, 0);
	CHECK_EQ(option(fd[0], IPPROTO_TCP, TCP_NODELAY), 0);
	option_set(fd[0], IPPROTO_TCP, TCP_CORK, 1);
	CHECK_EQ(option(fd[0], IPPROTO_TCP, TCP_CORK), 1);
	CHECK_EQ(send(fd[0], "cork", 4, 0), 4);
	option_set(fd[0], IPPROTO_TCP, TCP_CORK, 0);
	CHECK_EQ(option(fd[0], IPPROTO_TCP, TCP_CORK), 0);
	recv_all(fd[1], buf, 4);
	option_set(fd[0], SOL_SOCKET, SO_KEEPALIVE, 1);
	CHECK_EQ(option(fd[0], SOL_SOCKET, SO_KEEPALIVE), 1);
	option_set(fd[0], SOL_SOCKET, SO_RCVBUF, 10000);
	CHECK_EQ(option(fd[0], SOL_SOCKET, SO_RCVBUF), 20000);
	option_set(fd[0], IPPROTO_TCP, TCP_KEEPIDLE, 77);
	CHECK_EQ(option(fd[0], IPPROTO_TCP, TCP_KEEPIDLE), 77);

	CHECK_CALM(setsockopt(fd[1], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)), 0);
	start = now_s();
	CHECK_ERR(recv(fd[1], buf, 1, 0), EAGAIN);
	CHECK(now_s() - start > 0.015 && now_s() - start < 10);
	CHECK_EQ(send(fd[0], "after", 5, 0), 5);
	recv_all(fd[1], buf, 5);

	CHECK_ERR(setsockopt(fd[0], SOL_SOCKET, 9999, buf, 4), ENOPROTOOPT);
	CHECK_ERR(setsockopt(fd[0], SOL_SOCKET, SO_KEEPALIVE, buf, 1), EINVAL);
	len = 4;
	CHECK_ERR(getsockopt(fd[0], IPPROTO_TCP, 9999, buf, &len), ENOPROTOOPT);
	len = (socklen_t)-1;
	CHECK_ERR(getsockopt(fd[0], SOL_SOCKET, SO_TYPE, buf, &len), EINVAL);
	len = 2; /* cut */
	memset(buf, 0x7f, sizeof(buf));
	CHECK_CALM(getsockopt(fd[0], SOL_SOCKET, SO_TYPE, buf, &len), 0);
	CHECK_EQ(len, 2);
	CHECK_EQ(buf[2], 0x7f);

	/* Closed with linger 0: the other end sees a reset. */
	CHECK_CALM(setsockopt(fd[0], SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
	CHECK_EQ(close(fd[0]), 0);
	CHECK_ERR(recv(fd[1], buf, 1, 0), ECONNRESET);
	CHECK_EQ(close(fd[1]), 0);
	len = 4;
	CHECK_ERR(getsockopt(fd[1], SOL_SOCKET, SO_TYPE, buf, &len), EBADF);
}

static const struct test_case cases[] = {
    {"fcntl", "fcntl __fcntl fcntl64", by_fcntl},
    {"ioctl", "ioctl", by_ioctl},
    {"options", "getsockopt setsockopt", options},
};

TESTS_MAIN(cases)
