/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * udp_check - what a datagram socket answers around its edges, between processes that have exchanged
 * enough for acceleration to be in place: a receiver that closes or is killed, a socket that another
 * thread closes, fork, connect() and shutdown() in the midst of it, cut and empty datagrams.
 *
 * Every case must hold on the kernel alone. Exits 0, or 1 with the first line that did not. With arguments: those cases
 * alone; of those that run only then the caller looks at how much went by shared memory.
 */
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define WARM 64
#define SOON_MS 2000

static const char *name;

#define CHECK(ok)                                                                                  \
	((ok) ? (void)0                                                                            \
	      : tt_fail("%s, line %d: %s (errno %d: %s)", name, __LINE__, #ok, errno,              \
		    strerror(errno)))

/* Two ends on one processor would never spin: the first allowed one is ours, the last one is the other process's. */
static void own_cpu(bool first)
{
	static cpu_set_t allowed;
	static bool known;
	cpu_set_t one;
	size_t cpu = CPU_SETSIZE;

	if (!known)
		known = sched_getaffinity(0, sizeof(allowed), &allowed) == 0;
	for (size_t i = 0; i < CPU_SETSIZE && !(first && cpu < CPU_SETSIZE); i++)
		if (CPU_ISSET(i, &allowed))
			cpu = i;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	(void)sched_setaffinity(0, sizeof(one), &one);
}

static int udp(struct tt_addr *at)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	tt_addr_loopback(at, TT_FAMILY_4, 0);
	if (fd < 0 || bind(fd, (void *)&at->ss, at->len) < 0 ||
	    getsockname(fd, (void *)&at->ss, &at->len) < 0)
		tt_env_fail("UDP socket: %s", strerror(errno));
	return fd;
}

static void timeout_set(int fd, unsigned int ms)
{
	struct timeval tv = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};

	CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)) == 0);
}

/* A process that sends back what it gets; its address goes to *at. With a datagram "c" it closes, with "q" it ends in good order, to "." it says nothing. */
static pid_t echo_start(struct tt_addr *at)
{
	int up[2];
	pid_t pid;

	CHECK(pipe(up) == 0);
	pid = fork();
	if (pid == 0) {
		struct tt_addr from;
		char buf[2048];
		int fd = udp(at);

		own_cpu(false);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)tt_io_put(up[1], at, sizeof(*at));
		for (;;) {
			ssize_t n;

			from.len = sizeof(from.ss);
			n = recvfrom(fd, buf, sizeof(buf), 0, (void *)&from.ss, &from.len);
			if (n == 1 && buf[0] == 'c') {
				close(fd);
				for (;;)
					pause();
			}
			if (n == 1 && buf[0] == 'q')
				exit(0);
			if (n >= 0 && !(n == 1 && buf[0] == '.'))
				(void)sendto(fd, buf, (size_t)n, 0, (void *)&from.ss, from.len);
		}
	}
	CHECK(pid > 0);
	close(up[1]);
	CHECK(tt_io_get(up[0], at, sizeof(*at)));
	close(up[0]);
	return pid;
}

static void echo_stop(pid_t pid)
{
	kill(pid, SIGKILL);
	CHECK(waitpid(pid, NULL, 0) == pid);
}

static void ping(int fd, int n)
{
	for (int i = 0; i < n; i++) {
		int got = -1;

		CHECK(send(fd, &i, sizeof(i), 0) == sizeof(i));
		CHECK(recv(fd, &got, sizeof(got), 0) == sizeof(got));
		CHECK(got == i);
	}
}

static int pinger(const struct tt_addr *to)
{
	struct tt_addr me;
	int fd = udp(&me);

	CHECK(connect(fd, (const void *)&to->ss, to->len) == 0);
	timeout_set(fd, SOON_MS);
	ping(fd, WARM);
	return fd;
}

