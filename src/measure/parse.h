/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * parse.h - figures out of what measurement programs print: sockperf (ping-pong, under-load,
 * throughput), iperf3 (text and -J), redis-benchmark (text, --csv, -q), and our own JSON results.
 *
 * Names of figures are the same whatever the program: "p50", "p99.9", "min", "max", "average",
 * "stddev", "rate", "received rate", "dropped", ... A program that reports several tests in one go
 * puts the test first: "SET rate". Times come in ns, bandwidths in bit/s. Percentiles that the
 * number of observations can't support (base/stats.h) are left out: sockperf prints its maximum for
 * them.
 *
 * Text is read as it is: colour codes, carriage returns of progress lines, and the locale-free C
 * number format. Nothing is assumed about its length or content; what isn't understood is skipped.
 */
#ifndef TT_MEASURE_PARSE_H
#define TT_MEASURE_PARSE_H

#include <stddef.h>

#include "base/base.h"
#include "taut/result.h"

#define TT_PARSE_ERROR_MAX 256u

/* What one unit of the program's work is: which share tells if the path under test was taken. */
enum tt_parse_weight { TT_WEIGHT_MESSAGES, TT_WEIGHT_BYTES };

struct tt_parsed {
	struct taut_program program; /* "sockperf", "3.7-no.git" */
	char what[TAUT_NAME_MAX];    /* "half round trip", "round trip", "request", "bulk" */
	enum tt_parse_weight weight;
	uint64_t observations; /* behind the percentiles, 0 unknown */
};

/*
 * Reads a client's output, adds its figures to run. 0; -ENODATA when there is no figure in it;
 * -ENOSYS when it is JSON and this build has no jansson; -EBADMSG when the program itself reports
 * an error. error tells which, in one line. -ENOMEM.
 */
tt_must_check int tt_parse_client(const char *text, size_t len, struct taut_run *run,
    struct tt_parsed *out, char error[TT_PARSE_ERROR_MAX]);

/*
 * Adds what only the server knows: messages received (sockperf), and the received rate when the
 * client's part of the run has its "sent" and "rate". 0 (also when there is nothing) or -ENOMEM.
 */
tt_must_check int tt_parse_server(const char *text, size_t len, struct taut_run *run);

#endif
