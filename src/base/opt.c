/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/opt.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/fmt.h"
#include "base/opt_priv.h"

struct unit {
	const char *word;
	int64_t factor;
};

static const struct unit duration_units[] = {
    {"ns", 1},
    {"us", 1000},
    {"ms", 1000000},
    {"s", 1000000000},
    {"m", 60 * 1000000000ll},
    {"h", 3600 * 1000000000ll},
};

static const struct unit size_units[] = {
    {"B", 1},
    {"k", 1ll << 10},
    {"K", 1ll << 10},
    {"KB", 1ll << 10},
    {"KiB", 1ll << 10},
    {"M", 1ll << 20},
    {"MB", 1ll << 20},
    {"MiB", 1ll << 20},
    {"G", 1ll << 30},
    {"GB", 1ll << 30},
    {"GiB", 1ll << 30},
    {"T", 1ll << 40},
    {"TiB", 1ll << 40},
};

const char *const tt_opt_yes_words[] = {"yes", "true", "on", "1", NULL};
const char *const tt_opt_no_words[] = {"no", "false", "off", "0", NULL};

static bool is_word(const char *text, const char *const *words, int *index)
{
	for (int i = 0; words && words[i]; i++) {
		if (strcmp(text, words[i]) == 0) {
			*index = i;
			return true;
		}
	}
	return false;
}

/* "a, b or c" */
static void words_list(char *buf, size_t size, const char *const *words)
{
	size_t n = 0;

	buf[0] = '\0';
	for (int i = 0; words[i]; i++) {
		const char *join = i == 0 ? "" : words[i + 1] ? ", " : " or ";

		n += tt_fmt(buf + n, size - n, "%s%s", join, words[i]);
		if (n >= size)
			return;
	}
}

/* Reads decimal digits. False: none, or too large. */
static bool get_digits(const char **text, uint64_t *v)
{
	const char *p = *text;

	*v = 0;
	for (; *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(*v, 10u, v) ||
		    __builtin_add_overflow(*v, (uint64_t)(*p - '0'), v))
			return false;
	if (p == *text)
		return false;
	*text = p;
	return true;
}

static bool get_integer(const char *text, int64_t *v)
{
	bool negative = *text == '-';
	uint64_t u;

	text += negative || *text == '+';
	if (!get_digits(&text, &u) || *text || u > (uint64_t)INT64_MAX)
		return false;
	*v = negative ? -(int64_t)u : (int64_t)u;
	return true;
}

/* A number with up to nine decimals and a unit. A bare number counts in `bare`. */
static bool get_scaled(
    const char *text, const struct unit *units, size_t count, int64_t bare, int64_t *v)
{
	uint64_t whole, part = 0, part_of = 1;
	int64_t factor = 0, high;

	if (!get_digits(&text, &whole) || whole > (uint64_t)INT64_MAX)
		return false;
	if (*text == '.') {
		const char *start = ++text;

		if (!get_digits(&text, &part) || text - start > 9)
			return false;
		for (; start < text; start++)
			part_of *= 10;
	}
	if (!*text)
		factor = bare;
	for (size_t i = 0; i < count && !factor; i++)
		if (strcmp(text, units[i].word) == 0)
			factor = units[i].factor;
	if (!factor || __builtin_mul_overflow((int64_t)whole, factor, &high))
		return false;
	/* part < 10^9 and factor < 2^44: the product needs more than 64 bits */
	return !__builtin_add_overflow(
	    high, (int64_t)((unsigned __int128)part * (unsigned __int128)factor / part_of), v);
}

static int64_t unit_factor(const struct unit *units, size_t count, const char *word)
{
	for (size_t i = 0; word && i < count; i++)
		if (strcmp(word, units[i].word) == 0)
			return units[i].factor;
	return 1;
}

