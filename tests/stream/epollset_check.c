/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * epollset_check - the transcript of what epoll tells of bytes that lie unread while sets change
 * around them: a second set, an outer set, a thread asleep, a fork, a set closed under a wait.
 *
 * Each scene first exchanges messages through the set, so that under libtaut its lease is open and
 * the unread bytes lie in shared memory, where the kernel's own set can't see them.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scene.h"

static int set_new(void)
{
	return epoll_create1(EPOLL_CLOEXEC);
}

/* A connection in a set, read through it a few times; the last message stays unread. */
static int set_with_unread(struct tt_conn *c, uint32_t events)
{
	int ep = set_new();

	tt_conn_open(c);
	tt_conn_nonblock(c);
	tt_ep_ctl(ep, EPOLL_CTL_ADD, c->fd, events, 1);
	for (int i = 0; i < 20; i++) {
		tt_far_send(c, 64, 0);
		if (epoll_wait(ep, &(struct epoll_event){0}, 1, TT_SOON_MS) != 1)
			tt_say("message %d was not told", i);
		tt_near_recv(c, NULL, 1000, 0);
	}
	tt_far_send(c, 100, 0);
	tt_until(c->fd, POLLIN);
	return ep;
}

static void second_set(void)
{
	struct tt_conn c;
	int a = set_with_unread(&c, EPOLLIN), b = set_new();

	tt_ep_ctl(b, EPOLL_CTL_ADD, c.fd, EPOLLIN, 2);
	tt_ep_say("second", b, 8, TT_SOON_MS);
	tt_ep_say("first", a, 8, TT_SOON_MS);
	tt_near_recv(&c, "read part", 60, 0);
	tt_ep_say("second, rest", b, 8, TT_SOON_MS);
	tt_ep_say("first, rest", a, 8, TT_SOON_MS);
	tt_near_recv(&c, "read", 1000, 0);
	tt_ep_say("second drained", b, 8, TT_QUIET_MS);
	tt_ep_say("first drained", a, 8, TT_QUIET_MS);
	tt_ep_ctl(b, EPOLL_CTL_DEL, c.fd, 0, 0);
	for (int i = 0; i < 20; i++) {
		tt_far_send(&c, 64, i % 5 ? 0 : 3);
		tt_ep_say("one set again", a, 8, TT_SOON_MS);
		tt_near_recv(&c, NULL, 1000, 0);
	}
}

static void second_set_edge(void)
{
	struct tt_conn c;
	int a = set_with_unread(&c, EPOLLIN | EPOLLET), b = set_new();

	tt_ep_say("first", a, 8, TT_SOON_MS);
	tt_ep_ctl(b, EPOLL_CTL_ADD, c.fd, EPOLLIN | EPOLLET, 2);
	tt_ep_say("second", b, 8, TT_SOON_MS);
	tt_ep_say("first was told", a, 8, TT_QUIET_MS);
	tt_ep_say("second was told", b, 8, TT_QUIET_MS);
	tt_near_recv(&c, "read", 1000, 0);
}

static void to_oneshot(void)
{
	struct tt_conn c;
	int ep = set_with_unread(&c, EPOLLIN);

	tt_ep_ctl(ep, EPOLL_CTL_MOD, c.fd, EPOLLIN | EPOLLONESHOT, 2);
	tt_ep_say("once", ep, 8, TT_SOON_MS);
	tt_ep_say("disarmed", ep, 8, TT_QUIET_MS);
	tt_far_send(&c, 10, 0);
	tt_ep_say("still", ep, 8, TT_QUIET_MS);
	tt_ep_ctl(ep, EPOLL_CTL_MOD, c.fd, EPOLLIN, 3);
	tt_ep_say("for ever", ep, 8, TT_SOON_MS);
	tt_near_recv(&c, "read", 1000, 0);
	tt_ep_say("drained", ep, 8, TT_QUIET_MS);
}

static void outer_set(void)
{
	struct tt_conn c;
	int inner = set_with_unread(&c, EPOLLIN), outer = set_new();
	struct pollfd p = {.fd = inner, .events = POLLIN};

	tt_ep_ctl(outer, EPOLL_CTL_ADD, inner, EPOLLIN, 9);
	tt_ep_say("outer", outer, 8, TT_SOON_MS);
	tt_say_ret("poll of the inner set", poll(&p, 1, TT_SOON_MS));
	tt_ep_say("inner", inner, 8, TT_SOON_MS);
	tt_near_recv(&c, "read", 1000, 0);
	tt_say_ret("poll of the drained set", poll(&p, 1, TT_QUIET_MS));
	tt_ep_say("outer drained", outer, 8, TT_QUIET_MS);
	tt_ep_say("inner drained", inner, 8, TT_QUIET_MS);
}

