/* SPDX-License-Identifier: BSD-3-Clause */
/* iperf3 3.1 to 3.17, text output; -J is in parse_json.c. */
#include "measure/parse_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool mine(const char *text)
{
	return strstr(text, "bits/sec") || strstr(text, "iperf3: ") || strstr(text, "iperf Done.");
}

/* "14.9 Gbits/sec" and "505 MBytes/sec": both mega = 10^6 for bits, 2^20 for bytes. */
static bool bits_per_s(const char *line, double *out)
{
	const char *end = strstr(line, "/sec"), *unit, *digits;
	double factor;

	if (!end)
		return false;
	for (unit = end; unit > line && unit[-1] != ' '; unit--)
		;
	for (digits = unit - (unit > line); digits > line && digits[-1] != ' '; digits--)
		;
	switch (*unit) {
	case 'K':
		factor = 1e3;
		break;
	case 'M':
		factor = 1e6;
		break;
	case 'G':
		factor = 1e9;
		break;
	case 'T':
		factor = 1e12;
		break;
	default:
		factor = 1;
	}
	if (strncmp(unit + (factor > 1), "Bytes", 5) == 0) {
		double binary = factor >= 1e12  ? 1099511627776.0
				: factor >= 1e9 ? 1073741824.0
				: factor >= 1e6 ? 1048576.0
				: factor >= 1e3 ? 1024.0
						: 1;

		factor = 8 * binary;
	}
	*out = strtod(digits, NULL) * factor;
	return true;
}

/* "0.031 ms  0/382 (0%)" of a UDP summary. */
static int datagrams(struct taut_run *run, const char *line)
{
	const char *ms = strstr(line, " ms "), *digits;
	double lost, all;
	int rc;

	if (!ms || sscanf(ms + 4, " %lf/%lf", &lost, &all) != 2)
		return 0;
	for (digits = ms; digits > line && digits[-1] != ' '; digits--)
		;
	rc = tt_add_time(run, "jitter", strtod(digits, NULL) * 1e6);
	if (rc == 0)
		rc = taut_figure_add(run, "dropped", TAUT_UNIT_COUNT, TAUT_BETTER_LOWER, lost);
	return rc;
}

/* A summary line ends in "sender" or "receiver"; with several streams only [SUM] counts. */
static int read_text(struct tt_parse *p)
{
	bool sums = strstr(p->text, "[SUM]") != NULL;
	int rc = 0;

	for (const char *line = p->text; rc == 0 && line; line = tt_line_next(line)) {
		char one[256];
		bool receiver;
		double rate;
		size_t n = tt_min(strcspn(line, "\n"), sizeof(one) - 1);

		memcpy(one, line, n);
		one[n] = '\0';
		while (n > 0 && one[n - 1] == ' ')
			one[--n] = '\0';
		receiver = n > 8 && strcmp(one + n - 8, "receiver") == 0;
		if (one[0] != '[' || (sums && strncmp(one, "[SUM]", 5) != 0))
			continue;
		if (!receiver && !(n > 6 && strcmp(one + n - 6, "sender") == 0))
			continue;
		if (!bits_per_s(one, &rate))
			continue;
		rc = taut_figure_add(p->run, receiver ? "received rate" : "sent rate",
		    TAUT_UNIT_BITS_PER_S, TAUT_BETTER_HIGHER, rate);
		if (rc == 0 && receiver)
			rc = datagrams(p->run, one);
	}
	return rc;
}

static int read_client(struct tt_parse *p)
{
	const char *error = strstr(p->text, "iperf3: error - ");

	taut_text_set(p->out->program.name, "iperf3");
	taut_text_set(p->out->what, "bulk");
	p->out->weight = TT_WEIGHT_BYTES;
	if (error) {
		snprintf(p->error, TT_PARSE_ERROR_MAX, "iperf3 says: %.*s",
		    (int)tt_min(strcspn(error, "\n"), (size_t)200), error + 8);
		return -EBADMSG;
	}
	return read_text(p);
}

const struct tt_parser tt_parser_iperf3 = {"iperf3", mine, read_client};
