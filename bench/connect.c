/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * connect - short connections: connect, one request, one reply, close, one after the other.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench.h"

#define SIZE_MAX_BYTES 65536u

static unsigned char buf[SIZE_MAX_BYTES];
static struct tt_hist hist;

static int server(int ready_fd, size_t size, uint64_t conns)
{
	uint16_t port;
	int lfd = tt_bench_bind(SOCK_STREAM, &port);

	tt_bench_ready(ready_fd, port);
	for (uint64_t i = 0; i < conns; i++) {
		int fd = accept4(lfd, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0)
			tt_bench_fail(3, "accept: %s", strerror(errno));
		if (!tt_bench_recv_all(fd, buf, size) || !tt_bench_send_all(fd, buf, size))
			tt_bench_fail(1, "connection %llu broke", (unsigned long long)i);
		/* The client closes first, so the ports in TIME-WAIT are its own ephemeral ones. */
		(void)tt_bench_recv_all(fd, buf, 1);
		close(fd);
	}
	close(lfd);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {{"size", 1, NULL, 's'}, {"count", 1, NULL, 'c'},
	    {"warm", 1, NULL, 'w'}, {"cores", 1, NULL, 'C'}, {"json", 0, NULL, 'j'},
	    {"server", 1, NULL, 'S'}, {NULL, 0, NULL, 0}};
	int c, client_core = -1, server_core = -1, server_fd = -1;
	uint64_t count = 3000, warm = 200, start = 0;
	bool json = false;
	size_t size = 64;
	uint16_t port;
	pid_t pid;

	while ((c = getopt_long(argc, argv, "", longs, NULL)) >= 0) {
		if (c == 's')
			size = tt_bench_number(optarg);
		else if (c == 'c')
			count = tt_bench_number(optarg);
		else if (c == 'w')
			warm = tt_bench_number(optarg);
		else if (c == 'C')
			tt_bench_cores(optarg, &client_core, &server_core);
		else if (c == 'j')
			json = true;
		else if (c == 'S')
			server_fd = (int)tt_bench_number(optarg);
		else
			tt_bench_fail(2, "usage: connect [--size N] [--count N] [--warm N] "
					 "[--cores CLIENT,SERVER] [--json]");
	}
	if (optind < argc || size < 1 || size > SIZE_MAX_BYTES)
		tt_bench_fail(2, "a request has 1 to %u bytes", SIZE_MAX_BYTES);
	tt_bench_pin(server_fd >= 0 ? server_core : client_core);
	if (server_fd >= 0)
		return server(server_fd, size, count + warm);
	tt_clock_recalibrate(100);
	pid = tt_bench_server_start(argv, &port);
	tt_hist_reset(&hist);
	for (uint64_t i = 0; i < count + warm; i++) {
		uint64_t t0 = tt_clock_cycles();
		int fd = tt_bench_connect(SOCK_STREAM, port);

		if (i == warm)
			start = t0;
		if (!tt_bench_send_all(fd, buf, size) || !tt_bench_recv_all(fd, buf, size))
			tt_bench_fail(1, "connection %llu broke", (unsigned long long)i);
		close(fd);
		if (i >= warm)
			tt_hist_record(&hist, tt_cycles_to_ns(tt_clock_cycles() - t0));
	}
	printf(
	    json ? "{\"bench\":\"connect\",\"size\":%zu," : "connect, %zu bytes each way, close: ",
	    size);
	tt_bench_print_hist(&hist);
	printf(",\"rate\":%.0f%s\n",
	    (double)count / ((double)tt_cycles_to_ns(tt_clock_cycles() - start) / 1e9),
	    json ? "}" : "");
	tt_bench_server_end(pid);
	return 0;
}
