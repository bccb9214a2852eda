/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The JSON view holds to include/taut/result.schema.json: a result in which every list has an
 * element is written, read again and held against the schema, member by member. The schema's own
 * words are taken literally; a word that this small validator does not know fails the test, so
 * nothing in the schema goes unchecked.
 */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/base.h"
#include "report/json.h"
#include "report/text.h"

#ifndef TAUT_SCHEMA
#error "TAUT_SCHEMA names the schema file"
#endif

static char wrong[512];

static bool bad(const char *where, const char *what)
{
	if (!wrong[0])
		snprintf(wrong, sizeof(wrong), "%s: %s", where, what);
	return false;
}

static bool type_is(const json_t *v, const char *type)
{
	if (strcmp(type, "string") == 0)
		return json_is_string(v);
	if (strcmp(type, "integer") == 0)
		return json_is_integer(v);
	if (strcmp(type, "number") == 0)
		return json_is_number(v);
	if (strcmp(type, "boolean") == 0)
		return json_is_boolean(v);
	if (strcmp(type, "null") == 0)
		return json_is_null(v);
	if (strcmp(type, "array") == 0)
		return json_is_array(v);
	return strcmp(type, "object") == 0 && json_is_object(v);
}

static bool type_ok(const json_t *v, const json_t *type)
{
	size_t i;
	json_t *one;

	if (json_is_string(type))
		return type_is(v, json_string_value(type));
	json_array_foreach(type, i, one)
	{
		if (type_is(v, json_string_value(one)))
			return true;
	}
	return false;
}

static bool valid(const json_t *v, const json_t *schema, const json_t *root, const char *where);

static bool members_ok(const json_t *v, const json_t *schema, const json_t *root, const char *where)
{
	const json_t *props = json_object_get(schema, "properties");
	const json_t *more = json_object_get(schema, "additionalProperties");
	json_t *required = json_object_get(schema, "required"), *member;
	const char *key;
	char path[256];
	size_t i;

	json_array_foreach(required, i, member)
	{
		if (!json_object_get(v, json_string_value(member)))
			return bad(where, json_string_value(member));
	}
	json_object_foreach((json_t *)(uintptr_t)v, key, member)
	{
		const json_t *of = json_object_get(props, key);

		snprintf(path, sizeof(path), "%s.%s", where, key);
		if (!of && json_is_false(more))
			return bad(path, "not in the schema");
		if (!of)
			of = more;
		if (of && json_is_object(of) && !valid(member, of, root, path))
			return false;
	}
	return true;
}

static bool items_ok(const json_t *v, const json_t *schema, const json_t *root, const char *where)
{
	const json_t *min = json_object_get(schema, "minItems"),
		     *max = json_object_get(schema, "maxItems");
	const json_t *items = json_object_get(schema, "items");
	json_t *one;
	char path[256];
	size_t i;

	if (min && (json_int_t)json_array_size(v) < json_integer_value(min))
		return bad(where, "too few items");
	if (max && (json_int_t)json_array_size(v) > json_integer_value(max))
		return bad(where, "too many items");
	json_array_foreach(v, i, one)
	{
		snprintf(path, sizeof(path), "%s[%zu]", where, i);
		if (items && !valid(one, items, root, path))
			return false;
	}
	return true;
}

static bool enum_ok(const json_t *v, const json_t *words)
{
	json_t *one;
	size_t i;

	json_array_foreach(words, i, one)
	{
		if (json_equal(v, one))
			return true;
	}
	return false;
}

static bool valid(const json_t *v, const json_t *schema, const json_t *root, const char *where)
{
	static const char *const known[] = {"$ref", "type", "required", "properties",
	    "additionalProperties", "items", "minItems", "maxItems", "enum", "const", "minimum",
	    "$schema", "$defs", "title", "description"};
	const json_t *ref = json_object_get(schema, "$ref"),
		     *minimum = json_object_get(schema, "minimum");
	const json_t *type = json_object_get(schema, "type"),
		     *is = json_object_get(schema, "const");
	const json_t *words = json_object_get(schema, "enum");
	const char *key;
	json_t *member;

	json_object_foreach((json_t *)(uintptr_t)schema, key, member)
	{
		bool found = false;

		for (size_t i = 0; i < tt_array_len(known) && !found; i++)
			found = strcmp(known[i], key) == 0;
		if (!found)
			return bad(key, "a schema word that this test does not know");
	}
	if (ref) {
		const char *name = json_string_value(ref) + strlen("#/$defs/");
		const json_t *def = json_object_get(json_object_get(root, "$defs"), name);

		return def ? valid(v, def, root, where) : bad(where, "a reference to nothing");
	}
	if (type && !type_ok(v, type))
		return bad(where, "wrong type");
	if (is && !json_equal(v, is))
		return bad(where, "not the constant");
	if (words && !enum_ok(v, words))
		return bad(where, "not one of the words");
	if (minimum && json_is_number(v) && json_number_value(v) < json_number_value(minimum))
		return bad(where, "below the minimum");
	if (json_is_object(v))
		return members_ok(v, schema, root, where);
	return json_is_array(v) ? items_ok(v, schema, root, where) : true;
}

