/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cancel_check - a thread that is cancelled inside a call leaves the connection as it was: nothing is lost, no other thread is held
 * up, and what follows goes the way it went before (tests/stream/under --min-shm sees that).
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define MESSAGE 100u
#define WARM 60
#define ROUNDS 1500
#define DRAIN 0x01 /* the last byte of what is to be thrown away */

static int fd;
static int epfd;
static int go[2]; /* to the echo: drain */
static _Atomic bool inside;

static void *in_recv(void *arg)
{
	char b[MESSAGE];

	inside = true;
	(void)!recv(fd, b, sizeof(b), 0);
	return arg;
}

static void *in_read(void *arg)
{
	char b[MESSAGE];

	inside = true;
	(void)!read(fd, b, sizeof(b));
	return arg;
}

static void *in_recvmsg(void *arg)
{
	char b[MESSAGE], control[100];
	struct iovec iov = {b, sizeof(b)};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};

	inside = true;
	(void)!recvmsg(fd, &m, 0);
	return arg;
}

static void *in_peek(void *arg)
{
	char b[MESSAGE];

	inside = true;
	(void)!recv(fd, b, sizeof(b), MSG_PEEK | MSG_WAITALL);
	return arg;
}

static void *in_poll(void *arg)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	inside = true;
	(void)!poll(&p, 1, -1);
	return arg;
}

static void *in_select(void *arg)
{
	fd_set in;

	FD_ZERO(&in);
	FD_SET(fd, &in);
	inside = true;
	(void)!select(fd + 1, &in, NULL, NULL, NULL);
	return arg;
}

static void *in_epoll(void *arg)
{
	struct epoll_event ev;

	inside = true;
	(void)!epoll_wait(epfd, &ev, 1, -1);
	return arg;
}

static void *in_send(void *arg)
{
	static char b[1 << 20];

	inside = true;
	for (;;)
		(void)!send(fd, b, sizeof(b), MSG_NOSIGNAL);
	return arg;
}

/* A call that always finds something is a cancellation point all the same. */
static void *in_echoes(void *arg)
{
	char b[MESSAGE] = {0};

	inside = true;
	for (;;)
		if (send(fd, b, sizeof(b), MSG_NOSIGNAL) != sizeof(b) || recv(fd, b, sizeof(b), MSG_WAITALL) != sizeof(b))
			tt_fail("an echo: %s", strerror(errno));
	return arg;
}

static const struct way {
	const char *name;
	void *(*call)(void *);
	bool drain; /* bytes are under way afterwards */
} ways[] = {{"recv", in_recv, false}, {"read", in_read, false}, {"recvmsg", in_recvmsg, false},
    {"peek for all", in_peek, false}, {"poll", in_poll, false}, {"select", in_select, false},
    {"epoll_wait", in_epoll, false}, {"send", in_send, true}, {"echoes", in_echoes, true}};

static void must(bool ok, const char *what)
{
	if (!ok)
		tt_fail("%s: %s", what, strerror(errno));
}

/* The other end: sends back what comes; when told to, throws away all up to the mark. */
static void echo(int lfd)
{
	char b[65536];

	for (size_t i = 0; i < TT_CK_ARRAY(ways); i++) {
		int c = tt_accept_one(lfd);
		ssize_t n;

		for (int k = 0; k < WARM; k++)
			must(recv(c, b, MESSAGE, MSG_WAITALL) == MESSAGE && send(c, b, MESSAGE, 0) == MESSAGE, "warm-up");
		if (ways[i].call == in_echoes) {
			while ((n = recv(c, b, sizeof(b), 0)) > 0)
				must(send(c, b, (size_t)n, 0) == n, "echo");
		} else if (ways[i].call == in_send) {
			must(read(go[0], b, 1) == 1, "pipe");
			do
				n = recv(c, b, sizeof(b), 0);
			while (n > 0 && b[n - 1] != DRAIN);
			must(n > 0 && send(c, b + n - 1, 1, 0) == 1, "drain");
		}
		while ((n = recv(c, b, MESSAGE, MSG_WAITALL)) == MESSAGE)
			must(send(c, b, MESSAGE, 0) == MESSAGE, "echo");
		must(n == 0, "echo");
		close(c);
	}
	_exit(0);
}

static void exchange(int n, unsigned char salt)
{
	unsigned char out[MESSAGE], in[MESSAGE];

	for (int i = 0; i < n; i++) {
		memset(out, (i + salt) & 0xff, sizeof(out));
		must(send(fd, out, sizeof(out), 0) == sizeof(out), "send");
		must(recv(fd, in, sizeof(in), MSG_WAITALL) == sizeof(in), "recv");
		if (memcmp(in, out, sizeof(in)) != 0)
			tt_fail("wrong bytes in message %d", i);
	}
}

/* Reads up to the echo of the mark; what comes before it is of messages that were under way. */
static void drain(bool tell)
{
	char b[65536], mark = DRAIN;
	ssize_t n;

	if (tell)
		must(write(go[1], "d", 1) == 1, "pipe");
	must(send(fd, &mark, 1, 0) == 1, "send of the mark");
	do
		n = recv(fd, b, sizeof(b), 0);
	while (n > 0 && b[n - 1] != DRAIN);
	must(n > 0, "drain");
}

static void try_way(const struct way *w, uint16_t port)
{
	struct epoll_event ev = {.events = EPOLLIN};
	void *how = NULL;
	pthread_t t;

	fd = tt_connect_to(TT_FAMILY_4, port);
	exchange(WARM, 1);
	epfd = epoll_create1(EPOLL_CLOEXEC);
	if (w->call == in_epoll)
		must(epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &ev) == 0, "epoll_ctl");
	for (int i = 0; i < (w->drain ? 1 : 3); i++) {
		inside = false;
		must(pthread_create(&t, NULL, w->call, NULL) == 0, "pthread_create");
		while (!inside)
			sched_yield();
		tt_nap_us(20000); /* asleep in the kernel by then, as a rule; before it, or spinning, must be as good */
		must(pthread_cancel(t) == 0 && pthread_join(t, &how) == 0, "pthread_join");
		if (how != PTHREAD_CANCELED)
			tt_fail("%s: not cancelled", w->name);
	}
	if (w->call == in_epoll)
		must(epoll_ctl(epfd, EPOLL_CTL_DEL, fd, NULL) == 0, "epoll_ctl");
	if (w->drain)
		drain(w->call == in_send);
	exchange(ROUNDS, 7);
	close(fd);
	close(epfd);
	printf("%s: cancelled, and %d messages after it\n", w->name, ROUNDS);
	fflush(stdout);
}

int main(void)
{
	uint16_t port;
	int lfd = tt_listen_any(TT_FAMILY_4, 4, &port), status;
	pid_t pid;

	must(pipe(go) == 0, "pipe");
	pid = fork();
	must(pid >= 0, "fork");
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		echo(lfd);
	}
	for (size_t i = 0; i < TT_CK_ARRAY(ways); i++)
		try_way(&ways[i], port);
	must(waitpid(pid, &status, 0) == pid, "waitpid");
	if (status != 0)
		tt_fail("the echo ended with status %x", (unsigned int)status);
	return 0;
}
