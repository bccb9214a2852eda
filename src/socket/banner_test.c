/* SPDX-License-Identifier: BSD-3-Clause */
/* The banner and the trace lines, as a user sees them: on descriptor 2, here a pipe or a terminal.
 */
#include "socket/banner.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "socket/statpage.h"
#include "socket/trace.h"
#include "socket/tunables.h"

static char said[8192];

/* Runs f in a child whose descriptor 2 is a pipe or a terminal; `said` is what it wrote there. */
static void child_says(void (*f)(void), bool terminal)
{
	int ends[2], status;
	size_t len = 0;
	ssize_t n;
	pid_t pid;

	if (terminal) {
		ends[0] = posix_openpt(O_RDWR | O_NOCTTY);
		assert_true(ends[0] >= 0 && grantpt(ends[0]) == 0 && unlockpt(ends[0]) == 0);
		ends[1] = open(ptsname(ends[0]), O_RDWR | O_NOCTTY);
		assert_true(ends[1] >= 0);
	} else {
		assert_int_equal(pipe(ends), 0);
	}
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		dup2(ends[1], 2);
		close(ends[0]);
		close(ends[1]);
		tt_log_start();
		f();
		_exit(0);
	}
	close(ends[1]);
	while ((n = read(ends[0], said + len, sizeof(said) - 1 - len)) > 0)
		len += (size_t)n;
	said[len] = '\0';
	close(ends[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void start(const char *banner, bool by_run)
{
	char own[16];

	snprintf(own, sizeof(own), "%d", getpid());
	setenv("TAUT_BANNER", banner, 1);
	if (by_run)
		setenv("TAUT_BANNER_PID", own, 1);
	else
		unsetenv("TAUT_BANNER_PID");
	(void)!tt_tunables_load(&tt_tun, environ);
	(void)!tt_stat_open(tt_profile_word(tt_tun.profile));
}

static void run_auto(void)
{
	setenv("TAUT_RING_KB", "64", 1);
	start("auto", true);
	tt_banner();
	tt_banner(); /* the program that this one would exec */
}

static void run_on(void)
{
	start("on", true);
	tt_banner();
}

static void run_off(void)
{
	start("off", true);
	tt_banner();
}

/* The number is the parent's: what a child of the program inherits. */
static void run_child(void)
{
	start("on", true);
	if (fork() == 0) {
		tt_banner();
		_exit(0);
	}
	wait(NULL);
}

static void hand_auto(void)
{
	start("auto", false);
	tt_banner();
}

static void hand_on(void)
{
	start("on", false);
	tt_banner();
}

static void test_auto(void **state)
{
	char *first;

	(void)state;
	child_says(run_auto, false);
	assert_string_equal(said, "");
	child_says(run_auto, true);
	first = strstr(said, "taut: version " TAUT_VERSION ", profile balanced, process ");
	assert_ptr_equal(first, said);
	assert_non_null(strstr(said, "banner"));
	assert_non_null(strstr(said, "TAUT_RING_KB=64 (default 16)"));
	assert_null(strstr(said, "TAUT_BANNER"));
	assert_null(strstr(said, "TAUT_UDP"));
	assert_null(strstr(first + 1, "taut: version"));
}

static void test_on(void **state)
{
	(void)state;
	child_says(run_on, false);
	assert_non_null(strstr(said, "taut: version"));
	assert_null(strstr(said, "differs"));
	child_says(hand_on, false);
	assert_non_null(strstr(said, "taut: version"));
}

static void test_quiet(void **state)
{
	(void)state;
	child_says(run_off, true);
	assert_string_equal(said, "");
	child_says(hand_auto, true);
	assert_string_equal(said, "");
	child_says(run_child, true);
	assert_string_equal(said, "");
}

static void traced(void)
{
	struct tt_stat_sock row = {.type = SOCK_STREAM};

	tt_trace_sock(7, &row, "not seen", TT_REASON_NONE);
	tt_tun.trace = true;
	row.local.sin6_port = htons(80);
	inet_pton(AF_INET6, "::ffff:127.0.0.1", &row.local.sin6_addr);
	tt_trace_sock(7, &row, "listens", TT_REASON_NONE);
	row.remote.sin6_port = htons(65535);
	inet_pton(AF_INET6, "fe80::1", &row.remote.sin6_addr);
	row.type = SOCK_DGRAM;
	tt_trace_sock(8, &row, "kernel path", TT_REASON_PEER_PLAIN);
}

static void test_trace(void **state)
{
	char *line;

	(void)state;
	child_says(traced, false);
	assert_null(strstr(said, "not seen"));
	assert_non_null(strstr(said, "] fd 7 tcp 127.0.0.1:80: listens\n"));
	line =
	    strstr(said, "] fd 8 udp 127.0.0.1:80 > [fe80::1]:65535: kernel path: the other end is "
			 "not an accelerated process of this user (peer-plain)\n");
	assert_non_null(line);
}

static void test_reason_names(void **state)
{
	(void)state;
	assert_string_equal(tt_reason_word(TT_REASON_RING_FULL), "ring-full");
	assert_string_equal(tt_reason_word(TT_REASON_COUNT), "unknown");
	assert_string_equal(tt_reason_word(0xffffffffu), "unknown");
	assert_non_null(strstr(tt_reason_text(TT_REASON_NAT), "translated"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_auto),
	    cmocka_unit_test(test_on),
	    cmocka_unit_test(test_quiet),
	    cmocka_unit_test(test_trace),
	    cmocka_unit_test(test_reason_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
