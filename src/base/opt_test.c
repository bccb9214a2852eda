/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/opt.h"

#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct config {
	bool udp;
	bool trace;
	int mode;
	int32_t spin;
	uint16_t port;
	int64_t time_ns;
	int64_t bytes;
	const char *name;
	char text[8];
};

static const char *const modes[] = {"latency", "balanced", "blocking", NULL};
static const char *const spins[] = {"profile", "endless", NULL};

static const struct tt_opt rows[] = {
    {.name = "udp",
	.type = TT_OPT_BOOL,
	.def = "yes",
	.env = "TAUT_UDP",
	.help = "accelerate UDP",
	TT_OPT_AT(struct config, udp)},
    {.name = "trace",
	.letter = 't',
	.type = TT_OPT_BOOL,
	.env = "TAUT_TRACE",
	.help = "say why",
	TT_OPT_AT(struct config, trace)},
    {.name = "profile",
	.letter = 'p',
	.type = TT_OPT_ENUM,
	.words = modes,
	.def = "balanced",
	.env = "TAUT_PROFILE",
	.help = "how to wait",
	TT_OPT_AT(struct config, mode)},
    {.name = "spin-us",
	.type = TT_OPT_INT,
	.words = spins,
	.min = -2,
	.max = 1000,
	.def = "profile",
	.unit = "us",
	.env = "TAUT_SPIN_US",
	.help = "longest spin",
	TT_OPT_AT(struct config, spin)},
    {.name = "port",
	.letter = 'P',
	.type = TT_OPT_INT,
	.min = 1,
	.max = 65535,
	.def = "65535",
	.help = "port",
	TT_OPT_AT(struct config, port)},
    {.name = "time",
	.letter = 'd',
	.type = TT_OPT_DURATION,
	.unit = "s",
	.min = 1,
	.max = 3600 * 1000000000ll,
	.def = "10",
	.help = "how long",
	TT_OPT_AT(struct config, time_ns)},
    {.name = "size",
	.type = TT_OPT_SIZE,
	.def = "64k",
	.help = "block",
	TT_OPT_AT(struct config, bytes)},
    {.name = "name",
	.letter = 'n',
	.type = TT_OPT_STRING,
	.metavar = "WORD",
	.help = "a name",
	TT_OPT_AT(struct config, name)},
    {.name = "file",
	.type = TT_OPT_TEXT,
	.file = true,
	.env = "TAUT_FILE",
	.help = "a - file",
	TT_OPT_AT(struct config, text)},
};
static const char *const other[] = {"TAUT_ELSEWHERE", NULL};
static const struct tt_opt_set set = {.command = "taut demo",
    .usage = "[FILE...]",
    .about = "Shows it.",
    .rows = rows,
    .count = tt_array_len(rows),
    .env_prefix = "TAUT_",
    .env_other = other};

static struct config c;
static char error[TT_OPT_ERROR_MAX];
static int first;

/* Parses words split at blanks after "demo". */
static int parse_as(const struct tt_opt_set *as, const char *line, char **argv, int *argc)
{
	static char copy[256];

	snprintf(copy, sizeof(copy), "demo %s", line);
	*argc = 0;
	for (char *w = strtok(copy, " "); w; w = strtok(NULL, " "))
		argv[(*argc)++] = w;
	argv[*argc] = NULL;
	memset(error, 0, sizeof(error));
	tt_opt_defaults(as, &c);
	return tt_opt_args(as, *argc, argv, &c, &first, error);
}

static int parse(const char *line)
{
	char *argv[32];
	int argc;

	return parse_as(&set, line, argv, &argc);
}

static void fails(const char *line, const char *want)
{
	assert_int_equal(parse(line), -EINVAL);
	assert_string_equal(error, want);
}

