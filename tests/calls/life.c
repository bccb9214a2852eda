/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How sockets come, get company and go: made, accepted, copied, replaced, passed, closed one by one
 * and in ranges.
 */
#include "check.h"

#include <linux/close_range.h>
#include <poll.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

static void talk(int a, int b)
{
	char buf[8];

	for (int i = 0; i < 20; i++) {
		CHECK_EQ(send(a, "ping", 4, 0), 4);
		recv_all(b, buf, 4);
		CHECK_EQ(memcmp(buf, "ping", 4), 0);
		CHECK_EQ(send(b, "pong!", 5, 0), 5);
		recv_all(a, buf, 5);
		CHECK_EQ(memcmp(buf, "pong!", 5), 0);
	}
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static void made(void)
{
	__typeof__(&socket) hidden =
	    (__typeof__(&socket))(uintptr_t)libc_function("__socket", false);
	int fd = hidden ? hidden(AF_INET, SOCK_STREAM, 0) : socket(AF_INET, SOCK_STREAM, 0);
	int four;

	CHECK(fd >= 0);
	CHECK_EQ(fcntl(fd, F_GETFD), 0);
	CHECK_EQ(fcntl(fd, F_GETFL), O_RDWR);
	CHECK_EQ(close(fd), 0);
	errno = 4095;
	fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_UDP);
	CHECK(fd >= 0);
	CHECK_EQ(errno, 4095);
	CHECK_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
	CHECK_EQ(fcntl(fd, F_GETFL), O_RDWR | O_NONBLOCK);
	/* The lowest free number, as for any descriptor. */
	four = socket(AF_INET, SOCK_STREAM, 0);
	CHECK_EQ(four, fd + 1);
	CHECK_EQ(close(fd), 0);
	CHECK_EQ(socket(AF_UNIX, SOCK_STREAM, 0), fd);
	CHECK_EQ(close(fd), 0);
	CHECK_EQ(close(four), 0);
	CHECK_ERR(socket(-1, SOCK_STREAM, 0), EAFNOSUPPORT);
	CHECK_ERR(socket(AF_INET, 77, 0), EINVAL);
	CHECK_ERR(socket(AF_INET, SOCK_STREAM, IPPROTO_UDP), EPROTONOSUPPORT);
}

static void no_descriptors(void)
{
	struct rlimit limit;

	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = 3;
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
	CHECK_ERR(socket(AF_INET, SOCK_STREAM, 0), EMFILE);
	CHECK_ERR(dup(0), EMFILE);
}

static void no_descriptors_left(void)
{
	CHECK_EQ(forked_status(no_descriptors), 0);
}

static void bound(void)
{
	struct sockaddr_storage addr, other;
	socklen_t len, other_len = sizeof(other);
	int listener = listener_make(AF_INET, &addr, &len);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	CHECK_ERR(bind(fd, (struct sockaddr *)&addr, len), EADDRINUSE);
	CHECK_ERR(bind(listener, (struct sockaddr *)&addr, len), EINVAL);
	CHECK_ERR(bind(fd, (struct sockaddr *)&addr, 3), EINVAL);
	CHECK_ERR(bind(-1, (struct sockaddr *)&addr, len), EBADF);
	((struct sockaddr_in *)&addr)->sin_port = 0;
	CHECK_CALM(bind(fd, (struct sockaddr *)&addr, len), 0);
	CHECK_EQ(getsockname(fd, (struct sockaddr *)&other, &other_len), 0);
	CHECK(((struct sockaddr_in *)&other)->sin_port != 0);
	CHECK_CALM(listen(fd, 1), 0);
	CHECK_CALM(listen(fd, 5), 0); /* again, with another length */
	CHECK_EQ(close(fd), 0);
	CHECK_EQ(close(listener), 0);
	CHECK_ERR(listen(listener, 1), EBADF);
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	CHECK_ERR(listen(fd, 1), EOPNOTSUPP);
	CHECK_EQ(close(fd), 0);
}

