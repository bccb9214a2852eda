/* SPDX-License-Identifier: BSD-3-Clause */
#include "report/json.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/*
 * jansson's *_new functions take NULL members and answer with failure, so a chain of them needs one
 * check, at the end: a missing member makes the whole object NULL.
 */
static json_t *number(double v)
{
	return isfinite(v) ? json_real(v) : json_null();
}

/* Text from outside may hold bytes that are no UTF-8: each becomes a question mark. */
static json_t *text(const char *s)
{
	json_t *j = json_string(s);
	char *copy;

	if (j || !(copy = strdup(s)))
		return j;
	for (char *p = copy; *p; p++) {
		if ((unsigned char)*p >= 0x80)
			*p = '?';
	}
	j = json_string(copy);
	free(copy);
	return j;
}

static json_t *text_or_null(const char *s)
{
	return s[0] ? text(s) : json_null();
}

/* A list of n elements; a member that could not be made spoils it. */
#define LIST(source, fn)                                                                           \
	({                                                                                         \
		json_t *list_ = json_array();                                                      \
		for (size_t i_ = 0; list_ && i_ < (source).len; i_++) {                            \
			if (json_array_append_new(list_, fn(&(source).at[i_])) < 0) {              \
				json_decref(list_);                                                \
				list_ = NULL;                                                      \
			}                                                                          \
		}                                                                                  \
		list_;                                                                             \
	})

static json_t *figure(const struct taut_figure *f)
{
	return json_pack("{s:o, s:s, s:s, s:o}", "name", text(f->name), "unit",
	    taut_unit_word(f->unit), "better", taut_better_word(f->better), "value",
	    number(f->value));
}

static json_t *load(const struct taut_load *l)
{
	return json_pack("{s:o, s:s, s:o, s:o, s:o}", "name", text(l->name), "unit",
	    taut_unit_word(l->unit), "asked", number(l->asked), "offered", number(l->offered),
	    "achieved", number(l->achieved));
}

static json_t *point(const struct taut_point *p)
{
	return json_pack("[I, o]", (json_int_t)p->t_ns, number(p->value));
}

static json_t *series(const struct taut_series *s)
{
	return json_pack("{s:o, s:s, s:I, s:o}", "name", text(s->name), "unit",
	    taut_unit_word(s->unit), "interval_ns", (json_int_t)s->interval_ns, "points",
	    LIST(s->points, point));
}

static json_t *bucket(const struct taut_bucket *b)
{
	return json_pack("[o, o, I]", number(b->low), number(b->high), (json_int_t)b->count);
}

static json_t *percentile(const struct taut_percentile *p)
{
	return json_pack("[o, o]", number(p->percent), number(p->value));
}

static json_t *histogram(const struct taut_histogram *h)
{
	return json_pack("{s:o, s:s, s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "name", text(h->name),
	    "unit", taut_unit_word(h->unit), "count", (json_int_t)h->count, "min", number(h->min),
	    "max", number(h->max), "mean", number(h->mean), "stddev", number(h->stddev),
	    "percentiles", LIST(h->percentiles, percentile), "buckets", LIST(h->buckets, bucket));
}

static json_t *counter(const struct taut_counter *c)
{
	return json_pack("{s:o, s:I}", "name", text(c->name), "value", (json_int_t)c->value);
}

static json_t *run(const struct taut_run *r)
{
	return json_pack("{s:o, s:o, s:i, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
	    "test", text(r->test), "side", text(r->side), "round", (int)r->round, "start_ns",
	    (json_int_t)r->start_ns, "duration_ns", (json_int_t)r->duration_ns, "raw_round_trip_ns",
	    number(r->raw_round_trip_ns), "path_share", number(r->path_share), "void_reason",
	    text_or_null(r->void_reason), "figures", LIST(r->figures, figure), "loads",
	    LIST(r->loads, load), "series", LIST(r->series, series), "histograms",
	    LIST(r->histograms, histogram), "counters", LIST(r->counters, counter));
}

static json_t *spread(const struct taut_spread *s)
{
	return json_pack("{s:o, s:o, s:o}", "median", number(s->median), "low", number(s->low),
	    "high", number(s->high));
}

