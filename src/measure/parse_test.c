/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parsers against recorded output of the real programs (tests/data), each also cut short at every
 * byte: whatever a killed program leaves must not crash a parser or make it invent figures.
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "measure/parse.h"

#ifndef TAUT_TEST_DATA
#error "TAUT_TEST_DATA names the folder of recorded outputs"
#endif

#define FIGURES 8

struct expect {
	const char *file;
	const char *program, *version, *what;
	enum tt_parse_weight weight;
	uint64_t observations;
	size_t count; /* of figures */
	struct {
		const char *name;
		double value;
		enum taut_unit unit;
		enum taut_better better;
	} figures[FIGURES];
};

#define NS(name, v)                                                                                \
	{                                                                                          \
		name, v, TAUT_UNIT_NS, TAUT_BETTER_LOWER                                           \
	}
#define RATE(name, v)                                                                              \
	{                                                                                          \
		name, v, TAUT_UNIT_PER_S, TAUT_BETTER_HIGHER                                       \
	}
#define BITS(name, v)                                                                              \
	{                                                                                          \
		name, v, TAUT_UNIT_BITS_PER_S, TAUT_BETTER_HIGHER                                  \
	}
#define LOST(name, v)                                                                              \
	{                                                                                          \
		name, v, TAUT_UNIT_COUNT, TAUT_BETTER_LOWER                                        \
	}

static const struct expect rows[] = {
    /* p99.99 and p99.999 of 25,348 observations are left out: they only repeat a few largest
       values. */
    {"sockperf-pp-udp.txt", "sockperf", "3.7-no.git", "half round trip", TT_WEIGHT_MESSAGES, 25348,
	14,
	{NS("average", 10845), NS("stddev", 14342), NS("max", 1134375), NS("p99.9", 134318),
	    NS("p99", 34354), NS("p50", 9011), NS("min", 6116), RATE("rate", 25348 / 0.550)}},
    {"sockperf-pp-tcp.txt", "sockperf", "3.7-no.git", "half round trip", TT_WEIGHT_MESSAGES, 25478,
	14,
	{NS("p50", 8295), NS("p25", 7924), LOST("dropped", 0), LOST("duplicated", 0),
	    LOST("out of order", 0)}},
    {"sockperf-pp-full-rtt.txt", "sockperf", "3.7-no.git", "round trip", TT_WEIGHT_MESSAGES, 13869,
	14, {NS("average", 39633), NS("p50", 36258)}},
    {"sockperf-ul.txt", "sockperf", "3.7-no.git", "half round trip", TT_WEIGHT_MESSAGES, 1098, 13,
	{NS("p99", 43742), NS("p50", 10173), RATE("rate", 1098 / 0.549)}},
    {"sockperf-tp-udp.txt", "sockperf", "3.7-no.git", "one way", TT_WEIGHT_MESSAGES, 0, 3,
	{RATE("rate", 129516), {"sent", 129604, TAUT_UNIT_COUNT, TAUT_BETTER_NEITHER}}},
    {"sockperf-tp-tcp.txt", "sockperf", "3.7-no.git", "one way", TT_WEIGHT_MESSAGES, 0, 3,
	{RATE("rate", 378285)}},
    {"sockperf-2.8-pp-tcp.txt", "sockperf", "2.8-0.git3dd5971d7d7a", "half round trip",
	TT_WEIGHT_MESSAGES, 457948, 15,
	{NS("average", 4349), NS("p99.99", 6493), NS("p50", 4401), NS("min", 3576)}},
    {"iperf3-tcp.txt", "iperf3", "", "bulk", TT_WEIGHT_BYTES, 0, 2,
	{BITS("sent rate", 14.9e9), BITS("received rate", 14.9e9)}},
    {"iperf3-tcp-p2.txt", "iperf3", "", "bulk", TT_WEIGHT_BYTES, 0, 2,
	{BITS("sent rate", 12.2e9), BITS("received rate", 12.2e9)}},
    {"iperf3-tcp-r.txt", "iperf3", "", "bulk", TT_WEIGHT_BYTES, 0, 2,
	{BITS("sent rate", 12231e6), BITS("received rate", 12227e6)}},
    {"iperf3-udp.txt", "iperf3", "", "bulk", TT_WEIGHT_BYTES, 0, 4,
	{BITS("received rate", 100e6), NS("jitter", 31000), LOST("dropped", 0)}},
    {"redis-csv.txt", "redis-benchmark", "", "request", TT_WEIGHT_MESSAGES, 0, 14,
	{RATE("SET rate", 24390.24), NS("SET average", 1247000), NS("SET p50", 1095000),
	    RATE("GET rate", 23148.15), NS("GET p99", 4687000), NS("GET max", 11423000)}},
    {"redis-quiet.txt", "redis-benchmark", "", "request", TT_WEIGHT_MESSAGES, 0, 8,
	{RATE("SET rate", 24009.60), NS("SET p50", 951000), RATE("GET rate", 25673.94),
	    NS("GET p50", 895000), RATE("PING_MBULK rate", 24813.90)}},
    {"redis-text.txt", "redis-benchmark", "", "request", TT_WEIGHT_MESSAGES, 0, 14,
	{RATE("GET rate", 21574.97), NS("GET average", 1321000), NS("GET min", 248000),
	    NS("GET p50", 1063000), NS("GET p95", 2903000), NS("GET p99", 6175000),
	    NS("GET max", 13415000)}},
#ifdef TT_HAVE_JANSSON
    {"iperf3-udp.json", "iperf3", "3.12", "bulk", TT_WEIGHT_BYTES, 0, 4,
	{BITS("sent rate", 50063196.0372993), BITS("received rate", 50044581.798264459),
	    NS("jitter", 7940.1724587524), LOST("dropped", 0)}},
    {"iperf3-tcp.json", "iperf3", "3.12", "bulk", TT_WEIGHT_BYTES, 0, 3, {{NULL, 0, 0, 0}}},
#endif
};

