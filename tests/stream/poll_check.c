/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * poll_check - the transcript of what poll and select tell about TCP sockets, alone and beside
 * other descriptors, with timeouts, signals and masks.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <unistd.h>

#include "scene.h"

static void poll_basic(void)
{
	struct tt_conn c;
	struct pollfd two[2];

	tt_conn_open(&c);
	tt_poll_say("idle", c.fd, POLLIN | POLLOUT, TT_SOON_MS);
	tt_poll_say("nothing", c.fd, POLLIN, TT_QUIET_MS);
	tt_far_send(&c, 10, 30);
	tt_poll_say("while waiting", c.fd, POLLIN, -1);
	tt_poll_say("again", c.fd, POLLIN | POLLOUT | POLLRDHUP, TT_SOON_MS);
	two[0] = two[1] = (struct pollfd){.fd = c.fd, .events = POLLIN};
	two[1].events = POLLOUT;
	tt_say_ret("twice in one call", poll(two, 2, TT_SOON_MS));
	tt_say("%s, %s", tt_events_word((uint32_t)two[0].revents),
	    tt_events_word((uint32_t)two[1].revents));
	tt_near_recv(&c, "read", 100, 0);
	two[0] = (struct pollfd){.fd = -1, .events = POLLIN};
	two[1] = (struct pollfd){.fd = 999, .events = POLLIN};
	tt_say_ret("negative and closed", poll(two, 2, TT_SOON_MS));
	tt_say("%s, %s", tt_events_word((uint32_t)two[0].revents),
	    tt_events_word((uint32_t)two[1].revents));
	tt_far_shutdown(&c, SHUT_WR, 30);
	tt_poll_say("half closed while waiting", c.fd, POLLRDHUP, -1);
	tt_poll_say("half closed", c.fd, POLLIN | POLLOUT | POLLRDHUP, TT_SOON_MS);
	tt_near_recv(&c, "end", 100, 0);
	shutdown(c.fd, SHUT_WR);
	tt_until(c.fd, POLLHUP);
	tt_poll_say("closed both ways", c.fd, POLLIN | POLLOUT | POLLRDHUP, TT_SOON_MS);
	tt_poll_say("asking for nothing", c.fd, 0, TT_SOON_MS);
}

static void poll_mixed(void)
{
	struct tt_conn a, b;
	int ev = eventfd(0, EFD_CLOEXEC), p[2];
	uint64_t one = 1;
	struct pollfd f[4];

	if (pipe2(p, O_CLOEXEC) < 0)
		tt_env_fail("pipe");
	tt_conn_open(&a);
	tt_conn_accepted(&b);
	for (int i = 0; i < 6; i++) {
		f[0] = (struct pollfd){.fd = a.fd, .events = POLLIN};
		f[1] = (struct pollfd){.fd = ev, .events = POLLIN};
		f[2] = (struct pollfd){.fd = b.fd, .events = POLLIN};
		f[3] = (struct pollfd){.fd = p[0], .events = POLLIN};
		if (i % 3 == 0)
			tt_far_send(&a, 10, i > 2 ? 20 : 0);
		if (i % 3 == 1)
			tt_far_send(&b, 10, i > 2 ? 20 : 0);
		if (i % 3 == 2)
			(void)!write(i > 2 ? p[1] : ev, &one, sizeof(one));
		tt_say_ret("ready", poll(f, 4, -1));
		for (int k = 0; k < 4; k++)
			if (f[k].revents)
				tt_say("  %d %s", k, tt_events_word((uint32_t)f[k].revents));
		if (i % 3 == 0)
			tt_near_recv(&a, "a", 100, 0);
		if (i % 3 == 1)
			tt_near_recv(&b, "b", 100, 0);
		if (i % 3 == 2)
			(void)!read(i > 2 ? p[0] : ev, &one, sizeof(one));
	}
	tt_say_ret("none", poll(f, 4, TT_QUIET_MS));
}

static void poll_signals(void)
{
	struct timespec ts = {.tv_sec = 5};
	struct tt_conn c;
	struct pollfd p;
	sigset_t block, none;
	pthread_t t;

	tt_conn_open(&c);
	p = (struct pollfd){.fd = c.fd, .events = POLLIN};
	for (int restart = 0; restart < 2; restart++) {
		t = tt_kick(tt_on_counted, restart ? SA_RESTART : 0);
		tt_say_ret("poll interrupted", poll(&p, 1, -1));
		pthread_join(t, NULL);
	}
	sigemptyset(&none);
	sigemptyset(&block);
	sigaddset(&block, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &block, NULL);
	raise(SIGUSR1);
	tt_say_ret("poll with the signal blocked", poll(&p, 1, TT_QUIET_MS));
	tt_say_ret("ppoll unblocks it", ppoll(&p, 1, &ts, &none));
	tt_say("handled %d", (int)tt_handled);
	pthread_sigmask(SIG_UNBLOCK, &block, NULL);
	tt_far_send(&c, 10, 30);
	t = tt_kick(tt_on_counted, SA_RESTART);
	tt_say_ret("ppoll blocks it", ppoll(&p, 1, NULL, &block));
	pthread_join(t, NULL);
	tt_say("handled %d", (int)tt_handled);
}

