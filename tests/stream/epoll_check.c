/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * epoll_check - the transcript of what epoll tells about TCP sockets: level, edge, one shot,
 * exclusive, nested, shared between sets, threads and descriptors, mixed with other kinds of
 * descriptors.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "scene.h"

static int set_new(void)
{
	return epoll_create1(EPOLL_CLOEXEC);
}

static int set_with(struct tt_conn *c, uint32_t events)
{
	int ep = set_new();

	tt_conn_open(c);
	tt_conn_nonblock(c);
	tt_ep_ctl(ep, EPOLL_CTL_ADD, c->fd, events, 1);
	return ep;
}

static void lt_repeat(void)
{
	struct tt_conn c;
	int ep = set_with(&c, EPOLLIN);

	tt_ep_say("nothing yet", ep, 8, TT_QUIET_MS);
	tt_far_send(&c, 100, 0);
	tt_ep_say("first", ep, 8, TT_SOON_MS);
	tt_ep_say("again", ep, 8, TT_SOON_MS);
	tt_near_recv(&c, "read part", 60, 0);
	tt_ep_say("rest", ep, 8, TT_SOON_MS);
	tt_near_recv(&c, "read rest", 60, 0);
	tt_ep_say("drained", ep, 8, TT_QUIET_MS);
	tt_near_recv(&c, "read nothing", 60, 0);
	tt_far_send(&c, 1, 20);
	tt_ep_say("while waiting", ep, 8, -1);
	tt_near_recv(&c, "read", 60, 0);
}

static void et_once(void)
{
	struct tt_conn c;
	int ep = set_with(&c, EPOLLIN | EPOLLET);

	tt_far_send(&c, 100, 0);
	tt_ep_say("first", ep, 8, TT_SOON_MS);
	tt_ep_say("no repeat", ep, 8, TT_QUIET_MS);
	tt_far_send(&c, 100, 0);
	tt_ep_say("more came", ep, 8, TT_SOON_MS);
	tt_near_recv(&c, "read part", 50, 0);
	tt_ep_say("a part read makes no event", ep, 8, TT_QUIET_MS);
	tt_near_recv(&c, "read", 1000, 0);
	tt_near_recv(&c, "drained", 1000, 0);
	tt_ep_say("silence", ep, 8, TT_QUIET_MS);
	tt_far_send(&c, 10, 20);
	tt_ep_say("while waiting", ep, 8, -1);
	/* epoll(7): on a stream a short read tells that it is drained. */
	tt_near_recv(&c, "short read", 1000, 0);
	tt_far_send(&c, 10, 0);
	tt_ep_say("after a short read", ep, 8, TT_SOON_MS);
	tt_near_recv(&c, "short read", 1000, 0);
	for (int i = 0; i < 50; i++) {
		tt_far_send(&c, 64, 0);
		if (epoll_wait(ep, &(struct epoll_event){0}, 1, TT_SOON_MS) != 1)
			tt_say("message %d of a burst was not told", i);
		tt_near_recv(&c, NULL, 1000, 0);
	}
}

static void et_add_late(void)
{
	struct tt_conn c;
	int ep = set_new();

	tt_conn_open(&c);
	tt_conn_nonblock(&c);
	tt_far_send(&c, 100, 0);
	tt_until(c.fd, POLLIN);
	tt_ep_ctl(ep, EPOLL_CTL_ADD, c.fd, EPOLLIN | EPOLLET, 1);
	tt_ep_say("data before ADD", ep, 8, TT_SOON_MS);
	tt_ep_say("no repeat", ep, 8, TT_QUIET_MS);
	tt_ep_ctl(ep, EPOLL_CTL_MOD, c.fd, EPOLLIN | EPOLLET, 2);
	tt_ep_say("MOD arms again", ep, 8, TT_SOON_MS);
	tt_near_recv(&c, "read", 1000, 0);
	tt_ep_ctl(ep, EPOLL_CTL_MOD, c.fd, EPOLLIN | EPOLLET, 3);
	tt_ep_say("MOD without data", ep, 8, TT_QUIET_MS);
}

static void oneshot(void)
{
	struct tt_conn c;
	int ep = set_with(&c, EPOLLIN | EPOLLONESHOT);

	for (int i = 0; i < 5; i++) {
		tt_far_send(&c, 100, 0);
		tt_ep_say("once", ep, 8, TT_SOON_MS);
		tt_far_send(&c, 10, 0);
		tt_ep_say("disarmed", ep, 8, TT_QUIET_MS);
		tt_ep_ctl(ep, EPOLL_CTL_MOD, c.fd, EPOLLIN | EPOLLONESHOT, 1);
		tt_ep_say("armed again", ep, 8, TT_SOON_MS);
		tt_near_recv(&c, "read", 1000, 0);
		tt_ep_ctl(ep, EPOLL_CTL_MOD, c.fd, EPOLLIN | EPOLLONESHOT, 1);
	}
	tt_far_send(&c, 10, 20);
	tt_ep_say("while waiting", ep, 8, -1);
}

