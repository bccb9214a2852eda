/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cmd_compare.c - `taut compare`: the same server and client over two paths, in turns.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/library.h"
#include "host/snapshot.h"
#include "measure/compare.h"
#include "measure/preset.h"
#include "measure/words.h"
#include "report/json.h"
#include "report/text.h"

#define BUSY_SHARE 0.5 /* load average per processor from which a word is said */

struct compare_config {
	const char *a, *b, *server, *client, *only;
	int preset; /* 0: none, else index in tt_presets + 1 */
	uint32_t rounds, seconds;
	int32_t server_cpu, client_cpu;
	int64_t listen_ns, client_ns;
	int32_t share_percent;
	bool json, quiet;
};

static const char *const preset_words[] = {
    "none", "sockperf", "sockperf-spin", "redis", "iperf3", NULL};

static const struct tt_opt rows[] = {
    {.name = "a",
	.type = TT_OPT_STRING,
	.metavar = "PREFIX",
	TT_OPT_AT(struct compare_config, a),
	.help = "words put before both commands for side A; none are the default: the kernel"},
    {.name = "b",
	.type = TT_OPT_STRING,
	.metavar = "PREFIX",
	TT_OPT_AT(struct compare_config, b),
	.help = "the same for side B; this program's \"taut run --\" is the default"},
    {.name = "server",
	.type = TT_OPT_STRING,
	.metavar = "COMMAND",
	TT_OPT_AT(struct compare_config, server),
	.help =
	    "the server, one string; {port} in it is a free port, {time} is --time, {taut} this "
	    "program"},
    {.name = "client",
	.type = TT_OPT_STRING,
	.metavar = "COMMAND",
	TT_OPT_AT(struct compare_config, client),
	.help =
	    "the client, whose output holds the figures: sockperf, iperf3, redis-benchmark or a "
	    "taut JSON result"},
    {.name = "preset",
	.type = TT_OPT_ENUM,
	.words = preset_words,
	.def = "none",
	TT_OPT_AT(struct compare_config, preset),
	.help = "commands and sides that have a name; with it --server and --client are not given"},
    {.name = "only",
	.type = TT_OPT_STRING,
	.metavar = "TEST",
	TT_OPT_AT(struct compare_config, only),
	.help = "of a preset, run this test alone"},
    {.name = "rounds",
	.letter = 'n',
	.type = TT_OPT_INT,
	.min = 1,
	.max = TT_COMPARE_ROUNDS_MAX,
	.def = "5",
	TT_OPT_AT(struct compare_config, rounds),
	.help =
	    "rounds; each runs every side once. 4 are needed for an interval, 10 make a good one"},
    {.name = "time",
	.letter = 't',
	.type = TT_OPT_INT,
	.unit = "s",
	.min = 1,
	.max = 3600,
	.def = "1",
	TT_OPT_AT(struct compare_config, seconds),
	.help = "what {time} stands for: how long each client of a preset measures"},
    {.name = "server-cpu",
	.type = TT_OPT_INT,
	.min = -1,
	.max = 4095,
	.def = "-1",
	TT_OPT_AT(struct compare_config, server_cpu),
	.help = "processor of the server; -1 takes one on another core than the client's"},
    {.name = "client-cpu",
	.type = TT_OPT_INT,
	.min = -1,
	.max = 4095,
	.def = "-1",
	TT_OPT_AT(struct compare_config, client_cpu),
	.help = "processor of the client"},
    {.name = "listen-timeout",
	.type = TT_OPT_DURATION,
	.unit = "s",
	.min = 1000000,
	.max = 3600 * 1000000000ll,
	.def = "10s",
	TT_OPT_AT(struct compare_config, listen_ns),
	.help = "how long a server may take until it listens"},
    {.name = "timeout",
	.type = TT_OPT_DURATION,
	.unit = "s",
	.min = 1000000,
	.max = 86400 * 1000000000ll,
	.def = "2m",
	TT_OPT_AT(struct compare_config, client_ns),
	.help = "how long a client may take"},
    {.name = "share",
	.type = TT_OPT_INT,
	.unit = "percent",
	.min = 0,
	.max = 100,
	.def = "95",
	TT_OPT_AT(struct compare_config, share_percent),
	.help = "rounds of an accelerated side in which less of what could went by shared memory are void"},
    {.name = "json",
	.letter = 'j',
	.type = TT_OPT_BOOL,
	TT_OPT_AT(struct compare_config, json),
	.help = "write the whole result as JSON (result.schema.json, version 1)"},
    {.name = "quiet",
	.letter = 'q',
	.type = TT_OPT_BOOL,
	TT_OPT_AT(struct compare_config, quiet),
	.help = "no line per run on standard error"},
};

