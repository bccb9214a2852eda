/* SPDX-License-Identifier: BSD-3-Clause */
#include "measure/compare.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "measure/freeport.h"
#include "measure/parse.h"
#include "measure/path.h"
#include "measure/rawline.h"
#include "measure/words.h"

#define LISTEN_LOOK_MS 2

/* One run of one side. */
struct turn {
	const struct tt_compare *c;
	const struct tt_compare_side *side;
	const struct tt_compare_test *test;
	struct taut_result *result;
	char *error;
	const char *dir; /* for the counters' files */
	unsigned int round;
	unsigned int port;
	char *line[2]; /* server, client; filled in */
	char file[2][PATH_MAX];
	struct tt_child child[2];
	struct tt_parsed parsed;
};

enum { SERVER, CLIENT };
static const char *const roles[] = {"server", "client"};

static int fail(struct turn *t, int rc, const char *fmt, ...) tt_printf(3, 4);

static int fail(struct turn *t, int rc, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(t->error, TT_COMPARE_ERROR_MAX, fmt, ap);
	va_end(ap);
	return rc;
}

static bool stopped(const struct turn *t)
{
	return t->c->stop && *t->c->stop;
}

static int64_t now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

/* The whole command of one role: prefix and command, placeholders filled in. */
static int fill_line(struct turn *t, int role)
{
	const char *command = role == SERVER ? t->test->server : t->test->client;
	char port[16], seconds[16], *quoted = tt_words_quote(t->c->taut), *joined = NULL;
	const struct tt_fill fills[] = {
	    {"port", port}, {"time", seconds}, {"taut", quoted}, {NULL, NULL}};

	snprintf(port, sizeof(port), "%u", t->port);
	snprintf(seconds, sizeof(seconds), "%u", t->c->seconds);
	if (quoted && asprintf(&joined, "%s%s%s", t->side->prefix, t->side->prefix[0] ? " " : "",
			  command) >= 0)
		t->line[role] = tt_words_fill(joined, fills);
	free(joined);
	free(quoted);
	return t->line[role] ? 0 : fail(t, -ENOMEM, "no memory");
}

static int start(struct turn *t, int role)
{
	char stats[PATH_MAX + 32], why[TT_CHILD_LINE_MAX], *env[] = {stats, NULL}, **words;
	struct tt_child_spec spec = {
	    .env = env, .cpu = role == SERVER ? t->c->server_cpu : t->c->client_cpu};
	size_t n;
	int rc;

	rc = tt_words_split(t->line[role], &words, &n);
	if (rc < 0)
		return fail(t, rc, "the %s's command can't be split into words (%s): %s",
		    roles[role],
		    rc == -E2BIG ? "too many" : "an open quote or a backslash at its end",
		    t->line[role]);
	if (n == 0) {
		free(words);
		return fail(t, -EINVAL, "the %s's command is empty", roles[role]);
	}
	snprintf(t->file[role], sizeof(t->file[role]), "%s/%s", t->dir, roles[role]);
	unlink(t->file[role]);
	snprintf(stats, sizeof(stats), "TAUT_STATS_FILE=%s", t->file[role]);
	spec.argv = words;
	rc = tt_child_start(&t->child[role], &spec, why);
	free(words);
	if (rc < 0)
		return fail(t, rc, "%s: %s", roles[role], why);
	return 0;
}

/* "the server ended (exit status 1) ...: the last lines it printed" */
static int fail_child(struct turn *t, int role, int rc, const char *what)
{
	char how[128], tail[1024];

	tt_child_how(&t->child[role], how, sizeof(how));
	tt_child_tail(&t->child[role], tail, sizeof(tail));
	return fail(t, rc, "%s%s%s, round %u: the %s %s (%s): %s; its last output: %s",
	    t->test->label, t->test->label[0] ? ", " : "", t->side->label, t->round, roles[role],
	    what, how, t->line[role], tail);
}

static int wait_listening(struct turn *t)
{
	int64_t end = now_ns(CLOCK_MONOTONIC) + t->c->listen_ms * 1000000ll;

	for (;;) {
		int rc = tt_child_wait(&t->child[SERVER], LISTEN_LOOK_MS);

		if (stopped(t))
			return fail(t, -EINTR, "stopped");
		if (rc == 0)
			return fail_child(t, SERVER, -ECHILD, "ended before it listened");
		rc = tt_procfs_listens(t->child[SERVER].pid, t->test->proto, t->port);
		if (rc < 0)
			return fail(t, rc, "the server's sockets can't be seen in /proc: %s",
			    strerror(-rc));
		if (rc == 1)
			return 0;
		if (now_ns(CLOCK_MONOTONIC) > end)
			return fail_child(t, SERVER, -ECHILD,
			    t->port ? "does not listen on the port it was given"
				    : "does not listen on any port");
	}
}