static void exclusive(void)
{
	struct tt_conn c;
	int ep = set_with(&c, EPOLLIN | EPOLLEXCLUSIVE);
	struct epoll_event ev = {.events = EPOLLIN | EPOLLEXCLUSIVE};

	tt_far_send(&c, 100, 20);
	tt_ep_say("one waiter", ep, 8, -1);
	tt_near_recv(&c, "read", 1000, 0);
	tt_say_ret("MOD to EXCLUSIVE", epoll_ctl(ep, EPOLL_CTL_MOD, c.fd, &ev));
	ev.events = EPOLLIN;
	tt_say_ret("MOD of EXCLUSIVE", epoll_ctl(ep, EPOLL_CTL_MOD, c.fd, &ev));
	tt_say_ret("DEL", epoll_ctl(ep, EPOLL_CTL_DEL, c.fd, NULL));
	ev.events = EPOLLIN | EPOLLEXCLUSIVE | EPOLLONESHOT;
	tt_say_ret("EXCLUSIVE and ONESHOT", epoll_ctl(ep, EPOLL_CTL_ADD, c.fd, &ev));
}

/* Fills the connection until the kernel, or whoever, takes no more. */
static void fill(struct tt_conn *c)
{
	while (tt_near_send(c, NULL, 65536, 0) > 0)
		;
	tt_say("full: %s", tt_errno_word(errno));
}

static void out_level(void)
{
	struct tt_conn c;
	int ep = set_with(&c, EPOLLOUT);
	uint64_t warm = c.tx;

	tt_ep_say("room", ep, 8, TT_SOON_MS);
	tt_ep_say("still room", ep, 8, TT_SOON_MS);
	fill(&c);
	tt_ep_say("full", ep, 8, TT_QUIET_MS);
	tt_far_recv(&c, c.tx - warm);
	tt_ep_say("room again", ep, 8, TT_SOON_MS);
	tt_near_send(&c, "send", 100, 0);
	tt_far_recv(&c, 100);
}

static void out_edge(void)
{
	struct tt_conn c;
	int ep = set_with(&c, EPOLLOUT | EPOLLET);
	uint64_t warm = c.tx;

	tt_ep_say("room", ep, 8, TT_SOON_MS);
	tt_ep_say("no repeat", ep, 8, TT_QUIET_MS);
	tt_near_send(&c, "small send", 100, 0);
	fill(&c);
	tt_ep_say("full", ep, 8, TT_QUIET_MS);
	tt_far_recv(&c, c.tx - warm);
	tt_ep_say("room again", ep, 8, TT_SOON_MS);
}

static void out_full_wait(void)
{
	struct tt_conn c;
	int ep = set_with(&c, EPOLLIN | EPOLLOUT | EPOLLET);
	uint64_t total = 0;
	uint64_t warm = c.tx;

	/* A writer that only ever waits after EAGAIN must get through. */
	while (total < 8u << 20) {
		long r = tt_near_send(&c, NULL, 65536, 0);
		struct epoll_event ev;

		if (r > 0) {
			total += (uint64_t)r;
			continue;
		}
		tt_far_recv(&c, c.tx - warm);
		warm = c.tx;
		if (epoll_wait(ep, &ev, 1, TT_SOON_MS) != 1) {
			tt_say("no room was told");
			return;
		}
	}
	tt_far_recv(&c, c.tx - warm);
	tt_say("all sent");
}

static void half_close(void)
{
	struct tt_conn c;
	int ep = set_with(&c, EPOLLIN | EPOLLRDHUP);

	tt_far_send(&c, 100, 0);
	tt_far_shutdown(&c, SHUT_WR, 0);
	tt_until(c.fd, POLLRDHUP);
	tt_ep_say("data and its end", ep, 8, TT_SOON_MS);
	tt_near_recv(&c, "data", 1000, 0);
	tt_ep_say("end", ep, 8, TT_SOON_MS);
	tt_near_recv(&c, "end", 1000, 0);
	tt_near_recv(&c, "end again", 1000, 0);
	tt_near_send(&c, "our way is open", 50, 0);
	tt_far_recv(&c, 50);
	tt_say_ret("shutdown", shutdown(c.fd, SHUT_WR));
	tt_until(c.fd, POLLHUP);
	tt_ep_say("both ends shut", ep, 8, TT_SOON_MS);
	tt_say("peer's end: %ld", tt_far_recv_eof(&c));
}