struct waiter {
	int ep, n, timeout, err;
	struct epoll_event ev[4];
};

static void *wait_main(void *arg)
{
	struct waiter *w = arg;

	w->n = epoll_wait(w->ep, w->ev, 4, w->timeout);
	w->err = errno;
	return NULL;
}

static void wake_sleeper(void)
{
	struct tt_conn c, idle;
	int a = set_with_unread(&c, EPOLLIN);
	struct waiter w = {.ep = set_new(), .timeout = TT_SOON_MS};
	pthread_t t;

	tt_conn_open(&idle);
	tt_ep_ctl(w.ep, EPOLL_CTL_ADD, idle.fd, EPOLLIN, 7);
	pthread_create(&t, NULL, wait_main, &w);
	tt_nap_us(30000);
	tt_ep_ctl(a, EPOLL_CTL_DEL, c.fd, 0, 0);
	tt_ep_ctl(w.ep, EPOLL_CTL_ADD, c.fd, EPOLLIN, 8);
	pthread_join(t, NULL);
	tt_say("moved to a set where a thread sleeps: %d, %llu %s", w.n, (unsigned long long)w.ev[0].data.u64,
	    tt_events_word(w.ev[0].events));
	tt_near_recv(&c, "read", 1000, 0);
	tt_ep_say("drained", w.ep, 8, TT_QUIET_MS);
	tt_far_send(&c, 10, 20);
	tt_ep_say("while waiting", w.ep, 8, -1);
}

static void close_under_wait(void)
{
	struct tt_conn c, other;
	struct waiter w = {.ep = set_with_unread(&c, EPOLLIN), .timeout = 300};
	pthread_t t;
	int again;

	tt_near_recv(&c, "read", 1000, 0);
	pthread_create(&t, NULL, wait_main, &w);
	tt_nap_us(30000);
	close(w.ep);
	again = set_new(); /* the same number */
	tt_conn_open(&other);
	tt_conn_nonblock(&other);
	tt_ep_ctl(again, EPOLL_CTL_ADD, other.fd, EPOLLIN, 5);
	tt_far_send(&other, 10, 0);
	tt_ep_say("new set", again, 8, TT_SOON_MS);
	pthread_join(t, NULL);
	tt_say("the closed set's thread: %d", w.n);
	tt_far_send(&c, 10, 0);
	tt_until(c.fd, POLLIN);
	tt_near_recv(&c, "read", 1000, 0);
	for (int i = 0; i < 20; i++) {
		tt_near_recv(&other, NULL, 1000, 0);
		tt_far_send(&other, 10, i % 5 ? 0 : 3);
		tt_ep_say("new set", again, 8, TT_SOON_MS);
	}
}

/* With room for one event neither a busy connection nor the other descriptors may be left out. */
static void one_at_a_time(void)
{
	struct tt_conn c;
	int ep = set_with_unread(&c, EPOLLIN), ev = eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC);
	bool seen[3] = {false};

	tt_ep_ctl(ep, EPOLL_CTL_ADD, ev, EPOLLIN, 2);
	for (int i = 0; i < 200; i++) {
		struct epoll_event got = {0};

		if (epoll_wait(ep, &got, 1, TT_SOON_MS) == 1 && got.data.u64 <= 2)
			seen[got.data.u64] = true;
		tt_nap_us(100);
	}
	tt_say("connection %s, eventfd %s", seen[1] ? "seen" : "starved", seen[2] ? "seen" : "starved");
}

static void over_fork(void)
{
	struct tt_conn c;
	int ep = set_with_unread(&c, EPOLLIN), status = 0;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		tt_ep_say("child", ep, 8, TT_SOON_MS);
		tt_near_recv(&c, "child reads", 40, 0);
		tt_ep_say("child, rest", ep, 8, TT_SOON_MS);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	tt_say("child ended with %d", WEXITSTATUS(status));
	tt_ep_say("parent", ep, 8, TT_SOON_MS);
	c.rx += 40;
	tt_near_recv(&c, "parent reads", 1000, 0);
	tt_ep_say("drained", ep, 8, TT_QUIET_MS);
	tt_far_send(&c, 10, 20);
	tt_ep_say("while waiting", ep, 8, -1);
}

