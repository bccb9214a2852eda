/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * edge_check - the transcript of what happens to a stream at its edges: a peer that is gone without a word, threads that are
 * cancelled in a call, peeks that wait for all, bytes that change hands between the calls of libc and bare ones.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scene.h"

/* A reset is an error first, and the end of the stream after that; whoever looks at the socket in between must not take it away. */
static void silent_reset(void)
{
	static const char *const how[] = {"blocking", "non-blocking", "after poll", "with bytes before it"};
	struct tt_conn c;

	for (int i = 0; i < 4; i++) {
		tt_conn_open(&c);
		tt_say("%s", how[i]);
		if (i == 1)
			tt_conn_nonblock(&c);
		if (i == 3)
			tt_far_send(&c, 10, 0);
		tt_far_reset_raw(&c, i == 3 ? 0 : 30);
		if (i == 2)
			tt_until(c.fd, POLLIN);
		if (i == 3)
			tt_near_recv(&c, "bytes", 100, 0);
		if (i == 1) {
			char b;

			for (int k = 0; k < 200000; k++)
				if (recv(c.fd, &b, 1, 0) >= 0 || errno != EAGAIN)
					break;
				else if (k > 1000)
					tt_nap_us(100);
			tt_say("recv: %s", tt_errno_word(errno));
		} else {
			tt_near_recv(&c, "recv", 100, 0);
		}
		tt_near_recv(&c, "recv again", 100, 0);
		close(c.fd);
	}
}

/* ---- peeks ---- */

static void peeks(void)
{
	struct tt_conn c;
	int n = -1;

	tt_conn_open(&c);
	tt_near_recv(&c, "peek at nothing", 10, MSG_PEEK | MSG_DONTWAIT);
	for (int i = 0; i < 3; i++) {
		tt_far_send(&c, 100, i ? 20 : 0);
		tt_near_recv(&c, "peek 10", 10, MSG_PEEK);
		tt_until(c.fd, POLLIN);
		tt_near_recv(&c, "peek all", 1000, MSG_PEEK);
		ioctl(c.fd, FIONREAD, &n);
		tt_say("FIONREAD %d", n);
		tt_near_recv(&c, "read 60", 60, 0);
		tt_near_recv(&c, "peek the rest", 1000, MSG_PEEK);
		ioctl(c.fd, FIONREAD, &n);
		tt_say("FIONREAD %d", n);
		if (i == 1)
			tt_far_send_raw(&c, 50, 0);
		else
			tt_far_send(&c, 50, 0);
		/* A program that peeks until it has a whole message must come to an end. */
		for (int tries = 0; tries < 1000; tries++) {
			n = (int)tt_near_recv(&c, NULL, 90, MSG_PEEK);
			if (n == 90)
				break;
			tt_nap_us(1000);
		}
		tt_say("peeked %d", n);
		tt_near_recv(&c, "read", 90, MSG_WAITALL);
	}
	tt_far_send(&c, 5, 0);
	tt_far_close(&c, 0);
	tt_until(c.fd, POLLRDHUP);
	tt_near_recv(&c, "peek before the end", 100, MSG_PEEK);
	tt_near_recv(&c, "read", 100, 0);
	tt_near_recv(&c, "peek at the end", 100, MSG_PEEK);
	tt_near_recv(&c, "end", 100, 0);
}

