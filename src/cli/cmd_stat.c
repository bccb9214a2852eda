/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/stat.h"

#define PIDS_MAX 1024

struct stat_config {
	int32_t pid;
	const char *name;
	int64_t interval;
	int64_t count;
	uint32_t sockets;
	bool reasons;
	bool wide;
	bool json;
	pid_t pids[PIDS_MAX]; /* -p and the operands */
	size_t pids_count;
};

static const struct tt_opt rows[] = {
    {.name = "pid",
	.letter = 'p',
	.type = TT_OPT_INT,
	.metavar = "PID",
	.min = 1,
	.max = INT32_MAX,
	TT_OPT_AT(struct stat_config, pid),
	.help = "show this process only, as an operand does"},
    {.name = "name",
	.letter = 'n',
	.type = TT_OPT_STRING,
	.metavar = "PROGRAM",
	TT_OPT_AT(struct stat_config, name),
	.help = "show processes of this name only, as ps -o comm shows it"},
    {.name = "interval",
	.letter = 'i',
	.type = TT_OPT_DURATION,
	.unit = "s",
	.min = 50 * 1000000ll,
	.max = 86400 * 1000000000ll,
	TT_OPT_AT(struct stat_config, interval),
	.help = "show rates per second over this time, again and again, in place on a terminal"},
    {.name = "count",
	.letter = 'c',
	.type = TT_OPT_INT,
	.unit = "rounds",
	.min = 1,
	.max = INT64_MAX,
	TT_OPT_AT(struct stat_config, count),
	.help = "with --interval: end after so many"},
    {.name = "sockets",
	.letter = 's',
	.type = TT_OPT_INT,
	.unit = "sockets",
	.min = 0,
	.max = UINT32_MAX,
	.def = "20",
	TT_OPT_AT(struct stat_config, sockets),
	.help = "show the busiest so many sockets; 0 shows all"},
    {.name = "reasons",
	.letter = 'r',
	.type = TT_OPT_BOOL,
	TT_OPT_AT(struct stat_config, reasons),
	.help = "show by process why sockets were not accelerated"},
    {.name = "wide",
	.letter = 'w',
	.type = TT_OPT_BOOL,
	TT_OPT_AT(struct stat_config, wide),
	.help = "show every counter of each socket, each path by itself"},
    {.name = "json",
	.letter = 'j',
	.type = TT_OPT_BOOL,
	TT_OPT_AT(struct stat_config, json),
	.help = "write one line of JSON per round, all sockets included"},
};

const struct tt_opt_set tt_cmd_stat_set = {
    .command = "taut stat",
    .usage = "[PID...]",
    .about = "Show accelerated processes and sockets, live",
    .rows = rows,
    .count = tt_array_len(rows),
};

static int pids_take(struct stat_config *config, int argc, char **argv, int first)
{
	if (config->pid)
		config->pids[config->pids_count++] = config->pid;
	for (int i = first; i < argc; i++) {
		char *end;
		long pid;

		errno = 0;
		pid = strtol(argv[i], &end, 10);
		if (errno || *end || end == argv[i] || pid < 1 || pid > INT32_MAX)
			return tt_cli_error(TT_EXIT_USAGE,
			    "\"%s\" is not a process number; for a program's name use -n", argv[i]);
		if (config->pids_count == PIDS_MAX)
			return tt_cli_error(TT_EXIT_USAGE,
			    "more than %d processes; leave them out to see all", PIDS_MAX);
		config->pids[config->pids_count++] = (pid_t)pid;
	}
	return 0;
}

static int unreadable(pid_t pid, int rc, const struct tt_stat_view *view)
{
	switch (rc) {
	case -ESRCH:
		return tt_cli_error(TT_EXIT_ENV, "no process %d", pid);
	case -ENOENT:
		return tt_cli_error(TT_EXIT_ENV,
		    "process %d is not accelerated; start it with taut run, --trace says what "
		    "hinders",
		    pid);
	case -EACCES:
	case -EPERM:
		return tt_cli_error(
		    TT_EXIT_ENV, "process %d belongs to another user; look as root", pid);
	case -EPROTO:
		return tt_cli_error(TT_EXIT_ENV,
		    "process %d runs another version of taut (%s, this is %s); use its own taut "
		    "stat",
		    pid, view->version[0] ? view->version : "unknown", TAUT_VERSION);
	case -EBADMSG:
		return tt_cli_error(TT_EXIT_ENV,
		    "process %d: its counters make no sense; it may have overwritten them", pid);
	default:
		return tt_cli_error(
		    TT_EXIT_ENV, "process %d can't be read: %s", pid, strerror(-rc));
	}
}

static uint64_t now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Processes that were asked for by number. Once the rounds have begun, one that ended is left out.
 */
