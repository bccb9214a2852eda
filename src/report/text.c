/* SPDX-License-Identifier: BSD-3-Clause */
#include "report/text.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/stats.h"

#define VALUE_MAX 32
#define CELL_MAX 128

struct view {
	const struct taut_result *r;
	FILE *out;
	const char *bold, *green, *red, *yellow, *plain;
};

bool tt_report_colour(FILE *out)
{
	const char *no = getenv("NO_COLOR");

	return isatty(fileno(out)) && !(no && no[0]);
}

/* Scales by steps of 1000; prefixes[0] is for the unit itself. */
static const char *scaled(
    double v, const char *const *prefixes, size_t n, const char *unit, char *buf, size_t size)
{
	size_t i = 0;
	int digits;

	while (i + 1 < n && fabs(v) >= 999.95) {
		v /= 1000;
		i++;
	}
	digits = fabs(v) < 9.9995 ? 3 : fabs(v) < 99.995 ? 2 : fabs(v) < 999.95 ? 1 : 0;
	snprintf(buf, size, "%.*f %s%s", digits, v, prefixes[i], unit);
	return buf;
}

const char *tt_report_value(double v, enum taut_unit unit, char *buf, size_t size)
{
	static const char *const rate[] = {"", "k", "M", "G", "T"};
	static const char *const time[] = {"ns", "us", "ms", "s"};

	if (!isfinite(v)) {
		snprintf(buf, size, "-");
		return buf;
	}
	switch (unit) {
	case TAUT_UNIT_NS:
		return scaled(v, time, tt_array_len(time), "", buf, size);
	case TAUT_UNIT_BITS_PER_S:
		return scaled(v, rate, tt_array_len(rate), "bit/s", buf, size);
	case TAUT_UNIT_PER_S:
		return scaled(v, rate, tt_array_len(rate), "/s", buf, size);
	case TAUT_UNIT_BYTES:
		return scaled(v, rate, tt_array_len(rate), "B", buf, size);
	case TAUT_UNIT_PERCENT:
		snprintf(buf, size, "%.1f %%", v);
		return buf;
	case TAUT_UNIT_RATIO:
		snprintf(buf, size, "%.3g x", v);
		return buf;
	case TAUT_UNIT_COUNT:
		snprintf(buf, size, "%.0f", v);
		return buf;
	case TAUT_UNIT_NONE:
		break;
	}
	snprintf(buf, size, "%.4g", v);
	return buf;
}

static const char *fact(const struct taut_host *h, const char *key, char *buf, size_t size)
{
	const struct taut_fact *f = taut_fact_find(h, key);

	if (!f || f->kind == TAUT_FACT_UNKNOWN)
		return NULL;
	if (f->kind == TAUT_FACT_TEXT)
		return f->text;
	if (f->kind == TAUT_FACT_FLAG)
		return f->flag ? "yes" : "no";
	snprintf(buf, size, "%.0f", f->number);
	return buf;
}

static void host(const struct view *v, const char *name, const struct taut_host *h)
{
	char n[VALUE_MAX], buf[VALUE_MAX];
	const char *s, *count = fact(h, "cpu.count", n, sizeof(n));

	if (!h->known) {
		/* A comparison runs both ends here; its far host is not worth a line. */
		if (h == &v->r->local || strcmp(v->r->kind, "compare") != 0)
			fprintf(v->out, "%-9s unknown: %s\n", name, h->reason);
		return;
	}
	s = fact(h, "kernel.release", buf, sizeof(buf));
	fprintf(v->out, "%-9s Linux %s, %s x ", name, s ? s : "?", count ? count : "?");
	s = fact(h, "cpu.model", buf, sizeof(buf));
	fputs(s ? s : "unknown processor", v->out);
	s = fact(h, "vm.guest", buf, sizeof(buf));
	if (s && strcmp(s, "yes") == 0) {
		s = fact(h, "vm.hypervisor", buf, sizeof(buf));
		fprintf(v->out, ", virtual machine (%s)", s ? s : "unknown");
	}
	fputc('\n', v->out);
	s = fact(h, "clock.source", buf, sizeof(buf));
	fprintf(v->out, "%-9s clock %s", "", s ? s : "?");
	s = fact(h, "freq.governor", buf, sizeof(buf));
	fprintf(v->out, ", governor %s", s ? s : "none");
	s = fact(h, "idle.driver", buf, sizeof(buf));
	fprintf(v->out, ", idle driver %s", s ? s : "none");
	s = fact(h, "cpu.isolated", buf, sizeof(buf));
	fprintf(v->out, ", isolated processors %s\n", s ? s : "none");
}