static void peek_all(void)
{
	struct timeval tv = {.tv_usec = 60000};
	struct tt_conn c;
	pthread_t t;

	tt_conn_open(&c);
	for (int i = 0; i < 6; i++) {
		/* By the ring, then, where the reader sleeps, by the kernel; bare ones among them. */
		tt_far_send(&c, 100, 0);
		tt_until(c.fd, POLLIN);
		if (i % 3 == 1)
			tt_near_recv(&c, "recv", 30, 0);
		if (i % 2)
			tt_far_send_raw(&c, 100, 20);
		else
			tt_far_send(&c, 100, 20);
		tt_near_recv(&c, "peek all", 150, MSG_PEEK | MSG_WAITALL);
		tt_far_send(&c, 100, 0);
		tt_near_recv(&c, "peek all again", 250, MSG_PEEK | MSG_WAITALL);
		tt_near_recv(&c, "recv", i % 3 == 1 ? 270 : 300, MSG_WAITALL);
	}
	tt_far_send(&c, 50, 0);
	tt_near_recv(&c, "peek all, dontwait", 50, MSG_PEEK | MSG_WAITALL);
	tt_near_recv(&c, "peek more, dontwait", 100, MSG_PEEK | MSG_WAITALL | MSG_DONTWAIT);
	setsockopt(c.fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	tt_near_recv(&c, "peek more, timeout", 100, MSG_PEEK | MSG_WAITALL);
	tv.tv_usec = 0;
	setsockopt(c.fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	t = tt_kick(tt_on_counted, 0);
	tt_near_recv(&c, "peek more, signal", 100, MSG_PEEK | MSG_WAITALL);
	pthread_join(t, NULL);
	tt_far_close(&c, 30);
	tt_near_recv(&c, "peek more, end", 100, MSG_PEEK | MSG_WAITALL);
	tt_near_recv(&c, "recv", 100, MSG_WAITALL);
	tt_near_recv(&c, "peek at the end", 100, MSG_PEEK | MSG_WAITALL);
}

/* ---- streams of stdio over bytes that are there already ---- */

/* A connection with 200 bytes to read, 50 of which have been read. */
static void half_read(struct tt_conn *c)
{
	tt_conn_open(c);
	tt_far_send(c, 200, 0);
	tt_until(c->fd, POLLIN);
	tt_near_recv(c, "recv part", 50, MSG_WAITALL);
}

static void stream_read(struct tt_conn *c, FILE *f, size_t n)
{
	unsigned char b[300] = {0};

	tt_say_ret("fread", (long)fread(b, 1, n, f));
	tt_near_check(c, b, n);
}

static void stream_write(struct tt_conn *c, FILE *f, size_t n)
{
	unsigned char b[300];

	tt_near_fill(c, b, n);
	tt_say_ret("fwrite", (long)fwrite(b, 1, n, f));
	tt_say_ret("fflush", fflush(f));
	tt_far_recv(c, n);
}

/* First written, then read: what lay there before is still there. */
static void stdio_write_first(void)
{
	static const char *const modes[] = {"r+", "w+", "a+b"};

	for (int i = 0; i < 3; i++) {
		struct tt_conn c;
		FILE *f;

		half_read(&c);
		f = fdopen(c.fd, modes[i]);
		tt_say("fileno is right: %d", fileno(f) == c.fd);
		stream_write(&c, f, 100);
		tt_say_ret("fseek", fseek(f, 0, SEEK_SET));
		stream_read(&c, f, 150);
		for (int k = 0; k < 5; k++) {
			tt_far_send(&c, 100, k % 2 ? 10 : 0);
			stream_read(&c, f, 100);
			stream_write(&c, f, 100);
		}
		tt_say("append %d", (fcntl(c.fd, F_GETFL) & O_APPEND) != 0);
		tt_say_ret("fclose", fclose(f));
		tt_say_ret("closed", fcntl(c.fd, F_GETFD));
		tt_say("peer: %ld", tt_far_recv_eof(&c));
	}
}

/* A stream that writes, and calls that read. */
static void stdio_write_only(void)
{
	static const char *const modes[] = {"r+", "w"};

	for (int i = 0; i < 2; i++) {
		struct tt_conn c;
		FILE *f;

		half_read(&c);
		f = fdopen(dup(c.fd), modes[i]);
		stream_write(&c, f, 100);
		tt_near_recv(&c, "recv the rest", 300, 0);
		for (int k = 0; k < 5; k++) {
			tt_far_send(&c, 100, 0);
			tt_near_recv(&c, "recv", 100, MSG_WAITALL);
			stream_write(&c, f, 100);
		}
		tt_near_send(&c, "send", 100, 0);
		tt_far_recv(&c, 100);
		tt_say_ret("fclose", fclose(f));
		tt_far_send(&c, 100, 0);
		tt_near_recv(&c, "recv after fclose", 100, MSG_WAITALL);
		close(c.fd);
	}
}

/* Without a buffer a stream takes what it is asked for, and leaves the rest to others. */
static void stdio_shared(void)
{
	unsigned char b[100];
	struct tt_conn c;
	FILE *f, *g;
	pid_t pid;

	half_read(&c);
	f = fdopen(c.fd, "r");
	setvbuf(f, NULL, _IONBF, 0);
	stream_read(&c, f, 20);
	tt_near_recv(&c, "recv", 20, 0);
	g = fdopen(dup(c.fd), "r");
	setvbuf(g, NULL, _IONBF, 0);
	stream_read(&c, g, 20);
	stream_read(&c, f, 20);
	tt_say_ret("read", read(c.fd, b, 20));
	tt_near_check(&c, b, 20);
	fflush(stdout);
	pid = fork();
	if (pid < 0)
		tt_env_fail("fork: %s", strerror(errno));
	if (pid == 0) {
		stream_read(&c, f, 20);
		fflush(stdout);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	c.rx += 20; /* the child's */
	stream_read(&c, f, 30);
	tt_far_send(&c, 10, 20);
	stream_read(&c, f, 10);
	tt_far_close(&c, 0);
	tt_say_ret("fgetc at the end", fgetc(f));
	tt_say("feof %d, ferror %d", feof(f) != 0, ferror(f) != 0);
	tt_say_ret("fclose", fclose(f));
	tt_say_ret("fgetc", fgetc(g));
	tt_say_ret("fclose", fclose(g));
}

static void stdio_print(void)
{
	struct tt_conn c;

	half_read(&c);
	for (int i = 0; i < 3; i++) {
		tt_say_ret("dprintf", dprintf(c.fd, "%d%s", i, "hello"));
		tt_say("peer got %ld", tt_far_recv_once(&c, 100));
	}
	tt_near_recv(&c, "recv the rest", 300, 0);
	tt_far_send(&c, 10, 20);
	tt_near_recv(&c, "recv", 300, 0);
}

static int fd_pass(int through, int fd)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} u = {.head = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
	struct iovec iov = {(char[1]){'f'}, 1};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &u, .msg_controllen = sizeof(u)};

	memcpy(CMSG_DATA(&u.head), &fd, sizeof(fd));
	return (int)sendmsg(through, &m, 0);
}

static int fd_take(int from)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} u;
	struct iovec iov = {(char[1]){0}, 1};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &u, .msg_controllen = sizeof(u)};
	int fd = -1;

	if (recvmsg(from, &m, 0) == 1 && m.msg_controllen >= CMSG_LEN(sizeof(int)))
		memcpy(&fd, CMSG_DATA(&u.head), sizeof(fd));
	return fd;
}