static char *slurp(const char *name, size_t *len)
{
	char path[512], *buf = malloc(1 << 20);
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", TAUT_TEST_DATA, name);
	f = fopen(path, "r");
	if (!f)
		fail_msg("%s can't be read", path);
	assert_non_null(buf);
	*len = fread(buf, 1, (1 << 20) - 1, f);
	fclose(f);
	buf[*len] = '\0';
	return buf;
}

static int parse(
    const char *text, size_t len, struct taut_result *r, struct tt_parsed *parsed, char *error)
{
	taut_result_init(r, "compare");
	return tt_parse_client(text, len, taut_run_add(r), parsed, error);
}

static void one(const struct expect *x)
{
	char error[TT_PARSE_ERROR_MAX];
	struct taut_result r;
	struct tt_parsed parsed;
	size_t len;
	char *text = slurp(x->file, &len);
	int rc = parse(text, len, &r, &parsed, error);

	if (rc < 0)
		fail_msg("%s: %d %s", x->file, rc, error);
	assert_string_equal(parsed.program.name, x->program);
	assert_string_equal(parsed.program.version, x->version);
	assert_string_equal(parsed.what, x->what);
	assert_int_equal(parsed.weight, x->weight);
	assert_int_equal(parsed.observations, x->observations);
	if (r.runs.at[0].figures.len != x->count)
		fail_msg("%s: %zu figures, not %zu", x->file, r.runs.at[0].figures.len, x->count);
	for (size_t i = 0; i < FIGURES && x->figures[i].name; i++) {
		const struct taut_figure *f = taut_figure_find(&r.runs.at[0], x->figures[i].name);

		if (!f || fabs(f->value - x->figures[i].value) > 1e-6 * fabs(x->figures[i].value))
			fail_msg("%s: %s is %g", x->file, x->figures[i].name, f ? f->value : NAN);
		assert_int_equal(f->unit, x->figures[i].unit);
		assert_int_equal(f->better, x->figures[i].better);
	}
	taut_result_free(&r);
	free(text);
}

static void test_recorded(void **state)
{
	(void)state;
	for (size_t i = 0; i < tt_array_len(rows); i++)
		one(&rows[i]);
}

static void test_unsupported_percentiles(void **state)
{
	char error[TT_PARSE_ERROR_MAX];
	struct taut_result r;
	struct tt_parsed parsed;
	size_t len;
	char *text = slurp("sockperf-ul.txt", &len);

	(void)state;
	assert_int_equal(parse(text, len, &r, &parsed, error), 0);
	assert_non_null(taut_figure_find(&r.runs.at[0], "p99"));
	assert_null(taut_figure_find(&r.runs.at[0], "p99.9"));
	taut_result_free(&r);
	free(text);
}

static void test_cut_short(void **state)
{
	char error[TT_PARSE_ERROR_MAX];
	struct taut_result r;
	struct tt_parsed parsed;

	(void)state;
	for (size_t i = 0; i < tt_array_len(rows); i++) {
		size_t len;
		char *text = slurp(rows[i].file, &len);

		for (size_t n = 0; n < len; n++) {
			/* A copy of that very size: what is behind it must not be looked at. */
			char *part = malloc(n ? n : 1);

			memcpy(part, text, n);
			if (parse(part, n, &r, &parsed, error) == 0)
				assert_true(r.runs.at[0].figures.len > 0);
			else
				assert_true(r.runs.at[0].figures.len <= rows[i].count);
			assert_true(r.runs.at[0].figures.len <= rows[i].count + 1);
			taut_result_free(&r);
			free(part);
		}
		free(text);
	}
}