const struct tt_opt_set tt_cmd_compare_set = {
    .command = "taut compare",
    .about = "Run a server and a client over two paths in turns and compare their figures",
    .rows = rows,
    .count = tt_array_len(rows),
};

static volatile sig_atomic_t stop;

static void on_signal(int s)
{
	stop = s;
}

static void say(void *arg, const char *line)
{
	(void)arg;
	fprintf(stderr, "%s\n", line);
}

/* What the sides and tests of this call are, kept for its length. */
struct plan {
	struct tt_compare_side sides[TT_COMPARE_SIDES_MAX];
	struct tt_compare_test tests[TT_COMPARE_TESTS_MAX];
	struct tt_compare c;
	char self[PATH_MAX];
};

static int plan_commands(struct plan *p, const struct compare_config *g)
{
	if (!g->server || !g->client)
		return tt_cli_error(TT_EXIT_USAGE,
		    "--%s is missing: give --server and --client, or --preset (sockperf, "
		    "sockperf-spin, redis, "
		    "iperf3)",
		    g->server ? "client" : "server");
	if (g->only)
		return tt_cli_error(TT_EXIT_USAGE, "--only chooses a test of a --preset");
	p->tests[0] = (struct tt_compare_test){"", g->server, g->client, TT_PROTO_ANY};
	p->c.tests_count = 1;
	p->sides[0] = (struct tt_compare_side){"kernel", ""};
	p->sides[1] = (struct tt_compare_side){"taut", "{taut} run --"};
	p->c.sides_count = 2;
	return 0;
}

static int only_unknown(const struct tt_preset *preset, const char *only)
{
	char list[256] = "";
	size_t len = 0;

	for (size_t i = 0; i < preset->tests_count && len < sizeof(list); i++)
		len += (size_t)snprintf(list + len, sizeof(list) - len, "%s\"%s\"", i ? ", " : "",
		    preset->tests[i].label);
	return tt_cli_error(TT_EXIT_USAGE, "--only: the preset %s has no test \"%s\", but %s",
	    preset->name, only, list);
}

static int plan_preset(struct plan *p, const struct compare_config *g)
{
	const struct tt_preset *preset = &tt_presets[g->preset - 1];

	if (g->server || g->client)
		return tt_cli_error(
		    TT_EXIT_USAGE, "--preset %s has its own --server and --client", preset->name);
	for (size_t i = 0; i < preset->tests_count; i++) {
		if (!g->only || strcmp(g->only, preset->tests[i].label) == 0)
			p->tests[p->c.tests_count++] = preset->tests[i];
	}
	if (p->c.tests_count == 0)
		return only_unknown(preset, g->only);
	memcpy(p->sides, preset->sides, preset->sides_count * sizeof(p->sides[0]));
	p->c.sides_count = preset->sides_count;
	return 0;
}

/* --a and --b: their own words are their names. */
static void plan_prefixes(struct plan *p, const struct compare_config *g)
{
	if (g->a) {
		p->sides[0] = (struct tt_compare_side){
		    strcmp(g->a, "") ? tt_compare_accelerates(g->a) ? "A (taut)" : "A" : "kernel",
		    g->a};
	}
	if (g->b) {
		p->sides[1] = (struct tt_compare_side){
		    strcmp(g->b, "") ? tt_compare_accelerates(g->b) ? "B (taut)" : "B"
				     : "B (kernel)",
		    g->b};
		p->c.sides_count = 2;
	}
}

static int plan_make(struct plan *p, const struct compare_config *g)
{
	ssize_t n = readlink("/proc/self/exe", p->self, sizeof(p->self) - 1);
	int rc;

	if (n <= 0)
		return tt_cli_error(
		    TT_EXIT_ENV, "/proc/self/exe can't be read: %s", strerror(errno));
	p->self[n] = '\0';
	p->c = (struct tt_compare){.sides = p->sides,
	    .tests = p->tests,
	    .rounds = g->rounds,
	    .seconds = g->seconds,
	    .server_cpu = g->server_cpu,
	    .client_cpu = g->client_cpu,
	    .listen_ms = (int)(g->listen_ns / 1000000),
	    .client_ms = (int)(g->client_ns / 1000000),
	    .share_min = g->share_percent / 100.0,
	    .level = 0.95,
	    .taut = p->self,
	    .stop = &stop,
	    .progress = g->quiet ? NULL : say};
	rc = g->preset ? plan_preset(p, g) : plan_commands(p, g);
	if (rc == 0)
		plan_prefixes(p, g);
	return rc;
}

