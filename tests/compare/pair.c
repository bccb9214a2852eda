/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pair: a server and a client whose figures are known, for the tests of `taut compare`.
 *
 *   pair server PORT      answers each byte after PAIR_NAP_US, until SIGINT or SIGTERM
 *   pair client PORT N    N bytes there and back, one at a time; prints a taut JSON result: p50,
 * and rate pair udp PORT         a UDP server, otherwise as server pair WAY              one way to
 * go wrong: die, silent, deaf (ignores signals), garbage, fail, hang
 *
 * Environment: PAIR_NAP_US; PAIR_SAYS=NS (the client tells this p50 whatever it measured);
 * PAIR_SHM=N, PAIR_KERNEL=N (leaves a line of counters in TAUT_STATS_FILE, as an accelerated
 * process would); PAIR_ROUNDS_FILE (the client appends a byte to this file, and each even run has
 * the counters swapped).
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t told;

static void on_signal(int s)
{
	told = s;
}

static long number_of(const char *name, long otherwise)
{
	const char *s = getenv(name);

	return s ? strtol(s, NULL, 10) : otherwise;
}

static void counters(void)
{
	const char *path = getenv("TAUT_STATS_FILE"), *rounds = getenv("PAIR_ROUNDS_FILE");
	long shm = number_of("PAIR_SHM", -1), kernel = number_of("PAIR_KERNEL", 0);
	FILE *f;

	if (shm < 0 || !path)
		return;
	if (rounds) {
		struct stat st;
		int fd = open(rounds, O_WRONLY | O_APPEND | O_CREAT, 0600);

		if (fd < 0 || write(fd, "x", 1) != 1 || fstat(fd, &st) < 0)
			exit(9);
		close(fd);
		if (st.st_size % 2 == 0) {
			long swap = shm;

			shm = kernel;
			kernel = swap;
		}
	}
	f = fopen(path, "a");
	if (!f)
		exit(9);
	fprintf(f,
	    "{\"pid\":1,\"totals\":{\"tx_shm_bytes\":%ld,\"tx_shm_msgs\":%ld,\"tx_kernel_bytes\":%"
	    "ld,"
	    "\"tx_kernel_msgs\":%ld},\"reasons\":{\"closed\":%ld}}\n",
	    shm * 10, shm, kernel * 10, kernel, kernel);
	fclose(f);
}

static int listener(int type, const char *port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, type, 0);

	a.sin_port = htons((unsigned short)strtoul(port, NULL, 10));
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 ||
	    (type == SOCK_STREAM && listen(fd, 8) < 0)) {
		perror("pair: server");
		exit(1);
	}
	return fd;
}

static void nap(long us)
{
	struct timespec ts = {us / 1000000, us % 1000000 * 1000};

	if (us > 0)
		nanosleep(&ts, NULL);
}

static int server(const char *port, int type)
{
	struct sigaction act = {.sa_handler = on_signal};
	long us = number_of("PAIR_NAP_US", 0);
	int fd, c;
	char byte;

	sigaction(SIGINT, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
	fd = listener(type, port);
	while (!told) {
		c = type == SOCK_STREAM ? accept(fd, NULL, NULL) : fd;
		if (c < 0)
			continue;
		while (!told && read(c, &byte, 1) == 1) {
			nap(us);
			if (write(c, &byte, 1) != 1)
				break;
		}
		if (c != fd)
			close(c);
	}
	counters();
	return 0;
}

static double now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static int client(const char *port, size_t n)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	double *took = calloc(n, sizeof(*took)), begin = now_ns(), p50;
	char byte = 'x';

	a.sin_port = htons((unsigned short)strtoul(port, NULL, 10));
	if (!took || fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0) {
		perror("pair: client");
		return 1;
	}
	for (size_t i = 0; i < n; i++) {
		double at = now_ns();

		if (write(fd, &byte, 1) != 1 || read(fd, &byte, 1) != 1)
			return 1;
		took[i] = now_ns() - at;
	}
	p50 = number_of("PAIR_SAYS", 0) ? (double)number_of("PAIR_SAYS", 0) : 0;
	qsort(took, n, sizeof(*took), ascending);
	if (p50 <= 0)
		p50 = took[n / 2];
	printf("{\"schema\":1,\"kind\":\"latency\",\"tool\":{\"name\":\"pair\",\"version\":\"1\"},"
	       "\"runs\":[{\"figures\":["
	       "{\"name\":\"p50\",\"unit\":\"ns\",\"better\":\"lower\",\"value\":%.0f},"
	       "{\"name\":\"rate\",\"unit\":\"1/s\",\"better\":\"higher\",\"value\":%.3f}]}]}\n",
	    p50, (double)n * 1e9 / (now_ns() - begin));
	free(took);
	close(fd);
	counters();
	return 0;
}

static int wrong(const char *way)
{
	if (strcmp(way, "die") == 0) {
		fprintf(stderr, "first line\nit broke\n");
		return 5;
	}
	if (strcmp(way, "garbage") == 0) {
		printf("nothing that anybody could read\n");
		return 0;
	}
	if (strcmp(way, "fail") == 0) {
		printf("some words\n");
		fprintf(stderr, "the client is unhappy\n");
		return 7;
	}
	if (strcmp(way, "deaf") == 0) {
		signal(SIGINT, SIG_IGN);
		signal(SIGTERM, SIG_IGN);
	}
	for (;;) /* silent, deaf, hang */
		pause();
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "server") == 0)
		return server(argv[2], SOCK_STREAM);
	if (argc == 3 && strcmp(argv[1], "udp") == 0)
		return server(argv[2], SOCK_DGRAM);
	if (argc == 4 && strcmp(argv[1], "client") == 0)
		return client(argv[2], strtoul(argv[3], NULL, 10));
	if (argc == 2)
		return wrong(argv[1]);
	fprintf(stderr,
	    "usage: pair server|udp PORT | client PORT N | die|silent|deaf|garbage|fail|hang\n");
	return 2;
}
