/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "measure/words.h"

static void test_split(void **state)
{
	static const struct {
		const char *text;
		const char *words[5];
	} rows[] = {
	    {"", {NULL}},
	    {"  \t ", {NULL}},
	    {"a b", {"a", "b"}},
	    {" a   'b c' ", {"a", "b c"}},
	    {"--save '' x", {"--save", "", "x"}},
	    {"a\"b 'c\"d", {"ab 'cd"}},
	    {"\"a\\\"b\\\\c\\d\"", {"a\"b\\c\\d"}},
	    {"a\\ b 'c\\'", {"a b", "c\\"}},
	    {"$HOME *.c | x", {"$HOME", "*.c", "|", "x"}},
	};

	(void)state;
	for (size_t i = 0; i < tt_array_len(rows); i++) {
		char **words;
		size_t n;

		assert_int_equal(tt_words_split(rows[i].text, &words, &n), 0);
		for (size_t k = 0; k < n; k++) {
			assert_non_null(rows[i].words[k]);
			assert_string_equal(words[k], rows[i].words[k]);
		}
		assert_null(rows[i].words[n]);
		assert_null(words[n]);
		free(words);
	}
}

static void test_split_bad(void **state)
{
	static const char *const texts[] = {"'open", "a \"b", "end\\"};
	char many[2 * TT_WORDS_MAX + 8], **words;
	size_t n;

	(void)state;
	for (size_t i = 0; i < tt_array_len(texts); i++)
		assert_int_equal(tt_words_split(texts[i], &words, &n), -EINVAL);
	for (size_t i = 0; i < sizeof(many) - 1; i++)
		many[i] = i % 2 ? ' ' : 'x';
	many[sizeof(many) - 1] = '\0';
	assert_int_equal(tt_words_split(many, &words, &n), -E2BIG);
	many[2 * TT_WORDS_MAX] = '\0';
	assert_int_equal(tt_words_split(many, &words, &n), 0);
	assert_int_equal(n, TT_WORDS_MAX);
	free(words);
}

static void test_fill(void **state)
{
	const struct tt_fill fills[] = {{"port", "7001"}, {"taut", "'/a b/taut'"}, {NULL, NULL}};
	char *s = tt_words_fill("{taut} run -- x -p {port} {ports} {", fills);

	(void)state;
	assert_string_equal(s, "'/a b/taut' run -- x -p 7001 {ports} {");
	free(s);
	assert_true(tt_words_hold("x -p {port}", "port"));
	assert_false(tt_words_hold("x -p {ports}", "port"));
}

static void test_quote(void **state)
{
	static const char *const rows[] = {"/usr/bin/taut", "a b", "it's", "", "$x"};

	(void)state;
	for (size_t i = 0; i < tt_array_len(rows); i++) {
		char *q = tt_words_quote(rows[i]), **words;
		size_t n;

		assert_int_equal(tt_words_split(q, &words, &n), 0);
		assert_int_equal(n, 1);
		assert_string_equal(words[0], rows[i]);
		free(words);
		free(q);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_split),
	    cmocka_unit_test(test_split_bad),
	    cmocka_unit_test(test_fill),
	    cmocka_unit_test(test_quote),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