static void store_integer(const struct tt_opt *row, void *config, int64_t v)
{
	char *at = (char *)config + row->offset;
	int8_t v8 = (int8_t)v;
	int16_t v16 = (int16_t)v;
	int32_t v32 = (int32_t)v;

	switch (row->size) {
	case 1:
		memcpy(at, &v8, 1);
		break;
	case 2:
		memcpy(at, &v16, 2);
		break;
	case 4:
		memcpy(at, &v32, 4);
		break;
	default:
		TT_ASSERT(row->size == 8);
		memcpy(at, &v, 8);
	}
}

/* An unsigned member is told from a signed one by its range: a row whose min is not negative is
 * unsigned. */
static int64_t load_integer(const struct tt_opt *row, const void *config)
{
	const char *at = (const char *)config + row->offset;
	int64_t v = 0;

	TT_ASSERT(row->size <= sizeof(v));
	memcpy(&v, at, row->size);
	if (row->min < 0 && row->size < 8) {
		unsigned int shift = 64 - 8 * (unsigned int)row->size;

		v = (int64_t)((uint64_t)v << shift) >> shift;
	}
	return v;
}

static int bool_set(
    const struct tt_opt *row, void *config, const char *where, const char *text, char *error)
{
	bool v;
	int index;

	if (is_word(text, tt_opt_yes_words, &index))
		v = true;
	else if (is_word(text, tt_opt_no_words, &index))
		v = false;
	else {
		tt_fmt(error, TT_OPT_ERROR_MAX,
		    "%s: \"%s\" is neither yes nor no (yes, true, on, 1; no, false, off, 0)", where,
		    text);
		return -EINVAL;
	}
	memcpy((char *)config + row->offset, &v, sizeof(v));
	return 0;
}