/* Sends until it is refused; ms: how long that may take after the receiver has gone. */
static void refused_soon(int fd, unsigned int ms)
{
	uint64_t end = tt_now_ns() + ms * 1000000ull;
	ssize_t n;

	do {
		n = send(fd, "x", 1, 0);
		CHECK(n == 1 || errno == ECONNREFUSED);
	} while (n == 1 && tt_now_ns() < end);
	CHECK(n < 0);
}

static void refused_closed(void)
{
	struct tt_addr at;
	pid_t pid = echo_start(&at);
	int fd = pinger(&at);

	CHECK(send(fd, "c", 1, 0) == 1);
	refused_soon(fd, SOON_MS);
	close(fd);
	echo_stop(pid);
}

static void refused_killed(void)
{
	struct tt_addr at;
	pid_t pid = echo_start(&at);
	int fd = pinger(&at);
	int err = 0;
	socklen_t len = sizeof(err);
	char c;

	echo_stop(pid);
	/* One request, and then a wait for the answer: as every resolver does. */
	CHECK(send(fd, "x", 1, 0) == 1);
	CHECK(recv(fd, &c, 1, 0) < 0 && errno == ECONNREFUSED);
	CHECK(send(fd, "x", 1, 0) == 1);
	CHECK(getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) == 0);
	CHECK(err == ECONNREFUSED);
	close(fd);
}

/* Its port goes to another process: what is sent then must reach that one. */
static void receiver_replaced(void)
{
	struct tt_addr at;
	pid_t pid = echo_start(&at);
	int fd = pinger(&at);
	int other;
	char buf[8];
	bool came = false;

	echo_stop(pid);
	other = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	CHECK(bind(other, (void *)&at.ss, at.len) == 0);
	timeout_set(other, 20);
	for (int i = 0; i < 100 && !came; i++) {
		(void)send(fd, "hello", 5, 0);
		came = recv(other, buf, sizeof(buf), 0) == 5;
	}
	CHECK(came);
	close(other);
	close(fd);
}

struct reader {
	int fd;
	atomic_bool done;
};

static void *reader_main(void *arg)
{
	struct reader *r = arg;
	char buf[16];

	/* The kernel keeps a call alive whose descriptor another thread closes, up to its timeout. */
	while (recv(r->fd, buf, sizeof(buf), 0) >= 0)
		;
	atomic_store(&r->done, true);
	return NULL;
}

static void closed_by_another(void)
{
	struct tt_addr at;
	pid_t pid = echo_start(&at);

	for (int i = 0; i < 20; i++) {
		struct reader r = {.fd = pinger(&at)};
		pthread_t thread;

		timeout_set(r.fd, 50);
		CHECK(pthread_create(&thread, NULL, reader_main, &r) == 0);
		for (int k = 0; k < 1 + i * 10; k++)
			(void)send(r.fd, "hello", 5, 0);
		close(r.fd);
		CHECK(pthread_join(thread, NULL) == 0);
		CHECK(atomic_load(&r.done));
	}
	echo_stop(pid);
}

