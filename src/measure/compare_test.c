/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The comparison with programs whose figures are known (tests/compare/pair.c), and with programs
 * that go wrong in every way that has a line of its own. After each case nothing of what was
 * started may be left.
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "measure/compare.h"

#ifndef TAUT_PAIR
#error "TAUT_PAIR is the program of tests/compare/pair.c"
#endif

#define SERVER TAUT_PAIR " server {port}"
#define CLIENT TAUT_PAIR " client {port} 5"

static char error[TT_COMPARE_ERROR_MAX];

/* One test, two sides, on whatever processors there are. */
static int compare(const char *a, const char *b, const char *server, const char *client,
    unsigned int rounds, struct taut_result *r)
{
	const struct tt_compare_side sides[] = {{"a", a}, {"b", b}};
	const struct tt_compare_test tests[] = {{"", server, client, TT_PROTO_ANY}};
	const struct tt_compare c = {.sides = sides,
	    .sides_count = 2,
	    .tests = tests,
	    .tests_count = 1,
	    .rounds = rounds,
	    .seconds = 1,
	    .server_cpu = -1,
	    .client_cpu = -1,
	    .listen_ms = 20000,
	    .client_ms = 60000,
	    .share_min = 0.95,
	    .level = 0.95,
	    .taut = "taut"};

	taut_result_init(r, "compare");
	error[0] = '\0';
	return tt_compare(&c, r, error);
}

/* Nobody alive is our child: a subreaper inherits what was left, and the dead too, which are reaped
 * here. */
static void nothing_left(void)
{
	pid_t pid;

	do
		pid = waitpid(-1, NULL, WNOHANG);
	while (pid > 0);
	assert_int_equal(pid, -1);
	assert_int_equal(errno, ECHILD);
}

static const struct taut_comparison *find(const struct taut_result *r, const char *figure)
{
	for (size_t i = 0; i < r->comparisons.len; i++) {
		if (strcmp(r->comparisons.at[i].figure, figure) == 0)
			return &r->comparisons.at[i];
	}
	fail_msg("no comparison of %s", figure);
	return NULL;
}

/* A naps 20 ms, B 2 ms: the ratio is near 10; a busy machine can only make it smaller. */
static void test_known_ratio(void **state)
{
	const struct taut_comparison *c;
	struct taut_result r;

	(void)state;
	assert_int_equal(
	    compare("env PAIR_NAP_US=20000", "env PAIR_NAP_US=2000", SERVER, CLIENT, 4, &r), 0);
	c = find(&r, "p50");
	assert_int_equal(c->pairs, 4);
	assert_true(c->a.median >= 20e6 && c->b.median >= 2e6);
	assert_true(c->ratio > 2 && c->ratio < 11);
	assert_true(c->ratio_low <= c->ratio && c->ratio <= c->ratio_high);
	assert_int_equal(c->seen, TAUT_SEEN_BETTER);
	c = find(&r, "rate"); /* higher is better: the same way round */
	assert_true(c->ratio > 2 && c->ratio < 11);
	assert_int_equal(c->seen, TAUT_SEEN_BETTER);
	assert_int_equal(r.runs.len, 8);
	assert_string_equal(r.runs.at[0].side, "a");
	assert_string_equal(r.runs.at[1].side, "b");
	assert_int_equal(r.runs.at[7].round, 4);
	assert_int_equal(r.commands.len, 4);
	assert_string_equal(r.peer.name, "pair");
	assert_int_equal(r.verdicts.at[0].state, TAUT_VERDICT_GOOD);
	taut_result_free(&r);
	nothing_left();
}