static void accepted(void)
{
	struct sockaddr_storage addr, from, name;
	socklen_t len, from_len = sizeof(from), name_len = sizeof(name);
	int listener = listener_make(AF_INET, &addr, &len);
	int one = socket(AF_INET, SOCK_STREAM, 0);
	int two;

	CHECK_EQ(fcntl(listener, F_SETFL, O_NONBLOCK), 0);
	CHECK_ERR(accept(listener, NULL, NULL), EAGAIN);
	CHECK_ERR(accept(one, NULL, NULL), EINVAL); /* not listening */
	CHECK_ERR(accept4(listener, NULL, NULL, 0x40000000), EINVAL);
	CHECK_CALM(connect(one, (struct sockaddr *)&addr, len), 0);
	errno = 4095;
	two = accept(listener, (struct sockaddr *)&from, &from_len);
	CHECK(two >= 0);
	CHECK_EQ(errno, 4095);
	CHECK_EQ(fcntl(two, F_GETFL) & O_NONBLOCK, 0); /* not inherited on Linux */
	CHECK_EQ(getsockname(one, (struct sockaddr *)&name, &name_len), 0);
	CHECK_EQ(from_len, name_len);
	CHECK_EQ(memcmp(&from, &name, name_len), 0);
	talk(one, two);
	CHECK_EQ(close(one), 0);
	CHECK_EQ(close(two), 0);

	one = socket(AF_INET, SOCK_STREAM, 0);
	CHECK_EQ(connect(one, (struct sockaddr *)&addr, len), 0);
	two = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	CHECK(two >= 0);
	CHECK_EQ(fcntl(two, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
	CHECK_EQ(fcntl(two, F_GETFD), FD_CLOEXEC);
	CHECK_EQ(fcntl(two, F_SETFL, 0), 0);
	talk(one, two);
	CHECK_EQ(close(one), 0);
	CHECK_EQ(close(two), 0);
	CHECK_EQ(close(listener), 0);
	CHECK_ERR(accept(listener, NULL, NULL), EBADF);
}

static void connected(void)
{
	__typeof__(&connect) hidden = LIBC("__connect", connect);
	struct sockaddr_storage addr;
	struct sockaddr none = {.sa_family = AF_UNSPEC};
	struct pollfd p;
	socklen_t len;
	int listener = listener_make(AF_INET, &addr, &len);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	int two, error;

	CHECK_EQ(hidden(fd, (struct sockaddr *)&addr, len) == 0 || errno == EINPROGRESS, 1);
	p = (struct pollfd){fd, POLLOUT, 0};
	CHECK_EQ(poll(&p, 1, -1), 1);
	CHECK_EQ(p.revents, POLLOUT);
	len = sizeof(error);
	CHECK_EQ(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len), 0);
	CHECK_EQ(error, 0);
	len = sizeof(struct sockaddr_in);
	two = accept(listener, NULL, NULL);
	CHECK(two >= 0);
	CHECK_EQ(fcntl(fd, F_SETFL, 0), 0);
	/* Loopback connects at once or later; either way a further call ends in EISCONN. */
	if (connect(fd, (struct sockaddr *)&addr, len) == 0)
		errno = 0;
	CHECK_ERR(connect(fd, (struct sockaddr *)&addr, len), EISCONN);
	talk(fd, two);
	CHECK_CALM(connect(fd, &none, sizeof(none)), 0); /* undone */
	CHECK_ERR(send(fd, "x", 1, MSG_NOSIGNAL), ECONNRESET);
	CHECK_ERR(send(fd, "x", 1, MSG_NOSIGNAL), EPIPE);
	CHECK_ERR(recv(two, &error, 1, 0), ECONNRESET);
	CHECK_EQ(close(fd), 0);
	CHECK_EQ(close(two), 0);

	/* Refused: an address that was just given up. */
	CHECK_EQ(close(listener), 0);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	CHECK_ERR(connect(fd, (struct sockaddr *)&addr, len), ECONNREFUSED);
	CHECK_ERR(connect(fd, (struct sockaddr *)&addr, 2), EINVAL);
	CHECK_ERR(connect(-1, (struct sockaddr *)&addr, len), EBADF);
	CHECK_EQ(close(fd), 0);
}

static void *wait_for_data(void *arg)
{
	char byte;

	return (void *)(intptr_t)recv(*(int *)arg, &byte, 1, 0);
}

static void shut(void)
{
	int fd[2];
	char buf[8];
	pthread_t thread;
	void *result;

	fd[0] = socket(AF_INET, SOCK_STREAM, 0);
	CHECK_ERR(shutdown(fd[0], SHUT_RDWR), ENOTCONN);
	CHECK_EQ(close(fd[0]), 0);
	pair_make(fd, AF_INET, SOCK_STREAM);
	talk(fd[0], fd[1]);
	CHECK_ERR(shutdown(fd[0], 3), EINVAL);
	CHECK_EQ(send(fd[0], "last", 4, 0), 4);
	CHECK_CALM(shutdown(fd[0], SHUT_WR), 0);
	CHECK_CALM(shutdown(fd[0], SHUT_WR), 0);
	CHECK_ERR(send(fd[0], "x", 1, MSG_NOSIGNAL), EPIPE);
	recv_all(fd[1], buf, 4);
	CHECK_EQ(recv(fd[1], buf, sizeof(buf), 0), 0);
	CHECK_EQ(send(fd[1], "still", 5, 0), 5); /* the other way lives on */
	recv_all(fd[0], buf, 5);
	pair_close(fd);

	/* It wakes a thread that waits. */
	pair_make(fd, AF_INET, SOCK_STREAM);
	talk(fd[0], fd[1]);
	CHECK_EQ(pthread_create(&thread, NULL, wait_for_data, &fd[1]), 0);
	CHECK_EQ(shutdown(fd[1], SHUT_RD), 0);
	CHECK_EQ(pthread_join(thread, &result), 0);
	CHECK_EQ((intptr_t)result, 0);
	pair_close(fd);
}

static void closed(void)
{
	__typeof__(&close) hidden = LIBC("__close", close);
	int fd[2];
	char buf[8];

	pair_make(fd, AF_INET, SOCK_STREAM);
	talk(fd[0], fd[1]);
	CHECK_EQ(send(fd[0], "sent", 4, 0), 4);
	CHECK_CALM(hidden(fd[0]), 0);
	CHECK_ERR(close(fd[0]), EBADF);
	CHECK_ERR(close(-1), EBADF);
	recv_all(fd[1], buf, 4); /* what was sent arrives after the close */
	CHECK_EQ(memcmp(buf, "sent", 4), 0);
	CHECK_EQ(recv(fd[1], buf, 1, 0), 0);
	CHECK_EQ(close(fd[1]), 0);
}

static void ranges(void)
{
	int fd[2], keep, status;

	pair_make(fd, AF_INET, SOCK_STREAM);
	talk(fd[0], fd[1]);
	keep = fcntl(fd[0], F_DUPFD, 100);
	CHECK_EQ(keep, 100);
	CHECK_ERR(close_range(5, 4, 0), EINVAL);
	CHECK_ERR(close_range(4, 5, 1 << 20), EINVAL);
	talk(keep, fd[1]); /* refused: nothing was closed */
	CHECK_CALM(close_range((unsigned int)fd[0], (unsigned int)fd[0], CLOSE_RANGE_CLOEXEC), 0);
	CHECK_EQ(fcntl(fd[0], F_GETFD), FD_CLOEXEC);
	talk(fd[0], fd[1]); /* only marked */
	CHECK_CALM(close_range((unsigned int)fd[0], (unsigned int)fd[0], 0), 0);
	CHECK(!is_open(fd[0]));
	talk(keep, fd[1]);
	CHECK_CALM(close_range(100, ~0u, CLOSE_RANGE_UNSHARE), 0);
	CHECK(!is_open(keep));
	CHECK_EQ(recv(fd[1], &status, 1, 0), 0);
	CHECK_EQ(close(fd[1]), 0);
}

static void everything_from(void)
{
	int fd[2], more[2];

	pair_make(fd, AF_INET, SOCK_STREAM);
	pair_make(more, AF_INET, SOCK_STREAM);
	talk(fd[0], fd[1]);
	talk(more[0], more[1]);
	closefrom(more[0]); /* its number is above those of the first pair */
	CHECK(!is_open(more[0]) && !is_open(more[1]));
	talk(fd[0], fd[1]);
	closefrom(3);
	CHECK(!is_open(fd[0]) && !is_open(fd[1]));
	pair_make(fd, AF_INET, SOCK_STREAM); /* the numbers are free for new ones */
	talk(fd[0], fd[1]);
	pair_close(fd);
	closefrom(-7);
	CHECK(!is_open(0));
}

static void closed_from(void)
{
	CHECK_EQ(forked_status(everything_from), 0);
}

static void copies(void)
{
	__typeof__(&dup2) hidden = LIBC("__dup2", dup2);
	int fd[2], other[2], copy;
	char buf[8];

	pair_make(fd, AF_INET, SOCK_STREAM);
	talk(fd[0], fd[1]);
	errno = 4095;
	copy = dup(fd[0]);
	CHECK(copy >= 0);
	CHECK_EQ(errno, 4095);
	talk(copy, fd[1]);
	CHECK_EQ(send(fd[0], "a", 1, 0), 1);
	CHECK_EQ(send(copy, "b", 1, 0), 1); /* one stream, two names */
	recv_all(fd[1], buf, 2);
	CHECK_EQ(memcmp(buf, "ab", 2), 0);
	CHECK_EQ(fcntl(copy, F_SETFL, O_NONBLOCK), 0); /* of the stream, not of the name */
	CHECK_ERR(recv(fd[0], buf, 1, 0), EAGAIN);
	CHECK_EQ(fcntl(fd[0], F_SETFL, 0), 0);
	CHECK_EQ(close(fd[0]), 0);
	talk(copy, fd[1]);
	fd[0] = copy;

	/* Over another socket: that one is closed, and its peer sees the end. */
	pair_make(other, AF_INET, SOCK_STREAM);
	talk(other[0], other[1]);
	CHECK_CALM(dup2(fd[0], other[0]), other[0]);
	CHECK_EQ(recv(other[1], buf, 1, 0), 0);
	talk(other[0], fd[1]);
	CHECK_CALM(hidden(other[0], other[0]), other[0]);
	CHECK_ERR(dup2(999, 999), EBADF);
	talk(other[0], fd[1]);

	/* What fails leaves the target as it was. */
	CHECK_ERR(dup2(999, other[0]), EBADF);
	CHECK_ERR(dup2(-1, other[0]), EBADF);
	CHECK_ERR(dup2(fd[0], -1), EBADF);
	CHECK_ERR(dup2(fd[0], 1 << 30), EBADF);
	CHECK_ERR(dup3(fd[0], fd[0], 0), EINVAL);
	CHECK_ERR(dup3(fd[0], other[0], O_APPEND), EINVAL);
	talk(other[0], fd[1]);

	CHECK_CALM(dup3(fd[1], 200, O_CLOEXEC), 200);
	CHECK_EQ(fcntl(200, F_GETFD), FD_CLOEXEC);
	CHECK_EQ(close(fd[1]), 0);
	talk(other[0], 200);
	CHECK_EQ(close(200), 0);
	CHECK_EQ(recv(fd[0], buf, 1, 0), 0);
	pair_close(fd[0] == other[0] ? (int[]){fd[0], other[1]} : (int[]){other[0], other[1]});
	CHECK_EQ(close(fd[0]), 0);
	CHECK_ERR(dup(fd[0]), EBADF);
}

/* A file over a socket and back: nothing of the socket sticks to the number. */
static void numbers_reused(void)
{
	int fd[2], pipes[2];
	char buf[8];

	for (int i = 0; i < 50; i++) {
		pair_make(fd, AF_INET, SOCK_STREAM);
		talk(fd[0], fd[1]);
		CHECK_EQ(pipe(pipes), 0);
		CHECK_EQ(dup2(pipes[1], fd[0]), fd[0]);
		CHECK_EQ(write(fd[0], "pipe", 4), 4);
		CHECK_EQ(read(pipes[0], buf, sizeof(buf)), 4);
		CHECK_ERR(recv(fd[0], buf, 1, 0), ENOTSOCK);
		CHECK_EQ(recv(fd[1], buf, 1, 0), 0);
		pair_close(fd);
		pair_close(pipes);
	}
}

static void rights_send(int unix_fd, int passed)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {.head = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
	struct iovec iov = {"x", 1};
	struct msghdr msg = {.msg_iov = &iov,
	    .msg_iovlen = 1,
	    .msg_control = &control,
	    .msg_controllen = sizeof(control)};

	memcpy(CMSG_DATA(&control.head), &passed, sizeof(passed));
	CHECK_CALM(sendmsg(unix_fd, &msg, 0), 1);
}

static int rights_recv(int unix_fd)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	char byte;
	struct iovec iov = {&byte, 1};
	struct msghdr msg = {.msg_iov = &iov,
	    .msg_iovlen = 1,
	    .msg_control = &control,
	    .msg_controllen = sizeof(control)};
	int fd;

	CHECK_CALM(recvmsg(unix_fd, &msg, MSG_CMSG_CLOEXEC), 1);
	CHECK_EQ(control.head.cmsg_type, SCM_RIGHTS);
	memcpy(&fd, CMSG_DATA(&control.head), sizeof(fd));
	CHECK(fd >= 0);
	return fd;
}

