/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

#define COMMANDS_MAX 32

const struct tt_command tt_commands[] = {
    {"run", tt_cmd_run, "run a program with its sockets accelerated", &tt_cmd_run_set},
    {"stat", tt_cmd_stat, "show accelerated processes and sockets, live", &tt_cmd_stat_set},
    {"compare", tt_cmd_compare, "run server and client over two paths in turns and compare",
	&tt_cmd_compare_set},
    {"help", tt_cmd_help, "explain a command", &tt_cmd_help_set},
};
const size_t tt_commands_count = tt_array_len(tt_commands);

_Static_assert(tt_array_len(tt_commands) < COMMANDS_MAX, "the list of names has an end");

int tt_cli_error(int status, const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	fputs("taut: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return status;
}

void tt_commands_print(void)
{
	printf("taut %s: socket programs without the kernel in the way, unmodified\n\n"
	       "usage: taut COMMAND [OPTION...] [ARGUMENT...]\n\n",
	    TAUT_VERSION);
	for (size_t i = 0; i < tt_commands_count; i++)
		printf("  %-10s %s\n", tt_commands[i].name, tt_commands[i].summary);
	printf("\n"
	       "  taut run redis-server        both ends of a connection on one host, each under\n"
	       "  taut run redis-benchmark     taut run, exchange their bytes by shared memory\n"
	       "  taut stat                    what is accelerated now, and what is not and why\n\n"
	       "taut help COMMAND or taut COMMAND --help shows the options. A command's name may "
	       "be cut\n"
	       "as long as it is unambiguous.\n");
}

const struct tt_command *tt_command_find(const char *word)
{
	const struct tt_command *found = NULL;
	const char *names[COMMANDS_MAX] = {NULL};
	const char *nearest;
	char list[256] = "";
	size_t matches = 0, len = 0, n = strlen(word);

	for (size_t i = 0; i < tt_commands_count; i++) {
		names[i] = tt_commands[i].name;
		if (strcmp(names[i], word) == 0)
			return &tt_commands[i];
		if (n == 0 || strncmp(names[i], word, n) != 0)
			continue;
		found = &tt_commands[i];
		if (len < sizeof(list))
			len += (size_t)snprintf(
			    list + len, sizeof(list) - len, "%s%s", matches ? ", " : "", names[i]);
		matches++;
	}
	if (matches == 1)
		return found;
	nearest = tt_opt_nearest(word, names);
	if (matches > 1)
		tt_cli_error(0, "command \"%s\" could be %s", word, list);
	else if (nearest)
		tt_cli_error(0, "unknown command \"%s\"; did you mean %s?", word, nearest);
	else
		tt_cli_error(0, "unknown command \"%s\"; taut alone lists the commands", word);
	return NULL;
}

int main(int argc, char **argv)
{
	static char name[64];
	const struct tt_command *cmd;
	const char *word = argc > 1 ? argv[1] : "--help";

	if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) {
		printf("taut %s\n", TAUT_VERSION);
		return TT_EXIT_GOOD;
	}
	if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
		tt_commands_print();
		return TT_EXIT_GOOD;
	}
	if (word[0] == '-')
		return tt_cli_error(TT_EXIT_USAGE,
		    "unknown option \"%s\" before the command; taut alone lists the commands",
		    word);
	cmd = tt_command_find(word);
	if (!cmd)
		return TT_EXIT_USAGE;
	snprintf(name, sizeof(name), "taut %s", cmd->name);
	argv[1] = name;
	return cmd->run(argc - 1, argv + 1);
}
