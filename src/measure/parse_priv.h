/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * parse_priv.h - the seam between parse.c and one parser per program.
 *
 * A parser gets clean text: no escapes, no NULs, lines ended by \n only (what a carriage return
 * overwrote is gone).
 */
#ifndef TT_MEASURE_PARSE_PRIV_H
#define TT_MEASURE_PARSE_PRIV_H

#include <stdbool.h>

#include "measure/parse.h"

struct tt_parse {
	const char *text;
	struct taut_run *run;
	struct tt_parsed *out;
	char *error; /* TT_PARSE_ERROR_MAX */
};

struct tt_parser {
	const char *name;
	/* Is this the program's output? */
	bool (*mine)(const char *text);
	/* As tt_parse_client(). */
	int (*read)(struct tt_parse *p);
};

extern const struct tt_parser tt_parser_sockperf, tt_parser_iperf3, tt_parser_redis, tt_parser_json;

/* The next line after p, NULL at the end. */
const char *tt_line_next(const char *p);
/* The first line that holds `word`, from p on; NULL. Returns where the word is. */
const char *tt_line_find(const char *p, const char *word);

int tt_parse_sockperf_server(const char *text, struct taut_run *run);

/* Adds a time in ns that is lower-is-better. */
static inline int tt_add_time(struct taut_run *run, const char *name, double ns)
{
	return taut_figure_add(run, name, TAUT_UNIT_NS, TAUT_BETTER_LOWER, ns);
}

#endif
