/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * words.h - command lines given as one string: placeholders filled in, split into words as a shell
 * would, without a shell.
 *
 * Quotes ' and " group, \ takes the next character as it is (inside "" only before " and \).
 * Nothing else is special: no variables, no patterns, no redirection; who wants those writes sh -c
 * '...'.
 */
#ifndef TT_MEASURE_WORDS_H
#define TT_MEASURE_WORDS_H

#include <stddef.h>

#include "base/base.h"

#define TT_WORDS_MAX 256u

struct tt_fill {
	const char *name;  /* "port" fills {port} */
	const char *value; /* text that is put in, before splitting */
};

/* A malloc'ed copy with the placeholders filled in; fills ends with a NULL name. Unknown {words}
 * stay. NULL: no memory. */
char *tt_words_fill(const char *text, const struct tt_fill *fills);

/* Does the text hold {name}? */
bool tt_words_hold(const char *text, const char *name);

/*
 * A NULL-terminated array in one allocation (free() it). 0; -EINVAL for an open quote or a trailing
 * backslash, -E2BIG above TT_WORDS_MAX words, -ENOMEM.
 */
tt_must_check int tt_words_split(const char *text, char ***words, size_t *count);

/* The word as such a string has it: in single quotes if it needs any. A malloc'ed string or NULL.
 */
char *tt_words_quote(const char *word);

#endif