static void test_exact_ratio(void **state)
{
	const struct taut_comparison *c;
	struct taut_result r;

	(void)state;
	assert_int_equal(
	    compare("env PAIR_SAYS=13000", "env PAIR_SAYS=650", SERVER, CLIENT, 6, &r), 0);
	c = find(&r, "p50");
	assert_true(fabs(c->ratio - 20) < 1e-9 && fabs(c->ratio_low - 20) < 1e-9);
	assert_int_equal(c->seen, TAUT_SEEN_BETTER);
	taut_result_free(&r);
	/* The other way round it is worse, by as much. */
	assert_int_equal(
	    compare("env PAIR_SAYS=650", "env PAIR_SAYS=13000", SERVER, CLIENT, 6, &r), 0);
	c = find(&r, "p50");
	assert_true(fabs(c->ratio - 0.05) < 1e-9);
	assert_int_equal(c->seen, TAUT_SEEN_WORSE);
	taut_result_free(&r);
}

static void test_no_difference(void **state)
{
	const struct taut_comparison *c;
	struct taut_result r;

	(void)state;
	assert_int_equal(
	    compare("env PAIR_SAYS=500", "env PAIR_SAYS=500", SERVER, CLIENT, 4, &r), 0);
	c = find(&r, "p50");
	assert_int_equal(c->seen, TAUT_SEEN_NO_DIFFERENCE);
	assert_true(c->ratio == 1);
	assert_non_null(strstr(r.verdicts.at[0].text, "no difference seen"));
	taut_result_free(&r);
}

static void test_few_rounds(void **state)
{
	const struct taut_comparison *c;
	struct taut_result r;

	(void)state;
	assert_int_equal(
	    compare("env PAIR_SAYS=500", "env PAIR_SAYS=100", SERVER, CLIENT, 1, &r), 0);
	c = find(&r, "p50");
	assert_int_equal(c->seen, TAUT_SEEN_UNKNOWN);
	assert_true(fabs(c->ratio - 5) < 1e-9);
	assert_true(isnan(c->ratio_low));
	taut_result_free(&r);
}

/* Words that make a side one of ours; the pair itself leaves the counters. */
#define OURS "env X=libtaut.so "

static void test_void_all(void **state)
{
	struct taut_result r;

	(void)state;
	assert_int_equal(compare("", OURS "PAIR_SHM=90 PAIR_KERNEL=10", SERVER, CLIENT, 2, &r), 0);
	assert_int_equal(find(&r, "p50")->pairs, 0);
	assert_true(isnan(find(&r, "p50")->ratio));
	assert_non_null(strstr(r.runs.at[1].void_reason, "90.0 % of the messages"));
	assert_string_equal(r.runs.at[0].void_reason, "");
	assert_int_equal(r.verdicts.at[r.verdicts.len - 1].state, TAUT_VERDICT_VOID);
	assert_int_equal(r.verdicts.at[r.verdicts.len - 1].evidence.len, 2);
	taut_result_free(&r);
	/* Not one process left counters: the library was not there at all. */
	assert_int_equal(compare("", OURS, SERVER, CLIENT, 1, &r), 0);
	assert_non_null(strstr(r.runs.at[1].void_reason, "left its counters"));
	taut_result_free(&r);
	/* The plain side went by shared memory. */
	assert_int_equal(
	    compare("env PAIR_SHM=100", OURS "PAIR_SHM=100", SERVER, CLIENT, 1, &r), 0);
	assert_non_null(strstr(r.runs.at[0].void_reason, "plain side was accelerated"));
	assert_string_equal(r.runs.at[1].void_reason, "");
	taut_result_free(&r);
}

/* Of the rounds that alternate between good and missed only the good ones count, on both sides. */
static void test_void_some(void **state)
{
	char rounds[] = "/tmp/taut-rounds-XXXXXX", server[256], client[256], prefix[512];
	const struct taut_comparison *c;
	struct taut_result r;
	int fd = mkstemp(rounds);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	snprintf(prefix, sizeof(prefix), OURS "PAIR_SAYS=100 PAIR_SHM=98 PAIR_KERNEL=2");
	snprintf(server, sizeof(server), "env -u PAIR_SHM %s", SERVER);
	snprintf(client, sizeof(client), "env PAIR_ROUNDS_FILE=%s %s", rounds, CLIENT);
	assert_int_equal(compare("env PAIR_SAYS=700", prefix, server, client, 8, &r), 0);
	unlink(rounds);
	c = find(&r, "p50");
	assert_int_equal(c->pairs, 4);
	assert_true(fabs(c->ratio - 7) < 1e-9);
	assert_int_equal(c->seen, TAUT_SEEN_BETTER);
	taut_result_free(&r);
}