/* A signal that the wait's own mask blocks must not end it, one that it lets in must. */
static void masks(void)
{
	struct tt_conn c;
	struct epoll_event ev;
	int ep = set_with_unread(&c, EPOLLIN);
	sigset_t block, none;
	pthread_t t;

	tt_near_recv(&c, "read", 1000, 0);
	sigemptyset(&none);
	sigemptyset(&block);
	sigaddset(&block, SIGUSR1);
	tt_far_send(&c, 10, 60);
	t = tt_kick(tt_on_counted, 0);
	tt_say_ret("blocked by the wait", epoll_pwait(ep, &ev, 1, -1, &block));
	pthread_join(t, NULL);
	tt_say("handled %d", (int)tt_handled);
	tt_near_recv(&c, "read", 1000, 0);
	pthread_sigmask(SIG_BLOCK, &block, NULL);
	t = tt_kick(tt_on_counted, 0);
	tt_say_ret("let in by the wait", epoll_pwait(ep, &ev, 1, -1, &none));
	pthread_join(t, NULL);
	tt_say("handled %d", (int)tt_handled);
}

/* What redis-benchmark and its kind do for each message: five changes, two waits. */
static void change_often(struct tt_conn *c, int ep, int rounds)
{
	for (int i = 0; i < rounds; i++) {
		tt_ep_ctl(ep, EPOLL_CTL_DEL, c->fd, 0, 0);
		tt_ep_ctl(ep, EPOLL_CTL_ADD, c->fd, EPOLLOUT, 2);
		if (tt_ep_say("to send", ep, 8, TT_SOON_MS) == 1)
			tt_near_send(c, NULL, 8, 0);
		tt_far_recv(c, 8);
		tt_far_send(c, 64, i % 7 ? 0 : 2);
		tt_ep_ctl(ep, EPOLL_CTL_MOD, c->fd, EPOLLIN | EPOLLOUT, 3);
		tt_ep_ctl(ep, EPOLL_CTL_DEL, c->fd, 0, 0);
		tt_ep_ctl(ep, EPOLL_CTL_ADD, c->fd, EPOLLIN, 4);
		tt_ep_say("to receive", ep, 8, TT_SOON_MS);
		tt_near_recv(c, NULL, 1000, 0);
	}
}

static void changes(void)
{
	struct tt_conn c;
	int ep = set_with_unread(&c, EPOLLIN), other = set_new(), copy;

	tt_near_recv(&c, "read", 1000, 0);
	change_often(&c, ep, 100);
	/* The kernel's errors, whatever it has been told. */
	tt_ep_ctl(ep, EPOLL_CTL_ADD, c.fd, EPOLLIN, 5);
	tt_ep_ctl(ep, EPOLL_CTL_DEL, c.fd, 0, 0);
	tt_ep_ctl(ep, EPOLL_CTL_DEL, c.fd, 0, 0);
	tt_ep_ctl(ep, EPOLL_CTL_MOD, c.fd, EPOLLIN, 5);
	tt_say_ret("no event", epoll_ctl(ep, EPOLL_CTL_ADD, c.fd, (struct epoll_event *)8));
	tt_far_send(&c, 100, 0);
	tt_until(c.fd, POLLIN);
	tt_ep_say("taken out", ep, 8, TT_QUIET_MS);
	tt_near_recv(&c, "read", 1000, 0);
	/* From one set into another, and back. */
	tt_ep_ctl(ep, EPOLL_CTL_ADD, c.fd, EPOLLIN, 6);
	change_often(&c, ep, 20);
	tt_ep_ctl(ep, EPOLL_CTL_DEL, c.fd, 0, 0);
	tt_ep_ctl(other, EPOLL_CTL_ADD, c.fd, EPOLLIN, 7);
	tt_far_send(&c, 100, 0);
	tt_ep_say("other set", other, 8, TT_SOON_MS);
	tt_ep_say("left set", ep, 8, TT_QUIET_MS);
	tt_near_recv(&c, "read", 1000, 0);
	tt_ep_ctl(other, EPOLL_CTL_DEL, c.fd, 0, 0);
	tt_ep_ctl(ep, EPOLL_CTL_ADD, c.fd, EPOLLIN, 8);
	change_often(&c, ep, 20);
	/* A second name of the socket keeps what was registered by the first. */
	copy = dup(c.fd);
	tt_ep_ctl(ep, EPOLL_CTL_MOD, c.fd, EPOLLIN, 9);
	close(c.fd);
	c.fd = copy;
	tt_far_send(&c, 100, 0);
	tt_until(c.fd, POLLIN);
	tt_ep_say("by its old name", ep, 8, TT_SOON_MS);
	tt_near_recv(&c, "read", 1000, 0);
}