static int wait_client(struct turn *t)
{
	int64_t left, end = now_ns(CLOCK_MONOTONIC) + t->c->client_ms * 1000000ll;
	int rc;

	do {
		left = (end - now_ns(CLOCK_MONOTONIC)) / 1000000;
		rc = tt_child_wait(&t->child[CLIENT], left > 0 ? (int)left : 0);
		if (stopped(t))
			return fail(t, -EINTR, "stopped");
	} while (rc == -EINTR);
	if (rc == -ETIMEDOUT) {
		/* A client often hangs because its server is gone: then say that. */
		if (tt_child_wait(&t->child[SERVER], 0) == 0)
			return fail_child(t, SERVER, -EPROTO, "ended before its client");
		return fail_child(t, CLIENT, -EPROTO, "did not end in time (--timeout)");
	}
	if (rc < 0)
		return fail(t, rc, "the client can't be waited for: %s", strerror(-rc));
	if (!WIFEXITED(t->child[CLIENT].status) || WEXITSTATUS(t->child[CLIENT].status) != 0)
		return fail_child(t, CLIENT, -EPROTO, "failed");
	return 0;
}

static int stop_server(struct turn *t)
{
	struct tt_child *s = &t->child[SERVER];
	int signal;

	tt_child_stop(s, &signal);
	if (signal == 0 && (!WIFEXITED(s->status) || WEXITSTATUS(s->status) != 0))
		return fail_child(t, SERVER, -EPROTO, "failed while its client ran");
	if (signal == 0 || (WIFSIGNALED(s->status) && WTERMSIG(s->status) != SIGSEGV &&
			       WTERMSIG(s->status) != SIGABRT && WTERMSIG(s->status) != SIGBUS))
		return 0;
	if (WIFSIGNALED(s->status))
		return fail_child(t, SERVER, -EPROTO, "crashed when it was told to stop");
	return 0;
}

/* Figures of the client, then what only the server knows. */
static int read_figures(struct turn *t, struct taut_run *run)
{
	char why[TT_PARSE_ERROR_MAX];
	size_t len;
	char *text = tt_child_output(&t->child[CLIENT], false, &len);
	int rc;

	if (!text)
		return fail(t, -ENOMEM, "no memory");
	rc = tt_parse_client(text, len, run, &t->parsed, why);
	free(text);
	if (rc == -ENOMEM || rc == -ENOSYS)
		return fail(t, rc, "%s", rc == -ENOMEM ? "no memory" : why);
	if (rc < 0) {
		char what[TT_PARSE_ERROR_MAX + 32];

		snprintf(what, sizeof(what), "gave no result: %s", why);
		return fail_child(t, CLIENT, -EPROTO, what);
	}
	text = tt_child_output(&t->child[SERVER], false, &len);
	rc = text ? tt_parse_server(text, len, run) : -ENOMEM;
	free(text);
	return rc < 0 ? fail(t, rc, "no memory") : 0;
}

static int judge(struct turn *t, struct taut_run *run)
{
	struct tt_path path = {0};
	int rc = 0;

	for (int role = SERVER; rc == 0 && role <= CLIENT; role++) {
		rc = tt_path_read(t->file[role], roles[role], &path, run);
		unlink(t->file[role]);
	}
	if (rc < 0)
		return fail(
		    t, rc, "the counters of %s can't be read: %s", t->side->label, strerror(-rc));
	tt_path_judge(
	    &path, t->parsed.weight, tt_compare_accelerates(t->side->prefix), t->c->share_min, run);
	return 0;
}

static void say(const struct turn *t, const struct taut_run *run)
{
	const struct taut_figure *f = taut_figure_find(run, "p50");
	char line[512];

	if (!t->c->progress)
		return;
	if (!f)
		f = taut_figure_find(run, "received rate");
	if (!f && run->figures.len)
		f = &run->figures.at[0];
	snprintf(line, sizeof(line), "round %u of %u%s%s, %s: %s %.4g %s%s%s", t->round,
	    t->c->rounds, t->test->label[0] ? ", " : "", t->test->label, t->side->label,
	    f ? f->name : "", f ? f->value : 0, f ? taut_unit_word(f->unit) : "",
	    run->void_reason[0] ? "; void: " : "", run->void_reason);
	t->c->progress(t->c->progress_arg, line);
}

static int go(struct turn *t)
{
	struct taut_run *run = taut_run_add(t->result);
	struct tt_rawline raw;
	int64_t begin;
	int rc;

	if (!run)
		return fail(t, -ENOMEM, "no memory");
	taut_text_set(run->test, t->test->label);
	taut_text_set(run->side, t->side->label);
	run->round = t->round;
	if (tt_rawline(t->c->server_cpu, t->c->client_cpu, &raw) == 0)
		run->raw_round_trip_ns = raw.p50_ns;
	if (tt_words_hold(t->test->server, "port") || tt_words_hold(t->test->client, "port")) {
		rc = tt_free_port(&t->port);
		if (rc < 0)
			return fail(t, rc, "no free port can be had: %s", strerror(-rc));
	}
	if ((rc = fill_line(t, SERVER)) || (rc = fill_line(t, CLIENT)) || (rc = start(t, SERVER)) ||
	    (rc = wait_listening(t)))
		return rc;
	run->start_ns = now_ns(CLOCK_REALTIME);
	begin = now_ns(CLOCK_MONOTONIC);
	if ((rc = start(t, CLIENT)) || (rc = wait_client(t)))
		return rc;
	run->duration_ns = now_ns(CLOCK_MONOTONIC) - begin;
	if ((rc = stop_server(t)) || (rc = read_figures(t, run)) || (rc = judge(t, run)))
		return rc;
	say(t, run);
	return 0;
}

