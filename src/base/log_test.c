/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

struct env {
	char dir[64];
	int stderr_copy;
};

static int setup(void **state)
{
	static struct env env;

	strcpy(env.dir, "/tmp/taut-log-test-XXXXXX");
	if (!mkdtemp(env.dir))
		return -1;
	env.stderr_copy = dup(2);
	*state = &env;
	return env.stderr_copy < 0 ? -1 : 0;
}

static int teardown(void **state)
{
	struct env *env = *state;
	char command[128];

	dup2(env->stderr_copy, 2);
	close(env->stderr_copy);
	tt_log_start();
	tt_log_level = TT_LOG_NOTE;
	snprintf(command, sizeof(command), "rm -rf %s", env->dir);
	return tt_log_open(NULL) || system(command);
}

static ssize_t read_file(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, size - 1);

	if (fd >= 0)
		close(fd);
	buf[n > 0 ? n : 0] = '\0';
	return n;
}

static void a_line_goes_to_stderr_and_errno_stays(void **state)
{
	int p[2];
	char buf[256];
	ssize_t n;

	(void)state;
	assert_int_equal(pipe(p), 0);
	dup2(p[1], 2);
	tt_log_start();
	errno = ENOTTY;
	tt_log_error("%s is %d\nlong", "answer", 42);
	tt_log_trace("not at this level");
	assert_int_equal(errno, ENOTTY);
	n = read(p[0], buf, sizeof(buf) - 1);
	buf[n] = '\0';
	assert_string_equal(buf, "taut: answer is 42 long\n");
	close(p[0]);
	close(p[1]);
}

static void a_long_line_is_cut(void **state)
{
	int p[2];
	char text[3000], buf[4000];

	(void)state;
	memset(text, 'a', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(pipe(p), 0);
	dup2(p[1], 2);
	tt_log_start();
	tt_log_error("%s", text);
	assert_int_equal(read(p[0], buf, sizeof(buf)), TT_LOG_LINE_MAX - 1);
	assert_memory_equal(buf + TT_LOG_LINE_MAX - 5, "...\n", 4);
	close(p[0]);
	close(p[1]);
}

/* A program that closes its standard error and gets number 2 again for a file of its own keeps that
 * file clean. */
static void a_reused_descriptor_2_is_left_alone(void **state)
{
	struct env *env = *state;
	uint64_t lost = tt_log_lost;
	char path[128], buf[64];
	int fd;

	tt_log_start();
	snprintf(path, sizeof(path), "%s/data", env->dir);
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	dup2(fd, 2);
	close(fd);
	tt_log_error("must not get into the user's file");
	assert_int_equal(read_file(path, buf, sizeof(buf)), 0);
	assert_int_equal(tt_log_lost, lost + 1);
}

static void a_network_stderr_is_left_alone(void **state)
{
	uint64_t lost = tt_log_lost;
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	(void)state;
	dup2(fd, 2);
	close(fd);
	tt_log_start();
	tt_log_error("must not get into a protocol");
	assert_int_equal(tt_log_lost, lost + 1);
}

static void the_file_carries_the_process_number(void **state)
{
	struct env *env = *state;
	char path[128], want[128], buf[128];

	snprintf(path, sizeof(path), "%s/log.%%d", env->dir);
	snprintf(want, sizeof(want), "%s/log.%d", env->dir, getpid());
	assert_int_equal(tt_log_open(path), 0);
	tt_log_note("one");
	tt_log_note("two");
	assert_true(read_file(want, buf, sizeof(buf)) > 0);
	assert_string_equal(buf, "taut: one\ntaut: two\n");
	assert_int_equal(tt_log_open("/nonexistent/log"), -ENOENT);
}

static void a_closed_pipe_or_file_limit_kills_nobody(void **state)
{
	struct env *env = *state;
	struct rlimit before, none = {0, 0};
	uint64_t lost = tt_log_lost;
	char path[128];
	int p[2];

	assert_int_equal(pipe(p), 0);
	dup2(p[1], 2);
	tt_log_start();
	close(p[0]);
	tt_log_error("nobody reads");
	assert_int_equal(tt_log_lost, lost + 1);
	close(p[1]);

	snprintf(path, sizeof(path), "%s/full", env->dir);
	assert_int_equal(tt_log_open(path), 0);
	getrlimit(RLIMIT_FSIZE, &before);
	none.rlim_max = before.rlim_max;
	setrlimit(RLIMIT_FSIZE, &none);
	tt_log_error("no room");
	setrlimit(RLIMIT_FSIZE, &before);
	assert_int_equal(tt_log_lost, lost + 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(a_line_goes_to_stderr_and_errno_stays, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_long_line_is_cut, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_reused_descriptor_2_is_left_alone, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_network_stderr_is_left_alone, setup, teardown),
	    cmocka_unit_test_setup_teardown(the_file_carries_the_process_number, setup, teardown),
	    cmocka_unit_test_setup_teardown(
		a_closed_pipe_or_file_limit_kills_nobody, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