static void forked(void)
{
	struct tt_addr at;
	pid_t pid = echo_start(&at);
	int fd = pinger(&at);
	pid_t child;
	int status;

	/* What is unread at the fork can be read once, by either. */
	CHECK(send(fd, "left", 4, 0) == 4);
	child = fork();
	if (child == 0) {
		char buf[8];

		CHECK(recv(fd, buf, sizeof(buf), 0) == 4 && memcmp(buf, "left", 4) == 0);
		ping(fd, WARM);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(status == 0);
	ping(fd, WARM);
	close(fd);
	echo_stop(pid);
}

static void connected_later(void)
{
	struct tt_addr at, me;
	pid_t pid = echo_start(&at);
	int fd = udp(&me);
	int stranger;
	char buf[8];
	struct tt_addr his;

	timeout_set(fd, SOON_MS);
	for (int i = 0; i < WARM; i++) {
		CHECK(sendto(fd, "ping", 4, 0, (void *)&at.ss, at.len) == 4);
		CHECK(recv(fd, buf, sizeof(buf), 0) == 4);
	}
	stranger = udp(&his);
	CHECK(connect(fd, (void *)&at.ss, at.len) == 0);
	CHECK(sendto(stranger, "no", 2, 0, (void *)&me.ss, me.len) == 2);
	ping(fd, WARM);
	timeout_set(fd, 20);
	CHECK(recv(fd, buf, sizeof(buf), 0) < 0 && errno == EAGAIN);
	timeout_set(fd, SOON_MS);
	/* Dissolved: everybody may send again, and send() has nowhere to go. */
	CHECK(connect(fd, &(struct sockaddr){.sa_family = AF_UNSPEC}, sizeof(struct sockaddr)) == 0);
	CHECK(send(fd, "x", 1, 0) < 0 && errno == EDESTADDRREQ);
	close(stranger);
	close(fd);
	echo_stop(pid);
}

static void shut(void)
{
	struct tt_addr at;
	pid_t pid = echo_start(&at);
	int fd = pinger(&at);
	char c;

	CHECK(shutdown(fd, SHUT_RD) == 0);
	CHECK(recv(fd, &c, 1, 0) == 0);
	CHECK(shutdown(fd, SHUT_WR) == 0);
	CHECK(send(fd, "x", 1, MSG_NOSIGNAL) < 0 && errno == EPIPE);
	close(fd);
	echo_stop(pid);
}

static void cut_and_empty(void)
{
	struct tt_addr at;
	pid_t pid = echo_start(&at);
	int fd = pinger(&at);
	int next = -1;
	char buf[16];
	struct pollfd p = {.fd = fd, .events = POLLIN};

	for (int i = 0; i < WARM; i++) {
		CHECK(send(fd, "0123456789", 10, 0) == 10);
		CHECK(poll(&p, 1, SOON_MS) == 1 && p.revents == POLLIN);
		CHECK(ioctl(fd, FIONREAD, &next) == 0 && next == 10);
		CHECK(recv(fd, buf, 4, MSG_PEEK) == 4);
		CHECK(recv(fd, buf, 4, MSG_PEEK | MSG_TRUNC) == 10);
		CHECK(recv(fd, buf, 4, MSG_TRUNC) == 10 && memcmp(buf, "0123", 4) == 0);
		CHECK(recv(fd, buf, 4, MSG_DONTWAIT) < 0 && errno == EAGAIN);
		CHECK(send(fd, "", 0, 0) == 0);
		CHECK(poll(&p, 1, SOON_MS) == 1 && p.revents == POLLIN);
		CHECK(ioctl(fd, FIONREAD, &next) == 0 && next == 0);
		CHECK(recv(fd, buf, sizeof(buf), 0) == 0);
		CHECK(poll(&p, 1, 0) == 0);
	}
	close(fd);
	echo_stop(pid);
}

/* How long an address may be said to be: sendmsg() and sendto() differ. */
static void address_lengths(void)
{
	struct tt_addr at;
	pid_t pid = echo_start(&at);
	int fd = pinger(&at);
	struct sockaddr_storage to[2];
	char b[8];
	struct iovec iov = {"hello", 5};

	memset(to, 0, sizeof(to));
	memcpy(to, &at.ss, at.len);
	for (int i = 0; i < WARM; i++) {
		struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_name = to};

		CHECK(sendmsg(fd, &m, 0) == 5); /* none at all */
		m.msg_namelen = sizeof(to[0]) + 1;
		CHECK(sendmsg(fd, &m, 0) == 5);
		m.msg_namelen = 4;
		CHECK(sendmsg(fd, &m, 0) < 0 && errno == EINVAL);
		m.msg_namelen = UINT32_MAX;
		CHECK(sendmsg(fd, &m, 0) < 0 && errno == EINVAL);
		CHECK(sendto(fd, "no", 2, 0, (void *)to, 0) < 0 && errno == EINVAL);
		CHECK(sendto(fd, "no", 2, 0, (void *)to, sizeof(to[0]) + 1) < 0 && errno == EINVAL);
		CHECK(sendto(fd, "again", 5, 0, (void *)to, sizeof(to[0])) == 5);
		CHECK(recv(fd, b, sizeof(b), 0) == 5 && memcmp(b, "hello", 5) == 0);
		CHECK(recv(fd, b, sizeof(b), 0) == 5 && memcmp(b, "hello", 5) == 0);
		CHECK(recv(fd, b, sizeof(b), 0) == 5 && memcmp(b, "again", 5) == 0);
	}
	close(fd);
	echo_stop(pid);
}