/* Under `taut run taut compare` the plain side would be accelerated too. */
static int environment_plain(void)
{
	const char *list = getenv("LD_PRELOAD");
	char *without;
	int rc = 0;

	if (!list)
		return 0;
	without = tt_preload_without(list);
	if (!without || (*without ? setenv("LD_PRELOAD", without, 1) : unsetenv("LD_PRELOAD")))
		rc = tt_cli_error(TT_EXIT_ENV, "no memory for the environment");
	free(without);
	return rc;
}

static int exit_of(int rc)
{
	switch (rc) {
	case -EINVAL:
		return TT_EXIT_USAGE;
	case -EPROTO:
		return TT_EXIT_LIMIT;
	default:
		return TT_EXIT_ENV;
	}
}

/* Rounds that count are what a comparison is for: none on a side is a failure. */
static int judge(const struct taut_result *r)
{
	for (size_t i = 0; i < r->comparisons.len; i++) {
		if (r->comparisons.at[i].pairs == 0)
			return TT_EXIT_LIMIT;
	}
	return r->comparisons.len ? TT_EXIT_GOOD : TT_EXIT_LIMIT;
}

static void own_command(struct taut_result *r, int argc, char **argv)
{
	char *line = NULL;
	size_t size;
	FILE *f = open_memstream(&line, &size);

	/* argv[0] is "taut compare", two words that need no quotes. */
	for (int i = 0; f && i < argc; i++) {
		char *word = i ? tt_words_quote(argv[i]) : NULL;

		fprintf(f, "%s%s", i ? " " : "", word ? word : argv[i]);
		free(word);
	}
	if (f && fclose(f) == 0)
		(void)!taut_command_add(r, "", "", "taut", -1, line);
	free(line);
}

/* Figures of a busy machine are told as such. */
static void note_load(struct taut_result *r)
{
	const struct taut_fact *load = taut_fact_find(&r->local, "load.1m");
	const struct taut_fact *count = taut_fact_find(&r->local, "cpu.count");
	char text[TAUT_TEXT_MAX];

	if (!load || !count || load->kind != TAUT_FACT_NUMBER || count->kind != TAUT_FACT_NUMBER ||
	    load->number < BUSY_SHARE * count->number)
		return;
	snprintf(text, sizeof(text),
	    "the machine was busy before it began (load %.1f on %.0f processors): medians and "
	    "ratios may be off",
	    load->number, count->number);
	(void)!taut_verdict_add(r, "host", TAUT_VERDICT_NOTE, text);
}

static int run(struct plan *p, const struct compare_config *g, struct taut_result *r)
{
	struct sigaction act = {.sa_handler = on_signal};
	char error[TT_COMPARE_ERROR_MAX] = "";
	int rc;

	if (environment_plain())
		return TT_EXIT_ENV;
	if (taut_environment_add(r, environ) < 0 || tt_host_snapshot("", &r->local) < 0)
		return tt_cli_error(TT_EXIT_ENV, "no memory for the host's state");
	note_load(r);
	taut_text_set(r->remote.reason, "both ends run on the local host");
	sigaction(SIGINT, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
	sigaction(SIGHUP, &act, NULL);
	rc = tt_compare(&p->c, r, error);
	if (rc == -EINTR) {
		tt_cli_error(0, "stopped by signal %d; what was started is stopped too", (int)stop);
		return 128 + (int)stop;
	}
	if (rc == -ENOENT && g->preset)
		return tt_cli_error(TT_EXIT_ENV, "%s: apt-get install %s", error,
		    tt_presets[g->preset - 1].package);
	if (rc < 0)
		return tt_cli_error(exit_of(rc), "%s", error);
	rc = g->json ? tt_report_json(r, stdout)
		     : tt_report_text(r, stdout, tt_report_colour(stdout));
	if (rc < 0)
		return tt_cli_error(TT_EXIT_ENV, "the result can't be written: %s", strerror(-rc));
	return judge(r);
}

int tt_cmd_compare(int argc, char **argv)
{
	static struct compare_config config;
	static struct plan plan;
	struct taut_result result;
	int first, rc;

	rc = tt_opt_start(&tt_cmd_compare_set, argc, argv, &config, &first);
	if (rc >= 0)
		return rc;
	if (config.json && tt_report_json_package())
		return tt_cli_error(TT_EXIT_ENV,
		    "--json needs %s: install it and build again; without --json it works",
		    tt_report_json_package());
	rc = plan_make(&plan, &config);
	if (rc > 0)
		return rc;
	taut_result_init(&result, "compare");
	own_command(&result, argc, argv);
	rc = run(&plan, &config, &result);
	taut_result_free(&result);
	return rc;
}
