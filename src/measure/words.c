/* SPDX-License-Identifier: BSD-3-Clause */
#include "measure/words.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The fill whose {name} starts at p, or NULL. */
static const struct tt_fill *fill_at(const char *p, const struct tt_fill *fills)
{
	if (*p != '{')
		return NULL;
	for (; fills->name; fills++) {
		size_t n = strlen(fills->name);

		if (strncmp(p + 1, fills->name, n) == 0 && p[n + 1] == '}')
			return fills;
	}
	return NULL;
}

char *tt_words_fill(const char *text, const struct tt_fill *fills)
{
	char *out = NULL;
	size_t size;
	FILE *f = open_memstream(&out, &size);

	if (!f)
		return NULL;
	for (const char *p = text; *p;) {
		const struct tt_fill *fill = fill_at(p, fills);

		if (fill) {
			fputs(fill->value, f);
			p += strlen(fill->name) + 2;
		} else {
			fputc(*p++, f);
		}
	}
	if (fclose(f) == EOF) {
		free(out);
		return NULL;
	}
	return out;
}

bool tt_words_hold(const char *text, const char *name)
{
	const struct tt_fill fills[] = {{name, ""}, {NULL, NULL}};

	for (const char *p = text; *p; p++) {
		if (fill_at(p, fills))
			return true;
	}
	return false;
}

/* Copies the word at *p to *to and moves both behind it. */
static int one_word(const char **p, char **to)
{
	const char *s = *p;
	char *out = *to, quote = 0;

	for (; *s && (quote || !strchr(" \t\n", *s)); s++) {
		if (!quote && (*s == '\'' || *s == '"')) {
			quote = *s;
		} else if (quote && *s == quote) {
			quote = 0;
		} else if (*s == '\\' && quote != '\'') {
			if (!s[1])
				return -EINVAL;
			if (quote && s[1] != '"' && s[1] != '\\')
				*out++ = *s;
			*out++ = *++s;
		} else {
			*out++ = *s;
		}
	}
	if (quote)
		return -EINVAL;
	*out++ = '\0';
	*p = s;
	*to = out;
	return 0;
}

int tt_words_split(const char *text, char ***words, size_t *count)
{
	size_t table = (TT_WORDS_MAX + 1) * sizeof(char *);
	char **list = calloc(1, table + strlen(text) + 1), *to;
	size_t n = 0;
	int rc = 0;

	if (!list)
		return -ENOMEM;
	to = (char *)list + table;
	for (;;) {
		text += strspn(text, " \t\n");
		if (!*text)
			break;
		if (n == TT_WORDS_MAX) {
			rc = -E2BIG;
			break;
		}
		list[n++] = to;
		rc = one_word(&text, &to);
		if (rc < 0)
			break;
	}
	if (rc < 0) {
		free(list);
		return rc;
	}
	*words = list;
	*count = n;
	return 0;
}

char *tt_words_quote(const char *word)
{
	static const char safe[] =
	    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
	char *out = malloc(4 * strlen(word) + 3), *to = out;

	if (word[0] && word[strspn(word, safe)] == '\0')
		return out ? strcpy(out, word) : NULL;
	if (!out)
		return NULL;
	*to++ = '\'';
	for (; *word; word++) {
		if (*word == '\'') {
			memcpy(to, "'\\''", 4);
			to += 4;
		} else {
			*to++ = *word;
		}
	}
	*to++ = '\'';
	*to = '\0';
	return out;
}