/* The raw line over all runs, and where the commands were pinned. */
static void floor_line(const struct view *v)
{
	double *raw = calloc(v->r->runs.len + 1, sizeof(*raw));
	char a[VALUE_MAX], b[VALUE_MAX], c[VALUE_MAX], d[VALUE_MAX];
	size_t n = 0;
	int server = -1, client = -1;

	for (size_t i = 0; raw && i < v->r->runs.len; i++) {
		if (isfinite(v->r->runs.at[i].raw_round_trip_ns))
			raw[n++] = v->r->runs.at[i].raw_round_trip_ns;
	}
	for (size_t i = 0; i < v->r->commands.len; i++) {
		const struct taut_command *cmd = &v->r->commands.at[i];

		if (strcmp(cmd->role, "server") == 0)
			server = cmd->cpu;
		if (strcmp(cmd->role, "client") == 0)
			client = cmd->cpu;
	}
	if (server >= 0 && server == client)
		fprintf(v->out,
		    "cores     server and client share processor %d: waiting for each other costs "
		    "a switch\n",
		    server);
	else if (server >= 0)
		fprintf(v->out, "cores     server on processor %d, client on %d\n", server, client);
	if (n) {
		tt_sort_double(raw, n);
		fprintf(v->out,
		    "raw line  a cache line between them: round trip %s, half %s (%s to %s in %zu "
		    "runs)\n",
		    tt_report_value(tt_median_sorted(raw, n), TAUT_UNIT_NS, a, sizeof(a)),
		    tt_report_value(tt_median_sorted(raw, n) / 2, TAUT_UNIT_NS, d, sizeof(d)),
		    tt_report_value(raw[0], TAUT_UNIT_NS, b, sizeof(b)),
		    tt_report_value(raw[n - 1], TAUT_UNIT_NS, c, sizeof(c)), n);
	}
	free(raw);
}

static void commands(const struct view *v, const char *test, const char *side)
{
	for (size_t i = 0; i < v->r->commands.len; i++) {
		const struct taut_command *c = &v->r->commands.at[i];

		if (strcmp(c->test, test) == 0 && strcmp(c->side, side) == 0)
			fprintf(v->out, "  %-7s %s\n", c->role, c->line);
	}
}

static void spread(const struct taut_spread *s, enum taut_unit unit, char *buf, size_t size)
{
	char median[VALUE_MAX], low[VALUE_MAX], high[VALUE_MAX];

	tt_report_value(s->median, unit, median, sizeof(median));
	if (!isfinite(s->median)) {
		snprintf(buf, size, "-");
		return;
	}
	tt_report_value(s->low, unit, low, sizeof(low));
	tt_report_value(s->high, unit, high, sizeof(high));
	snprintf(buf, size, "%10s  (%s .. %s)", median, low, high);
}

static void ratio(const struct taut_comparison *c, char *buf, size_t size)
{
	if (!isfinite(c->ratio))
		snprintf(buf, size, "-");
	else if (c->seen == TAUT_SEEN_NO_DIFFERENCE && isfinite(c->smallest_seen))
		snprintf(buf, size, "%5.2f x  no difference seen; %.3g x would have been", c->ratio,
		    c->smallest_seen);
	else if (isfinite(c->ratio_low))
		snprintf(buf, size, "%5.2f x  (%.2f .. %.2f)%s", c->ratio, c->ratio_low,
		    c->ratio_high, c->seen == TAUT_SEEN_NO_DIFFERENCE ? " no difference seen" : "");
	else
		snprintf(buf, size, "%5.2f x  too few rounds for an interval", c->ratio);
}

static void row(const struct view *v, const struct taut_comparison *c)
{
	const char *colour = c->seen == TAUT_SEEN_BETTER  ? v->green
			     : c->seen == TAUT_SEEN_WORSE ? v->red
							  : "";
	char a[CELL_MAX], b[CELL_MAX], x[CELL_MAX];

	spread(&c->a, c->unit, a, sizeof(a));
	spread(&c->b, c->unit, b, sizeof(b));
	ratio(c, x, sizeof(x));
	fprintf(v->out, "  %-14s %-38s %-38s %s%s%s\n", c->figure, a, b, colour, x,
	    colour[0] ? v->plain : "");
}

