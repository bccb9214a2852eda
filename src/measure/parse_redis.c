/* SPDX-License-Identifier: BSD-3-Clause */
/* redis-benchmark 6.2 to 7.2: text, --csv, -q. Older ones print no percentiles in -q: the rate is
 * taken. */
#include "measure/parse_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS_MAX 16

static bool mine(const char *text)
{
	return strstr(text, "requests per second") || strncmp(text, "\"test\",\"rps\"", 12) == 0 ||
	       strstr(text, "\n\"test\",\"rps\"") || strstr(text, "Could not connect to Redis") ||
	       strstr(text, "====== ");
}

static int add(struct taut_run *run, const char *test, const char *what, bool time, double value)
{
	char name[TAUT_NAME_MAX];

	snprintf(name, sizeof(name), "%s %s", test, what);
	if (time)
		return tt_add_time(run, name, value);
	return taut_figure_add(run, name, TAUT_UNIT_PER_S, TAUT_BETTER_HIGHER, value);
}

/* "SET","24390.24","1.247",... with the columns of the header line. */
static int read_csv(struct tt_parse *p, const char *header)
{
	static const struct {
		const char *column, *name;
		bool time;
	} known[] = {{"rps", "rate", false}, {"avg_latency_ms", "average", true},
	    {"min_latency_ms", "min", true}, {"p50_latency_ms", "p50", true},
	    {"p95_latency_ms", "p95", true}, {"p99_latency_ms", "p99", true},
	    {"max_latency_ms", "max", true}};
	int column[COLUMNS_MAX], columns = 0;

	for (const char *q = header; *q && *q != '\n' && columns < COLUMNS_MAX;) {
		const char *end;

		q += *q == '"';
		end = q + strcspn(q, "\",\n");
		column[columns] = -1;
		for (size_t i = 0; i < tt_array_len(known); i++) {
			if (strlen(known[i].column) == (size_t)(end - q) &&
			    strncmp(q, known[i].column, (size_t)(end - q)) == 0)
				column[columns] = (int)i;
		}
		columns++;
		q = end + (*end == '"');
		q += *q == ',';
	}
	for (const char *line = tt_line_next(header); line; line = tt_line_next(line)) {
		char test[TAUT_NAME_MAX / 2];
		const char *q = strchr(line, ',');

		if (sscanf(line, "\"%31[^\"\n]\"", test) != 1)
			continue;
		for (int c = 1; q && c < columns; c++) {
			char *end;
			double v;
			int rc = 0;

			q += 1 + (q[1] == '"');
			v = strtod(q, &end);
			if (end != q && column[c] >= 0)
				rc = add(p->run, test, known[column[c]].name, known[column[c]].time,
				    known[column[c]].time ? v * 1e6 : v);
			if (rc < 0)
				return rc;
			q = strpbrk(end, ",\n");
			if (q && *q == '\n')
				q = NULL;
		}
	}
	return 0;
}

/* -q: "SET: 24009.60 requests per second, p50=0.951 msec" */
static int read_quiet(struct tt_parse *p)
{
	int rc = 0;

	for (const char *line = p->text; rc == 0 && line; line = tt_line_next(line)) {
		char test[TAUT_NAME_MAX / 2];
		double rate, ms;
		int n;

		line += strspn(line, " \b");
		n = sscanf(
		    line, "%31[^:\n]: %lf requests per second, p50=%lf msec", test, &rate, &ms);
		if (n >= 2)
			rc = add(p->run, test, "rate", false, rate);
		if (rc == 0 && n >= 3)
			rc = add(p->run, test, "p50", true, ms * 1e6);
	}
	return rc;
}

/* Text: a section per test, its summary at the end. */
static int read_text(struct tt_parse *p)
{
	static const char *const names[] = {"average", "min", "p50", "p95", "p99", "max"};
	char test[TAUT_NAME_MAX / 2] = "";
	int rc = 0;

	for (const char *line = p->text; rc == 0 && line; line = tt_line_next(line)) {
		double v, t[6];
		const char *row = line;

		if (sscanf(line, " ====== %31[^=\n] ======", test) == 1) {
			size_t n = strlen(test);

			while (n > 0 && test[n - 1] == ' ')
				test[--n] = '\0';
		} else if (test[0] && sscanf(line, " throughput summary: %lf requests", &v) == 1) {
			rc = add(p->run, test, "rate", false, v);
		} else if (test[0] && strncmp(line, "  latency summary (msec):", 25) == 0) {
			row = tt_line_next(line);
			row = row ? tt_line_next(row) : NULL;
			if (!row || sscanf(row, "%lf %lf %lf %lf %lf %lf", &t[0], &t[1], &t[2],
					&t[3], &t[4], &t[5]) != 6)
				continue;
			for (size_t i = 0; rc == 0 && i < tt_array_len(names); i++)
				rc = add(p->run, test, names[i], true, t[i] * 1e6);
		}
	}
	return rc;
}

static int read_client(struct tt_parse *p)
{
	const char *csv = strstr(p->text, "\"test\",\"rps\"");

	taut_text_set(p->out->program.name, "redis-benchmark");
	taut_text_set(p->out->what, "request");
	p->out->weight = TT_WEIGHT_MESSAGES;
	if (csv)
		return read_csv(p, csv);
	if (strstr(p->text, "throughput summary:"))
		return read_text(p);
	if (strstr(p->text, "requests per second"))
		return read_quiet(p);
	if (strstr(p->text, "Could not connect")) {
		snprintf(p->error, TT_PARSE_ERROR_MAX, "redis-benchmark could not connect");
		return -EBADMSG;
	}
	return -ENODATA;
}

const struct tt_parser tt_parser_redis = {"redis-benchmark", mine, read_client};