static void half_close_waiting(void)
{
	struct tt_conn c;
	int ep = set_with(&c, EPOLLIN | EPOLLRDHUP | EPOLLET);

	tt_far_shutdown(&c, SHUT_WR, 30);
	tt_ep_say("while waiting", ep, 8, -1);
	tt_near_recv(&c, "end", 1000, 0);
	/* A FIN wakes twice in the kernel, and a quick waiter hears of it twice: then it is quiet. */
	(void)epoll_wait(ep, &(struct epoll_event){0}, 1, TT_QUIET_MS);
	tt_ep_say("no repeat", ep, 8, TT_QUIET_MS);
}

static void reset(void)
{
	struct tt_conn c;
	int ep = set_with(&c, EPOLLIN | EPOLLOUT | EPOLLRDHUP);

	tt_far_reset(&c);
	tt_until(c.fd, POLLERR);
	tt_ep_say("reset", ep, 8, TT_SOON_MS);
	tt_near_recv(&c, "recv", 100, 0);
	tt_near_recv(&c, "recv again", 100, 0);
	tt_near_send(&c, "send", 100, 0);
	tt_ep_say("after", ep, 8, TT_SOON_MS);
}

static void close_with_unread(void)
{
	struct tt_conn c;
	int ep = set_with(&c, EPOLLIN | EPOLLRDHUP);

	tt_near_send(&c, "send", 1000, 0);
	tt_far_close(&c, 0);
	tt_until(c.fd, POLLHUP);
	tt_ep_say("closed with bytes unread", ep, 8, TT_SOON_MS);
	tt_near_recv(&c, "recv", 100, 0);
}

static void del_add(void)
{
	struct tt_conn c;
	int ep = set_with(&c, EPOLLIN);

	tt_ep_ctl(ep, EPOLL_CTL_DEL, c.fd, 0, 0);
	tt_far_send(&c, 100, 0);
	tt_ep_say("deleted", ep, 8, TT_QUIET_MS);
	tt_ep_ctl(ep, EPOLL_CTL_ADD, c.fd, EPOLLIN, 5);
	tt_ep_say("added", ep, 8, TT_SOON_MS);
	tt_ep_ctl(ep, EPOLL_CTL_MOD, c.fd, 0, 6);
	tt_ep_say("no interest", ep, 8, TT_QUIET_MS);
	tt_ep_ctl(ep, EPOLL_CTL_MOD, c.fd, EPOLLIN, 0xfedcba9876543210ull);
	tt_ep_say("data word", ep, 8, TT_SOON_MS);
}

static void close_removes(void)
{
	struct tt_conn a, b;
	int ep = set_new(), d;

	tt_conn_open(&a);
	tt_conn_open(&b);
	tt_ep_ctl(ep, EPOLL_CTL_ADD, a.fd, EPOLLIN, 1);
	tt_ep_ctl(ep, EPOLL_CTL_ADD, b.fd, EPOLLIN, 2);
	tt_far_send(&a, 10, 0);
	tt_far_send(&b, 10, 0);
	tt_until(a.fd, POLLIN);
	tt_until(b.fd, POLLIN);
	tt_ep_say("both", ep, 8, TT_SOON_MS);
	close(a.fd);
	tt_ep_say("one closed", ep, 8, TT_SOON_MS);
	d = dup(b.fd);
	close(b.fd);
	tt_ep_say("a duplicate keeps it", ep, 8, TT_SOON_MS);
	b.fd = d;
	tt_near_recv(&b, "read through the duplicate", 100, 0);
	tt_far_send(&b, 10, 20);
	tt_ep_say("still told", ep, 8, TT_SOON_MS);
	close(d);
	tt_ep_say("all closed", ep, 8, TT_QUIET_MS);
}

static void dup_twice(void)
{
	struct tt_conn c;
	int ep = set_with(&c, EPOLLIN), d = dup(c.fd);

	tt_ep_ctl(ep, EPOLL_CTL_ADD, d, EPOLLIN | EPOLLET, 2);
	tt_far_send(&c, 100, 0);
	tt_until(c.fd, POLLIN);
	tt_ep_say("both names", ep, 8, TT_SOON_MS);
	tt_ep_say("level stays", ep, 8, TT_SOON_MS);
	tt_near_recv(&c, "read", 1000, 0);
	tt_ep_say("drained", ep, 8, TT_QUIET_MS);
	tt_far_send(&c, 10, 20);
	tt_ep_say("while waiting", ep, 8, -1);
}