static json_t *comparison(const struct taut_comparison *c)
{
	return json_pack(
	    "{s:o, s:o, s:s, s:s, s:o, s:o, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:o}", "test",
	    text(c->test), "figure", text(c->figure), "unit", taut_unit_word(c->unit), "better",
	    taut_better_word(c->better), "a_side", text(c->a_side), "b_side", text(c->b_side),
	    "pairs", (int)c->pairs, "a", spread(&c->a), "b", spread(&c->b), "ratio",
	    number(c->ratio), "ratio_low", number(c->ratio_low), "ratio_high",
	    number(c->ratio_high), "level", number(c->level), "seen", taut_seen_word(c->seen),
	    "smallest_seen", number(c->smallest_seen));
}

static json_t *line(char *const *s)
{
	return text(*s);
}

static json_t *verdict(const struct taut_verdict *v)
{
	return json_pack("{s:o, s:s, s:o, s:o}", "name", text(v->name), "state",
	    taut_verdict_word(v->state), "text", text(v->text), "evidence",
	    LIST(v->evidence, line));
}

static json_t *command(const struct taut_command *c)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o}", "test", text(c->test), "side", text(c->side),
	    "role", text(c->role), "cpu", c->cpu < 0 ? json_null() : json_integer(c->cpu), "line",
	    text(c->line));
}

static json_t *variable(const struct taut_variable *v)
{
	return json_pack("{s:o, s:o}", "name", text(v->name), "value", text(v->value));
}

static json_t *fact_value(const struct taut_fact *f)
{
	switch (f->kind) {
	case TAUT_FACT_TEXT:
		return text(f->text);
	case TAUT_FACT_NUMBER:
		return number(f->number);
	case TAUT_FACT_FLAG:
		return json_boolean(f->flag);
	case TAUT_FACT_UNKNOWN:
		break;
	}
	return json_null();
}

static json_t *host(const struct taut_host *h)
{
	json_t *facts = json_object(), *unknown = json_object();
	int rc = facts && unknown ? 0 : -1;

	for (size_t i = 0; rc == 0 && i < h->facts.len; i++) {
		const struct taut_fact *f = &h->facts.at[i];

		rc = json_object_set_new(facts, f->key, fact_value(f));
		if (rc == 0 && f->kind == TAUT_FACT_UNKNOWN)
			rc = json_object_set_new(unknown, f->key, text(f->text));
	}
	if (rc < 0) {
		json_decref(facts);
		json_decref(unknown);
		return NULL;
	}
	return json_pack("{s:b, s:o, s:o, s:o}", "known", h->known, "reason",
	    h->known ? json_null() : text(h->reason), "facts", facts, "unknown", unknown);
}

static json_t *program(const struct taut_program *p)
{
	return json_pack(
	    "{s:o, s:o}", "name", text_or_null(p->name), "version", text_or_null(p->version));
}

/* RFC 3339 with milliseconds, UTC. */
static json_t *moment(int64_t ns)
{
	char day[40], full[64];
	time_t s = (time_t)(ns / 1000000000);
	struct tm tm;

	if (ns <= 0 || !gmtime_r(&s, &tm))
		return json_null();
	strftime(day, sizeof(day), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(full, sizeof(full), "%s.%03dZ", day, (int)(ns / 1000000 % 1000));
	return json_string(full);
}

static json_t *result(const struct taut_result *r)
{
	return json_pack(
	    "{s:i, s:o, s:o, s:o, s:o, s:I, s:I, s:o, s:o, s:{s:o, s:o}, s:o, s:o, s:o}", "schema",
	    TAUT_RESULT_SCHEMA, "kind", text(r->kind), "tool", program(&r->tool), "peer",
	    program(&r->peer), "start", moment(r->start_ns), "start_ns", (json_int_t)r->start_ns,
	    "duration_ns", (json_int_t)r->duration_ns, "commands", LIST(r->commands, command),
	    "environment", LIST(r->environment, variable), "hosts", "local", host(&r->local),
	    "remote", host(&r->remote), "runs", LIST(r->runs, run), "comparisons",
	    LIST(r->comparisons, comparison), "verdicts", LIST(r->verdicts, verdict));
}

int tt_report_json(const struct taut_result *r, FILE *out)
{
	json_t *root = result(r);
	int rc;

	if (!root)
		return -ENOMEM;
	rc = json_dumpf(root, out, JSON_INDENT(1) | JSON_REAL_PRECISION(12));
	json_decref(root);
	if (rc < 0 || fputc('\n', out) == EOF || fflush(out) == EOF)
		return -EIO;
	return 0;
}

const char *tt_report_json_package(void)
{
	return NULL;
}
