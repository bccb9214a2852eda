/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz_opt - the option rows' two readers on any bytes, with a row of every type and width.
 *
 * The input is cut at zero bytes: the first half of the strings is an argument vector, the rest an
 * environment block. Checked: no read or write outside (ASan), no argument lost or invented, an
 * error always has its one line, and what a row shows can be read back and shows the same.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/opt.h"

#define STRINGS_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct config {
	bool flag;
	bool on;
	int word;
	int8_t tiny;
	int16_t small;
	uint32_t plain;
	int64_t wide;
	int64_t time_ns;
	int64_t bytes;
	const char *string;
	char text[12];
};

static const char *const words[] = {"latency", "balanced", "blocking", NULL};
static const char *const special[] = {"profile", "endless", NULL};
static const struct tt_opt rows[] = {
    {.name = "flag",
	.letter = 'f',
	.type = TT_OPT_BOOL,
	.env = "TAUT_FLAG",
	.help = "h",
	TT_OPT_AT(struct config, flag)},
    {.name = "on",
	.type = TT_OPT_BOOL,
	.def = "yes",
	.env = "TAUT_ON",
	.help = "h",
	TT_OPT_AT(struct config, on)},
    {.name = "word",
	.letter = 'w',
	.type = TT_OPT_ENUM,
	.words = words,
	.env = "TAUT_WORD",
	.help = "h",
	TT_OPT_AT(struct config, word)},
    {.name = "tiny",
	.type = TT_OPT_INT,
	.min = -128,
	.max = 127,
	.help = "h",
	TT_OPT_AT(struct config, tiny)},
    {.name = "small",
	.letter = 's',
	.type = TT_OPT_INT,
	.words = special,
	.min = -2,
	.max = 30000,
	.env = "TAUT_SMALL",
	.help = "h",
	TT_OPT_AT(struct config, small)},
    {.name = "plain",
	.type = TT_OPT_INT,
	.min = 0,
	.max = UINT32_MAX,
	.help = "h",
	TT_OPT_AT(struct config, plain)},
    {.name = "wide",
	.type = TT_OPT_INT,
	.env = "TAUT_WIDE",
	.help = "h",
	TT_OPT_AT(struct config, wide)},
    {.name = "time",
	.letter = 't',
	.type = TT_OPT_DURATION,
	.unit = "ms",
	.env = "TAUT_TIME",
	.help = "h",
	TT_OPT_AT(struct config, time_ns)},
    {.name = "bytes",
	.type = TT_OPT_SIZE,
	.min = 1,
	.max = INT64_MAX,
	.def = "1",
	.env = "TAUT_BYTES",
	.help = "h",
	TT_OPT_AT(struct config, bytes)},
    {.name = "string",
	.letter = 'x',
	.type = TT_OPT_STRING,
	.help = "h",
	TT_OPT_AT(struct config, string)},
    {.name = "text",
	.type = TT_OPT_TEXT,
	.env = "TAUT_TEXT",
	.help = "h",
	TT_OPT_AT(struct config, text)},
};

static void one_line(const char *line)
{
	if (!*line || strlen(line) >= TT_OPT_ERROR_MAX || strchr(line, '\n'))
		abort();
}

static void report(void *arg, const char *line)
{
	(*(int *)arg)++;
	one_line(line);
}

/* What is shown reads back to the same text. */
static void shows_itself(const struct config *c)
{
	char before[512], after[512], error[TT_OPT_ERROR_MAX];
	struct config again;

	for (size_t i = 0; i < tt_array_len(rows); i++) {
		if (rows[i].type == TT_OPT_STRING)
			continue;
		if (tt_opt_show(&rows[i], c, before, sizeof(before)) >= sizeof(before))
			abort();
		memset(&again, 0, sizeof(again));
		if (tt_opt_set(&rows[i], &again, "again", before, error) != 0)
			abort();
		tt_opt_show(&rows[i], &again, after, sizeof(after));
		if (strcmp(before, after) != 0)
			abort();
		(void)tt_opt_is_default(&rows[i], c);
	}
}

static void arguments(const struct tt_opt_set *set, int argc, char **argv)
{
	uintptr_t sum = 0, after = 0;
	char error[TT_OPT_ERROR_MAX] = "";
	struct config c;
	int first = -1;
	int ret;

	memset(&c, 0, sizeof(c));
	tt_opt_defaults(set, &c);
	for (int i = 0; i < argc; i++)
		sum += (uintptr_t)argv[i];
	ret = tt_opt_args(set, argc, argv, &c, &first, error);
	for (int i = 0; i < argc; i++)
		after += (uintptr_t)argv[i];
	if (sum != after)
		abort();
	if (ret == 0 && (first < 1 || first > argc))
		abort();
	if (ret < 0)
		one_line(error);
	shows_itself(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tt_opt_set set = {.command = "taut fuzz",
	    .usage = "[X]",
	    .rows = rows,
	    .count = tt_array_len(rows),
	    .env_prefix = "TAUT_"};
	char *argv[STRINGS_MAX + 2], *again[STRINGS_MAX + 2];
	char *copy = malloc(size + 1);
	struct config c;
	int n = 0, half, reported = 0, told;

	if (!copy)
		return 0;
	memcpy(copy, data, size);
	copy[size] = '\0';
	argv[n++] = copy;
	for (size_t at = 0; at < size && n < STRINGS_MAX; at++)
		if (copy[at] == '\0')
			argv[n++] = copy + at + 1;
	argv[n] = NULL;
	half = n / 2 + 1;

	memset(&c, 0, sizeof(c));
	tt_opt_defaults(&set, &c);
	told = tt_opt_env(&set, argv + half, &c, report, &reported);
	if (told != reported)
		abort();
	shows_itself(&c);

	memcpy(again, argv, sizeof(*argv) * (size_t)half);
	again[half] = NULL;
	arguments(&set, half, again);
	set.takes_program = true;
	memcpy(again, argv, sizeof(*argv) * (size_t)half);
	arguments(&set, half, again);
	free(copy);
	return 0;
}