static void poll_errors(void)
{
	struct pollfd *volatile bad = (void *)16, *volatile many;
	struct timespec ts = {.tv_nsec = 2000000000};
	struct tt_conn c;
	struct pollfd p;
	uint64_t t0;

	tt_conn_open(&c);
	p = (struct pollfd){.fd = c.fd, .events = POLLIN};
	many = &p;
	tt_say_ret("bad pointer", poll(bad, 1, 0));
	tt_say_ret("too many", poll(many, ULONG_MAX / 64, 0));
	tt_say_ret("bad time", ppoll(&p, 1, &ts, NULL));
	tt_say_ret("no descriptors", poll(NULL, 0, 10));
	for (int ms = 0; ms <= 100; ms += 50) {
		t0 = tt_now_ns();
		tt_say_ret("timeout", poll(&p, 1, ms));
		tt_time_say("timeout", t0, (unsigned int)ms);
	}
}

static int select_say(const char *what, int fd, bool out, long timeout_us)
{
	struct timeval tv = {.tv_sec = timeout_us / 1000000, .tv_usec = timeout_us % 1000000};
	fd_set r, w, e;
	int n;

	FD_ZERO(&r);
	FD_ZERO(&w);
	FD_ZERO(&e);
	FD_SET(fd, &r);
	FD_SET(fd, &e);
	if (out)
		FD_SET(fd, &w);
	n = select(fd + 1, &r, &w, &e, timeout_us < 0 ? NULL : &tv);
	if (n < 0) {
		tt_say_ret(what, n);
		return n;
	}
	tt_say("%s: %d%s%s%s%s", what, n, FD_ISSET(fd, &r) ? " read" : "",
	    FD_ISSET(fd, &w) ? " write" : "", FD_ISSET(fd, &e) ? " except" : "",
	    timeout_us > 0 && n > 0 && tv.tv_sec * 1000000 + tv.tv_usec > timeout_us ? " more time"
										     : "");
	return n;
}

static void select_basic(void)
{
	struct timeval tv = {.tv_usec = 200000};
	struct tt_conn c;
	fd_set r;
	uint64_t t0;

	tt_conn_open(&c);
	select_say("idle", c.fd, true, 5000000);
	t0 = tt_now_ns();
	select_say("nothing", c.fd, false, 50000);
	tt_time_say("timeout", t0, 50);
	tt_far_send(&c, 10, 30);
	select_say("while waiting", c.fd, false, -1);
	select_say("again", c.fd, true, 5000000);
	FD_ZERO(&r);
	FD_SET(c.fd, &r);
	tt_say_ret("readable with a time", select(c.fd + 1, &r, NULL, NULL, &tv));
	tt_say("time left: %s",
	    tv.tv_sec == 0 && tv.tv_usec > 0 && tv.tv_usec <= 200000 ? "yes" : "no");
	tt_near_recv(&c, "read", 100, 0);
	FD_SET(c.fd, &r);
	tt_say_ret("not readable", select(c.fd + 1, &r, NULL, NULL, &tv));
	tt_say("time left: %s, bit %d", tv.tv_sec || tv.tv_usec ? "yes" : "no", FD_ISSET(c.fd, &r));
	tt_far_send_oob(&c);
	tt_until(c.fd, POLLPRI);
	select_say("urgent", c.fd, false, 5000000);
	tt_far_close(&c, 0);
	tt_until(c.fd, POLLRDHUP);
	select_say("closed", c.fd, true, 5000000);
}

static void select_errors(void)
{
	struct timespec ts = {.tv_sec = 5};
	struct timeval bad = {.tv_usec = -1};
	struct tt_conn c;
	sigset_t block, none;
	fd_set r;

	tt_conn_open(&c);
	FD_ZERO(&r);
	FD_SET(c.fd, &r);
	tt_say_ret("bad time", select(c.fd + 1, &r, NULL, NULL, &bad));
	int gone = dup(c.fd);

	close(gone);
	FD_SET(gone, &r);
	tt_say_ret("closed descriptor", select(gone + 1, &r, NULL, NULL, NULL));
	tt_say_ret("negative", select(-1, &r, NULL, NULL, NULL));
	tt_handler_set(tt_on_counted, SA_RESTART);
	sigemptyset(&none);
	sigemptyset(&block);
	sigaddset(&block, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &block, NULL);
	raise(SIGUSR1);
	FD_ZERO(&r);
	FD_SET(c.fd, &r);
	tt_say_ret("pselect unblocks", pselect(c.fd + 1, &r, NULL, NULL, &ts, &none));
	tt_say("handled %d", (int)tt_handled);
}

static const struct tt_scene scenes[] = {{"poll", poll_basic}, {"poll-mixed", poll_mixed},
    {"poll-signals", poll_signals}, {"poll-errors", poll_errors}, {"select", select_basic},
    {"select-errors", select_errors}};

int main(int argc, char **argv)
{
	return tt_scene_main(argc, argv, scenes, TT_CK_ARRAY(scenes));
}