static void defaults_are_set_and_recognised(void **state)
{
	(void)state;
	memset(&c, 0xff, sizeof(c));
	tt_opt_defaults(&set, &c);
	assert_true(c.udp);
	assert_false(c.trace);
	assert_int_equal(c.mode, 1);
	assert_int_equal(c.spin, -2);
	assert_int_equal(c.port, 65535);
	assert_int_equal(c.time_ns, 10000000000ll);
	assert_int_equal(c.bytes, 65536);
	assert_null(c.name);
	assert_string_equal(c.text, "");
	for (size_t i = 0; i < tt_array_len(rows); i++)
		assert_true(tt_opt_is_default(&rows[i], &c));
	assert_int_equal(parse("--no-udp --trace --profile latency --spin-us 0 --port 1 --time 1 "
			       "--size 1 --name x --file y"),
	    0);
	for (size_t i = 0; i < tt_array_len(rows); i++)
		assert_false(tt_opt_is_default(&rows[i], &c));
}

static void every_form_of_an_option_is_read(void **state)
{
	(void)state;
	assert_int_equal(parse("--profile=latency --no-udp -t -nword --time 1.5ms --size=2MiB"), 0);
	assert_int_equal(c.mode, 0);
	assert_false(c.udp);
	assert_true(c.trace);
	assert_string_equal(c.name, "word");
	assert_int_equal(c.time_ns, 1500000);
	assert_int_equal(c.bytes, 2 << 20);
	assert_int_equal(parse("-p blocking -tn word --spin-us -1 --udp=off -d 2m"), 0);
	assert_int_equal(c.mode, 2);
	assert_true(c.trace);
	assert_string_equal(c.name, "word");
	assert_int_equal(c.spin, -1);
	assert_false(c.udp);
	assert_int_equal(c.time_ns, 120000000000ll);
	assert_int_equal(
	    parse("--spin-us=endless -d0.000000001s -n=a=b --trace=yes --trace=no"), 0);
	assert_int_equal(c.spin, -1);
	assert_int_equal(c.time_ns, 1);
	assert_string_equal(c.name, "a=b");
	assert_false(c.trace);
	assert_int_equal(parse("--help"), TT_OPT_HELP);
	assert_int_equal(parse("-t -h"), TT_OPT_HELP);
}

static void operands_move_behind_the_options(void **state)
{
	char *argv[32];
	int argc;

	(void)state;
	assert_int_equal(parse_as(&set, "one -t two --name x - -- --three -p", argv, &argc), 0);
	assert_true(c.trace);
	assert_int_equal(argc - first, 5);
	assert_string_equal(argv[first], "one");
	assert_string_equal(argv[first + 1], "two");
	assert_string_equal(argv[first + 2], "-");
	assert_string_equal(argv[first + 3], "--three");
	assert_string_equal(argv[first + 4], "-p");
}

static void parsing_stops_at_a_program(void **state)
{
	struct tt_opt_set run = set;
	char *argv[32];
	int argc;

	(void)state;
	run.takes_program = true;
	assert_int_equal(parse_as(&run, "-t ls --help -p -- x", argv, &argc), 0);
	assert_int_equal(first, 2);
	assert_string_equal(argv[2], "ls");
	assert_string_equal(argv[5], "--");
	assert_int_equal(parse_as(&run, "-t -- -ls", argv, &argc), 0);
	assert_string_equal(argv[first], "-ls");
}

