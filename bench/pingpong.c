/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pingpong - the smallest ping-pong: blocking calls, one message there and one back, round trip
 * percentiles.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench.h"

#define SIZE_MAX_BYTES 65000u

static struct {
	bool udp, json, spin;
	size_t size;
	uint64_t count, warm;
	double seconds, idle_s;
	int client_core, server_core, server_fd;
} opt = {.size = 64,
    .count = 100000,
    .warm = 10000,
    .client_core = -1,
    .server_core = -1,
    .server_fd = -1};

static unsigned char buf[SIZE_MAX_BYTES];
static struct tt_hist hist;

/* One whole message. Non-blocking sockets are tried until they give. */
static bool get(int fd)
{
	if (!opt.udp && !opt.spin)
		return tt_bench_recv_all(fd, buf, opt.size);
	for (size_t have = 0; have < opt.size;) {
		ssize_t r = recv(fd, buf + have, opt.size - have, 0);

		if (r > 0)
			have += (size_t)r;
		else if (r == 0)
			return false;
		else if (errno != EAGAIN && errno != EINTR)
			return false;
	}
	return true;
}

static void put(int fd)
{
	if (!tt_bench_send_all(fd, buf, opt.size))
		tt_bench_fail(1, "the other end is gone");
}

static void spin_set(int fd)
{
	if (opt.spin && fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK) < 0)
		tt_bench_fail(3, "fcntl: %s", strerror(errno));
}

static int server(void)
{
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	int on = 1, fd, lfd;
	uint16_t port;

	tt_bench_pin(opt.server_core);
	lfd = tt_bench_bind(opt.udp ? SOCK_DGRAM : SOCK_STREAM, &port);
	tt_bench_ready(opt.server_fd, port);
	if (opt.udp) {
		/* Answers to whom it has heard from, as a UDP server does; an empty datagram ends
		 * it. */
		spin_set(lfd);
		for (;;) {
			ssize_t r = recvfrom(lfd, buf, sizeof(buf), 0, (void *)&from, &len);

			if (r == 0)
				return 0;
			if (r < 0 && (errno == EAGAIN || errno == EINTR))
				continue;
			if (r < 0 || sendto(lfd, buf, (size_t)r, 0, (void *)&from, len) != r)
				tt_bench_fail(1, "echo: %s", strerror(errno));
		}
	}
	fd = accept4(lfd, NULL, NULL, SOCK_CLOEXEC);
	if (fd < 0)
		tt_bench_fail(3, "accept: %s", strerror(errno));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	spin_set(fd);
	while (get(fd))
		put(fd);
	close(fd);
	close(lfd);
	return 0;
}

/* User and system time of a process, in clock ticks. */
static unsigned long cpu_ticks(pid_t pid)
{
	unsigned long user = 0, sys = 0;
	char path[64], line[512];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "r");
	if (!f || !fgets(line, sizeof(line), f))
		tt_bench_fail(3, "cannot read %s", path);
	fclose(f);
	/* The name in parentheses may hold blanks: the fields after it are counted from its end. */
	if (sscanf(strrchr(line, ')') + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
		&user, &sys) != 2)
		tt_bench_fail(3, "%s has an unknown form", path);
	return user + sys;
}

/* How busy the server is from one second after the last byte on. */
static double idle_measure(pid_t pid)
{
	unsigned long before;

	usleep(1000000);
	before = cpu_ticks(pid);
	usleep((useconds_t)(opt.idle_s * 1e6));
	return 100.0 * (double)(cpu_ticks(pid) - before) / (double)sysconf(_SC_CLK_TCK) /
	       opt.idle_s;
}

static void client(uint16_t port, pid_t server_pid)
{
	double idle_pct = 0;

	int fd = tt_bench_connect(opt.udp ? SOCK_DGRAM : SOCK_STREAM, port);
	uint64_t t0, t1, start, end;

	spin_set(fd);
	tt_hist_reset(&hist);
	for (uint64_t i = 0; i < opt.warm; i++) {
		put(fd);
		if (!get(fd))
			tt_bench_fail(1, "the server is gone");
	}
	start = t0 = tt_clock_cycles();
	end = opt.seconds > 0 ? start + tt_ns_to_cycles((uint64_t)(opt.seconds * 1e9)) : UINT64_MAX;
	for (uint64_t i = 0; t0 < end && (opt.seconds > 0 || i < opt.count); i++) {
		put(fd);
		if (!get(fd))
			tt_bench_fail(1, "the server is gone");
		t1 = tt_clock_cycles();
		tt_hist_record(&hist, tt_cycles_to_ns(t1 - t0));
		t0 = t1;
	}
	if (opt.idle_s > 0)
		idle_pct = idle_measure(server_pid);
	if (opt.udp)
		(void)send(fd, buf, 0, 0);
	close(fd);
	printf(opt.json ? "{\"bench\":\"pingpong\",\"proto\":\"%s\",\"size\":%zu,"
			: "pingpong %s %zu bytes, round trip: ",
	    opt.udp ? "udp" : "tcp", opt.size);
	tt_bench_print_hist(&hist);
	if (opt.idle_s > 0)
		printf(",\"idle_cpu_pct\":%.2f", idle_pct);
	printf(",\"rate\":%.0f%s\n",
	    (double)hist.count / ((double)tt_cycles_to_ns(t0 - start) / 1e9), opt.json ? "}" : "");
}

static const char usage_text[] = "usage: pingpong [--udp] [--size BYTES] [--count N | --seconds S] "
				 "[--warm N] [--cores CLIENT,SERVER]\n"
				 "                [--nonblock] [--json]\n";

int main(int argc, char **argv)
{
	static const struct option longs[] = {{"udp", 0, NULL, 'u'}, {"size", 1, NULL, 's'},
	    {"count", 1, NULL, 'c'}, {"seconds", 1, NULL, 't'}, {"warm", 1, NULL, 'w'},
	    {"cores", 1, NULL, 'C'}, {"nonblock", 0, NULL, 'n'}, {"idle", 1, NULL, 'i'},
	    {"json", 0, NULL, 'j'}, {"server", 1, NULL, 'S'}, {NULL, 0, NULL, 0}};
	uint16_t port;
	pid_t pid;
	int c;

	while ((c = getopt_long(argc, argv, "", longs, NULL)) >= 0) {
		if (c == 'u')
			opt.udp = true;
		else if (c == 's')
			opt.size = tt_bench_number(optarg);
		else if (c == 'c')
			opt.count = tt_bench_number(optarg);
		else if (c == 't')
			opt.seconds = atof(optarg);
		else if (c == 'w')
			opt.warm = tt_bench_number(optarg);
		else if (c == 'C')
			tt_bench_cores(optarg, &opt.client_core, &opt.server_core);
		else if (c == 'i')
			opt.idle_s = atof(optarg);
		else if (c == 'n')
			opt.spin = true;
		else if (c == 'j')
			opt.json = true;
		else if (c == 'S')
			opt.server_fd = (int)tt_bench_number(optarg);
		else
			tt_bench_fail(2, "%s", usage_text);
	}
	if (optind < argc || opt.size < 1 || opt.size > SIZE_MAX_BYTES)
		tt_bench_fail(2, "%s", usage_text);
	if (opt.server_fd >= 0)
		return server();
	tt_clock_recalibrate(100);
	pid = tt_bench_server_start(argv, &port);
	tt_bench_pin(opt.client_core);
	client(port, pid);
	tt_bench_server_end(pid);
	return 0;
}