/* ---- a reader gives the socket away, and its sender is left in peace ---- */

#define GIVEN 4000u

/* The reader: by calls to begin with, then by bare ones on a copy that came by a message. */
static void giver(uint16_t port)
{
	unsigned char b[GIVEN] = {0};
	int fd = tt_connect_to(TT_FAMILY_4, port), copy, sp[2];
	size_t at = 0;

	for (int i = 0; i < 60; i++)
		if (recv(fd, b, 10, MSG_WAITALL) != 10 || send(fd, b, 10, 0) != 10)
			_exit(2);
	if (recv(fd, b, 10, 0) != 10 || tt_stream_check(7, 0, b, 10) >= 0 ||
	    socketpair(AF_UNIX, SOCK_STREAM, 0, sp) < 0)
		_exit(3);
	tt_nap_us(50000);
	if (fd_pass(sp[0], fd) < 0)
		_exit(4);
	close(fd);
	copy = fd_take(sp[1]);
	while (at < GIVEN - 10) {
		long n = tt_raw3(SYS_read, copy, (long)(b + at), (long)(GIVEN - 10 - at));

		if (n <= 0)
			_exit(5);
		at += (size_t)n;
	}
	_exit(tt_stream_check(7, 10, b, GIVEN - 10) >= 0 ? 6 : 0);
}

static void left_in_peace(void)
{
	struct sigaction sa = {.sa_handler = SIG_DFL};
	unsigned char b[GIVEN];

	for (int i = 0; i < 3; i++) {
		struct timespec ts = {.tv_nsec = 300000000};
		struct pollfd p = {.events = POLLIN};
		uint16_t port;
		int lfd = tt_listen_any(TT_FAMILY_4, 4, &port), fd, status = -1, r;
		pid_t pid = fork();

		if (pid < 0)
			tt_env_fail("fork: %s", strerror(errno));
		if (pid == 0)
			giver(port);
		fd = tt_accept_one(lfd);
		for (int k = 0; k < 60; k++)
			if (send(fd, b, 10, 0) != 10 || recv(fd, b, 10, MSG_WAITALL) != 10)
				tt_say("warm-up failed");
		tt_stream_fill(7, 0, b, GIVEN);
		tt_nap_us(1000);
		tt_say_ret("send", send(fd, b, 10, 0));
		tt_nap_us(10000);
		tt_say_ret("send", send(fd, b + 10, GIVEN - 10, 0));
		p.fd = fd;
		if (i == 0)
			r = nanosleep(&ts, NULL);
		else if (i == 1)
			r = epoll_wait(epoll_create1(0), &(struct epoll_event){0}, 1, 300);
		else
			r = poll(&p, 0, 300);
		tt_say_ret("wait", r);
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			tt_say("waitpid: EINTR");
		tt_say("reader: %x", (unsigned int)status);
		close(fd);
		close(lfd);
	}
	sigaction(SIGURG, NULL, &sa);
	tt_say("SIGURG is left alone: %d", sa.sa_handler == SIG_DFL);
}

