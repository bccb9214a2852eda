/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * manyconn - one epoll set with many open connections of which few are busy, against those few
 * alone, in turns.
 *
 * Both processes hold all their connections in one level-triggered epoll set. The client sends one
 * message on each busy connection, collects the replies by epoll_wait, and starts again. Printed:
 * messages per second in each round, with the few alone and with all, and the ratio of the medians.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/stats.h"
#include "bench.h"

#define EVENTS_MAX 256
#define MESSAGE 64
#define SPARE_FDS 64 /* of the descriptor limit, for everything else */

static struct {
	size_t conns, busy, rounds;
	double seconds;
	bool json;
	int client_core, server_core, server_fd;
} opt = {.conns = 10000,
    .busy = 100,
    .rounds = 5,
    .seconds = 1,
    .client_core = -1,
    .server_core = -1,
    .server_fd = -1};

static unsigned char buf[4096];

static void nofile_raise(void)
{
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl) < 0)
		return;
	rl.rlim_cur = rl.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &rl);
	if (opt.conns + SPARE_FDS > rl.rlim_cur)
		tt_bench_fail(3,
		    "%zu connections need more than the %llu descriptors allowed: ulimit -Hn",
		    opt.conns, (unsigned long long)rl.rlim_cur);
}

static void watch(int epfd, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};
	int on = 1;

	if (fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK) < 0 ||
	    epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &ev) < 0)
		tt_bench_fail(3, "epoll_ctl: %s", strerror(errno));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

/* Echoes until its last connection is closed. */
static int server(void)
{
	struct epoll_event ev[EVENTS_MAX];
	uint16_t port;
	int lfd = tt_bench_bind(SOCK_STREAM, &port), epfd = epoll_create1(EPOLL_CLOEXEC);
	size_t open = 0;
	bool any = false;

	watch(epfd, lfd);
	tt_bench_ready(opt.server_fd, port);
	while (!any || open > 0) {
		int n = epoll_wait(epfd, ev, EVENTS_MAX, -1);

		for (int i = 0; i < n; i++) {
			int fd = ev[i].data.fd;
			ssize_t r;

			if (fd == lfd) {
				fd = accept4(lfd, NULL, NULL, SOCK_CLOEXEC);
				if (fd < 0)
					continue;
				watch(epfd, fd);
				open++;
				any = true;
				continue;
			}
			r = recv(fd, buf, sizeof(buf), 0);
			if (r > 0) {
				if (!tt_bench_send_all(fd, buf, (size_t)r))
					tt_bench_fail(1, "a client connection broke");
			} else if (r == 0 || errno != EAGAIN) {
				close(fd);
				open--;
			}
		}
	}
	close(epfd);
	close(lfd);
	return 0;
}

/* One message on each busy connection and back. */
static void turn(int epfd, const int *fds, size_t busy)
{
	struct epoll_event ev[EVENTS_MAX];
	size_t left = busy * MESSAGE;

	for (size_t i = 0; i < busy; i++)
		if (!tt_bench_send_all(fds[i], buf, MESSAGE))
			tt_bench_fail(1, "a connection broke");
	while (left > 0) {
		int n = epoll_wait(epfd, ev, EVENTS_MAX, -1);

		for (int i = 0; i < n; i++) {
			ssize_t r = recv(ev[i].data.fd, buf, sizeof(buf), 0);

			if (r > 0)
				left -= (size_t)r;
			else if (r == 0 || errno != EAGAIN)
				tt_bench_fail(1, "a connection ended");
		}
	}
}

static double rate(int epfd, const int *fds)
{
	uint64_t start = tt_clock_cycles(), now;
	uint64_t end = start + tt_ns_to_cycles((uint64_t)(opt.seconds * 1e9));
	uint64_t turns = 0;

	do {
		turn(epfd, fds, opt.busy);
		turns++;
		now = tt_clock_cycles();
	} while (now < end);
	return (double)(turns * opt.busy) / ((double)tt_cycles_to_ns(now - start) / 1e9);
}

