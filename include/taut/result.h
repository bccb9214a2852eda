/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * result.h - the one result of every measurement.
 *
 * A measurement fills one struct taut_result: what was asked, offered and achieved, series per
 * interval, histograms, counters, verdicts with their evidence, the host at both ends, who
 * measured with what command. Text, JSON, CSV and a comparison are views of it; none of them holds
 * a figure that is not here. The JSON form is described by result.schema.json beside this file.
 *
 * Shape: a result has runs. A plain measurement has one; a comparison has one per side and round.
 * Figures that the measurement is about lie in the run they were seen in; `comparisons` and
 * `verdicts` are conclusions from them.
 *
 * Units: times are double or integer nanoseconds, rates bits or events per second; the unit stands
 * beside each value. A value that nobody knows is NaN (JSON null), never 0.
 *
 * Ownership: the result owns everything in it. Start from taut_result_init(), end with
 * taut_result_free(); lists grow by taut_list_add() only. Not thread safe: one filler at a time.
 * The functions are part of the `taut` program; libtaut.so does not have them.
 */
#ifndef TAUT_RESULT_H
#define TAUT_RESULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TAUT_RESULT_SCHEMA 1

#define TAUT_NAME_MAX 64u  /* bytes of a name, NUL included; longer ones are cut */
#define TAUT_TEXT_MAX 256u /* bytes of a sentence */
/* More elements than this are never kept in one list: taut_list_add() gives NULL. */
#define TAUT_LIST_MAX 1000000u

/* A list that grows: `at` is the array. */
#define TAUT_LIST(type)                                                                            \
	struct {                                                                                   \
		type *at;                                                                          \
		size_t len, cap;                                                                   \
	}

/* A new zeroed element at the end, or NULL (no memory, or TAUT_LIST_MAX reached). It moves when the
 * list grows again. */
#define taut_list_add(list)                                                                        \
	((__typeof__((list)->at))taut_list_grow(                                                   \
	    (void **)(void *)&(list)->at, &(list)->len, &(list)->cap, sizeof(*(list)->at)))
void *taut_list_grow(void **at, size_t *len, size_t *cap, size_t size);

/* Row: name, word in JSON. */
#define TAUT_UNITS(X)                                                                              \
	X(NONE, "1")                                                                               \
	X(NS, "ns")                                                                                \
	X(BYTES, "B")                                                                              \
	X(BITS_PER_S, "bit/s")                                                                     \
	X(PER_S, "1/s")                                                                            \
	X(COUNT, "count")                                                                          \
	X(PERCENT, "%")                                                                            \
	X(RATIO, "ratio")

enum taut_unit {
#define X(name, word) TAUT_UNIT_##name,
	TAUT_UNITS(X)
#undef X
};

enum taut_better { TAUT_BETTER_NEITHER, TAUT_BETTER_LOWER, TAUT_BETTER_HIGHER };

/* One number that was seen: "p50", "received rate". */
struct taut_figure {
	char name[TAUT_NAME_MAX];
	enum taut_unit unit;
	enum taut_better better;
	double value;
};

/* What the load was meant to be, what was really offered, what came through. */
struct taut_load {
	char name[TAUT_NAME_MAX];
	enum taut_unit unit;
	double asked, offered, achieved;
};

struct taut_point {
	int64_t t_ns; /* end of the interval, from the start of the run */
	double value;
};

struct taut_series {
	char name[TAUT_NAME_MAX];
	enum taut_unit unit;
	int64_t interval_ns; /* 0: irregular */
	TAUT_LIST(struct taut_point) points;
};

struct taut_bucket {
	double low, high; /* low <= value < high */
	uint64_t count;
};

struct taut_percentile {
	double percent, value;
};

/* `buckets` is empty where a foreign tool told only percentiles. */
struct taut_histogram {
	char name[TAUT_NAME_MAX];
	enum taut_unit unit;
	uint64_t count;
	double min, max, mean, stddev;
	TAUT_LIST(struct taut_percentile) percentiles;
	TAUT_LIST(struct taut_bucket) buckets;
};

struct taut_counter {
	char name[TAUT_NAME_MAX];
	uint64_t value;
};

struct taut_run {
	char test[TAUT_NAME_MAX]; /* which of several tests in this result: "udp"; "" when one */
	char side[TAUT_NAME_MAX]; /* "a", "kernel", ...; "" when there are no sides */
	uint32_t round;           /* from 1 */
	int64_t start_ns;         /* CLOCK_REALTIME */
	int64_t duration_ns;
	/* Raw cache-line round trip between the two cores, in this round; NaN: not measured. */
	double raw_round_trip_ns;
	/* Share of the traffic that took the path under test, 0 to 1; NaN: not known. */
	double path_share;
	char void_reason[TAUT_TEXT_MAX]; /* "" when the run counts */
	TAUT_LIST(struct taut_figure) figures;
	TAUT_LIST(struct taut_load) loads;
	TAUT_LIST(struct taut_series) series;
	TAUT_LIST(struct taut_histogram) histograms;
	TAUT_LIST(struct taut_counter) counters;
};

/* What was run: role "server", "client", ... of one side and test. */
struct taut_command {
	char test[TAUT_NAME_MAX];
	char side[TAUT_NAME_MAX];
	char role[TAUT_NAME_MAX];
	int cpu;    /* where it was pinned, -1 nowhere */
	char *line; /* owned */
};

struct taut_variable {
	char *name, *value; /* owned */
};