/* ---- before shared memory is used the kernel gets the very call that the program made ---- */

static int call_fd;
static volatile pid_t call_tid;
static char call_buf[1 << 20];

static long call_make(const char *call)
{
	struct iovec iov[2] = {{call_buf, 100}, {call_buf + 100, sizeof(call_buf) - 100}};
	struct msghdr m = {.msg_iov = iov, .msg_iovlen = 1};
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);

	if (strcmp(call, "read") == 0)
		return read(call_fd, call_buf, 10);
	if (strcmp(call, "readv of 1") == 0 || strcmp(call, "readv of 2") == 0)
		return readv(call_fd, iov, call[9] - '0');
	if (strcmp(call, "recv") == 0)
		return recv(call_fd, call_buf, 10, 0);
	if (strcmp(call, "recvfrom") == 0)
		return recvfrom(call_fd, call_buf, 10, 0, (void *)&ss, &len);
	if (strcmp(call, "recvmsg") == 0)
		return recvmsg(call_fd, &m, 0);
	if (strcmp(call, "write") == 0)
		return write(call_fd, call_buf, sizeof(call_buf));
	if (strcmp(call, "writev of 1") == 0)
		return writev(call_fd, iov + 1, 1);
	if (strcmp(call, "writev of 2") == 0)
		return writev(call_fd, iov, 2);
	if (strcmp(call, "send") == 0)
		return send(call_fd, call_buf, sizeof(call_buf), MSG_NOSIGNAL);
	m.msg_iov = iov + 1;
	return sendmsg(call_fd, &m, MSG_NOSIGNAL);
}

static void *call_main(void *arg)
{
	call_tid = (pid_t)tt_raw3(SYS_gettid, 0, 0, 0);
	while (call_make(arg) > 0 && *(const char *)arg != 'r')
		;
	return NULL;
}

/* Where the thread sleeps: proc(5), "syscall". */
static int call_number(void)
{
	char path[64], text[32] = {0};

	for (int i = 0; i < 5000; i++) {
		int fd, n = -1;

		tt_nap_us(1000);
		snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", (int)call_tid);
		fd = open(path, O_RDONLY);
		if (fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 && sscanf(text, "%d", &n) == 1 && n >= 0) {
			close(fd);
			return n;
		}
		if (fd >= 0)
			close(fd);
	}
	return -1;
}

static void same_calls(void)
{
	static const char *const calls[] = {"read", "readv of 1", "readv of 2", "recv", "recvfrom", "recvmsg", "write",
	    "writev of 1", "writev of 2", "send", "sendmsg"};

	const int on = 1;

	signal(SIGPIPE, SIG_IGN);
	for (size_t i = 0; i < TT_CK_ARRAY(calls); i++) {
		struct tt_conn c;
		pthread_t t;

		tt_conn_cold(&c);
		/* Where shared memory is used from the first byte: an option that only the kernel serves. */
		setsockopt(c.fd, SOL_SOCKET, SO_OOBINLINE, &on, sizeof(on));
		call_fd = c.fd;
		call_tid = 0;
		pthread_create(&t, NULL, call_main, (void *)(uintptr_t)calls[i]);
		while (!call_tid)
			tt_nap_us(1000);
		tt_say("%s: system call %d", calls[i], call_number());
		if (calls[i][0] == 'r')
			tt_far_send(&c, 5, 0);
		else
			shutdown(c.fd, SHUT_RDWR);
		pthread_join(t, NULL);
		close(c.fd);
	}
}

static const struct tt_scene scenes[] = {{"silent-reset", silent_reset}, {"peek", peeks}, {"peek-all", peek_all},
    {"stdio-write-first", stdio_write_first}, {"stdio-write-only", stdio_write_only},
    {"stdio-shared", stdio_shared}, {"stdio-print", stdio_print}, {"same-calls", same_calls}, {"left-in-peace", left_in_peace}};

int main(int argc, char **argv)
{
	return tt_scene_main(argc, argv, scenes, TT_CK_ARRAY(scenes));
}