static void test_errors(void **state)
{
	static const struct {
		const char *file, *text;
		int rc;
		const char *part;
	} cases[] = {
	    {"sockperf-refused.txt", NULL, -EBADMSG, "Connection refused"},
	    {"iperf3-refused.txt", NULL, -EBADMSG, "Connection refused"},
#ifdef TT_HAVE_JANSSON
	    {"iperf3-refused.json", NULL, -EBADMSG, "Connection refused"},
	    {NULL, "{\"schema\": 2, \"runs\": []}", -ENODATA, "schema 2"},
	    {NULL, "{\"schema\": 1, \"runs\": []}", -ENODATA, "no figures"},
	    {NULL, "{\"schema\": ", -ENODATA, "line 1"},
#else
	    {NULL, "{}", -ENOSYS, "libjansson-dev"},
#endif
	    {NULL, "", -ENODATA, "no figures"},
	    {NULL, "hello\n", -ENODATA, "no figures"},
	    {NULL, "Could not connect to Redis at 127.0.0.1:1: Connection refused\n", -EBADMSG,
		"connect"},
	};

	(void)state;
	for (size_t i = 0; i < tt_array_len(cases); i++) {
		char error[TT_PARSE_ERROR_MAX] = "";
		struct taut_result r;
		struct tt_parsed parsed;
		size_t len = cases[i].text ? strlen(cases[i].text) : 0;
		char *text = cases[i].file ? slurp(cases[i].file, &len) : strdup(cases[i].text);

		assert_int_equal(parse(text, len, &r, &parsed, error), cases[i].rc);
		if (!strstr(error, cases[i].part))
			fail_msg("case %zu: \"%s\" does not say \"%s\"", i, error, cases[i].part);
		taut_result_free(&r);
		free(text);
	}
}

/* What arrived at the server, next to what the client says it sent. */
static void test_server(void **state)
{
	char error[TT_PARSE_ERROR_MAX];
	struct taut_result r;
	struct tt_parsed parsed;
	size_t len;
	char *client = slurp("sockperf-tp-udp.txt", &len), *server;
	const struct taut_figure *f;

	(void)state;
	assert_int_equal(parse(client, len, &r, &parsed, error), 0);
	server = slurp("sockperf-sr-udp.txt", &len);
	assert_int_equal(tt_parse_server(server, len, &r.runs.at[0]), 0);
	f = taut_figure_find(&r.runs.at[0], "received rate");
	assert_non_null(f);
	assert_true(fabs(f->value - 128050 / 1.001) < 1);
	f = taut_figure_find(&r.runs.at[0], "received");
	assert_true(fabs(f->value - 100 * 128050.0 / 129604) < 1e-6);
	taut_result_free(&r);
	free(client);
	/* Without a one-way client there is nothing to add. */
	taut_result_init(&r, "compare");
	assert_int_equal(tt_parse_server(server, len, taut_run_add(&r)), 0);
	assert_int_equal(r.runs.at[0].figures.len, 0);
	taut_result_free(&r);
	free(server);
}

#ifdef TT_HAVE_JANSSON
static void test_own_json(void **state)
{
	static const char text[] =
	    "{\"schema\":1,\"kind\":\"latency\",\"tool\":{\"name\":\"pair\",\"version\":\"1\"},"
	    "\"runs\":[{\"figures\":["
	    "{\"name\":\"p50\",\"unit\":\"ns\",\"better\":\"lower\",\"value\":123.5},"
	    "{\"name\":\"odd\",\"unit\":\"furlong\",\"better\":\"lower\",\"value\":1},"
	    "{\"name\":\"none\",\"unit\":\"ns\",\"better\":\"lower\",\"value\":null}]}]}\n";
	char error[TT_PARSE_ERROR_MAX];
	struct taut_result r;
	struct tt_parsed parsed;

	(void)state;
	assert_int_equal(parse(text, sizeof(text) - 1, &r, &parsed, error), 0);
	assert_string_equal(parsed.program.name, "pair");
	assert_int_equal(r.runs.at[0].figures.len, 1);
	assert_true(r.runs.at[0].figures.at[0].value == 123.5);
	taut_result_free(&r);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_recorded),
	    cmocka_unit_test(test_unsupported_percentiles),
	    cmocka_unit_test(test_cut_short),
	    cmocka_unit_test(test_errors),
	    cmocka_unit_test(test_server),
#ifdef TT_HAVE_JANSSON
	    cmocka_unit_test(test_own_json),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