static void two_sets(void)
{
	struct tt_conn c;
	int a = set_with(&c, EPOLLIN), b = set_new();

	tt_ep_ctl(b, EPOLL_CTL_ADD, c.fd, EPOLLIN, 2);
	tt_far_send(&c, 100, 20);
	tt_ep_say("first set", a, 8, -1);
	tt_ep_say("second set", b, 8, TT_SOON_MS);
	tt_near_recv(&c, "read", 1000, 0);
	tt_ep_say("first drained", a, 8, TT_QUIET_MS);
	tt_ep_say("second drained", b, 8, TT_QUIET_MS);
	tt_far_send(&c, 100, 20);
	tt_ep_say("second set", b, 8, -1);
	tt_ep_say("first set", a, 8, TT_SOON_MS);
	close(a);
	tt_near_recv(&c, "read", 1000, 0);
	tt_far_send(&c, 100, 20);
	tt_ep_say("one set left", b, 8, -1);
}

static void nested(void)
{
	struct tt_conn c;
	int inner = set_with(&c, EPOLLIN), outer = set_new();
	struct pollfd p = {.fd = inner, .events = POLLIN};

	tt_ep_ctl(outer, EPOLL_CTL_ADD, inner, EPOLLIN, 9);
	tt_ep_say("quiet", outer, 8, TT_QUIET_MS);
	tt_far_send(&c, 100, 20);
	tt_ep_say("outer", outer, 8, -1);
	tt_ep_say("inner", inner, 8, TT_SOON_MS);
	tt_say_ret("poll of the inner set", poll(&p, 1, TT_SOON_MS));
	tt_near_recv(&c, "read", 1000, 0);
	tt_ep_say("outer drained", outer, 8, TT_QUIET_MS);
	tt_far_send(&c, 100, 20);
	tt_say_ret("poll of the inner set", poll(&p, 1, -1));
	tt_near_recv(&c, "read", 1000, 0);
	tt_say_ret("poll of the drained set", poll(&p, 1, TT_QUIET_MS));
}

static void mixed(void)
{
	struct tt_conn c;
	int ep = set_with(&c, EPOLLIN), ev = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	int tm = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC), p[2];
	struct itimerspec it = {.it_value = {.tv_nsec = 20000000}};
	uint64_t one = 1;

	if (pipe2(p, O_NONBLOCK | O_CLOEXEC) < 0)
		tt_env_fail("pipe");
	tt_ep_ctl(ep, EPOLL_CTL_ADD, ev, EPOLLIN, 2);
	tt_ep_ctl(ep, EPOLL_CTL_ADD, tm, EPOLLIN, 3);
	tt_ep_ctl(ep, EPOLL_CTL_ADD, p[0], EPOLLIN, 4);
	tt_ep_say("quiet", ep, 8, TT_QUIET_MS);
	timerfd_settime(tm, 0, &it, NULL);
	tt_ep_say("timer", ep, 8, -1);
	(void)!read(tm, &one, sizeof(one));
	one = 1;
	(void)!write(ev, &one, sizeof(one));
	tt_ep_say("eventfd", ep, 8, TT_SOON_MS);
	(void)!write(p[1], "x", 1);
	tt_far_send(&c, 10, 0);
	tt_until(c.fd, POLLIN);
	tt_ep_say("eventfd, pipe, socket", ep, 8, TT_SOON_MS);
	tt_near_recv(&c, "read", 100, 0);
	tt_ep_say("eventfd, pipe", ep, 8, TT_SOON_MS);
	(void)!read(ev, &one, sizeof(one));
	(void)!read(p[0], &one, 1);
	tt_far_send(&c, 10, 20);
	tt_ep_say("socket while waiting", ep, 8, -1);
	close(p[1]);
	tt_near_recv(&c, "read", 100, 0);
	tt_ep_say("pipe's end", ep, 8, TT_SOON_MS);
}

