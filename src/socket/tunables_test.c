/* SPDX-License-Identifier: BSD-3-Clause */
#include "socket/tunables.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"

static char log_path[64];
static struct tt_tunables t;

static int setup(void **state)
{
	int fd;

	(void)state;
	strcpy(log_path, "/tmp/taut-tunables-test-XXXXXX");
	fd = mkstemp(log_path);
	if (fd < 0)
		return -1;
	close(fd);
	return tt_log_open(log_path);
}

static int teardown(void **state)
{
	(void)state;
	unlink(log_path);
	return tt_log_open(NULL);
}

/* What was logged since the last call. */
static const char *logged(void)
{
	static char text[2048];
	FILE *f = fopen(log_path, "r+");
	size_t n;

	assert_non_null(f);
	n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = '\0';
	assert_int_equal(ftruncate(fileno(f), 0), 0);
	fclose(f);
	return text;
}

static void an_empty_environment_gives_the_defaults(void **state)
{
	char *envp[] = {NULL};

	(void)state;
	errno = ENOTTY;
	assert_int_equal(tt_tunables_load(&t, envp), 0);
	assert_int_equal(errno, ENOTTY);
	assert_int_equal(t.profile, TT_PROFILE_BALANCED);
	assert_int_equal(t.spin_ns, 50000);
	assert_true(t.spin_adapt);
	assert_int_equal(t.ring_kb, 16);
	assert_int_equal(t.ring_bulk_kb, 1024);
	assert_int_equal(t.attach_after, 4);
	assert_int_equal(t.attach_kb, 64);
	assert_int_equal(t.kernel_poll_us, 20);
	assert_true(t.tcp && t.udp);
	assert_false(t.trace || t.disable);
	assert_int_equal(t.banner, TT_BANNER_AUTO);
	assert_string_equal(t.dir, "");
	assert_string_equal(logged(), "");
}

static void profiles_set_the_spin_and_single_variables_override(void **state)
{
	static const struct {
		char *env[3];
		int64_t spin_ns;
		bool adapt;
	} cases[] = {
	    {{"TAUT_PROFILE=latency"}, TT_SPIN_ENDLESS, false},
	    {{"TAUT_PROFILE=blocking"}, 0, false},
	    {{"TAUT_PROFILE=balanced"}, 50000, true},
	    {{"TAUT_SPIN_US=3", "TAUT_PROFILE=latency"}, 3000, false},
	    {{"TAUT_PROFILE=balanced", "TAUT_SPIN_US=endless"}, TT_SPIN_ENDLESS, false},
	    {{"TAUT_SPIN_US=0"}, 0, false},
	    {{"TAUT_PROFILE=blocking", "TAUT_SPIN_US=10"}, 10000, false},
	};

	(void)state;
	for (size_t i = 0; i < tt_array_len(cases); i++) {
		char *envp[] = {cases[i].env[0], cases[i].env[1], NULL};

		assert_int_equal(tt_tunables_load(&t, envp), 0);
		assert_int_equal(t.spin_ns, cases[i].spin_ns);
		assert_int_equal(t.spin_adapt, cases[i].adapt);
	}
	assert_string_equal(logged(), "");
}

static void mistakes_are_named_and_leave_the_default(void **state)
{
	char *envp[] = {"TAUT_PROFILE=latncy", "TAUT_SPINUS=3", "TAUT_RING_KB=17",
	    "TAUT_RING_BULK_KB=8", "TAUT_TCP=perhaps", "TAUT_DIR=relative", NULL};
	const char *text;

	(void)state;
	assert_int_equal(tt_tunables_load(&t, envp), 6);
	text = logged();
	assert_non_null(strstr(text, "taut: TAUT_PROFILE: \"latncy\" is not one of latency, "
				     "balanced or blocking; did you mean latency?\n"));
	assert_non_null(strstr(text,
	    "taut: environment variable TAUT_SPINUS is unknown; did you mean TAUT_SPIN_US?\n"));
	assert_non_null(strstr(text, "taut: TAUT_RING_KB: 17 is not a power of two; using 16\n"));
	assert_non_null(
	    strstr(text, "taut: TAUT_RING_BULK_KB: 8 is less than TAUT_RING_KB; using 16\n"));
	assert_non_null(strstr(text, "taut: TAUT_TCP: \"perhaps\" is neither"));
	assert_non_null(strstr(
	    text, "taut: TAUT_DIR: \"relative\" is not an absolute path; using the default\n"));
	assert_int_equal(t.profile, TT_PROFILE_BALANCED);
	assert_int_equal(t.ring_kb, 16);
	assert_int_equal(t.ring_bulk_kb, 16);
	assert_true(t.tcp);
	assert_string_equal(t.dir, "");
}

/* What it is without TAUT_DIR is shm/hints.h's; the program's environment has no say in that. */
static void the_directory_is_taken_as_given(void **state)
{
	char variable[] = "TAUT_DIR=/some/where";
	char *given[] = {variable, "XDG_RUNTIME_DIR=/nonexistent", NULL};

	(void)state;
	assert_int_equal(tt_tunables_load(&t, given), 0);
	memset(variable, 'x', sizeof(variable) - 1); /* programs overwrite their environment */
	assert_string_equal(t.dir, "/some/where");
	given[0] = given[1];
	given[1] = NULL;
	assert_int_equal(tt_tunables_load(&t, given), 0);
	assert_string_equal(t.dir, "");
	assert_string_equal(logged(), "");
}

static void every_row_has_a_variable_an_option_and_a_help(void **state)
{
	char *envp[] = {NULL};

	(void)state;
	tt_tunables_load(&t, envp);
	for (size_t i = 0; i < tt_tunables_set.count; i++) {
		const struct tt_opt *row = &tt_tunables_set.rows[i];

		assert_memory_equal(row->env, "TAUT_", 5);
		/* TAUT_SPIN_US and --spin-us are one name. */
		for (size_t k = 0; row->name[k]; k++)
			assert_int_equal(
			    row->name[k] == '-' ? '_' : row->name[k] & ~32, row->env[5 + k]);
		assert_true(strlen(row->help) > 10);
		assert_true(tt_opt_is_default(row, &t));
	}
	assert_string_equal(tt_profile_word(TT_PROFILE_BLOCKING), "blocking");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(
		an_empty_environment_gives_the_defaults, setup, teardown),
	    cmocka_unit_test_setup_teardown(
		profiles_set_the_spin_and_single_variables_override, setup, teardown),
	    cmocka_unit_test_setup_teardown(
		mistakes_are_named_and_leave_the_default, setup, teardown),
	    cmocka_unit_test_setup_teardown(the_directory_is_taken_as_given, setup, teardown),
	    cmocka_unit_test_setup_teardown(
		every_row_has_a_variable_an_option_and_a_help, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