static void client(uint16_t port)
{
	int epfd = epoll_create1(EPOLL_CLOEXEC), *fds = calloc(opt.conns, sizeof(*fds));
	double few[TT_RUNS_MAX], all[TT_RUNS_MAX];

	if (!fds || epfd < 0)
		tt_bench_fail(3, "no memory");
	for (size_t i = 0; i < opt.busy; i++) {
		fds[i] = tt_bench_connect(SOCK_STREAM, port);
		watch(epfd, fds[i]);
	}
	for (size_t i = 0; i < 200; i++)
		turn(epfd, fds, opt.busy);
	for (size_t r = 0; r < opt.rounds; r++) {
		few[r] = rate(epfd, fds);
		for (size_t i = opt.busy; i < opt.conns; i++) {
			fds[i] = tt_bench_connect(SOCK_STREAM, port);
			watch(epfd, fds[i]);
		}
		turn(epfd, fds, opt.busy);
		all[r] = rate(epfd, fds);
		for (size_t i = opt.busy; i < opt.conns; i++)
			close(fds[i]);
		/* The server has taken notice of the last close when it answers again. */
		turn(epfd, fds, opt.busy);
		if (!opt.json)
			printf("round %zu: %zu alone %.0f messages/s, with %zu open %.0f\n", r + 1,
			    opt.busy, few[r], opt.conns, all[r]);
	}
	for (size_t i = 0; i < opt.busy; i++)
		close(fds[i]);
	free(fds);
	close(epfd);
	tt_sort_double(few, opt.rounds);
	tt_sort_double(all, opt.rounds);
	printf(
	    opt.json
		? "{\"bench\":\"manyconn\",\"conns\":%zu,\"busy\":%zu,\"alone\":%.0f,\"all\":%.0f,"
		  "\"ratio\":%.3f}\n"
		: "%zu connections, %zu busy: alone %.0f messages/s, all %.0f, ratio %.3f\n",
	    opt.conns, opt.busy, tt_median_sorted(few, opt.rounds),
	    tt_median_sorted(all, opt.rounds),
	    tt_median_sorted(all, opt.rounds) / tt_median_sorted(few, opt.rounds));
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {{"conns", 1, NULL, 'n'}, {"busy", 1, NULL, 'b'},
	    {"rounds", 1, NULL, 'r'}, {"seconds", 1, NULL, 't'}, {"cores", 1, NULL, 'C'},
	    {"json", 0, NULL, 'j'}, {"server", 1, NULL, 'S'}, {NULL, 0, NULL, 0}};
	uint16_t port;
	pid_t pid;
	int c;

	while ((c = getopt_long(argc, argv, "", longs, NULL)) >= 0) {
		if (c == 'n')
			opt.conns = tt_bench_number(optarg);
		else if (c == 'b')
			opt.busy = tt_bench_number(optarg);
		else if (c == 'r')
			opt.rounds = tt_bench_number(optarg);
		else if (c == 't')
			opt.seconds = atof(optarg);
		else if (c == 'C')
			tt_bench_cores(optarg, &opt.client_core, &opt.server_core);
		else if (c == 'j')
			opt.json = true;
		else if (c == 'S')
			opt.server_fd = (int)tt_bench_number(optarg);
		else
			tt_bench_fail(2, "usage: manyconn [--conns N] [--busy N] [--rounds N] "
					 "[--seconds S] [--cores CLIENT,SERVER] [--json]");
	}
	if (optind < argc || opt.busy < 1 || opt.busy > opt.conns || opt.rounds < 1 ||
	    opt.rounds > TT_RUNS_MAX)
		tt_bench_fail(2, "1 to %zu busy connections and 1 to %u rounds are possible",
		    opt.conns, TT_RUNS_MAX);
	nofile_raise();
	tt_bench_pin(opt.server_fd >= 0 ? opt.server_core : opt.client_core);
	if (opt.server_fd >= 0)
		return server();
	tt_clock_recalibrate(100);
	pid = tt_bench_server_start(argv, &port);
	client(port);
	tt_bench_server_end(pid);
	return 0;
}