static void many(void)
{
	enum { N = 50 };
	struct tt_conn c[N];
	struct epoll_event ev[16];
	int ep = set_new(), seen[N] = {0}, all = 0, rounds = 0;

	for (int i = 0; i < N; i++) {
		tt_conn_open(&c[i]);
		tt_ep_ctl(ep, EPOLL_CTL_ADD, c[i].fd, EPOLLIN, (uint64_t)i);
	}
	for (int i = 0; i < N; i++)
		tt_far_send(&c[i], 10, 0);
	for (int i = 0; i < N; i++)
		tt_until(c[i].fd, POLLIN);
	/* Nobody starves: each is told once before any is told twice. */
	while (all < N && rounds < 20) {
		int n = epoll_wait(ep, ev, 16, TT_SOON_MS);

		rounds++;
		for (int i = 0; i < n; i++)
			if (!seen[ev[i].data.u64]++)
				all++;
	}
	tt_say("%d of %d told within %s", all, N, rounds <= 4 ? "4 waits" : "more than 4 waits");
	for (int i = 0; i < N; i += 2)
		tt_near_recv(&c[i], NULL, 100, 0);
	tt_say_ret("half left", epoll_wait(ep, (struct epoll_event[64]){0}, 64, TT_SOON_MS));
	for (int i = 1; i < N; i += 2)
		tt_near_recv(&c[i], NULL, 100, 0);
	tt_ep_say("none left", ep, 16, TT_QUIET_MS);
	tt_far_send(&c[17], 10, 20);
	tt_ep_say("one while waiting", ep, 16, -1);
}

struct waiter {
	int ep, n, timeout;
	uint64_t data;
	uint32_t events;
};

static void *wait_main(void *arg)
{
	struct waiter *w = arg;
	struct epoll_event ev = {0};

	w->n = epoll_wait(w->ep, &ev, 1, w->timeout);
	w->data = ev.data.u64;
	w->events = ev.events;
	return NULL;
}

static void added_by_another(void)
{
	struct waiter w = {.ep = set_new(), .timeout = TT_SOON_MS};
	struct tt_conn a, b;
	pthread_t t;

	tt_conn_open(&a);
	tt_conn_open(&b);
	tt_far_send(&a, 10, 0);
	tt_until(a.fd, POLLIN);
	pthread_create(&t, NULL, wait_main, &w);
	tt_nap_us(20000);
	tt_ep_ctl(w.ep, EPOLL_CTL_ADD, a.fd, EPOLLIN, 1);
	pthread_join(t, NULL);
	tt_say("added with data: %d %llu %s", w.n, (unsigned long long)w.data,
	    tt_events_word(w.events));
	tt_near_recv(&a, "read", 100, 0);
	pthread_create(&t, NULL, wait_main, &w);
	tt_nap_us(20000);
	tt_ep_ctl(w.ep, EPOLL_CTL_ADD, b.fd, EPOLLIN, 2);
	tt_far_send(&b, 10, 20);
	pthread_join(t, NULL);
	tt_say("added, then data: %d %llu %s", w.n, (unsigned long long)w.data,
	    tt_events_word(w.events));
	tt_near_recv(&b, "read", 100, 0);
	tt_ep_ctl(w.ep, EPOLL_CTL_MOD, a.fd, 0, 1);
	pthread_create(&t, NULL, wait_main, &w);
	tt_nap_us(20000);
	tt_ep_ctl(w.ep, EPOLL_CTL_MOD, a.fd, EPOLLIN, 3);
	tt_far_send(&a, 10, 20);
	pthread_join(t, NULL);
	tt_say("changed while waiting: %d %llu %s", w.n, (unsigned long long)w.data,
	    tt_events_word(w.events));
}

static void closed_while_waiting(void)
{
	struct waiter w = {.timeout = 300};
	struct tt_conn c;
	pthread_t t;

	w.ep = set_with(&c, EPOLLIN);
	pthread_create(&t, NULL, wait_main, &w);
	tt_nap_us(20000);
	close(c.fd);
	pthread_join(t, NULL);
	tt_say("closed while waiting: %d", w.n);
}

static void two_waiters_edge(void)
{
	struct waiter a = {.timeout = 400}, b;
	struct tt_conn c;
	pthread_t t[2];

	a.ep = set_with(&c, EPOLLIN | EPOLLET);
	for (int i = 0; i < 5; i++) {
		b = a;
		pthread_create(&t[0], NULL, wait_main, &a);
		pthread_create(&t[1], NULL, wait_main, &b);
		tt_nap_us(20000);
		tt_far_send(&c, 10, 0);
		pthread_join(t[0], NULL);
		pthread_join(t[1], NULL);
		tt_say("edge, two waiters: %d event", a.n + b.n);
		tt_near_recv(&c, "read", 100, 0);
	}
}

static void interrupted(void)
{
	struct tt_conn c;
	pthread_t t;
	int ep = set_with(&c, EPOLLIN);

	for (int restart = 0; restart < 2; restart++) {
		t = tt_kick(tt_on_counted, restart ? SA_RESTART : 0);
		tt_ep_say(restart ? "SA_RESTART" : "plain", ep, 8, -1);
		pthread_join(t, NULL);
	}
	tt_far_send(&c, 10, 20);
	tt_ep_say("still told", ep, 8, -1);
}

