/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stat.h - between the parts of `taut stat`: one round of what was read, and its views.
 */
#ifndef TT_CLI_STAT_H
#define TT_CLI_STAT_H

#include <stdio.h>

#include "cli/statread.h"

struct tt_stat_round {
	struct tt_stat_list now;
	struct tt_stat_list before; /* empty in the first round */
	uint64_t time_ns;           /* CLOCK_REALTIME of `now` */
	double interval_s;          /* between the two; 0 without a `before` */
};

struct tt_stat_show {
	bool reasons;     /* per process */
	bool wide;        /* every counter of each socket */
	uint32_t sockets; /* rows of the socket table, busiest first; 0 all */
};

/* The same process, or socket, in the round before; NULL when it is new. */
const struct tt_stat_view *tt_stat_before(
    const struct tt_stat_round *round, const struct tt_stat_view *view);
const struct tt_stat_counters *tt_stat_row_before(
    const struct tt_stat_view *before, const struct tt_stat_row *row);
/* now - before (NULL: nothing), never below zero. */
void tt_stat_diff(const struct tt_stat_counters *now, const struct tt_stat_counters *before,
    struct tt_stat_counters *out);

/* Tables for people: totals, or rates per second when the round has an interval. 0 or -ENOMEM. */
tt_must_check int tt_stat_text(
    const struct tt_stat_round *round, const struct tt_stat_show *show, FILE *out);

/* One line of JSON (docs/stat.md). 0, -ENOMEM, or -ENOTSUP in a build without jansson. */
tt_must_check int tt_stat_json(const struct tt_stat_round *round, FILE *out);

#endif
