/* SPDX-License-Identifier: BSD-3-Clause */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/stats.h"

#define ARGS_MAX 48

void tt_bench_fail(int status, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("bench: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	exit(status);
}

void tt_bench_pin(int core)
{
	cpu_set_t set;

	if (core < 0)
		return;
	CPU_ZERO(&set);
	CPU_SET((size_t)core, &set);
	if (sched_setaffinity(0, sizeof(set), &set) < 0)
		tt_bench_fail(3, "cannot run on core %d: %s", core, strerror(errno));
}

uint64_t tt_bench_number(const char *text)
{
	char *end;
	unsigned long long v = strtoull(text, &end, 0);

	if (*text == '\0' || *end != '\0')
		tt_bench_fail(2, "%s is not a number", text);
	return v;
}

void tt_bench_cores(const char *text, int *a, int *b)
{
	if (sscanf(text, "%d,%d", a, b) != 2)
		tt_bench_fail(2, "%s: two core numbers are wanted, as in 0,1", text);
}

pid_t tt_bench_server_start(char **argv, uint16_t *port)
{
	int p[2];
	pid_t pid;

	if (pipe2(p, O_CLOEXEC) < 0)
		tt_bench_fail(3, "pipe: %s", strerror(errno));
	pid = fork();
	if (pid < 0)
		tt_bench_fail(3, "fork: %s", strerror(errno));
	if (pid == 0) {
		char num[16], *args[ARGS_MAX];
		int n = 0;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		snprintf(num, sizeof(num), "%d", dup(p[1]));
		for (; argv[n] && n < ARGS_MAX - 3; n++)
			args[n] = argv[n];
		args[n++] = (char *)"--server";
		args[n++] = num;
		args[n] = NULL;
		execv("/proc/self/exe", args);
		_exit(127);
	}
	close(p[1]);
	if (read(p[0], port, sizeof(*port)) != (ssize_t)sizeof(*port))
		tt_bench_fail(3, "the server did not start");
	close(p[0]);
	return pid;
}

void tt_bench_ready(int fd, uint16_t port)
{
	if (write(fd, &port, sizeof(port)) != (ssize_t)sizeof(port))
		tt_bench_fail(3, "the client is gone");
	close(fd);
}

void tt_bench_server_end(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		tt_bench_fail(1, "the server ended with status %x", (unsigned int)status);
}

static void nodelay(int fd)
{
	int on = 1;

	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

static struct sockaddr_in loopback(uint16_t port)
{
	return (struct sockaddr_in){
	    .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
}

int tt_bench_bind(int type, uint16_t *port)
{
	struct sockaddr_in a = loopback(0);
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (void *)&a, len) < 0 || getsockname(fd, (void *)&a, &len) < 0 ||
	    (type == SOCK_STREAM && listen(fd, 4096) < 0))
		tt_bench_fail(3, "cannot listen on loopback: %s", strerror(errno));
	*port = ntohs(a.sin_port);
	return fd;
}

int tt_bench_connect(int type, uint16_t port)
{
	struct sockaddr_in a = loopback(port);
	int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (void *)&a, sizeof(a)) < 0)
		tt_bench_fail(
		    3, "cannot connect to port %u: %s", (unsigned int)port, strerror(errno));
	if (type == SOCK_STREAM)
		nodelay(fd);
	return fd;
}

bool tt_bench_send_all(int fd, const void *buf, size_t n)
{
	const char *p = buf;

	while (n > 0) {
		ssize_t r = send(fd, p, n, MSG_NOSIGNAL);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0 && (errno == EPIPE || errno == ECONNRESET))
			return false;
		if (r <= 0)
			tt_bench_fail(1, "send: %s", strerror(errno));
		p += r;
		n -= (size_t)r;
	}
	return true;
}

bool tt_bench_recv_all(int fd, void *buf, size_t n)
{
	char *p = buf;

	while (n > 0) {
		ssize_t r = recv(fd, p, n, 0);

		if (r < 0 && errno == EINTR)
			continue;
		if (r == 0 || (r < 0 && errno == ECONNRESET))
			return false;
		if (r < 0)
			tt_bench_fail(1, "recv: %s", strerror(errno));
		p += r;
		n -= (size_t)r;
	}
	return true;
}

void tt_bench_print_hist(const struct tt_hist *h)
{
	static const struct {
		const char *name;
		double p;
	} rows[] = {{"p50_ns", 50}, {"p90_ns", 90}, {"p99_ns", 99}, {"p99.9_ns", 99.9}};

	printf("\"count\":%llu,\"min_ns\":%llu,\"max_ns\":%llu", (unsigned long long)h->count,
	    (unsigned long long)(h->count ? h->min : 0), (unsigned long long)h->max);
	for (size_t i = 0; i < tt_array_len(rows); i++)
		if (tt_percentile_supported(h->count, rows[i].p))
			printf(",\"%s\":%llu", rows[i].name,
			    (unsigned long long)tt_hist_percentile(h, rows[i].p));
}