enum taut_seen {
	TAUT_SEEN_UNKNOWN,       /* too few runs to tell */
	TAUT_SEEN_NO_DIFFERENCE, /* the interval holds 1 */
	TAUT_SEEN_BETTER,
	TAUT_SEEN_WORSE
};

struct taut_spread {
	double median, low, high; /* of the runs' figures: median, least, greatest */
};

/*
 * One figure, side b against side a. ratio is how many times better b is: a / b where lower is
 * better, b / a where higher is better or neither.
 */
struct taut_comparison {
	char test[TAUT_NAME_MAX];
	char figure[TAUT_NAME_MAX];
	enum taut_unit unit;
	enum taut_better better;
	char a_side[TAUT_NAME_MAX], b_side[TAUT_NAME_MAX];
	uint32_t pairs; /* rounds in which both sides count */
	struct taut_spread a, b;
	double ratio, ratio_low, ratio_high; /* interval by run; NaN: too few */
	double level;                        /* of the interval, 0.95 */
	enum taut_seen seen;
	/* A difference smaller than this factor (1.05 = 5 %) would not have been seen; NaN:
	 * unknown. */
	double smallest_seen;
};

enum taut_verdict_state {
	TAUT_VERDICT_GOOD,
	TAUT_VERDICT_FAILED,
	TAUT_VERDICT_VOID, /* the measurement does not show what it was meant to show */
	TAUT_VERDICT_NOTE
};

struct taut_verdict {
	char name[TAUT_NAME_MAX];
	enum taut_verdict_state state;
	char text[TAUT_TEXT_MAX];
	TAUT_LIST(char *) evidence; /* owned lines */
};

enum taut_fact_kind { TAUT_FACT_UNKNOWN, TAUT_FACT_TEXT, TAUT_FACT_NUMBER, TAUT_FACT_FLAG };

/* One thing known about a host. key: "cpu.model", "nic.eth0.driver". */
struct taut_fact {
	char key[TAUT_NAME_MAX];
	enum taut_fact_kind kind;
	char text[TAUT_TEXT_MAX]; /* TEXT: the value; UNKNOWN: why it is not known */
	double number;
	bool flag;
};

struct taut_host {
	bool known;
	char reason[TAUT_TEXT_MAX]; /* why it is not known */
	TAUT_LIST(struct taut_fact) facts;
};

struct taut_program {
	char name[TAUT_NAME_MAX], version[TAUT_NAME_MAX]; /* "" unknown */
};

struct taut_result {
	char kind[TAUT_NAME_MAX]; /* "compare", "latency", ... */
	struct taut_program tool; /* what measured */
	struct taut_program peer; /* what it measured with; sockperf under `taut compare` */
	int64_t start_ns;         /* CLOCK_REALTIME */
	int64_t duration_ns;
	TAUT_LIST(struct taut_command) commands;     /* role "taut" is our own command line */
	TAUT_LIST(struct taut_variable) environment; /* of ours, the part that matters */
	struct taut_host local, remote;
	TAUT_LIST(struct taut_run) runs;
	TAUT_LIST(struct taut_comparison) comparisons;
	TAUT_LIST(struct taut_verdict) verdicts;
};

/* Everything unknown: tool is this taut, times 0, both hosts unknown ("not recorded"). */
void taut_result_init(struct taut_result *r, const char *kind);
/* Frees what the result holds; it is then as after taut_result_init() with kind "". */
void taut_result_free(struct taut_result *r);

/* Copies text into one of the fixed arrays above, cut at a character's start. */
#define taut_text_set(array, text) taut_text_copy((array), sizeof(array), (text))
void taut_text_copy(char *to, size_t size, const char *text);

/* Each returns 0 or -ENOMEM. */
int taut_figure_add(struct taut_run *run, const char *name, enum taut_unit unit,
    enum taut_better better, double value);
int taut_counter_add(struct taut_run *run, const char *name, uint64_t value);
int taut_command_add(struct taut_result *r, const char *test, const char *side, const char *role,
    int cpu, const char *line);
/* Takes the variables of envp that matter: TAUT_*, LD_PRELOAD, LD_LIBRARY_PATH, GLIBC_TUNABLES,
 * MALLOC_*. */
int taut_environment_add(struct taut_result *r, char *const *envp);
/* A new run with its unknown values set; NULL: no memory. */
struct taut_run *taut_run_add(struct taut_result *r);
struct taut_verdict *taut_verdict_add(
    struct taut_result *r, const char *name, enum taut_verdict_state state, const char *text);
int taut_evidence_add(struct taut_verdict *v, const char *line);

int taut_fact_text(struct taut_host *h, const char *key, const char *text);
int taut_fact_number(struct taut_host *h, const char *key, double number);
int taut_fact_flag(struct taut_host *h, const char *key, bool flag);
int taut_fact_unknown(struct taut_host *h, const char *key, const char *reason);
/* NULL when the host has no such fact. */
const struct taut_fact *taut_fact_find(const struct taut_host *h, const char *key);
void taut_host_free(struct taut_host *h);

/* NULL when the run has no such figure. */
const struct taut_figure *taut_figure_find(const struct taut_run *run, const char *name);

/* The words of the JSON form. */
const char *taut_unit_word(enum taut_unit unit);
const char *taut_better_word(enum taut_better better);
const char *taut_seen_word(enum taut_seen seen);
const char *taut_verdict_word(enum taut_verdict_state state);
/* False when no unit has this word. */
bool taut_unit_from_word(const char *word, enum taut_unit *unit);

#endif