/* Counts of what did not happen; that nothing was dropped is worth its line. */
static bool dull(const struct taut_comparison *c)
{
	return c->unit == TAUT_UNIT_COUNT && c->a.high <= 0 && c->b.high <= 0 &&
	       strcmp(c->figure, "dropped") != 0;
}

/* One table per test and side; comparisons of one table stand together. */
static void comparisons(const struct view *v)
{
	const struct taut_comparison *last = NULL;

	for (size_t i = 0; i < v->r->comparisons.len; i++) {
		const struct taut_comparison *c = &v->r->comparisons.at[i];

		if (!last || strcmp(last->test, c->test) || strcmp(last->b_side, c->b_side)) {
			fprintf(v->out, "\n%s%s%s%s against %s, %u round%s in turns%s\n", v->bold,
			    c->test, c->test[0] ? ": " : "", c->b_side, c->a_side, c->pairs,
			    c->pairs == 1 ? "" : "s", v->plain);
			commands(v, c->test, c->b_side);
			if (c->pairs == 0)
				fprintf(v->out, "  no round counts on both sides\n");
			else
				fprintf(v->out, "  %-14s %-38s %-38s %s\n", "", c->a_side,
				    c->b_side, "times better (interval)");
		}
		if (c->pairs && !dull(c))
			row(v, c);
		last = c;
	}
}

static void verdicts(const struct view *v)
{
	static const char *const words[] = {"good", "FAILED", "VOID", "note"};

	if (v->r->verdicts.len)
		fputc('\n', v->out);
	for (size_t i = 0; i < v->r->verdicts.len; i++) {
		const struct taut_verdict *d = &v->r->verdicts.at[i];
		const char *colour = d->state == TAUT_VERDICT_GOOD     ? v->green
				     : d->state == TAUT_VERDICT_FAILED ? v->red
				     : d->state == TAUT_VERDICT_VOID   ? v->yellow
								       : "";

		fprintf(v->out, "%s%-6s%s %s%s%s\n", colour, words[d->state],
		    colour[0] ? v->plain : "", d->name, d->name[0] ? ": " : "", d->text);
		for (size_t k = 0; k < d->evidence.len; k++)
			fprintf(v->out, "         %s\n", d->evidence.at[k]);
	}
}

/* A measurement without sides: its figures as they are. */
static void figures(const struct view *v)
{
	char buf[VALUE_MAX];

	if (v->r->comparisons.len)
		return;
	for (size_t i = 0; i < v->r->runs.len; i++) {
		const struct taut_run *run = &v->r->runs.at[i];

		fprintf(v->out, "\nrun %u%s%s%s%s%s%s\n", run->round, run->test[0] ? ", " : "",
		    run->test, run->side[0] ? ", " : "", run->side,
		    run->void_reason[0] ? ", void: " : "", run->void_reason);
		for (size_t k = 0; k < run->figures.len; k++)
			fprintf(v->out, "  %-24s %s\n", run->figures.at[k].name,
			    tt_report_value(run->figures.at[k].value, run->figures.at[k].unit, buf,
				sizeof(buf)));
	}
}

int tt_report_text(const struct taut_result *r, FILE *out, bool colour)
{
	const struct view v = {.r = r,
	    .out = out,
	    .bold = colour ? "\033[1m" : "",
	    .green = colour ? "\033[32m" : "",
	    .red = colour ? "\033[31m" : "",
	    .yellow = colour ? "\033[33m" : "",
	    .plain = colour ? "\033[0m" : ""};

	fprintf(out, "%s %s %s%s%s%s%s\n", r->tool.name, r->tool.version, r->kind,
	    r->peer.name[0] ? ", measured with " : "", r->peer.name, r->peer.version[0] ? " " : "",
	    r->peer.version);
	host(&v, "host", &r->local);
	host(&v, "far host", &r->remote);
	floor_line(&v);
	figures(&v);
	comparisons(&v);
	verdicts(&v);
	return ferror(out) || fflush(out) == EOF ? -EIO : 0;
}
