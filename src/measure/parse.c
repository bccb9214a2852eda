/* SPDX-License-Identifier: BSD-3-Clause */
#include "measure/parse.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure/parse_priv.h"

const char *tt_line_next(const char *p)
{
	p = strchr(p, '\n');
	return p && p[1] ? p + 1 : NULL;
}

const char *tt_line_find(const char *p, const char *word)
{
	return p ? strstr(p, word) : NULL;
}

/* Drops escape sequences, and of each line what a later carriage return wrote over. */
static char *cleaned(const char *text, size_t len)
{
	char *out = malloc(len + 1), *line = out, *to = out;

	if (!out)
		return NULL;
	for (size_t i = 0; i < len; i++) {
		char ch = text[i];

		if (ch == 0x1b && i + 1 < len && text[i + 1] == '[') {
			for (i += 2; i < len && !(text[i] >= '@' && text[i] <= '~'); i++)
				;
		} else if (ch == '\r') {
			if (i + 1 < len && text[i + 1] != '\n')
				to = line;
		} else if (ch == '\n') {
			*to++ = ch;
			line = to;
		} else if (ch != '\0') {
			*to++ = ch;
		}
	}
	*to = '\0';
	return out;
}

int tt_parse_client(const char *text, size_t len, struct taut_run *run, struct tt_parsed *out,
    char error[TT_PARSE_ERROR_MAX])
{
	static const struct tt_parser *const parsers[] = {
	    &tt_parser_sockperf, &tt_parser_redis, &tt_parser_json, &tt_parser_iperf3};
	struct tt_parse p = {.run = run, .out = out, .error = error};
	char *clean = cleaned(text, len);
	size_t before = run->figures.len;
	int rc = -ENODATA;

	if (!clean)
		return -ENOMEM;
	memset(out, 0, sizeof(*out));
	error[0] = '\0';
	p.text = clean;
	for (size_t i = 0; i < tt_array_len(parsers); i++) {
		if (!parsers[i]->mine(clean))
			continue;
		rc = parsers[i]->read(&p);
		break;
	}
	if (rc == 0 && run->figures.len == before)
		rc = -ENODATA;
	if (rc == -ENODATA && !error[0])
		snprintf(error, TT_PARSE_ERROR_MAX,
		    "no figures of sockperf, iperf3, redis-benchmark or a taut JSON result in its "
		    "output");
	free(clean);
	return rc;
}

int tt_parse_server(const char *text, size_t len, struct taut_run *run)
{
	char *clean = cleaned(text, len);
	int rc;

	if (!clean)
		return -ENOMEM;
	rc = tt_parse_sockperf_server(clean, run);
	free(clean);
	return rc;
}