static void pwait_mask(void)
{
	struct sigaction sa = {.sa_handler = tt_on_counted};
	struct epoll_event ev;
	struct tt_conn c;
	int ep = set_with(&c, EPOLLIN);
	sigset_t block, none;

	sigaction(SIGUSR1, &sa, NULL);
	sigemptyset(&none);
	sigemptyset(&block);
	sigaddset(&block, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &block, NULL);
	raise(SIGUSR1);
	tt_ep_say("blocked", ep, 8, TT_QUIET_MS);
	tt_say("handled %d", (int)tt_handled);
	tt_say_ret("unblocked by the wait", epoll_pwait(ep, &ev, 1, TT_SOON_MS, &none));
	tt_say("handled %d", (int)tt_handled);
	pthread_sigmask(SIG_UNBLOCK, &block, NULL);
	tt_far_send(&c, 10, 20);
	tt_say_ret("blocked by the wait", epoll_pwait(ep, &ev, 1, -1, &block));
	raise(SIGUSR1);
	tt_say("handled %d", (int)tt_handled);
	tt_near_recv(&c, "read", 100, 0);
	tt_say_ret(
	    "epoll_pwait2", epoll_pwait2(ep, &ev, 1, &(struct timespec){.tv_nsec = 5000000}, NULL));
}

static void timeouts(void)
{
	static const int ms[] = {0, 1, 10, 100};
	struct epoll_event ev;
	struct tt_conn c;
	int ep = set_with(&c, EPOLLIN);

	for (size_t i = 0; i < TT_CK_ARRAY(ms); i++) {
		uint64_t t0 = tt_now_ns(), took;
		int n = epoll_wait(ep, &ev, 1, ms[i]);

		took = tt_now_ns() - t0;
		tt_say("%d ms: %d, %s", ms[i], n,
		    took < (uint64_t)ms[i] * 1000000               ? "too early"
		    : took > (uint64_t)ms[i] * 1000000 + 3000000000ull ? "too late"
								   : "in time");
	}
}

static void errors(void)
{
	volatile int minus_one = -1; /* the compiler need not know what we are up to */
	struct epoll_event *volatile bad = (void *)16;
	struct epoll_event ev = {.events = EPOLLIN};
	struct tt_conn c;
	int ep = set_with(&c, EPOLLIN), file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	tt_say_ret("max 0", epoll_wait(ep, &ev, 0, 0));
	tt_say_ret("max -1", epoll_wait(ep, &ev, minus_one, 0));
	tt_say_ret("wait on a socket", epoll_wait(c.fd, &ev, 1, 0));
	tt_say_ret("wait on -1", epoll_wait(-1, &ev, 1, 0));
	tt_say_ret("ADD twice", epoll_ctl(ep, EPOLL_CTL_ADD, c.fd, &ev));
	tt_say_ret("ADD a file", epoll_ctl(ep, EPOLL_CTL_ADD, file, &ev));
	tt_say_ret("ADD itself", epoll_ctl(ep, EPOLL_CTL_ADD, ep, &ev));
	tt_say_ret("ADD to a socket", epoll_ctl(c.fd, EPOLL_CTL_ADD, ep, &ev));
	tt_say_ret("ADD -1", epoll_ctl(ep, EPOLL_CTL_ADD, -1, &ev));
	tt_say_ret("unknown word", epoll_ctl(ep, 77, c.fd, &ev));
	tt_say_ret("ADD without an event", epoll_ctl(ep, EPOLL_CTL_ADD, c.fd, NULL));
	tt_say_ret("DEL", epoll_ctl(ep, EPOLL_CTL_DEL, c.fd, &ev));
	tt_say_ret("DEL twice", epoll_ctl(ep, EPOLL_CTL_DEL, c.fd, &ev));
	tt_say_ret("MOD unknown", epoll_ctl(ep, EPOLL_CTL_MOD, c.fd, &ev));
	tt_ep_ctl(ep, EPOLL_CTL_ADD, c.fd, EPOLLIN, 1);
	tt_far_send(&c, 10, 0);
	tt_until(c.fd, POLLIN);
	tt_say_ret("events to a bad pointer", epoll_wait(ep, bad, 1, TT_SOON_MS));
	tt_ep_say("and still there", ep, 8, TT_SOON_MS);
	tt_say_ret("epoll_create(0)", epoll_create(0));
}