static int read_pids(const struct stat_config *config, bool first, struct tt_stat_list *list)
{
	memset(list, 0, sizeof(*list));
	for (size_t i = 0; i < config->pids_count; i++) {
		struct tt_stat_view view;
		int rc = tt_stat_read_pid(config->pids[i], &view);

		if (rc < 0 && !first && (rc == -ESRCH || rc == -ENOENT))
			continue;
		if (rc < 0) {
			tt_stat_list_free(list);
			return unreadable(config->pids[i], rc, &view);
		}
		if (tt_stat_list_add(list, &view) < 0) {
			tt_stat_view_free(&view);
			tt_stat_list_free(list);
			return tt_cli_error(TT_EXIT_ENV, "no memory");
		}
	}
	return 0;
}

static void keep_named(struct tt_stat_list *list, const char *name)
{
	size_t kept = 0;

	for (size_t i = 0; i < list->count; i++) {
		if (strcmp(list->views[i].comm, name) == 0)
			list->views[kept++] = list->views[i];
		else
			tt_stat_view_free(&list->views[i]);
	}
	list->count = kept;
}

static int read_round(const struct stat_config *config, bool first, struct tt_stat_list *list)
{
	int rc;

	if (config->pids_count) {
		rc = read_pids(config, first, list);
		if (rc > 0)
			return rc;
	} else {
		rc = tt_stat_read_all(list);
		if (rc < 0)
			return tt_cli_error(
			    TT_EXIT_ENV, "the processes can't be listed: /proc: %s", strerror(-rc));
		if (first && list->bad && list->bad_rc == -EPROTO)
			tt_cli_error(0, "%zu more with another version of taut, process %d for one",
			    list->bad, list->bad_pid);
		else if (first && list->bad)
			tt_cli_error(0,
			    "%zu more with counters that make no sense, process %d for one",
			    list->bad, list->bad_pid);
	}
	if (config->name)
		keep_named(list, config->name);
	return 0;
}

static int show(const struct stat_config *config, const struct tt_stat_round *round)
{
	struct tt_stat_show what = {
	    .reasons = config->reasons, .wide = config->wide, .sockets = config->sockets};
	bool in_place = config->interval && !config->json && isatty(STDOUT_FILENO);
	int rc;

	if (in_place)
		fputs("\033[H\033[2J", stdout);
	rc = config->json ? tt_stat_json(round, stdout) : tt_stat_text(round, &what, stdout);
	if (config->interval && !config->json && !in_place)
		fputc('\n', stdout);
	if (rc == -ENOTSUP)
		return tt_cli_error(
		    TT_EXIT_ENV, "this build has no JSON; install libjansson-dev and build again");
	if (rc < 0)
		return tt_cli_error(TT_EXIT_ENV, "the result can't be written: %s", strerror(-rc));
	if (fflush(stdout) != 0)
		return tt_cli_error(TT_EXIT_ENV, "standard output: %s", strerror(errno));
	return 0;
}

/* read_at: when round->now was read. A round that took longer than the interval moves the ones
 * after it. */
static int rounds(const struct stat_config *config, struct tt_stat_round *round, uint64_t read_at)
{
	uint64_t at = read_at;
	struct timespec ts;

	for (int64_t done = 0; !config->count || done < config->count; done++) {
		uint64_t next = at + (uint64_t)config->interval, now;
		int rc;

		ts.tv_sec = (time_t)(next / 1000000000u);
		ts.tv_nsec = (long)(next % 1000000000u);
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
			;
		tt_stat_list_free(&round->before);
		round->before = round->now;
		memset(&round->now, 0, sizeof(round->now));
		rc = read_round(config, false, &round->now);
		if (rc > 0)
			return rc;
		round->time_ns = now_ns(CLOCK_REALTIME);
		now = now_ns(CLOCK_MONOTONIC);
		round->interval_s = (double)(now - read_at) / 1e9;
		read_at = now;
		rc = show(config, round);
		if (rc > 0)
			return rc;
		at = now > next + (uint64_t)config->interval ? now : next;
	}
	return 0;
}

int tt_cmd_stat(int argc, char **argv)
{
	static struct stat_config config;
	struct tt_stat_round round = {.interval_s = 0};
	int first, rc;

	rc = tt_opt_start(&tt_cmd_stat_set, argc, argv, &config, &first);
	if (rc >= 0)
		return rc;
	rc = pids_take(&config, argc, argv, first);
	if (rc > 0)
		return rc;
	if (config.count && !config.interval)
		return tt_cli_error(TT_EXIT_USAGE, "--count counts rounds of --interval; give one");
	rc = read_round(&config, true, &round.now);
	if (rc > 0)
		return rc;
	round.time_ns = now_ns(CLOCK_REALTIME);
	rc = config.interval ? rounds(&config, &round, now_ns(CLOCK_MONOTONIC))
			     : show(&config, &round);
	tt_stat_list_free(&round.now);
	tt_stat_list_free(&round.before);
	return rc;
}