static void error_is(int fd, int want)
{
	int err = -1;
	socklen_t len = sizeof(err);

	CHECK(getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) == 0);
	CHECK(err == want);
}

/* Nothing has ever come back to it, so nothing can: poll() must tell that nobody is there. */
static void refused_sender(void)
{
	struct tt_addr at, me;
	pid_t pid = echo_start(&at);
	int fd = udp(&me);
	struct pollfd p = {.fd = fd, .events = POLLIN};

	CHECK(connect(fd, (void *)&at.ss, at.len) == 0);
	for (int i = 0; i < 20 * WARM; i++) {
		CHECK(send(fd, ".", 1, 0) == 1);
		if (i % 8 == 0)
			sched_yield();
	}
	echo_stop(pid);
	CHECK(send(fd, ".", 1, 0) == 1);
	CHECK(poll(&p, 1, SOON_MS) == 1);
	CHECK(p.revents & POLLERR);
	error_is(fd, ECONNREFUSED);
	close(fd);
}

static int set_with(int fd, uint32_t events)
{
	struct epoll_event e = {.events = events};
	int ep = epoll_create1(EPOLL_CLOEXEC);

	CHECK(ep >= 0 && epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e) == 0);
	return ep;
}

static void told_by_set(int fd, uint32_t events, int wait_ms)
{
	struct epoll_event e = {0};
	int ep = set_with(fd, events);
	uint64_t end = tt_now_ns() + SOON_MS * 1000000ull;
	int n;

	CHECK(send(fd, ".", 1, 0) == 1);
	do
		n = epoll_wait(ep, &e, 1, wait_ms);
	while (n == 0 && tt_now_ns() < end);
	CHECK(n == 1 && e.events == EPOLLERR);
	close(ep);
}