static void connecting(void)
{
	uint16_t port = tt_far_listen();
	struct tt_conn c = {.key = 77};
	struct tt_addr a;
	int ep = set_new(), err = 0;
	socklen_t len = sizeof(err);

	tt_addr_loopback(&a, TT_FAMILY_4, port);
	c.fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	tt_ep_ctl(ep, EPOLL_CTL_ADD, c.fd, EPOLLOUT, 1);
	tt_ep_say("before connect", ep, 8, TT_SOON_MS);
	tt_say_ret("connect", connect(c.fd, (void *)&a.ss, a.len));
	tt_until(c.fd, POLLOUT);
	tt_ep_ctl(ep, EPOLL_CTL_MOD, c.fd, EPOLLIN | EPOLLOUT, 2);
	tt_ep_say("connected", ep, 8, TT_SOON_MS);
	getsockopt(c.fd, SOL_SOCKET, SO_ERROR, &err, &len);
	tt_say("SO_ERROR %d", err);
	tt_far_accept(&c);
	tt_ep_ctl(ep, EPOLL_CTL_MOD, c.fd, EPOLLIN, 3);
	for (int i = 0; i < 100; i++) {
		tt_far_send(&c, 64, i % 10 == 0 ? 5 : 0);
		if (epoll_wait(ep, &(struct epoll_event){0}, 1, TT_SOON_MS) != 1)
			tt_say("message %d was not told", i);
		tt_near_recv(&c, NULL, 64, 0);
	}
	tt_ep_say("drained", ep, 8, TT_QUIET_MS);
}

static void refused(void)
{
	uint16_t port;
	struct tt_addr a;
	int lfd = tt_listen_any(TT_FAMILY_4, 1, &port), ep = set_new(), fd, err = 0;
	socklen_t len = sizeof(err);

	close(lfd);
	tt_addr_loopback(&a, TT_FAMILY_4, port);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	tt_say_ret("connect", connect(fd, (void *)&a.ss, a.len));
	tt_ep_ctl(ep, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLOUT, 1);
	tt_ep_say("refused", ep, 8, TT_SOON_MS);
	getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len);
	tt_say("SO_ERROR %s", tt_errno_word(err));
	getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len);
	tt_say("SO_ERROR again %d", err);
}

