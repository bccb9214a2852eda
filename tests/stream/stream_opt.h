/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stream_opt.h - what a run of stream_check does. Filled once by tt_sc_parse(), then only read, by
 * any thread.
 */
#ifndef TT_TESTS_STREAM_OPT_H
#define TT_TESTS_STREAM_OPT_H

#include "stream_io.h"

#define TT_SC_WORKERS_MAX 64

enum mode { MODE_PROCS, MODE_THREADS, MODE_SINGLE };
enum pattern { P_UP, P_DOWN, P_REQREP, P_LOOP, P_THREADS, P_COUNT };
enum ending {
	END_SHUTDOWN, /* both shut their side down and read to the end */
	END_CLIENT_CLOSES,
	END_SERVER_CLOSES,
	END_CLIENT_ABRUPT,
	END_SERVER_ABRUPT,
	END_COUNT
};

extern const char *const tt_sc_pattern_word[P_COUNT];
extern const char *const tt_sc_ending_word[END_COUNT];

struct tt_sc_opts {
	uint64_t conns, seed, only;
	bool has_only, abrupt;
	size_t bytes, workers;
	enum tt_family family;
	enum mode mode;
	unsigned int signals_ms, limit_s;
	int pattern, wait; /* -1: drawn per connection, per end */
	int child_fd;
	struct tt_end_opts end;
};

extern struct tt_sc_opts tt_sc;

/* Ends the process with status 2 and the usage on a mistake. */
void tt_sc_parse(int argc, char **argv);

#endif