/* One request to a receiver that was killed a moment ago: each kind of wait, and each look without one, tells. */
static void refused_waits(void)
{
	for (int way = 0; way < 6; way++) {
		struct tt_addr at;
		pid_t pid = echo_start(&at);
		int fd = pinger(&at);
		struct pollfd p = {.fd = fd, .events = POLLIN};
		uint64_t end;
		char c;

		ping(fd, 10 * WARM);
		echo_stop(pid);
		end = tt_now_ns() + SOON_MS * 1000000ull;
		if (way < 3) {
			told_by_set(fd, way == 1 ? EPOLLIN | EPOLLET : EPOLLIN, way == 2 ? 0 : SOON_MS);
		} else {
			CHECK(send(fd, ".", 1, 0) == 1);
			while (way == 3 && recv(fd, &c, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN && tt_now_ns() < end)
				;
			CHECK(way != 3 || errno == ECONNREFUSED);
			while (way == 4 && poll(&p, 1, 0) == 0 && tt_now_ns() < end)
				;
			CHECK(way != 4 || p.revents == POLLERR);
		}
		error_is(fd, way == 3 ? 0 : ECONNREFUSED);
		close(fd);
	}
}

static void *later_refused(void *arg)
{
	const int *fd = arg;

	/* Whether the other thread is asleep by now or not, the error is for it. */
	usleep(20000);
	(void)send(fd[0], "x", 1, 0);
	return NULL;
}

/* An error behind the first of several messages is kept: whoever asks next gets it. */
static void error_kept(void)
{
	for (int i = 0; i < 3; i++) {
		struct tt_addr me, his;
		int fd[2] = {udp(&me), udp(&his)};
		char b[2][8];
		struct iovec iov[2] = {{b[0], 8}, {b[1], 8}};
		struct mmsghdr m[2] = {{.msg_hdr = {.msg_iov = &iov[0], .msg_iovlen = 1}},
		    {.msg_hdr = {.msg_iov = &iov[1], .msg_iovlen = 1}}};
		struct pollfd p = {.fd = fd[0], .events = POLLIN};
		struct epoll_event e = {0};
		int ep = i == 2 ? set_with(fd[0], EPOLLIN) : -1;
		pthread_t thread;

		CHECK(connect(fd[0], (void *)&his.ss, his.len) == 0);
		CHECK(sendto(fd[1], "one", 3, 0, (void *)&me.ss, me.len) == 3);
		close(fd[1]);
		timeout_set(fd[0], SOON_MS);
		if (i == 2)
			CHECK(epoll_wait(ep, &e, 1, SOON_MS) == 1 && e.events == EPOLLIN);
		CHECK(pthread_create(&thread, NULL, later_refused, fd) == 0);
		CHECK(recvmmsg(fd[0], m, 2, 0, NULL) == 1);
		CHECK(pthread_join(thread, NULL) == 0);
		if (i == 0)
			CHECK(poll(&p, 1, SOON_MS) == 1 && p.revents == POLLERR);
		if (i == 2)
			CHECK(epoll_wait(ep, &e, 1, SOON_MS) == 1 && e.events == EPOLLERR);
		if (i != 1)
			error_is(fd[0], ECONNREFUSED);
		else
			CHECK(recv(fd[0], b[0], 8, 0) < 0 && errno == ECONNREFUSED);
		error_is(fd[0], 0);
		CHECK(poll(&p, 1, 0) == 0);
		CHECK(ep < 0 || (epoll_wait(ep, &e, 1, 0) == 0 && close(ep) == 0));
		close(fd[0]);
	}
}

/* What sendfile() sends keeps its place among what send() does. */
static void by_file(void)
{
	struct tt_addr at;
	pid_t pid = echo_start(&at);
	int fd = pinger(&at);
	int file = memfd_create("by-file", MFD_CLOEXEC);
	char b[16];

	CHECK(file >= 0 && write(file, "file", 4) == 4);
	for (int i = 0; i < 50; i++) {
		off_t from = 0;

		CHECK(send(fd, "before", 6, 0) == 6);
		CHECK(sendfile(fd, file, &from, 4) == 4);
		CHECK(send(fd, "behind", 6, 0) == 6);
		CHECK(recv(fd, b, sizeof(b), 0) == 6 && memcmp(b, "before", 6) == 0);
		CHECK(recv(fd, b, sizeof(b), 0) == 4 && memcmp(b, "file", 4) == 0);
		CHECK(recv(fd, b, sizeof(b), 0) == 6 && memcmp(b, "behind", 6) == 0);
	}
	close(file);
	close(fd);
	echo_stop(pid);
}

static void quit(int fd, pid_t pid)
{
	int status;

	CHECK(send(fd, "q", 1, 0) == 1);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	close(fd);
}

#define FLOWS 90 /* more than one socket receives from by shared memory */

static void many_flows(void)
{
	struct tt_addr at;
	pid_t pid = echo_start(&at);
	int fd[FLOWS];

	for (int i = 0; i < FLOWS; i++)
		fd[i] = pinger(&at);
	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < FLOWS; i++)
			CHECK(send(fd[i], &i, sizeof(i), 0) == sizeof(i));
		for (int i = 0; i < FLOWS; i++) {
			int got = -1;

			CHECK(recv(fd[i], &got, sizeof(got), 0) == sizeof(got) && got == i);
		}
	}
	for (int i = 1; i < FLOWS; i++)
		close(fd[i]);
	quit(fd[0], pid);
}