static void listener(void)
{
	uint16_t port;
	int lfd = tt_listen_any(TT_FAMILY_4, 8, &port), ep = set_new();
	struct tt_conn c[3] = {{.key = 1}, {.key = 3}, {.key = 5}};

	fcntl(lfd, F_SETFL, O_RDWR | O_NONBLOCK);
	tt_ep_ctl(ep, EPOLL_CTL_ADD, lfd, EPOLLIN, 1);
	tt_ep_say("no connection", ep, 8, TT_QUIET_MS);
	for (int i = 0; i < 3; i++)
		tt_far_connect(&c[i], port);
	tt_ep_say("three wait", ep, 8, TT_SOON_MS);
	for (int i = 0; i < 3; i++) {
		c[i].fd = accept4(lfd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		tt_say("accepted %s", c[i].fd >= 0 ? "yes" : "no");
		tt_ep_ctl(ep, EPOLL_CTL_ADD, c[i].fd, EPOLLIN, (uint64_t)i + 10);
	}
	tt_say_ret("one more", accept4(lfd, NULL, NULL, SOCK_CLOEXEC));
	tt_ep_say("none wait", ep, 8, TT_QUIET_MS);
	/* The order of accept is not the order of connect in every kernel: send on all, hear of
	 * all. */
	for (int i = 0; i < 3; i++)
		tt_far_send(&c[i], 10, 0);
	for (int i = 0; i < 3; i++)
		tt_until(c[i].fd, POLLIN);
	tt_ep_say("data on all", ep, 8, TT_SOON_MS);
}

static void out_of_band(void)
{
	struct tt_conn c;
	int ep = set_with(&c, EPOLLIN | EPOLLPRI);
	char b = 0;

	tt_far_send(&c, 10, 0);
	tt_far_send_oob(&c);
	tt_until(c.fd, POLLPRI);
	tt_ep_say("urgent", ep, 8, TT_SOON_MS);
	tt_say_ret("urgent byte", recv(c.fd, &b, 1, MSG_OOB));
	tt_say("it is %c", b);
	tt_near_recv(&c, "read", 100, 0);
	tt_far_send(&c, 10, 0);
	tt_until(c.fd, POLLIN);
	tt_ep_say("after", ep, 8, TT_SOON_MS);
	tt_near_recv(&c, "read", 100, 0);
}

static void bare_writes(void)
{
	struct tt_conn c;
	int ep = set_with(&c, EPOLLIN | EPOLLET);

	for (int i = 0; i < 40; i++) {
		if (i % 3 == 0)
			tt_far_send_raw(&c, 50, i % 5 ? 0 : 5);
		else
			tt_far_send(&c, 50, i % 4 ? 0 : 5);
		if (epoll_wait(ep, &(struct epoll_event){0}, 1, TT_SOON_MS) != 1)
			tt_say("message %d was not told", i);
		if (tt_near_recv(&c, NULL, 50, 0) != 50)
			tt_say("message %d was not whole", i);
	}
	tt_ep_say("drained", ep, 8, TT_QUIET_MS);
}

/* Registered and read through libc, waited for by bare system calls: what async runtimes do. */
static void bare_waits(void)
{
	struct epoll_event ev;
	struct tt_conn c;
	int ep = set_new();

	tt_conn_cold(&c);
	tt_conn_nonblock(&c);
	ev = (struct epoll_event){.events = EPOLLIN | EPOLLET, .data.u64 = 1};
	tt_say_ret(
	    "bare epoll_ctl", tt_raw6(SYS_epoll_ctl, ep, EPOLL_CTL_ADD, c.fd, (long)&ev, 0, 0));
	for (int i = 0; i < 200; i++) {
		tt_near_send(&c, NULL, 64, 0);
		tt_far_recv(&c, 64);
		tt_far_send(&c, 64, i % 20 ? 0 : 5);
		if (tt_raw6(SYS_epoll_pwait, ep, (long)&ev, 1, TT_SOON_MS, 0, 8) != 1) {
			tt_say("message %d was not told", i);
			break;
		}
		tt_near_recv(&c, NULL, 64, 0);
		if (tt_near_recv(&c, NULL, 64, 0) > 0)
			tt_say("more than one message");
	}
	tt_say("done");
}

static void set_closed(void)
{
	struct tt_conn c;
	int ep = set_with(&c, EPOLLIN), other;

	close(ep);
	tt_far_send(&c, 10, 20);
	tt_until(c.fd, POLLIN);
	tt_near_recv(&c, "read", 100, 0);
	/* The number comes back as something else. */
	other = eventfd(0, EFD_CLOEXEC);
	tt_say_ret(
	    "ADD to an eventfd", epoll_ctl(other, EPOLL_CTL_ADD, c.fd, &(struct epoll_event){0}));
	ep = set_new();
	tt_ep_ctl(ep, EPOLL_CTL_ADD, c.fd, EPOLLIN, 4);
	tt_far_send(&c, 10, 20);
	tt_ep_say("new set", ep, 8, -1);
}

static void pingpong_one_set(void)
{
	struct tt_conn c;
	int ep = set_with(&c, EPOLLIN);

	for (int i = 0; i < 500; i++) {
		tt_near_send(&c, NULL, 64, 0);
		tt_far_recv(&c, 64);
		tt_far_send(&c, 64, i % 50 ? 0 : 2);
		if (epoll_wait(ep, &(struct epoll_event){0}, 1, TT_SOON_MS) != 1)
			tt_say("message %d was not told", i);
		if (tt_near_recv(&c, NULL, 100, 0) != 64)
			tt_say("message %d was not whole", i);
	}
	tt_ep_say("drained", ep, 8, TT_QUIET_MS);
}

static const struct tt_scene scenes[] = {{"lt-repeat", lt_repeat}, {"et-once", et_once},
    {"et-add-late", et_add_late}, {"oneshot", oneshot}, {"exclusive", exclusive},
    {"out-level", out_level}, {"out-edge", out_edge}, {"out-full-wait", out_full_wait},
    {"half-close", half_close}, {"half-close-waiting", half_close_waiting}, {"reset", reset},
    {"close-with-unread", close_with_unread}, {"del-add", del_add},
    {"close-removes", close_removes}, {"dup-twice", dup_twice}, {"two-sets", two_sets},
    {"nested", nested}, {"mixed", mixed}, {"many", many}, {"added-by-another", added_by_another},
    {"closed-while-waiting", closed_while_waiting}, {"two-waiters-edge", two_waiters_edge},
    {"interrupted", interrupted}, {"pwait-mask", pwait_mask}, {"timeouts", timeouts},
    {"errors", errors}, {"connecting", connecting}, {"refused", refused}, {"listener", listener},
    {"out-of-band", out_of_band}, {"bare-writes", bare_writes}, {"bare-waits", bare_waits},
    {"set-closed", set_closed}, {"pingpong", pingpong_one_set}};

int main(int argc, char **argv)
{
	return tt_scene_main(argc, argv, scenes, TT_CK_ARRAY(scenes));
}