static void fails(const char *server, const char *client, int want, const char *part)
{
	struct taut_result r;
	int rc = compare("", "", server, client, 1, &r);

	if (rc != want || !strstr(error, part))
		fail_msg("%s / %s: %d (%d wanted): \"%s\" (\"%s\" wanted)", server, client, rc,
		    want, error, part);
	taut_result_free(&r);
	nothing_left();
}

static void test_wrong(void **state)
{
	(void)state;
	fails("no-such-program-here", CLIENT, -ENOENT, "no program \"no-such-program-here\"");
	fails(SERVER, "no-such-program-here", -ENOENT, "client: there is no program");
	fails("/etc/passwd", CLIENT, -EACCES, "Permission denied");
	fails("'open", CLIENT, -EINVAL, "open quote");
	fails("  ", CLIENT, -EINVAL, "server's command is empty");
	fails(TAUT_PAIR " die", CLIENT, -ECHILD, "ended before it listened (exit status 5)");
	fails(TAUT_PAIR " die", CLIENT, -ECHILD, "first line | it broke");
	fails(SERVER, TAUT_PAIR " fail", -EPROTO, "failed (exit status 7)");
	fails(SERVER, TAUT_PAIR " fail", -EPROTO, "some words | the client is unhappy");
	fails(SERVER, TAUT_PAIR " garbage", -EPROTO, "no figures of sockperf");
	fails(SERVER, "sh -c 'kill -9 $$'", -EPROTO, "killed by signal 9");
}

static int limited(const char *server, const char *client, int listen_ms, int client_ms)
{
	const struct tt_compare_side sides[] = {{"a", ""}, {"b", ""}};
	const struct tt_compare_test tests[] = {{"", server, client, TT_PROTO_TCP}};
	const struct tt_compare c = {.sides = sides,
	    .sides_count = 2,
	    .tests = tests,
	    .tests_count = 1,
	    .rounds = 1,
	    .server_cpu = -1,
	    .client_cpu = -1,
	    .listen_ms = listen_ms,
	    .client_ms = client_ms,
	    .level = 0.95,
	    .taut = "taut"};
	struct taut_result r;
	int rc;

	taut_result_init(&r, "compare");
	rc = tt_compare(&c, &r, error);
	taut_result_free(&r);
	return rc;
}

static void test_limits(void **state)
{
	(void)state;
	assert_int_equal(limited(TAUT_PAIR " silent", CLIENT, 200, 1000), -ECHILD);
	assert_non_null(strstr(error, "does not listen on the port it was given"));
	assert_int_equal(limited(TAUT_PAIR " silent", TAUT_PAIR " fail", 200, 1000), -ECHILD);
	assert_non_null(strstr(error, "does not listen on any port"));
	/* Another protocol than the one that is waited for is not it. */
	assert_int_equal(limited(TAUT_PAIR " udp {port}", CLIENT, 200, 1000), -ECHILD);
	assert_int_equal(limited(SERVER, TAUT_PAIR " hang", 20000, 200), -EPROTO);
	assert_non_null(strstr(error, "did not end in time"));
	/* A client that hangs because its server is gone: the server is named. */
	assert_int_equal(
	    limited("sh -c 'timeout -s KILL 2 " SERVER "'", TAUT_PAIR " hang", 20000, 4000),
	    -EPROTO);
	assert_non_null(strstr(error, "the server ended before its client"));
	nothing_left();
}

/* A server that hears no signal is killed; one behind a shell is found, waited for and stopped with
 * its shell. */