static void fill_run(struct taut_result *r)
{
	struct taut_run *run = taut_run_add(r);
	struct taut_load *load;
	struct taut_series *series;
	struct taut_histogram *h;

	assert_non_null(run);
	taut_text_set(run->side, "a");
	run->start_ns = 1700000000000000000;
	run->raw_round_trip_ns = 143.5;
	assert_int_equal(taut_figure_add(run, "p50", TAUT_UNIT_NS, TAUT_BETTER_LOWER, 588), 0);
	assert_int_equal(
	    taut_figure_add(run, "unknown", TAUT_UNIT_PER_S, TAUT_BETTER_HIGHER, NAN), 0);
	assert_int_equal(taut_counter_add(run, "client.doorbells", 7), 0);
	load = taut_list_add(&run->loads);
	taut_text_set(load->name, "messages");
	load->unit = TAUT_UNIT_PER_S;
	load->asked = INFINITY;
	load->offered = load->achieved = 1e6;
	series = taut_list_add(&run->series);
	series->interval_ns = 1000000000;
	*taut_list_add(&series->points) = (struct taut_point){1000000000, 5};
	h = taut_list_add(&run->histograms);
	h->count = 3;
	*taut_list_add(&h->percentiles) = (struct taut_percentile){50, 1.5};
	*taut_list_add(&h->buckets) = (struct taut_bucket){1, 2, 3};
}

/* One element at least in every list. */
static void fill(struct taut_result *r)
{
	char *env[] = {"HOME=/nowhere", "TAUT_PROFILE=latency", "LD_PRELOAD=libtaut.so", NULL};
	struct taut_comparison *c;
	struct taut_verdict *v;

	taut_result_init(r, "compare");
	r->start_ns = 1700000000123000000;
	taut_text_set(r->peer.name, "sockperf");
	assert_int_equal(taut_command_add(r, "udp", "a", "server", 1, "sockperf sr"), 0);
	assert_int_equal(taut_command_add(r, "", "", "taut", -1, "taut compare \"\xff\""), 0);
	assert_int_equal(taut_environment_add(r, env), 0);
	assert_int_equal(r->environment.len, 2);
	r->local.known = true;
	assert_int_equal(taut_fact_text(&r->local, "cpu.model", "a model"), 0);
	assert_int_equal(taut_fact_number(&r->local, "cpu.count", 2), 0);
	assert_int_equal(taut_fact_flag(&r->local, "vm.guest", true), 0);
	assert_int_equal(taut_fact_unknown(&r->local, "freq.governor", "no such file"), 0);
	taut_text_set(r->remote.reason, "a foreign peer");
	fill_run(r);
	c = taut_list_add(&r->comparisons);
	taut_text_set(c->figure, "p50");
	c->unit = TAUT_UNIT_NS;
	c->better = TAUT_BETTER_LOWER;
	taut_text_set(c->a_side, "kernel");
	taut_text_set(c->b_side, "taut");
	c->pairs = 5;
	c->a = (struct taut_spread){13710, 13600, 14000};
	c->b = (struct taut_spread){588, 580, 600};
	c->ratio = 23.3;
	c->ratio_low = 22;
	c->ratio_high = 24.5;
	c->level = 0.968;
	c->seen = TAUT_SEEN_BETTER;
	c->smallest_seen = INFINITY;
	v = taut_verdict_add(r, "udp", TAUT_VERDICT_VOID, "1 of 5 rounds is void");
	assert_int_equal(taut_evidence_add(v, "round 1: 3 % of the messages"), 0);
}

static json_t *read_back(const struct taut_result *r)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	json_error_t where;
	json_t *root;

	assert_non_null(f);
	assert_int_equal(tt_report_json(r, f), 0);
	fclose(f);
	root = json_loads(text, JSON_REJECT_DUPLICATES, &where);
	if (!root)
		fail_msg("line %d: %s", where.line, where.text);
	free(text);
	return root;
}

static void holds(const struct taut_result *r)
{
	json_error_t where;
	json_t *schema = json_load_file(TAUT_SCHEMA, JSON_REJECT_DUPLICATES, &where);
	json_t *root = read_back(r);

	if (!schema)
		fail_msg("%s:%d: %s", TAUT_SCHEMA, where.line, where.text);
	wrong[0] = '\0';
	if (!valid(root, schema, schema, "result"))
		fail_msg("%s", wrong);
	/* The validator itself must be able to say no. */
	json_object_set_new(root, "another", json_null());
	assert_false(valid(root, schema, schema, "result"));
	json_object_del(root, "another");
	json_object_set_new(root, "schema", json_integer(2));
	assert_false(valid(root, schema, schema, "result"));
	json_decref(root);
	json_decref(schema);
}