static void passed_on(void)
{
	int fd[2], un[2], got, status;
	pid_t pid;

	/* Within the process: a second name that came by the back door. */
	pair_make(fd, AF_INET, SOCK_STREAM);
	talk(fd[0], fd[1]);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, un), 0);
	CHECK_EQ(send(fd[1], "unread", 6, 0), 6);
	rights_send(un[0], fd[0]);
	CHECK_EQ(close(fd[0]), 0);
	got = rights_recv(un[1]);
	recv_all(got, (char[8]){0}, 6);
	talk(got, fd[1]);
	CHECK_EQ(close(got), 0);
	CHECK_EQ(close(fd[1]), 0);

	/* To another process, which serves it. */
	pair_make(fd, AF_INET, SOCK_STREAM);
	talk(fd[0], fd[1]);
	fflush(NULL);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		char buf[5];

		close(fd[0]);
		close(fd[1]);
		got = rights_recv(un[1]);
		for (int i = 0; i < 20; i++) {
			recv_all(got, buf, 4);
			CHECK_EQ(send(got, "pong!", 5, 0), 5);
		}
		_exit(0);
	}
	rights_send(un[0], fd[1]);
	CHECK_EQ(close(fd[1]), 0);
	for (int i = 0; i < 20; i++) {
		char buf[5];

		CHECK_EQ(send(fd[0], "ping", 4, 0), 4);
		recv_all(fd[0], buf, 5);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
	CHECK_EQ(recv(fd[0], &status, 1, 0), 0);
	CHECK_EQ(close(fd[0]), 0);
	pair_close(un);
}

