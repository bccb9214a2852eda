/* SPDX-License-Identifier: BSD-3-Clause */
/* opt_text.c - what programs print from option rows: help, man page entries, completion, the table
 * of variables. */
#include "base/opt.h"

#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/opt_priv.h"

#define WIDTH 80u
#define HELP_COLUMN 28u

int tt_opt_start(const struct tt_opt_set *set, int argc, char **argv, void *config, int *first)
{
	char error[TT_OPT_ERROR_MAX];
	int wrong;

	tt_opt_defaults(set, config);
	wrong = tt_opt_env(set, environ, config, tt_opt_log_error, NULL);
	switch (tt_opt_args(set, argc, argv, config, first, error)) {
	case TT_OPT_HELP:
		tt_opt_help(set, stdout);
		return 0;
	case 0:
		break;
	default:
		tt_log_error("%s", error);
		return 2;
	}
	if (!set->usage && *first < argc) {
		tt_log_error("%s takes no argument \"%.80s\"; see %s --help", set->command,
		    argv[*first], set->command);
		return 2;
	}
	return wrong > 0 ? 2 : -1;
}

/* What stands after the option: the row's own word, its choices, or the kind of value. NULL for
 * booleans. */
static const char *metavar(const struct tt_opt *row, char *buf, size_t size)
{
	size_t n = 0;

	if (row->type == TT_OPT_BOOL)
		return NULL;
	if (row->metavar)
		return row->metavar;
	switch (row->type) {
	case TT_OPT_ENUM:
		buf[0] = '\0';
		for (int i = 0; row->words[i] && n < size; i++)
			n += (size_t)snprintf(
			    buf + n, size - n, "%s%s", i ? "|" : "", row->words[i]);
		return buf;
	case TT_OPT_INT:
		return row->unit && strlen(row->unit) <= 3 ? row->unit : "N";
	case TT_OPT_DURATION:
		return "TIME";
	case TT_OPT_SIZE:
		return "SIZE";
	default:
		return row->file ? "FILE" : "TEXT";
	}
}

/* Words of text up to the width, from column `at`, further lines indented to `indent`. */
static void wrap(FILE *out, const char *text, size_t at, size_t indent)
{
	bool fresh = true;

	while (*text) {
		size_t len;

		text += strspn(text, " ");
		len = strcspn(text, " ");
		if (!len)
			break;
		if (!fresh && at + 1 + len > WIDTH) {
			fprintf(out, "\n%*s", (int)indent, "");
			at = indent;
			fresh = true;
		}
		fprintf(out, "%s%.*s", fresh ? "" : " ", (int)len, text);
		at += len + !fresh;
		fresh = false;
		text += len;
	}
	fputc('\n', out);
}

/* Help sentence with default and variable. */
/* "LOW to HIGH UNIT" where a number has limits, in the table of variables: options keep to a line
 * or two. */
static const char *range(const struct tt_opt *row, char *buf, size_t size)
{
	int64_t low = row->min;

	buf[0] = '\0';
	if (row->type != TT_OPT_INT || row->max <= row->min)
		return buf;
	for (int i = 0; row->words && row->words[i]; i++)
		low++;
	snprintf(buf, size, "%lld to %lld%s%s", (long long)low, (long long)row->max,
	    row->unit ? " " : "", row->unit ? row->unit : "");
	return buf;
}

/* Help sentence with the default and, for an option, its variable; for a variable its limits. */
static void sentence(const struct tt_opt *row, bool with_env, char *buf, size_t size)
{
	char limits[96];
	const char *def = row->def && *row->def && row->type != TT_OPT_BOOL ? row->def : NULL;
	const char *unit =
	    def && row->type == TT_OPT_INT && row->unit && strspn(def, "-0123456789") == strlen(def)
		? row->unit
		: NULL;
	const char *env = with_env ? row->env : range(row, limits, sizeof(limits));

	if (env && !*env)
		env = NULL;
	if (row->type == TT_OPT_BOOL && row->def && strcmp(row->def, "yes") == 0)
		def = "yes";
	snprintf(buf, size, "%s%s%s%s%s%s%s%s%s", row->help, def || env ? " (" : "",
	    def ? "default " : "", def ? def : "", unit ? " " : "", unit ? unit : "",
	    def && env ? "; " : "", env ? env : "", def || env ? ")" : "");
}

static const char *long_name(const struct tt_opt *row, char *buf, size_t size)
{
	bool on = row->type == TT_OPT_BOOL && row->def && strcmp(row->def, "yes") == 0;

	/* What is on by default is switched off. */
	snprintf(buf, size, "--%s%s", on ? "no-" : "", row->name);
	return buf;
}

static void help_row(const struct tt_opt *row, FILE *out)
{
	char name[TT_OPT_WORD_MAX + 8], meta[128], text[640];
	const char *value = metavar(row, meta, sizeof(meta));
	char letter[8] = "    ";
	size_t at;

	if (row->letter)
		snprintf(letter, sizeof(letter), "-%c, ", row->letter);
	at = (size_t)fprintf(out, "  %s%s%s%s", letter, long_name(row, name, sizeof(name)),
	    value ? "=" : "", value ? value : "");
	if (at + 2 > HELP_COLUMN) {
		fputc('\n', out);
		at = 0;
	}
	fprintf(out, "%*s", (int)(HELP_COLUMN - at), "");
	sentence(row, true, text, sizeof(text));
	wrap(out, text, HELP_COLUMN, HELP_COLUMN);
}