static void test_stubborn(void **state)
{
	struct taut_result r;

	(void)state;
	assert_int_equal(
	    compare("", "", "sh -c '" TAUT_PAIR " deaf & " SERVER "; wait'", CLIENT, 1, &r), 0);
	assert_int_equal(find(&r, "p50")->pairs, 1);
	taut_result_free(&r);
	nothing_left();
}

static void test_port_given(void **state)
{
	struct taut_result r;

	(void)state;
	/* Without {port}: any port the server listens on will do. */
	assert_int_equal(compare("", "", "sh -c 'p=$0; exec " TAUT_PAIR " server $p' {port}",
			     "sh -c 'exec " TAUT_PAIR " client $0 3' {port}", 1, &r),
	    0);
	taut_result_free(&r);
}

static void test_interrupted(void **state)
{
	static volatile sig_atomic_t stop = 1;
	const struct tt_compare_side sides[] = {{"a", ""}, {"b", ""}};
	const struct tt_compare_test tests[] = {{"", TAUT_PAIR " silent", CLIENT, TT_PROTO_ANY}};
	const struct tt_compare c = {.sides = sides,
	    .sides_count = 2,
	    .tests = tests,
	    .tests_count = 1,
	    .rounds = 1,
	    .server_cpu = -1,
	    .client_cpu = -1,
	    .listen_ms = 20000,
	    .client_ms = 1000,
	    .taut = "taut",
	    .stop = &stop};
	struct taut_result r;

	(void)state;
	taut_result_init(&r, "compare");
	assert_int_equal(tt_compare(&c, &r, error), -EINTR);
	taut_result_free(&r);
	nothing_left();
}

static void test_processor_missing(void **state)
{
	const struct tt_compare_side sides[] = {{"a", ""}, {"b", ""}};
	const struct tt_compare_test tests[] = {{"", SERVER, CLIENT, TT_PROTO_ANY}};
	const struct tt_compare c = {.sides = sides,
	    .sides_count = 2,
	    .tests = tests,
	    .tests_count = 1,
	    .rounds = 1,
	    .server_cpu = 1023,
	    .client_cpu = -1,
	    .taut = "taut"};
	struct taut_result r;

	(void)state;
	taut_result_init(&r, "compare");
	assert_int_equal(tt_compare(&c, &r, error), -ENODEV);
	assert_non_null(strstr(error, "processor 1023 (--server-cpu)"));
	taut_result_free(&r);
}

static void test_accelerates(void **state)
{
	(void)state;
	assert_true(tt_compare_accelerates("{taut} run --"));
	assert_true(tt_compare_accelerates("numactl -N 0 /opt/bin/taut run --profile latency --"));
	assert_true(tt_compare_accelerates("env LD_PRELOAD=/usr/lib/libtaut.so"));
	assert_false(tt_compare_accelerates(""));
	assert_false(tt_compare_accelerates("taskset -c 1"));
	assert_false(tt_compare_accelerates("taut stat"));
}

/* Every comparison makes its folder in here; at the end it must be empty, or it can't be removed.
 */
static char folder[] = "/tmp/taut-compare-test-XXXXXX";

static int group_setup(void **state)
{
	(void)state;
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	return mkdtemp(folder) ? setenv("TMPDIR", folder, 1) : -1;
}

static int group_teardown(void **state)
{
	(void)state;
	return rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_known_ratio),
	    cmocka_unit_test(test_exact_ratio),
	    cmocka_unit_test(test_no_difference),
	    cmocka_unit_test(test_few_rounds),
	    cmocka_unit_test(test_void_all),
	    cmocka_unit_test(test_void_some),
	    cmocka_unit_test(test_wrong),
	    cmocka_unit_test(test_limits),
	    cmocka_unit_test(test_stubborn),
	    cmocka_unit_test(test_port_given),
	    cmocka_unit_test(test_interrupted),
	    cmocka_unit_test(test_processor_missing),
	    cmocka_unit_test(test_accelerates),
	};

	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