static void fetched(void)
{
	int (*get)(int, int, unsigned int) =
	    (int (*)(int, int, unsigned int))(uintptr_t)libc_function("pidfd_getfd", false);
	int fd[2], pidfd, got;

	pair_make(fd, AF_INET, SOCK_STREAM);
	talk(fd[0], fd[1]);
	pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	CHECK(pidfd >= 0);
	if (get) {
		CHECK_ERR(get(pidfd, 4000, 0), EBADF);
		CHECK_ERR(get(-1, fd[0], 0), EBADF);
		got = get(pidfd, fd[0], 0);
		CHECK(got >= 0);
		CHECK_EQ(fcntl(got, F_GETFD), FD_CLOEXEC);
		CHECK_EQ(close(fd[0]), 0);
		talk(got, fd[1]);
		fd[0] = got;
	}
	CHECK_EQ(close(pidfd), 0);
	pair_close(fd);
}

/* High descriptors (what a test runner leaves open is lower) named so; the highest of them in *high. */
static int own_count(const char *part, int *high)
{
	char path[64], name[256];
	int n = 0;

	for (int fd = 900; fd < 5000; fd++) {
		ssize_t len;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		len = readlink(path, name, sizeof(name) - 1);
		if (len <= 0)
			continue;
		name[len] = '\0';
		if (strstr(name, part)) {
			n++;
			*high = fd;
		}
	}
	return n;
}