static int enum_set(
    const struct tt_opt *row, void *config, const char *where, const char *text, char *error)
{
	char list[160];
	const char *near;
	int v;

	if (is_word(text, row->words, &v)) {
		memcpy((char *)config + row->offset, &v, sizeof(v));
		return 0;
	}
	near = tt_opt_nearest(text, row->words);
	words_list(list, sizeof(list), row->words);
	tt_fmt(error, TT_OPT_ERROR_MAX, "%s: \"%s\" is not one of %s%s%s%s", where, text, list,
	    near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
	return -EINVAL;
}

static int int_error(
    const struct tt_opt *row, const char *where, const char *text, const char *what, char *error)
{
	const char *unit = row->unit ? row->unit : "";
	int64_t min = row->min;
	char list[96] = "";
	char range[96] = "";

	if (row->words) {
		words_list(list, sizeof(list), row->words);
		for (int i = 0; row->words[i]; i++)
			min++;
	}
	if (row->max > row->min)
		tt_fmt(range, sizeof(range), "; give %lld to %lld%s%s", (long long)min,
		    (long long)row->max, *unit ? " " : "", unit);
	tt_fmt(error, TT_OPT_ERROR_MAX, "%s: \"%s\" %s%s%s%s", where, text, what, range,
	    *list ? ", or " : "", list);
	return -EINVAL;
}

static int int_set(
    const struct tt_opt *row, void *config, const char *where, const char *text, char *error)
{
	int64_t v;
	int index;

	if (is_word(text, row->words, &index)) {
		store_integer(row, config, row->min + index);
		return 0;
	}
	if (!get_integer(text, &v))
		return int_error(row, where, text, "is not a whole number", error);
	if (row->max > row->min && (v < row->min || v > row->max))
		return int_error(row, where, text, "is out of range", error);
	store_integer(row, config, v);
	return 0;
}

static int scaled_set(
    const struct tt_opt *row, void *config, const char *where, const char *text, char *error)
{
	bool time = row->type == TT_OPT_DURATION;
	const struct unit *units = time ? duration_units : size_units;
	size_t count = time ? tt_array_len(duration_units) : tt_array_len(size_units);
	char low[32], high[32];
	int64_t v;

	if (!get_scaled(text, units, count, unit_factor(units, count, row->unit), &v)) {
		tt_fmt(error, TT_OPT_ERROR_MAX, "%s: \"%s\" is not a %s; write it like %s", where,
		    text, time ? "duration" : "size",
		    time ? "50us, 1.5ms, 10s, 2m or 1h" : "64k, 1M or 2GiB");
		return -EINVAL;
	}
	if (row->max > row->min && (v < row->min || v > row->max)) {
		tt_opt_scaled_text(row->type, row->min, low, sizeof(low));
		tt_opt_scaled_text(row->type, row->max, high, sizeof(high));
		tt_fmt(error, TT_OPT_ERROR_MAX, "%s: \"%s\" is out of range; give %s to %s", where,
		    text, low, high);
		return -EINVAL;
	}
	memcpy((char *)config + row->offset, &v, sizeof(v));
	return 0;
}

static int text_set(
    const struct tt_opt *row, void *config, const char *where, const char *text, char *error)
{
	size_t len = strlen(text);

	if (len >= row->size) {
		tt_fmt(error, TT_OPT_ERROR_MAX,
		    "%s: \"%.40s...\" is longer than %zu bytes; give a shorter one", where, text,
		    row->size - 1);
		return -EINVAL;
	}
	memcpy((char *)config + row->offset, text, len + 1);
	return 0;
}

static int row_set(
    const struct tt_opt *row, void *config, const char *where, const char *text, char *error)
{
	switch (row->type) {
	case TT_OPT_BOOL:
		return bool_set(row, config, where, text, error);
	case TT_OPT_ENUM:
		return enum_set(row, config, where, text, error);
	case TT_OPT_INT:
		return int_set(row, config, where, text, error);
	case TT_OPT_DURATION:
	case TT_OPT_SIZE:
		return scaled_set(row, config, where, text, error);
	case TT_OPT_TEXT:
		return text_set(row, config, where, text, error);
	case TT_OPT_STRING:
		break;
	}
	memcpy((char *)config + row->offset, &text, sizeof(text));
	return 0;
}

void tt_opt_one_line(char *error)
{
	for (unsigned char *p = (unsigned char *)error; *p; p++)
		if (*p < ' ' || *p == 0x7f)
			*p = '?';
}

int tt_opt_set(const struct tt_opt *row, void *config, const char *where, const char *text,
    char error[TT_OPT_ERROR_MAX])
{
	int rc = row_set(row, config, where, text, error);

	if (rc < 0)
		tt_opt_one_line(error);
	return rc;
}

/* The largest unit that divides the value. */
size_t tt_opt_scaled_text(enum tt_opt_type type, int64_t v, char *buf, size_t size)
{
	static const struct unit time[] = {
	    {"s", 1000000000}, {"ms", 1000000}, {"us", 1000}, {"ns", 1}};
	static const struct unit bytes[] = {
	    {"GiB", 1ll << 30}, {"MiB", 1ll << 20}, {"KiB", 1ll << 10}, {"B", 1}};
	const struct unit *u = type == TT_OPT_DURATION ? time : bytes;

	while (v % u->factor != 0)
		u++;
	if (v == 0)
		return tt_fmt(buf, size, "0");
	return tt_fmt(buf, size, "%lld%s", (long long)(v / u->factor), u->word);
}

size_t tt_opt_show(const struct tt_opt *row, const void *config, char *buf, size_t size)
{
	const char *at = (const char *)config + row->offset;
	const char *text;
	int64_t v;
	bool flag;
	int index;

	switch (row->type) {
	case TT_OPT_BOOL:
		memcpy(&flag, at, sizeof(flag));
		return tt_fmt(buf, size, "%s", flag ? "yes" : "no");
	case TT_OPT_ENUM:
		memcpy(&index, at, sizeof(index));
		return tt_fmt(buf, size, "%s", row->words[index]);
	case TT_OPT_INT:
		v = load_integer(row, config);
		for (int i = 0; row->words && row->words[i]; i++)
			if (v == row->min + i)
				return tt_fmt(buf, size, "%s", row->words[i]);
		return tt_fmt(buf, size, "%lld", (long long)v);
	case TT_OPT_DURATION:
	case TT_OPT_SIZE:
		memcpy(&v, at, sizeof(v));
		return tt_opt_scaled_text(row->type, v, buf, size);
	case TT_OPT_TEXT:
		return tt_fmt(buf, size, "%s", at);
	case TT_OPT_STRING:
		break;
	}
	memcpy(&text, at, sizeof(text));
	return tt_fmt(buf, size, "%s", text ? text : "");
}

static void row_default(const struct tt_opt *row, void *config)
{
	char error[TT_OPT_ERROR_MAX];

	if (row->def) {
		int ret =
		    tt_opt_set(row, config, row->name ? row->name : row->env, row->def, error);

		TT_ASSERT(ret == 0);
	} else {
		memset((char *)config + row->offset, 0, row->size);
	}
}

bool tt_opt_is_default(const struct tt_opt *row, const void *config)
{
	struct tt_opt alone = *row;
	const char *text;
	uint64_t value[8];

	if (row->type == TT_OPT_STRING || row->type == TT_OPT_TEXT) {
		if (row->type == TT_OPT_TEXT)
			text = (const char *)config + row->offset;
		else
			memcpy(&text, (const char *)config + row->offset, sizeof(text));
		return strcmp(text ? text : "", row->def ? row->def : "") == 0;
	}
	TT_ASSERT(row->size <= sizeof(value));
	alone.offset = 0;
	row_default(&alone, value);
	return memcmp(value, (const char *)config + row->offset, row->size) == 0;
}

void tt_opt_defaults(const struct tt_opt_set *set, void *config)
{
	for (; set; set = set->more)
		for (size_t i = 0; i < set->count; i++)
			row_default(&set->rows[i], config);
}

/* Optimal string alignment distance (insert, delete, replace, swap neighbours), words of up to
 * TT_OPT_WORD_MAX bytes. */
static unsigned int distance(const char *a, size_t na, const char *b, size_t nb)
{
	unsigned char row[3][TT_OPT_WORD_MAX + 1];

	for (size_t j = 0; j <= nb; j++)
		row[0][j] = (unsigned char)j;
	for (size_t i = 1; i <= na; i++) {
		unsigned char *now = row[i % 3], *last = row[(i + 2) % 3],
			      *older = row[(i + 1) % 3];

		now[0] = (unsigned char)i;
		for (size_t j = 1; j <= nb; j++) {
			unsigned int best = (unsigned int)last[j - 1] + (a[i - 1] != b[j - 1]);

			best = tt_min(best, (unsigned int)last[j] + 1u);
			best = tt_min(best, (unsigned int)now[j - 1] + 1u);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				best = tt_min(best, (unsigned int)older[j - 2] + 1u);
			now[j] = (unsigned char)best;
		}
	}
	return row[na % 3][nb];
}

bool tt_opt_nearer(const char *word, size_t word_len, const char *candidate, unsigned int *best)
{
	size_t n = strlen(candidate);
	unsigned int d, limit;

	if (word_len == 0 || n == 0 || word_len > TT_OPT_WORD_MAX || n > TT_OPT_WORD_MAX)
		return false;
	/* A third of the letters may be wrong; a word cut short may lack more. */
	limit = tt_max(1u, (unsigned int)tt_max(word_len, n) / 3);
	d = distance(word, word_len, candidate, n);
	if (word_len >= 3 && word_len < n && strncmp(word, candidate, word_len) == 0)
		d = tt_min(d, limit);
	if (d > limit || d >= *best)
		return false;
	*best = d;
	return true;
}

const char *tt_opt_nearest(const char *word, const char *const *words)
{
	const char *near = NULL;
	unsigned int best = UINT_MAX;

	for (; *words; words++)
		if (tt_opt_nearer(word, strlen(word), *words, &best))
			near = *words;
	return near;
}
