/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/opt.h"

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
	char path[32];
};

static const char *const modes[] = {"latency", "balanced", "blocking", NULL};
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
	.help = "say per socket what was accelerated, and of the others say why they were not",
	TT_OPT_AT(struct config, trace)},
    {.name = "secret",
	.type = TT_OPT_BOOL,
	.hidden = true,
	.help = "for tests",
	TT_OPT_AT(struct config, trace)},
};
static const struct tt_opt more_rows[] = {
    {.name = "profile",
	.letter = 'p',
	.type = TT_OPT_ENUM,
	.words = modes,
	.def = "balanced",
	.env = "TAUT_PROFILE",
	.help = "how to wait",
	TT_OPT_AT(struct config, mode)},
    {.name = "out",
	.type = TT_OPT_TEXT,
	.file = true,
	.help = ".dot file - a\\b",
	TT_OPT_AT(struct config, path)},
};
static const struct tt_opt_set more = {
    .command = "taut run", .rows = more_rows, .count = tt_array_len(more_rows)};
static const struct tt_opt_set set = {.command = "taut run",
    .usage = "PROGRAM",
    .about = "Runs it.",
    .rows = rows,
    .count = tt_array_len(rows),
    .more = &more,
    .env_prefix = "TAUT_"};

static char *text;

static const char *print(void (*fn)(const struct tt_opt_set *, FILE *))
{
	size_t len;
	FILE *out;

	free(text);
	out = open_memstream(&text, &len);
	assert_non_null(out);
	fn(&set, out);
	fclose(out);
	return text;
}

static void help_lists_every_row_within_80_columns(void **state)
{
	const char *want =
	    "usage: taut run [OPTION...] PROGRAM\n"
	    "\n"
	    "Runs it.\n"
	    "\n"
	    "      --no-udp              accelerate UDP (default yes; TAUT_UDP)\n"
	    "  -t, --trace               say per socket what was accelerated, and of the\n"
	    "                            others say why they were not (TAUT_TRACE)\n"
	    "  -p, --profile=latency|balanced|blocking\n"
	    "                            how to wait (default balanced; TAUT_PROFILE)\n"
	    "      --out=FILE            .dot file - a\\b\n"
	    "  -h, --help                print this and exit\n";

	(void)state;
	assert_string_equal(print(tt_opt_help), want);
}

static void man_entries_escape_what_roff_reads(void **state)
{
	(void)state;
	print(tt_opt_man_options);
	assert_non_null(strstr(text,
	    ".TP\n\\fB\\-p\\fR, \\fB\\-\\-profile=\\fRlatency|balanced|blocking\\fR\\fR\nhow "
	    "to wait (default balanced; TAUT_PROFILE).\n"));
	assert_non_null(strstr(text, "\n\\&.dot file \\- a\\eb.\n"));
	assert_null(strstr(text, "secret"));
	print(tt_opt_man_environment);
	assert_non_null(strstr(text, ".TP\n\\fBTAUT_TRACE=\\fRyes|no\\fR\n"));
	assert_non_null(strstr(text, "TAUT_PROFILE"));
}

static void completion_knows_kinds_and_words(void **state)
{
	(void)state;
	assert_string_equal(print(tt_opt_completion),
	    "--udp\tnone\n--no-udp\tnone\n--trace\tnone\n--no-trace\tnone\n"
	    "--profile\twords\tlatency balanced blocking\n--out\tfile\n--help\tnone\n");
}

static void the_table_marks_what_differs(void **state)
{
	struct config c;
	size_t len;
	FILE *out;

	(void)state;
	free(text);
	out = open_memstream(&text, &len);
	assert_non_null(out);
	tt_opt_defaults(&set, &c);
	c.mode = 0;
	tt_opt_env_table(&set, &c, out);
	fclose(out);
	assert_non_null(strstr(text, "TAUT_PROFILE=latency  *"));
	assert_non_null(strstr(text, "TAUT_UDP=yes   "));
	assert_non_null(strstr(text, "TAUT_TRACE=no   "));
	free(text);
	text = NULL;
}

/* What a subcommand's first line answers; the child keeps the test's own stdout clean. */
static int start(char *const *words, char *seen, size_t size)
{
	char *argv[8];
	struct config c;
	FILE *capture = tmpfile();
	int argc = 0, first, ret;
	int out = dup(1), err = dup(2);
	size_t n;

	for (; words[argc]; argc++)
		argv[argc] = words[argc];
	argv[argc] = NULL;
	fflush(stdout);
	dup2(fileno(capture), 1);
	dup2(fileno(capture), 2);
	ret = tt_opt_start(&set, argc, argv, &c, &first);
	fflush(stdout);
	dup2(out, 1);
	dup2(err, 2);
	close(out);
	close(err);
	rewind(capture);
	n = fread(seen, 1, size - 1, capture);
	seen[n] = '\0';
	fclose(capture);
	return ret;
}

static void a_command_starts_or_says_why_not(void **state)
{
	char seen[2048];
	char *good[] = {"run", "-p", "latency", "ls", NULL};
	char *help[] = {"run", "--help", NULL};
	char *bad[] = {"run", "--nonsense-word", NULL};

	(void)state;
	assert_int_equal(start(good, seen, sizeof(seen)), -1);
	assert_string_equal(seen, "");
	assert_int_equal(start(help, seen, sizeof(seen)), 0);
	assert_memory_equal(seen, "usage: taut run", 15);
	assert_int_equal(start(bad, seen, sizeof(seen)), 2);
	assert_string_equal(
	    seen, "taut: unknown option --nonsense-word; taut run --help lists them all\n");
	setenv("TAUT_PROFIL", "x", 1);
	assert_int_equal(start(good, seen, sizeof(seen)), 2);
	unsetenv("TAUT_PROFIL");
	assert_string_equal(seen,
	    "taut: environment variable TAUT_PROFIL is unknown; did you mean TAUT_PROFILE?\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(help_lists_every_row_within_80_columns),
	    cmocka_unit_test(man_entries_escape_what_roff_reads),
	    cmocka_unit_test(completion_knows_kinds_and_words),
	    cmocka_unit_test(the_table_marks_what_differs),
	    cmocka_unit_test(a_command_starts_or_says_why_not),
	};
	int ret = cmocka_run_group_tests(tests, NULL, NULL);

	free(text);
	return ret;
}
