/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * compare.h - two or more ways to run the same server and client, in turns.
 *
 * For each round, each test, each side: the raw cache-line round trip is measured, the server
 * started and pinned, waited for until it listens, the client started and pinned, its figures read,
 * the server stopped, and the counters judged that accelerated processes left (path.h). Then every
 * figure of each further side is compared with the first side's, by run (base/stats.h).
 * docs/compare.md tells how and why.
 *
 * Everything that was started is stopped when tt_compare() returns, whatever it returns; nothing is
 * left in the file system. Not thread safe: it forks, and only one comparison at a time makes
 * sense.
 */
#ifndef TT_MEASURE_COMPARE_H
#define TT_MEASURE_COMPARE_H

#include <signal.h>

#include "base/base.h"
#include "base/stats.h"
#include "measure/child.h"
#include "measure/procfs.h"
#include "taut/result.h"

#define TT_COMPARE_SIDES_MAX 4u
#define TT_COMPARE_TESTS_MAX 8u
#define TT_COMPARE_ROUNDS_MAX TT_RUNS_MAX
#define TT_COMPARE_ERROR_MAX 2048u
#define TT_COMPARE_PAIRED_MIN                                                                      \
	6u /* fewer pairs have no 95 % interval; then the runs count unpaired */

struct tt_compare_side {
	const char *label;
	const char *prefix; /* words put before both commands; "" runs them plain */
};

/* {port} is a free port, new for each run; {time} is `seconds`; {taut} is our own executable. */
struct tt_compare_test {
	const char *label; /* "" when there is one */
	const char *server, *client;
	enum tt_proto proto; /* what the server must be seen listening on */
};

struct tt_compare {
	const struct tt_compare_side *sides;
	size_t sides_count; /* at least 2; the first is compared with */
	const struct tt_compare_test *tests;
	size_t tests_count;
	unsigned int rounds;
	unsigned int seconds;
	int server_cpu, client_cpu; /* -1: chosen */
	int listen_ms, client_ms;   /* limits */
	double share_min;           /* 0.95: below it a round of an accelerated side is void */
	double level;               /* 0.95 */
	const char *taut;           /* path of our executable, for {taut} */
	/* A signal handler sets it; then the comparison ends with -EINTR. May be NULL. */
	const volatile sig_atomic_t *stop;
	/* Called after each run, and with a note now and then. May be NULL. */
	void (*progress)(void *arg, const char *line);
	void *progress_arg;
};

/*
 * Fills out (from taut_result_init()). 0: figures are there, verdicts say what they are worth. On
 * failure one line in error: -EINVAL  a command can't be understood (quotes, no words), or a number
 * is out of range -ENOENT, -EACCES, ...  a program can't be started, a processor is not available
 *   -ECHILD  the server ended before it listened, or did not listen in time
 *   -EPROTO  a client or server failed, or no figures were found
 *   -EINTR   stopped
 *   -ENOSYS  the output is JSON and this build can't read it
 *   -ENOMEM
 */
tt_must_check int tt_compare(
    const struct tt_compare *c, struct taut_result *out, char error[TT_COMPARE_ERROR_MAX]);

/* Two different processors out of our affinity mask, on different cores where that can be. With one
 * alone both are the same. A value >= 0 stays as it is. */
void tt_compare_cpus(int *server_cpu, int *client_cpu);

/* Is this prefix one of ours (taut run, or libtaut.so by name)? Then its traffic must go by shared
 * memory. */
bool tt_compare_accelerates(const char *prefix);

/* Makes the comparisons and verdicts of the runs in out; tt_compare() ends with it. sides_count and
 * labels as above. 0 or -ENOMEM. */
tt_must_check int tt_compare_conclude(const struct tt_compare *c, struct taut_result *out);

#endif
