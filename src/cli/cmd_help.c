/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

struct help_config {
	bool man;
	bool completion;
};

static const struct tt_opt rows[] = {
    {.name = "man",
	.type = TT_OPT_BOOL,
	TT_OPT_AT(struct help_config, man),
	.help = "write the command's man page (taut(1) without a command) as man(7) source"},
    {.name = "completion",
	.type = TT_OPT_BOOL,
	TT_OPT_AT(struct help_config, completion),
	.help = "write the commands, or a command's options, one a line for shell completion"},
};

const struct tt_opt_set tt_cmd_help_set = {
    .command = "taut help",
    .usage = "[COMMAND]",
    .about = "Explain a command",
    .rows = rows,
    .count = tt_array_len(rows),
};

/* Text for man(7): a leading dot or quote and backslashes would be read as requests. */
static void man_text(const char *text)
{
	for (; *text; text++) {
		if (*text == '\\')
			fputs("\\e", stdout);
		else if (*text == '-')
			fputs("\\-", stdout);
		else
			putchar(*text);
	}
}

static void man_top(void)
{
	printf(".TH TAUT 1 \"\" \"taut %s\" \"User Commands\"\n.SH NAME\n"
	       "taut \\- socket programs without the kernel in the way, unmodified\n"
	       ".SH SYNOPSIS\n.B taut\n.I COMMAND\n[\\fIOPTION\\fR...] [\\fIARGUMENT\\fR...]\n"
	       ".SH COMMANDS\n",
	    TAUT_VERSION);
	for (size_t i = 0; i < tt_commands_count; i++) {
		printf(".TP\n.B %s\n", tt_commands[i].name);
		man_text(tt_commands[i].summary);
		putchar('\n');
	}
	printf(".SH EXIT STATUS\n.TP\n0\ngood\n.TP\n1\nwhat was measured failed a "
	       "limit\n.TP\n2\nusage\n"
	       ".TP\n3\nenvironment: no permission, no device, no peer, a library that this build "
	       "lacks\n"
	       ".SH SEE ALSO\n");
	for (size_t i = 0; i < tt_commands_count; i++)
		printf("%s.BR taut\\-%s (1)", i ? ",\n" : "", tt_commands[i].name);
	putchar('\n');
}

static void man_command(const struct tt_command *cmd)
{
	char upper[32];
	size_t n = 0;

	for (; cmd->name[n] && n < sizeof(upper) - 1; n++)
		upper[n] =
		    (char)(cmd->name[n] - ('a' <= cmd->name[n] && cmd->name[n] <= 'z' ? 32 : 0));
	upper[n] = '\0';
	printf(".TH TAUT\\-%s 1 \"\" \"taut %s\" \"User Commands\"\n.SH NAME\ntaut\\-%s \\- ",
	    upper, TAUT_VERSION, cmd->name);
	man_text(cmd->summary);
	printf("\n.SH SYNOPSIS\n.B %s\n[\\fIOPTION\\fR...]", cmd->set->command);
	if (cmd->set->usage) {
		putchar(' ');
		man_text(cmd->set->usage);
	}
	printf("\n.SH OPTIONS\n");
	tt_opt_man_options(cmd->set, stdout);
	printf(".SH ENVIRONMENT\n");
	tt_opt_man_environment(cmd->set, stdout);
	printf(".SH SEE ALSO\n.BR taut (1)\n");
}

int tt_cmd_help(int argc, char **argv)
{
	struct help_config config;
	const struct tt_command *cmd = NULL;
	char name[64], *help[3] = {name, (char[]){"--help"}, NULL};
	int first, rc;

	rc = tt_opt_start(&tt_cmd_help_set, argc, argv, &config, &first);
	if (rc >= 0)
		return rc;
	if (argc - first > 1)
		return tt_cli_error(
		    TT_EXIT_USAGE, "help takes one command, not also \"%s\"", argv[first + 1]);
	if (first < argc && !(cmd = tt_command_find(argv[first])))
		return TT_EXIT_USAGE;
	if (config.completion) {
		if (cmd)
			tt_opt_completion(cmd->set, stdout);
		for (size_t i = 0; !cmd && i < tt_commands_count; i++)
			printf("%s\t%s\n", tt_commands[i].name, tt_commands[i].summary);
		return TT_EXIT_GOOD;
	}
	if (config.man) {
		if (cmd)
			man_command(cmd);
		else
			man_top();
		return TT_EXIT_GOOD;
	}
	if (!cmd) {
		tt_commands_print();
		return TT_EXIT_GOOD;
	}
	snprintf(name, sizeof(name), "taut %s", cmd->name);
	return cmd->run(2, help);
}