/* A network of our own, whose loopback carries 1,500 bytes. False: not allowed here. */
static bool small_loopback(void)
{
	struct ifreq lo = {.ifr_name = "lo", .ifr_mtu = 1500};
	int fd;
	bool ok;

	if (unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
		return false;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ok = fd >= 0 && ioctl(fd, SIOCSIFMTU, &lo) == 0 && ioctl(fd, SIOCGIFFLAGS, &lo) == 0;
	lo.ifr_flags = (short)(lo.ifr_flags | IFF_UP);
	ok = ok && ioctl(fd, SIOCSIFFLAGS, &lo) == 0;
	close(fd);
	return ok;
}

/* A socket that forbids fragments is told when a datagram would need them. */
static void too_long_here(void)
{
	static const int modes[] = {IP_PMTUDISC_DO, IP_PMTUDISC_PROBE, IP_PMTUDISC_INTERFACE};
	static char b[2000];

	for (size_t i = 0; i < TT_CK_ARRAY(modes); i++) {
		struct tt_addr at;
		pid_t pid = echo_start(&at);
		int fd = pinger(&at);

		CHECK(send(fd, b, sizeof(b), 0) == sizeof(b));
		CHECK(recv(fd, b, sizeof(b), 0) == sizeof(b));
		CHECK(setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &modes[i], sizeof(modes[i])) == 0);
		CHECK(send(fd, b, sizeof(b), 0) < 0 && errno == EMSGSIZE);
		ping(fd, WARM);
		close(fd);
		echo_stop(pid);
	}
}

static void too_long(void)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		if (!small_loopback())
			_exit(77);
		too_long_here();
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		printf("udp_check: too-long: no network of its own here: left out\n");
	else
		CHECK(status == 0);
}

#define GONE_PINGS 5000

/* Asleep in a receive, or about to be: both are points where a thread can be cancelled. */
static void *sleeper_main(void *arg)
{
	char c;

	(void)recv(*(const int *)arg, &c, 1, 0);
	return NULL;
}

/* Threads that were cancelled in a receive are no longer there: nobody is to be woken for them. */
static void gone_cancelled(void)
{
	struct tt_addr at;
	pid_t pid = echo_start(&at);
	struct tt_addr me;
	int fd = udp(&me);

	CHECK(connect(fd, (const void *)&at.ss, at.len) == 0);
	for (int i = 0; i < 20; i++) {
		pthread_t thread;
		void *result;

		if (i == 10) /* from here on with shared memory */
			ping(fd, WARM);
		CHECK(pthread_create(&thread, NULL, sleeper_main, &fd) == 0);
		for (int k = 0; k < i; k++)
			sched_yield();
		CHECK(pthread_cancel(thread) == 0);
		CHECK(pthread_join(thread, &result) == 0);
		CHECK(result == PTHREAD_CANCELED);
	}
	timeout_set(fd, SOON_MS);
	ping(fd, GONE_PINGS);
	quit(fd, pid);
}

/* Is `name` to be run? */
static bool chosen(int argc, char **argv, bool by_default)
{
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], name) == 0)
			return true;
	return argc == 1 && by_default;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
		bool by_name; /* only when asked for */
	} cases[] = {
	    {"refused-closed", refused_closed, false},
	    {"refused-killed", refused_killed, false},
	    {"receiver-replaced", receiver_replaced, false},
	    {"closed-by-another", closed_by_another, false},
	    {"forked", forked, false},
	    {"connected-later", connected_later, false},
	    {"shut", shut, false},
	    {"cut-and-empty", cut_and_empty, false},
	    {"address-lengths", address_lengths, false},
	    {"refused-sender", refused_sender, false},
	    {"refused-waits", refused_waits, false},
	    {"error-kept", error_kept, false},
	    {"by-file", by_file, false},
	    {"many-flows", many_flows, false},
	    {"too-long", too_long, false},
	    {"gone-cancelled", gone_cancelled, true},
	};

	signal(SIGPIPE, SIG_IGN);
	own_cpu(true);
	for (size_t i = 0; i < TT_CK_ARRAY(cases); i++) {
		name = cases[i].name;
		if (!chosen(argc, argv, !cases[i].by_name))
			continue;
		cases[i].run();
		printf("udp_check: %s\n", name);
		fflush(stdout);
	}
	return 0;
}
