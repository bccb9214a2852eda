/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz_options.c - any words as environment and arguments of libtaut's settings. What was taken can be shown, and what
 * is shown can be taken again with the same result; what was refused is named within the limits.
 *
 * The input is words that end with a zero byte: those with "=" before the first empty one are the environment.
 */
#include <string.h>

#include "base/base.h"
#include "base/opt.h"
#include "socket/tunables.h"

#define WORDS_MAX 64
#define BYTES_MAX 4096u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void mistake(void *arg, const char *line)
{
	size_t len = strlen(line);

	(void)arg;
	TT_ASSERT(len > 0 && len < TT_OPT_ERROR_MAX);
	TT_ASSERT(!memchr(line, '\n', len));
}

/* Each row survives being written and read. */
static void show_and_set(const struct tt_tunables *tun)
{
	for (size_t i = 0; i < tt_tunables_set.count; i++) {
		const struct tt_opt *row = &tt_tunables_set.rows[i];
		static struct tt_tunables copy;
		char text[TT_TUN_PATH_MAX + 1], error[TT_OPT_ERROR_MAX];

		copy = *tun;
		TT_ASSERT(tt_opt_show(row, tun, text, sizeof(text)) < sizeof(text));
		/* An empty path is shown as an empty text, which is how a row says "not set". */
		if (!*text)
			continue;
		TT_ASSERT(tt_opt_set(row, &copy, "again", text, error) == 0);
		TT_ASSERT(memcmp((const char *)&copy + row->offset, (const char *)tun + row->offset,
			      row->type == TT_OPT_TEXT ? strlen((const char *)tun + row->offset) + 1
						       : row->size) == 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char bytes[BYTES_MAX + 1];
	static struct tt_tunables tun;
	char *env[WORDS_MAX + 1], *argv[WORDS_MAX + 2] = {(char[]){"fuzz"}};
	char error[TT_OPT_ERROR_MAX];
	int envc = 0, argc = 1, first = 0;
	bool in_env = true;

	if (size > BYTES_MAX)
		return 0;
	memcpy(bytes, data, size);
	bytes[size] = '\0';
	for (char *p = bytes; p < bytes + size; p += strlen(p) + 1) {
		if (in_env && !*p)
			in_env = false;
		else if (in_env && envc < WORDS_MAX && strchr(p, '='))
			env[envc++] = p;
		else if (!in_env && argc <= WORDS_MAX)
			argv[argc++] = p;
	}
	env[envc] = NULL;
	argv[argc] = NULL;

	tt_opt_defaults(&tt_tunables_set, &tun);
	(void)tt_opt_env(&tt_tunables_set, env, &tun, mistake, NULL);
	show_and_set(&tun);
	switch (tt_opt_args(&tt_tunables_set, argc, argv, &tun, &first, error)) {
	case 0:
		TT_ASSERT(first >= 1 && first <= argc);
		break;
	case TT_OPT_HELP:
		break;
	default:
		mistake(NULL, error);
	}
	show_and_set(&tun);
	return 0;
}