static void test_schema_full(void **state)
{
	struct taut_result r;

	(void)state;
	fill(&r);
	holds(&r);
	taut_result_free(&r);
}

static void test_schema_empty(void **state)
{
	struct taut_result r;

	(void)state;
	taut_result_init(&r, "latency");
	holds(&r);
	taut_result_free(&r);
}

static void test_values(void **state)
{
	struct taut_result r;
	json_t *root, *run, *v;

	(void)state;
	fill(&r);
	root = read_back(&r);
	assert_string_equal(
	    json_string_value(json_object_get(root, "start")), "2023-11-14T22:13:20.123Z");
	run = json_array_get(json_object_get(root, "runs"), 0);
	v = json_array_get(json_object_get(run, "figures"), 0);
	assert_true(json_number_value(json_object_get(v, "value")) == 588);
	/* NaN and infinity are null: unknown, and "as much as goes". */
	v = json_array_get(json_object_get(run, "figures"), 1);
	assert_true(json_is_null(json_object_get(v, "value")));
	v = json_array_get(json_object_get(run, "loads"), 0);
	assert_true(json_is_null(json_object_get(v, "asked")));
	assert_true(json_is_null(json_object_get(run, "path_share")));
	/* Bytes that are no text don't spoil the rest. */
	v = json_array_get(json_object_get(root, "commands"), 1);
	assert_string_equal(json_string_value(json_object_get(v, "line")), "taut compare \"?\"");
	v = json_object_get(json_object_get(root, "hosts"), "local");
	assert_string_equal(
	    json_string_value(json_object_get(json_object_get(v, "unknown"), "freq.governor")),
	    "no such file");
	json_decref(root);
	taut_result_free(&r);
}

static void test_full_disk(void **state)
{
	struct taut_result r;
	FILE *f = fopen("/dev/full", "w");

	(void)state;
	if (!f)
		skip();
	fill(&r);
	assert_int_equal(tt_report_json(&r, f), -EIO);
	clearerr(f);
	assert_int_equal(tt_report_text(&r, f, false), -EIO);
	fclose(f);
	taut_result_free(&r);
}

static void test_text(void **state)
{
	struct taut_result r;
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	(void)state;
	fill(&r);
	assert_int_equal(tt_report_text(&r, f, false), 0);
	fclose(f);
	assert_null(strchr(text, '\033'));
	assert_non_null(strstr(text, "13.71 us"));
	assert_non_null(strstr(text, "588.0 ns"));
	assert_non_null(strstr(text, "23.30 x  (22.00 .. 24.50)"));
	assert_non_null(strstr(text, "143.5 ns"));
	assert_non_null(strstr(text, "VOID"));
	assert_non_null(strstr(text, "round 1: 3 % of the messages"));
	free(text);
	text = NULL;
	f = open_memstream(&text, &size);
	assert_int_equal(tt_report_text(&r, f, true), 0);
	fclose(f);
	assert_non_null(strstr(text, "\033[32m"));
	free(text);
	taut_result_free(&r);
}

static void test_units(void **state)
{
	static const struct {
		double v;
		enum taut_unit unit;
		const char *text;
	} rows[] = {{588, TAUT_UNIT_NS, "588.0 ns"}, {13710, TAUT_UNIT_NS, "13.71 us"},
	    {999.96, TAUT_UNIT_NS, "1.000 us"}, {7.2e12, TAUT_UNIT_NS, "7200 s"},
	    {0, TAUT_UNIT_NS, "0.000 ns"}, {14.9e9, TAUT_UNIT_BITS_PER_S, "14.90 Gbit/s"},
	    {129516, TAUT_UNIT_PER_S, "129.5 k/s"}, {3, TAUT_UNIT_COUNT, "3"},
	    {97.25, TAUT_UNIT_PERCENT, "97.2 %"}, {NAN, TAUT_UNIT_NS, "-"}};
	char buf[32];

	(void)state;
	for (size_t i = 0; i < tt_array_len(rows); i++)
		assert_string_equal(
		    tt_report_value(rows[i].v, rows[i].unit, buf, sizeof(buf)), rows[i].text);
}

static void test_cut(void **state)
{
	char small[5];

	(void)state;
	taut_text_set(small, "abcdefgh");
	assert_string_equal(small, "abcd");
	taut_text_set(small, "abc\xc3\xa4"); /* the two bytes of one letter don't fit */
	assert_string_equal(small, "abc");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_schema_full),
	    cmocka_unit_test(test_schema_empty),
	    cmocka_unit_test(test_values),
	    cmocka_unit_test(test_full_disk),
	    cmocka_unit_test(test_text),
	    cmocka_unit_test(test_units),
	    cmocka_unit_test(test_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