/* The commands are told once per test and side, with the placeholders of the first round filled in.
 */
static int note_commands(struct turn *t)
{
	int rc;

	if (t->round != 1)
		return 0;
	rc = taut_command_add(
	    t->result, t->test->label, t->side->label, "server", t->c->server_cpu, t->line[SERVER]);
	if (rc == 0)
		rc = taut_command_add(t->result, t->test->label, t->side->label, "client",
		    t->c->client_cpu, t->line[CLIENT]);
	if (rc < 0)
		return fail(t, rc, "no memory");
	t->result->peer = t->parsed.program;
	return 0;
}

static int one_turn(struct turn *t)
{
	int rc = go(t);

	if (rc == 0)
		rc = note_commands(t);
	for (int role = SERVER; role <= CLIENT; role++) {
		tt_child_end(&t->child[role]);
		free(t->line[role]);
	}
	return rc;
}

static int check(const struct tt_compare *c, char *error)
{
	struct turn t = {.error = error};
	cpu_set_t mine;

	if (c->sides_count < 2 || c->sides_count > TT_COMPARE_SIDES_MAX || c->tests_count < 1 ||
	    c->tests_count > TT_COMPARE_TESTS_MAX || c->rounds < 1 ||
	    c->rounds > TT_COMPARE_ROUNDS_MAX)
		return fail(&t, -EINVAL,
		    "2 to %u sides, 1 to %u tests and 1 to %u rounds can be compared",
		    TT_COMPARE_SIDES_MAX, TT_COMPARE_TESTS_MAX, TT_COMPARE_ROUNDS_MAX);
	CPU_ZERO(&mine);
	if (sched_getaffinity(0, sizeof(mine), &mine) < 0)
		return fail(&t, -errno, "the affinity mask can't be read: %s", strerror(errno));
	for (int role = SERVER; role <= CLIENT; role++) {
		int cpu = role == SERVER ? c->server_cpu : c->client_cpu;

		if (cpu >= CPU_SETSIZE || (cpu >= 0 && !CPU_ISSET((unsigned int)cpu, &mine)))
			return fail(&t, -ENODEV,
			    "processor %d (--%s-cpu) is not in our affinity mask; taskset -p $$ "
			    "shows it",
			    cpu, roles[role]);
	}
	return 0;
}

static int all_turns(
    const struct tt_compare *c, const char *dir, struct taut_result *out, char *error)
{
	for (unsigned int round = 1; round <= c->rounds; round++) {
		for (size_t test = 0; test < c->tests_count; test++) {
			for (size_t side = 0; side < c->sides_count; side++) {
				struct turn t = {.c = c,
				    .side = &c->sides[side],
				    .test = &c->tests[test],
				    .result = out,
				    .error = error,
				    .dir = dir,
				    .round = round};
				int rc = one_turn(&t);

				if (rc < 0)
					return rc;
			}
		}
	}
	return 0;
}

int tt_compare(
    const struct tt_compare *given, struct taut_result *out, char error[TT_COMPARE_ERROR_MAX])
{
	struct tt_compare c = *given;
	const char *tmp = getenv("TMPDIR");
	char dir[PATH_MAX], file[PATH_MAX + 16];
	int64_t begin = now_ns(CLOCK_MONOTONIC);
	int rc;

	tt_compare_cpus(&c.server_cpu, &c.client_cpu);
	rc = check(&c, error);
	if (rc < 0)
		return rc;
	snprintf(dir, sizeof(dir), "%s/taut-compare-XXXXXX", tmp && tmp[0] == '/' ? tmp : "/tmp");
	if (!mkdtemp(dir)) {
		rc = -errno;
		snprintf(error, TT_COMPARE_ERROR_MAX,
		    "no folder %.1024s can be made for counters: %s", dir, strerror(-rc));
		return rc;
	}
	out->start_ns = now_ns(CLOCK_REALTIME);
	rc = all_turns(&c, dir, out, error);
	out->duration_ns = now_ns(CLOCK_MONOTONIC) - begin;
	for (int role = SERVER; role <= CLIENT; role++) {
		snprintf(file, sizeof(file), "%s/%s", dir, roles[role]);
		unlink(file);
	}
	rmdir(dir);
	if (rc == 0) {
		rc = tt_compare_conclude(&c, out);
		if (rc < 0)
			snprintf(error, TT_COMPARE_ERROR_MAX, "no memory");
	}
	return rc;
}