static void changes_and_calls(void)
{
	struct tt_conn c;
	int ep = set_with_unread(&c, EPOLLIN);
	char buf[100];

	tt_near_recv(&c, "read", 1000, 0);
	change_often(&c, ep, 50);
	tt_ep_ctl(ep, EPOLL_CTL_DEL, c.fd, 0, 0);
	fcntl(c.fd, F_SETFL, fcntl(c.fd, F_GETFL) & ~O_NONBLOCK);
	for (int i = 0; i < 20; i++) { /* blocking, while it is in no set */
		ssize_t n;

		tt_far_send(&c, 50, 1);
		n = recv(c.fd, buf, sizeof(buf), 0);
		if (n > 0)
			tt_near_check(&c, buf, (size_t)n);
		else
			tt_say_ret("recv", n);
	}
	tt_ep_ctl(ep, EPOLL_CTL_ADD, c.fd, EPOLLIN, 2);
	change_often(&c, ep, 50);
	tt_far_shutdown(&c, SHUT_WR, 0);
	tt_ep_ctl(ep, EPOLL_CTL_MOD, c.fd, EPOLLIN | EPOLLRDHUP, 3);
	tt_until(c.fd, POLLRDHUP);
	tt_ep_say("the end", ep, 8, TT_SOON_MS);
	tt_near_recv(&c, "end", 1000, 0);
}

static void changes_over_fork(void)
{
	struct tt_conn c;
	int ep = set_with_unread(&c, EPOLLIN), status = 0;
	pid_t pid;

	tt_near_recv(&c, "read", 1000, 0);
	change_often(&c, ep, 50);
	tt_ep_ctl(ep, EPOLL_CTL_MOD, c.fd, EPOLLIN | EPOLLOUT, 5);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		tt_ep_say("child", ep, 8, TT_SOON_MS);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	tt_say("child ended with %d", WEXITSTATUS(status));
	tt_ep_ctl(ep, EPOLL_CTL_DEL, c.fd, 0, 0);
	tt_far_send(&c, 100, 0);
	tt_until(c.fd, POLLIN);
	tt_ep_say("taken out", ep, 8, TT_QUIET_MS);
	tt_near_recv(&c, "read", 1000, 0);
}

/* Another thread changes a registration while one sleeps in the set. */
static void change_under_wait(void)
{
	struct tt_conn c;
	struct waiter w = {.ep = set_with_unread(&c, EPOLLIN), .timeout = TT_SOON_MS};
	pthread_t t;

	tt_near_recv(&c, "read", 1000, 0);
	change_often(&c, w.ep, 50);
	tt_ep_ctl(w.ep, EPOLL_CTL_DEL, c.fd, 0, 0);
	pthread_create(&t, NULL, wait_main, &w);
	tt_nap_us(TT_QUIET_MS * 1000);
	tt_ep_ctl(w.ep, EPOLL_CTL_ADD, c.fd, EPOLLOUT, 2);
	pthread_join(t, NULL);
	tt_say("put back while a thread sleeps: %d, %llu %s", w.n, (unsigned long long)w.ev[0].data.u64,
	    tt_events_word(w.ev[0].events));
}

static const struct tt_scene scenes[] = {{"second-set", second_set},
    {"second-set-edge", second_set_edge}, {"to-oneshot", to_oneshot}, {"outer-set", outer_set},
    {"wake-sleeper", wake_sleeper}, {"close-under-wait", close_under_wait},
    {"one-at-a-time", one_at_a_time}, {"over-fork", over_fork}, {"masks", masks},
    {"changes", changes}, {"changes-and-calls", changes_and_calls},
    {"changes-over-fork", changes_over_fork}, {"change-under-wait", change_under_wait}};

int main(int argc, char **argv)
{
	return tt_scene_main(argc, argv, scenes, TT_CK_ARRAY(scenes));
}