static void mistakes_name_themselves_and_the_way_out(void **state)
{
	(void)state;
	fails("--profil=x", "unknown option --profil; did you mean --profile?");
	fails("--spni-us 3", "unknown option --spni-us; did you mean --spin-us?");
	fails("--no-tracee", "unknown option --no-tracee; did you mean --no-trace?");
	fails("--hlep", "unknown option --hlep; did you mean --help?");
	fails("--zzzzzzzz", "unknown option --zzzzzzzz; taut demo --help lists them all");
	fails("--zz\033[31mzz", "unknown option --zz?[31mzz; taut demo --help lists them all");
	fails("-trace", "unknown option -trace; did you mean --trace?");
	fails("-profile=latency", "unknown option -profile; did you mean --profile?");
	fails("-x", "unknown option -x; taut demo --help lists them all");
	fails("--profile latncy", "--profile: \"latncy\" is not one of latency, balanced or "
				  "blocking; did you mean latency?");
	fails("--spin-us 1001",
	    "--spin-us: \"1001\" is out of range; give 0 to 1000 us, or profile or endless");
	fails("--spin-us 5x",
	    "--spin-us: \"5x\" is not a whole number; give 0 to 1000 us, or profile or endless");
	fails("-P 0", "-P: \"0\" is out of range; give 1 to 65535");
	fails("--port 99999999999999999999",
	    "--port: \"99999999999999999999\" is not a whole number; give 1 to 65535");
	fails("--time 2h", "--time: \"2h\" is out of range; give 1ns to 3600s");
	fails("--time 5parsec",
	    "--time: \"5parsec\" is not a duration; write it like 50us, 1.5ms, 10s, 2m or 1h");
	fails("--size 99999999999T",
	    "--size: \"99999999999T\" is not a size; write it like 64k, 1M or 2GiB");
	fails("--name", "--name needs a value; taut demo --help tells which");
	fails("-n", "-n needs a value; taut demo --help tells which");
	fails("--no-udp=yes", "--no-udp takes no value; leave out \"=yes\"");
	fails("--udp=maybe",
	    "--udp: \"maybe\" is neither yes nor no (yes, true, on, 1; no, false, off, 0)");
	fails("--file 12345678",
	    "--file: \"12345678...\" is longer than 7 bytes; give a shorter one");
	fails("--no-name", "--no-name: --name takes a value and cannot be switched off");
}

static void a_pasted_dash_is_named(void **state)
{
	struct tt_opt_set run = set;
	char *argv[32];
	int argc;

	(void)state;
	fails("\xe2\x80\x93trace", "\"\xe2\x80\x93trace\" starts with an en dash (U+2013), as "
				   "pasted text does; type --trace");
	fails("\xe2\x80\x94profile=latency",
	    "\"\xe2\x80\x94profile=latency\" starts with an em dash "
	    "(U+2014), as pasted text does; type --profile=latency");
	fails("\xe2\x80\x93-trace", "\"\xe2\x80\x93-trace\" starts with an en dash (U+2013), as "
				    "pasted text does; type --trace");
	fails("\xe2\x88\x92t",
	    "\"\xe2\x88\x92t\" starts with a minus sign (U+2212), as pasted text does; type -t");
	run.takes_program = true;
	assert_int_equal(parse_as(&run, "\xe2\x80\x93t ls", argv, &argc), -EINVAL);
	/* What belongs to the program is none of our business. */
	assert_int_equal(parse_as(&run, "ls \xe2\x80\x93l", argv, &argc), 0);
	assert_int_equal(parse("-- \xe2\x80\x93l"), 0);
}

static char lines[8][TT_OPT_ERROR_MAX];
static int line_count;

static void keep(void *arg, const char *line)
{
	assert_ptr_equal(arg, &c);
	if (line_count < 8)
		snprintf(lines[line_count++], sizeof(lines[0]), "%s", line);
}

static int environment(char **envp)
{
	line_count = 0;
	tt_opt_defaults(&set, &c);
	return tt_opt_env(&set, envp, &c, keep, &c);
}

static void the_environment_is_read(void **state)
{
	char *envp[] = {"PATH=/bin", "TAUT_PROFILE=latency", "TAUT_UDP=off", "TAUT_TRACE=1",
	    "TAUT_SPIN_US=7", "TAUT_FILE=a=b", "TAUT_ELSEWHERE=x", "TAUT_SPIN_US=9", "odd", NULL};

	(void)state;
	assert_int_equal(environment(envp), 0);
	assert_int_equal(c.mode, 0);
	assert_false(c.udp);
	assert_true(c.trace);
	assert_int_equal(c.spin, 7);
	assert_string_equal(c.text, "a=b");
}

