/* SPDX-License-Identifier: BSD-3-Clause */
/* sockperf 2.8 to 3.10, text output. */
#include "measure/parse_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"

static bool mine(const char *text)
{
	return strstr(text, "sockperf: ") != NULL;
}

/* The number right after `word` (blanks and = skipped), from p on. */
static bool number_after(const char *p, const char *word, double *out)
{
	const char *at = tt_line_find(p, word);
	char *end;

	if (!at)
		return false;
	at += strlen(word);
	at += strspn(at, " =:");
	*out = strtod(at, &end);
	return end != at;
}

static void version(struct tt_parse *p)
{
	const char *at = strstr(p->text, "== version #");

	taut_text_set(p->out->program.name, "sockperf");
	if (at) {
		at += strlen("== version #");
		snprintf(p->out->program.version, sizeof(p->out->program.version), "%.*s",
		    (int)strcspn(at, " \n"), at);
	}
}

/* "---> percentile 99.900 =  134.318", "---> <MAX> observation = 1134.375", in microseconds. */
static int percentiles(struct tt_parse *p)
{
	double n = (double)p->out->observations;

	for (const char *at = tt_line_find(p->text, "---> "); at;
	     at = tt_line_find(at + 1, "---> ")) {
		char name[32];
		double percent, us;
		int rc;

		if (sscanf(at, "---> <MAX> observation = %lf", &us) == 1)
			rc = tt_add_time(p->run, "max", us * 1e3);
		else if (sscanf(at, "---> <MIN> observation = %lf", &us) == 1)
			rc = tt_add_time(p->run, "min", us * 1e3);
		else if (sscanf(at, "---> percentile %lf = %lf", &percent, &us) != 2)
			continue;
		else if (!tt_percentile_supported((uint64_t)n, percent))
			continue;
		else {
			snprintf(name, sizeof(name), "p%.6g", percent);
			rc = tt_add_time(p->run, name, us * 1e3);
		}
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int counts(struct tt_parse *p, const char *valid)
{
	static const struct {
		const char *word, *name;
	} rows[] = {{"dropped messages", "dropped"}, {"duplicated messages", "duplicated"},
	    {"out-of-order messages", "out of order"}};
	double v, seconds;
	int rc = 0;

	if (number_after(valid, "ReceivedMessages=", &v) &&
	    number_after(valid, "RunTime=", &seconds) && seconds > 0)
		rc = taut_figure_add(
		    p->run, "rate", TAUT_UNIT_PER_S, TAUT_BETTER_HIGHER, v / seconds);
	for (size_t i = 0; rc == 0 && i < tt_array_len(rows); i++) {
		if (number_after(p->text, rows[i].word, &v))
			rc = taut_figure_add(
			    p->run, rows[i].name, TAUT_UNIT_COUNT, TAUT_BETTER_LOWER, v);
	}
	return rc;
}

static int latency(struct tt_parse *p, const char *valid)
{
	static const char *const averages[] = {"avg-latency=", "avg-lat=", "avg-rtt="};
	double v;
	int rc = 0;

	taut_text_set(p->out->what, strstr(p->text, "avg-rtt=") ? "round trip" : "half round trip");
	/* "[Total Run]" comes first and has its own count; observations are those of the valid
	 * part. */
	if (number_after(strstr(valid, "Total "), "Total ", &v) && v > 0)
		p->out->observations = (uint64_t)v;
	for (size_t i = 0; rc == 0 && i < tt_array_len(averages); i++) {
		if (number_after(valid, averages[i], &v))
			rc = tt_add_time(p->run, "average", v * 1e3);
	}
	if (rc == 0 && number_after(valid, "(std-dev=", &v))
		rc = tt_add_time(p->run, "stddev", v * 1e3);
	if (rc == 0)
		rc = percentiles(p);
	if (rc == 0)
		rc = counts(p, valid);
	return rc;
}

/* tp: what was handed to the kernel; what arrived, the server knows. */
static int throughput(struct tt_parse *p)
{
	double sent, seconds, v;
	const char *at = strstr(p->text, "Total of ");
	int rc = 0;

	taut_text_set(p->out->what, "one way");
	if (at && sscanf(at, "Total of %lf messages sent in %lf sec", &sent, &seconds) == 2) {
		rc = taut_figure_add(p->run, "sent", TAUT_UNIT_COUNT, TAUT_BETTER_NEITHER, sent);
		if (rc == 0)
			rc = taut_figure_add(
			    p->run, "seconds", TAUT_UNIT_NONE, TAUT_BETTER_NEITHER, seconds);
	}
	if (rc == 0 && number_after(p->text, "Message Rate is ", &v))
		rc = taut_figure_add(p->run, "rate", TAUT_UNIT_PER_S, TAUT_BETTER_HIGHER, v);
	/* "BandWidth is 505.065 MBps (4040.520 Mbps)": mega is 2^20 unless --giga-size was given,
	 * which it does not print; so the bandwidth is not taken, the message rate says the same.
	 */
	return rc;
}

static int read_client(struct tt_parse *p)
{
	const char *valid = strstr(p->text, "[Valid Duration]"), *error;

	version(p);
	p->out->weight = TT_WEIGHT_MESSAGES;
	if (valid && strstr(valid, "---> "))
		return latency(p, valid);
	if (strstr(p->text, "Message Rate is "))
		return throughput(p);
	error = strstr(p->text, "ERROR: ");
	if (error) {
		snprintf(p->error, TT_PARSE_ERROR_MAX, "sockperf says: %.*s",
		    (int)tt_min(strcspn(error, "\n"), (size_t)200), error);
		return -EBADMSG;
	}
	if (strstr(p->text, "No valid observations")) {
		snprintf(
		    p->error, TT_PARSE_ERROR_MAX, "sockperf got no reply: no valid observations");
		return -EBADMSG;
	}
	return -ENODATA;
}

int tt_parse_sockperf_server(const char *text, struct taut_run *run)
{
	const struct taut_figure *sent = taut_figure_find(run, "sent");
	const struct taut_figure *seconds = taut_figure_find(run, "seconds");
	double sent_n = sent ? sent->value : 0, secs = seconds ? seconds->value : 0, got = 0;
	const char *at;
	int rc = 0;

	/* With several threads the server prints a line for each. */
	if (!mine(text) || sent_n <= 0 || secs <= 0 ||
	    !strstr(text, "messages received and handled"))
		return 0;
	for (at = tt_line_find(text, "Total "); at; at = tt_line_find(at + 1, "Total ")) {
		double n;
		int end = 0;

		if (sscanf(at, "Total %lf messages received and handled%n", &n, &end) == 1 && end)
			got += n;
	}
	rc = taut_figure_add(run, "received rate", TAUT_UNIT_PER_S, TAUT_BETTER_HIGHER, got / secs);
	if (rc == 0)
		rc = taut_figure_add(
		    run, "received", TAUT_UNIT_PERCENT, TAUT_BETTER_HIGHER, 100 * got / sent_n);
	return rc;
}

const struct tt_parser tt_parser_sockperf = {"sockperf", mine, read_client};
