/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cmd_run.c - `taut run`: puts libtaut.so into LD_PRELOAD and the options into TAUT_* variables,
 * then becomes the program. Nothing stays behind: a signal to this process is a signal to the
 * program, its exit status is the program's, and whatever the program starts inherits the
 * acceleration through the environment.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/cli.h"
#include "cli/library.h"
#include "cli/target.h"
#include "socket/banner.h"
#include "socket/rules.h"
#include "socket/tunables.h"

struct run_config {
	struct tt_tunables tun; /* first: the rows of tt_tunables_set count from here */
	bool help_options;
	const char *library;
};

_Static_assert(
    offsetof(struct run_config, tun) == 0, "offsets of both tables count from one struct");

static const struct tt_opt rows[] = {
    {.name = "help-options",
	.type = TT_OPT_BOOL,
	TT_OPT_AT(struct run_config, help_options),
	.help = "list every setting with its variable, default and range, and what it is now"},
    {.name = "library",
	.type = TT_OPT_STRING,
	.metavar = "FILE",
	.env = "TAUT_LIBRARY",
	.file = true,
	TT_OPT_AT(struct run_config, library),
	.help = "load this libtaut.so instead of the one that came with this program"},
};

static const char *const env_other[] = {TT_BANNER_PID, NULL};

const struct tt_opt_set tt_cmd_run_set = {
    .command = "taut run",
    .usage = "PROGRAM [ARGUMENT...]",
    .about = "Run a program with its sockets accelerated",
    .rows = rows,
    .count = tt_array_len(rows),
    .more = &tt_tunables_set,
    .env_prefix = "TAUT_",
    .env_other = env_other,
    .takes_program = true,
};

/* Programs change their folder, and so do the programs that they start: names of files become
 * absolute. */
static int path_absolute(char *path, size_t size, const char *option)
{
	char full[2 * PATH_MAX], here[PATH_MAX];

	if (!path[0] || path[0] == '/')
		return 0;
	if (!getcwd(here, sizeof(here)))
		return tt_cli_error(TT_EXIT_ENV, "%s: the current folder can't be told: %s", option,
		    strerror(errno));
	snprintf(full, sizeof(full), "%s/%s", here, path);
	if (strlen(full) >= size)
		return tt_cli_error(TT_EXIT_USAGE,
		    "%s: %s is longer than %zu bytes; give a shorter path", option, full, size - 1);
	strcpy(path, full);
	return 0;
}

static int paths_absolute(struct tt_tunables *t)
{
	int rc;

	if ((rc = path_absolute(t->config, sizeof(t->config), "--config")) ||
	    (rc = path_absolute(t->dir, sizeof(t->dir), "--dir")) ||
	    (rc = path_absolute(t->log_file, sizeof(t->log_file), "--log-file")) ||
	    (rc = path_absolute(t->stats_file, sizeof(t->stats_file), "--stats-file")))
		return rc;
	return 0;
}

/* Each setting that is not the default becomes a variable; the others must not be left over from
 * outside. */
static int export_settings(const struct tt_tunables *t)
{
	for (size_t i = 0; i < tt_tunables_set.count; i++) {
		const struct tt_opt *row = &tt_tunables_set.rows[i];
		char value[TT_TUN_PATH_MAX];

		if (!row->env)
			continue;
		if (tt_opt_is_default(row, t)) {
			unsetenv(row->env);
			continue;
		}
		tt_opt_show(row, t, value, sizeof(value));
		if (setenv(row->env, value, 1) < 0)
			return -ENOMEM;
	}
	return 0;
}

static void say(void *arg, const char *line)
{
	(void)arg;
	tt_cli_error(0, "%s", line);
}

/* The settings as libtaut.so will read them, with the checks that no single row can make. */
static int settings_check(const char *program)
{
	struct tt_tunables seen;
	int wrong = tt_tunables_load(&seen, environ);

	wrong += tt_rules_load(seen.config, say, NULL);
	if (wrong == 0)
		return 0;
	return tt_cli_error(TT_EXIT_USAGE, "%s was not started", program);
}

/* Says in one line why not, unless it can. */
static bool accelerates(const struct tt_target *target)
{
	bool script = strcmp(target->path, target->binary) != 0;

	if (target->obstacle == TT_OBSTACLE_NONE)
		return true;
	tt_cli_error(0, "%s can't be accelerated and runs on the kernel's sockets: %s%s%s%s%s",
	    target->path, script ? "it is run by " : "", script ? target->binary : "",
	    script ? ", and " : "", tt_obstacle_text(target->obstacle),
	    target->obstacle == TT_OBSTACLE_SETUID
		? "; put \"taut run\" behind it to accelerate what it starts"
		: "");
	return false;
}

static int preload_set(const char *library)
{
	const char *list = getenv("LD_PRELOAD");
	char *value, pid[16];
	int rc = 0;

	value = library ? tt_preload_with(list, library) : tt_preload_without(list);
	if (!value)
		return -ENOMEM;
	snprintf(pid, sizeof(pid), "%d", getpid());
	if (*value ? setenv("LD_PRELOAD", value, 1) : unsetenv("LD_PRELOAD"))
		rc = -ENOMEM;
	else if (library ? setenv(TT_BANNER_PID, pid, 1) : unsetenv(TT_BANNER_PID))
		rc = -ENOMEM;
	free(value);
	return rc;
}

static int become(char **argv)
{
	int err;

	execvp(argv[0], argv);
	err = errno;
	if (err == ENOENT)
		return tt_cli_error(TT_EXIT_NOTFOUND,
		    "%s exists, but the interpreter or loader that it names does not", argv[0]);
	return tt_cli_error(TT_EXIT_NOEXEC, "%s can't be executed: %s", argv[0], strerror(err));
}

int tt_cmd_run(int argc, char **argv)
{
	static struct run_config config;
	static struct tt_target target;
	char library[PATH_MAX], error[2 * PATH_MAX];
	const char *use = NULL;
	int first, rc;

	rc = tt_opt_start(&tt_cmd_run_set, argc, argv, &config, &first);
	if (rc >= 0)
		return rc;
	if (config.help_options) {
		tt_opt_env_table(&tt_tunables_set, &config, stdout);
		return TT_EXIT_GOOD;
	}
	if (first == argc)
		return tt_cli_error(
		    TT_EXIT_USAGE, "no program given; taut run PROGRAM [ARGUMENT...]");
	argv += first;
	if ((rc = paths_absolute(&config.tun)) > 0)
		return rc;
	if (export_settings(&config.tun) < 0)
		return tt_cli_error(TT_EXIT_ENV, "no memory for the environment");
	if ((rc = settings_check(argv[0])) > 0)
		return rc;
	rc = tt_target_find(argv[0], getenv("PATH"), target.path);
	if (rc == -EACCES)
		return tt_cli_error(
		    TT_EXIT_NOEXEC, "%s can't be executed: %s", argv[0], strerror(-rc));
	if (rc < 0)
		return tt_cli_error(TT_EXIT_NOTFOUND, "%s: no such program%s", argv[0],
		    strchr(argv[0], '/') ? "" : " in PATH");
	/* A file that can't be read may well be executable: the loader decides. */
	if (tt_target_inspect(&target) < 0)
		target.obstacle = TT_OBSTACLE_NONE;
	if (accelerates(&target)) {
		if (tt_library_find(config.library, library, error, sizeof(error)) < 0)
			return tt_cli_error(TT_EXIT_ENV, "%s", error);
		use = library;
	}
	if (preload_set(use) < 0)
		return tt_cli_error(TT_EXIT_ENV, "no memory for the environment");
	return become(argv);
}