static void mistakes_in_the_environment_are_named(void **state)
{
	char *envp[] = {"TAUT_PROFLE=latency", "TAUT_TRACE=maybe", "TAUT_UDP=", "TAUT_QQQQQQ=1",
	    "TAUT_SPIN_US=no", NULL};

	(void)state;
	assert_int_equal(environment(envp), 5);
	assert_string_equal(
	    lines[0], "environment variable TAUT_PROFLE is unknown; did you mean TAUT_PROFILE?");
	assert_string_equal(lines[1],
	    "TAUT_TRACE: \"maybe\" is neither yes nor no (yes, true, on, 1; no, false, off, 0)");
	assert_string_equal(
	    lines[2], "TAUT_UDP: \"\" is neither yes nor no (yes, true, on, 1; no, false, off, 0)");
	assert_string_equal(lines[3],
	    "environment variable TAUT_QQQQQQ is unknown; taut run --help-options lists them all");
	assert_string_equal(lines[4],
	    "TAUT_SPIN_US: \"no\" is not a whole number; give 0 to 1000 us, or profile or endless");
	/* What could not be read keeps its default. */
	assert_false(c.trace);
	assert_true(c.udp);
	assert_int_equal(c.spin, -2);
}

static void every_word_for_yes_and_no(void **state)
{
	static const char *const words[][2] = {
	    {"yes", "no"}, {"true", "false"}, {"on", "off"}, {"1", "0"}};

	(void)state;
	for (size_t i = 0; i < tt_array_len(words); i++) {
		c.trace = false;
		assert_int_equal(tt_opt_set(&rows[1], &c, "x", words[i][0], error), 0);
		assert_true(c.trace);
		assert_int_equal(tt_opt_set(&rows[1], &c, "x", words[i][1], error), 0);
		assert_false(c.trace);
	}
}

static void what_is_shown_can_be_read_again(void **state)
{
	char text[64];
	struct config copy;

	(void)state;
	assert_int_equal(parse("--profile=blocking --spin-us=endless --port 80 --time 90s --size "
			       "3k --name n --file f -t --no-udp"),
	    0);
	tt_opt_defaults(&set, &copy);
	for (size_t i = 0; i < tt_array_len(rows); i++) {
		char *value = strdup((tt_opt_show(&rows[i], &c, text, sizeof(text)), text));

		assert_int_equal(tt_opt_set(&rows[i], &copy, "again", value, error), 0);
		if (rows[i].type == TT_OPT_STRING)
			assert_string_equal(copy.name, c.name);
		else
			assert_memory_equal((char *)&copy + rows[i].offset,
			    (char *)&c + rows[i].offset,
			    rows[i].type == TT_OPT_TEXT ? 2 : rows[i].size);
		copy.name = NULL;
		free(value);
	}
	tt_opt_show(&rows[5], &c, text, sizeof(text));
	assert_string_equal(text, "90s");
	tt_opt_show(&rows[6], &c, text, sizeof(text));
	assert_string_equal(text, "3KiB");
}

static void nearest_needs_to_be_near(void **state)
{
	static const char *const words[] = {"server", "client", "any", NULL};

	(void)state;
	assert_string_equal(tt_opt_nearest("sever", words), "server");
	assert_string_equal(tt_opt_nearest("clinet", words), "client");
	assert_string_equal(tt_opt_nearest("serv", words), "server");
	assert_null(tt_opt_nearest("udp", words));
	assert_null(tt_opt_nearest("", words));
	assert_null(tt_opt_nearest(
	    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
	    words));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(defaults_are_set_and_recognised),
	    cmocka_unit_test(every_form_of_an_option_is_read),
	    cmocka_unit_test(operands_move_behind_the_options),
	    cmocka_unit_test(parsing_stops_at_a_program),
	    cmocka_unit_test(mistakes_name_themselves_and_the_way_out),
	    cmocka_unit_test(a_pasted_dash_is_named),
	    cmocka_unit_test(the_environment_is_read),
	    cmocka_unit_test(mistakes_in_the_environment_are_named),
	    cmocka_unit_test(every_word_for_yes_and_no),
	    cmocka_unit_test(what_is_shown_can_be_read_again),
	    cmocka_unit_test(nearest_needs_to_be_near),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
