/* SPDX-License-Identifier: BSD-3-Clause */
/* JSON: iperf3 -J, and results of taut itself (include/taut/result.schema.json). */
#include "measure/parse_priv.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

static bool mine(const char *text)
{
	return text[strspn(text, " \t\n")] == '{';
}

static int bulk(struct taut_run *run, const json_t *end, const char *key, const char *name)
{
	const json_t *sum = json_object_get(end, key);
	const json_t *rate = json_object_get(sum, "bits_per_second");

	if (!json_is_number(rate))
		return 0;
	return taut_figure_add(
	    run, name, TAUT_UNIT_BITS_PER_S, TAUT_BETTER_HIGHER, json_number_value(rate));
}

static int read_iperf3(struct tt_parse *p, const json_t *root)
{
	const json_t *end = json_object_get(root, "end"), *start = json_object_get(root, "start");
	const json_t *error = json_object_get(root, "error"), *sum, *v;
	const char *version = json_string_value(json_object_get(start, "version"));
	int rc;

	taut_text_set(p->out->program.name, "iperf3");
	if (version)
		taut_text_set(p->out->program.version,
		    strncmp(version, "iperf ", 6) == 0 ? version + 6 : version);
	taut_text_set(p->out->what, "bulk");
	p->out->weight = TT_WEIGHT_BYTES;
	if (json_is_string(error)) {
		snprintf(
		    p->error, TT_PARSE_ERROR_MAX, "iperf3 says: %.200s", json_string_value(error));
		return -EBADMSG;
	}
	rc = bulk(p->run, end, "sum_sent", "sent rate");
	if (rc == 0)
		rc = bulk(p->run, end, "sum_received", "received rate");
	sum = json_object_get(end, "sum");
	v = json_object_get(sum, "jitter_ms");
	if (rc == 0 && json_is_number(v))
		rc = tt_add_time(p->run, "jitter", json_number_value(v) * 1e6);
	v = json_object_get(sum, "lost_packets");
	if (rc == 0 && json_is_number(v))
		rc = taut_figure_add(
		    p->run, "dropped", TAUT_UNIT_COUNT, TAUT_BETTER_LOWER, json_number_value(v));
	v = json_object_get(json_object_get(end, "sum_sent"), "retransmits");
	if (rc == 0 && json_is_number(v))
		rc = taut_figure_add(p->run, "retransmits", TAUT_UNIT_COUNT, TAUT_BETTER_LOWER,
		    json_number_value(v));
	return rc;
}

static int one_figure(struct taut_run *run, const json_t *f)
{
	const char *name = json_string_value(json_object_get(f, "name"));
	const char *word = json_string_value(json_object_get(f, "unit"));
	const char *better = json_string_value(json_object_get(f, "better"));
	const json_t *value = json_object_get(f, "value");
	enum taut_unit unit;

	if (!name || !word || !better || !json_is_number(value) ||
	    !taut_unit_from_word(word, &unit))
		return 0;
	return taut_figure_add(run, name, unit,
	    strcmp(better, "lower") == 0    ? TAUT_BETTER_LOWER
	    : strcmp(better, "higher") == 0 ? TAUT_BETTER_HIGHER
					    : TAUT_BETTER_NEITHER,
	    json_number_value(value));
}

/* The figures of the first run. */
static int read_taut(struct tt_parse *p, const json_t *root)
{
	const json_t *run = json_array_get(json_object_get(root, "runs"), 0);
	const json_t *tool = json_object_get(root, "tool"), *f;
	const char *s = json_string_value(json_object_get(tool, "name"));
	json_int_t schema = json_integer_value(json_object_get(root, "schema"));
	size_t i;
	int rc = 0;

	if (schema != TAUT_RESULT_SCHEMA) {
		snprintf(p->error, TT_PARSE_ERROR_MAX,
		    "a JSON result of schema %lld; this taut reads schema %d", (long long)schema,
		    TAUT_RESULT_SCHEMA);
		return -ENODATA;
	}
	taut_text_set(p->out->program.name, s ? s : "");
	s = json_string_value(json_object_get(tool, "version"));
	taut_text_set(p->out->program.version, s ? s : "");
	s = json_string_value(json_object_get(root, "kind"));
	taut_text_set(p->out->what, s ? s : "");
	p->out->weight = s && strcmp(s, "bandwidth") == 0 ? TT_WEIGHT_BYTES : TT_WEIGHT_MESSAGES;
	json_array_foreach(json_object_get(run, "figures"), i, f)
	{
		rc = one_figure(p->run, f);
		if (rc < 0)
			break;
	}
	return rc;
}

static int read_client(struct tt_parse *p)
{
	json_error_t where;
	json_t *root = json_loads(p->text, JSON_DISABLE_EOF_CHECK, &where);
	int rc;

	if (!root) {
		snprintf(p->error, TT_PARSE_ERROR_MAX, "not JSON after all: line %d: %.150s",
		    where.line, where.text);
		return -ENODATA;
	}
	if (json_object_get(root, "schema"))
		rc = read_taut(p, root);
	else if (json_object_get(root, "end") || json_object_get(root, "error"))
		rc = read_iperf3(p, root);
	else
		rc = -ENODATA;
	json_decref(root);
	return rc;
}

const struct tt_parser tt_parser_json = {"JSON", mine, read_client};
