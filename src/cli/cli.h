/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cli.h - the subcommands of `taut`.
 *
 * A subcommand gets argv[0] = its full name as rows of options print it ("taut stat") and returns
 * the exit status: 0 good, 1 the measured thing failed a limit, 2 usage, 3 environment. Errors go
 * to standard error, one line each, by tt_cli_error(). Every other subcommand's options are rows of
 * base/opt.h; the set is named here so that help, the man page and the completion come from it.
 */
#ifndef TT_CLI_CLI_H
#define TT_CLI_CLI_H

#include "base/base.h"
#include "base/opt.h"

enum { TT_EXIT_GOOD, TT_EXIT_LIMIT, TT_EXIT_USAGE, TT_EXIT_ENV };
/* `taut run` alone, as env(1) and nice(1) do: the program could not be executed, was not found. */
enum { TT_EXIT_NOEXEC = 126, TT_EXIT_NOTFOUND = 127 };

struct tt_command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *summary; /* one line, no full stop */
	const struct tt_opt_set *set;
};

extern const struct tt_command tt_commands[];
extern const size_t tt_commands_count;

/* By name or unambiguous prefix. NULL after printing what is wrong. */
const struct tt_command *tt_command_find(const char *word);
/* One screen: what taut can do. */
void tt_commands_print(void);

int tt_cmd_compare(int argc, char **argv);
int tt_cmd_help(int argc, char **argv);
int tt_cmd_run(int argc, char **argv);
int tt_cmd_stat(int argc, char **argv);

extern const struct tt_opt_set tt_cmd_compare_set;
extern const struct tt_opt_set tt_cmd_help_set;
extern const struct tt_opt_set tt_cmd_run_set;
extern const struct tt_opt_set tt_cmd_stat_set;

/* "taut: " + text + newline to standard error. Returns status. */
int tt_cli_error(int status, const char *fmt, ...) tt_printf(2, 3);

#endif