/* A program that closes whatever it did not open, and one that wants a certain number. */
static void sweeping(void)
{
	int high = -1, stat_fd = -1, inboxes, pages, fd[2], p[2];
	char buf[8];

	pair_make(fd, AF_INET, SOCK_STREAM);
	for (int i = 0; i < 20; i++) {
		CHECK_EQ(send(fd[i % 2], "mesg", 4, 0), 4);
		recv_all(fd[1 - i % 2], buf, 4);
	}
	pages = own_count("taut-stat", &stat_fd);
	inboxes = own_count("socket:", &high);
	for (int i = fd[1] + 1; i < 5000; i++)
		(void)close(i); /* a test runner's, perhaps */
	for (int i = fd[1] + 1; i < 5000; i++)
		CHECK_ERR(close(i), EBADF);
	CHECK_EQ(own_count("taut-stat", &stat_fd), pages);
	CHECK_EQ(own_count("socket:", &high), inboxes);
	CHECK_EQ(close_range((unsigned int)fd[1] + 1, ~0u, 0), 0);
	CHECK_EQ(own_count("taut-stat", &stat_fd), pages);
	closefrom(fd[1] + 1);
	CHECK_EQ(own_count("socket:", &high), inboxes);
	/* Their numbers can be had all the same. */
	CHECK_EQ(pipe(p), 0);
	if (stat_fd < 0)
		stat_fd = 1000;
	if (high <= fd[1])
		high = 1001;
	CHECK_EQ(dup2(p[1], stat_fd), stat_fd);
	CHECK_EQ(dup3(p[1], high, O_CLOEXEC), high);
	CHECK_EQ(write(stat_fd, "one", 3), 3);
	CHECK_EQ(read(p[0], buf, 8), 3);
	CHECK_EQ(write(high, "four", 4), 4);
	CHECK_EQ(read(p[0], buf, 8), 4);
	CHECK_EQ(own_count("taut-stat", &(int){0}), pages);
	CHECK_EQ(own_count("socket:", &(int){0}), inboxes);
	for (int i = 0; i < 20; i++) {
		CHECK_EQ(send(fd[i % 2], "mesg", 4, 0), 4);
		recv_all(fd[1 - i % 2], buf, 4);
	}
	CHECK_EQ(close(stat_fd), 0);
	CHECK_EQ(close(high), 0);
	CHECK_EQ(close(p[0]), 0);
	CHECK_EQ(close(p[1]), 0);
	pair_close(fd);
}

static const struct test_case cases[] = {
    {"made", "socket __socket", made},
    {"no-descriptors-left", "socket dup", no_descriptors_left},
    {"bound", "bind listen", bound},
    {"accepted", "accept accept4", accepted},
    {"connected", "connect __connect", connected},
    {"shut", "shutdown", shut},
    {"closed", "close __close", closed},
    {"ranges", "close_range", ranges},
    {"closed-from", "closefrom", closed_from},
    {"copies", "dup dup2 __dup2 dup3", copies},
    {"numbers-reused", "dup2", numbers_reused},
    {"passed-on", "sendmsg recvmsg", passed_on},
    {"fetched", "pidfd_getfd", fetched},
    {"sweeping", "close close_range closefrom dup2 dup3", sweeping},
};

TESTS_MAIN(cases)