void tt_opt_help(const struct tt_opt_set *set, FILE *out)
{
	const char *usage = set->usage ? set->usage : "";

	fprintf(out, "usage: %s [OPTION...]%s%s\n", set->command, *usage ? " " : "", usage);
	if (set->about) {
		fputc('\n', out);
		wrap(out, set->about, 0, 0);
	}
	fprintf(out, "\n");
	for (const struct tt_opt_set *s = set; s; s = s->more)
		for (size_t i = 0; i < s->count; i++)
			if (s->rows[i].name && !s->rows[i].hidden)
				help_row(&s->rows[i], out);
	fprintf(out, "  %s--help%*s", "-h, ", (int)(HELP_COLUMN - 12), "");
	wrap(out, "print this and exit", HELP_COLUMN, HELP_COLUMN);
}

/* Text with what roff would take for its own made harmless. */
static void roff(FILE *out, const char *text)
{
	bool start = true;

	for (; *text; text++) {
		if (start && (*text == '.' || *text == '\''))
			fputs("\\&", out);
		start = *text == '\n';
		if (*text == '-')
			fputs("\\-", out);
		else if (*text == '\\')
			fputs("\\e", out);
		else
			fputc(*text, out);
	}
}

static void roff_value(const struct tt_opt *row, FILE *out)
{
	char meta[128];
	const char *value = metavar(row, meta, sizeof(meta));
	bool literal = row->type == TT_OPT_ENUM && !row->metavar;

	if (!value)
		return;
	fputs(literal ? "=\\fR" : "=\\fI", out);
	roff(out, value);
	fputs("\\fR", out);
}

void tt_opt_man_options(const struct tt_opt_set *set, FILE *out)
{
	char name[TT_OPT_WORD_MAX + 8], text[640];

	for (const struct tt_opt_set *s = set; s; s = s->more) {
		for (size_t i = 0; i < s->count; i++) {
			const struct tt_opt *row = &s->rows[i];

			if (!row->name || row->hidden)
				continue;
			fputs(".TP\n", out);
			if (row->letter)
				fprintf(out, "\\fB\\-%c\\fR, ", row->letter);
			fputs("\\fB", out);
			roff(out, long_name(row, name, sizeof(name)));
			roff_value(row, out);
			fputs("\\fR\n", out);
			sentence(row, true, text, sizeof(text));
			roff(out, text);
			fputs(".\n", out);
		}
	}
	fputs(".TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\nprint a summary and exit.\n", out);
}

void tt_opt_man_environment(const struct tt_opt_set *set, FILE *out)
{
	char text[640];

	for (const struct tt_opt_set *s = set; s; s = s->more) {
		for (size_t i = 0; i < s->count; i++) {
			const struct tt_opt *row = &s->rows[i];

			if (!row->env || row->hidden)
				continue;
			fprintf(out, ".TP\n\\fB%s", row->env);
			if (row->type == TT_OPT_BOOL)
				fputs("=\\fRyes|no", out);
			roff_value(row, out);
			fputs("\\fR\n", out);
			sentence(row, false, text, sizeof(text));
			roff(out, text);
			fputs(".\n", out);
		}
	}
}

void tt_opt_completion(const struct tt_opt_set *set, FILE *out)
{
	for (const struct tt_opt_set *s = set; s; s = s->more) {
		for (size_t i = 0; i < s->count; i++) {
			const struct tt_opt *row = &s->rows[i];

			if (!row->name || row->hidden)
				continue;
			if (row->type == TT_OPT_BOOL) {
				fprintf(out, "--%s\tnone\n--no-%s\tnone\n", row->name, row->name);
				continue;
			}
			fprintf(out, "--%s\t%s", row->name,
			    row->words  ? "words"
			    : row->file ? "file"
					: "value");
			for (int w = 0; row->words && row->words[w]; w++)
				fprintf(out, "%c%s", w ? ' ' : '\t', row->words[w]);
			fputc('\n', out);
		}
	}
	fputs("--help\tnone\n", out);
}

void tt_opt_env_table(const struct tt_opt_set *set, const void *config, FILE *out)
{
	char value[320], text[640];

	for (const struct tt_opt_set *s = set; s; s = s->more) {
		for (size_t i = 0; i < s->count; i++) {
			const struct tt_opt *row = &s->rows[i];
			int at;

			if (!row->env || row->hidden)
				continue;
			if (config)
				tt_opt_show(row, config, value, sizeof(value));
			else
				snprintf(value, sizeof(value), "%s", row->def ? row->def : "");
			if (!*value && row->type == TT_OPT_BOOL)
				snprintf(value, sizeof(value), "no");
			at = fprintf(out, "%s=%s", row->env, value);
			if (config && !tt_opt_is_default(row, config))
				at += fprintf(out, "  *");
			if (at + 2 > 36) {
				fputc('\n', out);
				at = 0;
			}
			fprintf(out, "%*s", 36 - at, "");
			sentence(row, false, text, sizeof(text));
			wrap(out, text, 36, 36);
		}
	}
}
