/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * opt.h - one row per option: the argument parser, the environment reader, --help, the man page and
 * the bash completion all read the same rows.
 *
 * A row names a member of a configuration struct by offset and size. Types and what they store:
 *
 *   TT_OPT_BOOL      bool
 *   TT_OPT_INT       a signed or unsigned integer of 1, 2, 4 or 8 bytes, in row->unit, from min to
 *                    max. `words`, where given, name the values min, min + 1, ...:
 *                    {"profile", "endless"} with min -2
 *   TT_OPT_ENUM      int, the index in `words`
 *   TT_OPT_STRING    const char *, pointing at the argument or environment string itself
 *   TT_OPT_TEXT      char[size], a copy; longer is an error (for what must outlive the
 *                    environment block)
 *   TT_OPT_DURATION  int64_t nanoseconds. "50us", "1.5ms", "10s", "2m", "1h"; a bare number is in
 *                    row->unit
 *   TT_OPT_SIZE      int64_t bytes. "64k", "1M", "2GiB": powers of 1024; a bare number is bytes
 *
 * min and max are in the stored unit (ns, bytes) and hold when max > min. `def` is text that the
 * row itself can parse; a row whose default can't be parsed is our own error. NULL def: false, 0,
 * NULL, "".
 *
 * Threads: none of this keeps state; callers own the configuration struct. tt_opt_defaults(),
 * tt_opt_set(), tt_opt_env() and tt_opt_show() allocate nothing, use no stdio and no locale and
 * touch no errno: the preload library calls them at its start. The rest is for programs
 * (opt_text.c).
 *
 * Errors come as one line without "taut: " and without a newline: what is wrong, where, what to do.
 */
#ifndef TT_BASE_OPT_H
#define TT_BASE_OPT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/base.h"

#define TT_OPT_ERROR_MAX 320u /* bytes of one error line, NUL included; longer ones are cut */
#define TT_OPT_WORD_MAX 64u   /* longer words are never offered as "nearest" */

enum tt_opt_type {
	TT_OPT_BOOL,
	TT_OPT_INT,
	TT_OPT_ENUM,
	TT_OPT_STRING,
	TT_OPT_TEXT,
	TT_OPT_DURATION,
	TT_OPT_SIZE
};

struct tt_opt {
	const char *name; /* long option without dashes; NULL: environment only */
	char letter;      /* short option, 0 none */
	enum tt_opt_type type;
	const char *metavar; /* NULL: made from the type */
	const char *unit;    /* NULL: none */
	const char *env;     /* full name, "TAUT_PROFILE"; NULL: none */
	const char *def;
	const char *help; /* one sentence, no full stop; the default and variable are added */
	const char *const *words; /* NULL-terminated */
	int64_t min, max;
	size_t offset, size;
	bool file;   /* the value is a path (completion) */
	bool hidden; /* not in help, man page, completion */
};

#define TT_OPT_AT(type, member)                                                                    \
	.offset = offsetof(type, member), .size = sizeof(((type *)0)->member)

/*
 * The options of one command. `more` chains a second table whose offsets count from the same
 * configuration struct. env_other: NULL-terminated names with env_prefix that somebody else reads,
 * so they are not unknown.
 */
struct tt_opt_set {
	const char *command; /* "taut run" */
	const char *usage;   /* "PROGRAM [ARGUMENT...]", NULL: no operands taken */
	const char *about;   /* first line of --help and of the man page */
	const struct tt_opt *rows;
	size_t count;
	const struct tt_opt_set *more;
	const char *env_prefix; /* "TAUT_"; NULL: unknown variables are not looked for */
	const char *const *env_other;
	bool takes_program; /* parsing stops at the first operand */
};

/* One error line, as tt_opt_env() meets it. */
typedef void tt_opt_error_fn(void *arg, const char *line);
/* The usual one: hands the line to tt_log_error(). */
void tt_opt_log_error(void *arg, const char *line);

/* Sets every row's default. */
void tt_opt_defaults(const struct tt_opt_set *set, void *config);

/* Sets one row from text. `where` names the source in the error ("--spin-us", "TAUT_SPIN_US"). 0 or
 * -EINVAL and error. */
tt_must_check int tt_opt_set(const struct tt_opt *row, void *config, const char *where,
    const char *text, char error[TT_OPT_ERROR_MAX]);

/* Writes the row's value as text that tt_opt_set() takes. Returns the whole length, as snprintf().
 */
size_t tt_opt_show(const struct tt_opt *row, const void *config, char *buf, size_t size);

/* True when the row has its default value. */
bool tt_opt_is_default(const struct tt_opt *row, const void *config);

/*
 * Reads the environment block. A variable that can't be parsed leaves its row as it is; each error
 * and each unknown variable with the prefix is reported by fn. Returns how many were reported. Of a
 * variable that occurs twice the first counts, as in getenv().
 */
int tt_opt_env(
    const struct tt_opt_set *set, char *const *envp, void *config, tt_opt_error_fn *fn, void *arg);

#define TT_OPT_HELP 1 /* tt_opt_args(): --help was asked for */

/*
 * Reads argv[1] and on. Takes --name=value, --name value, -xvalue, -x value, -x, --name and
 * --no-name for booleans, several boolean letters behind one dash; "--" ends the options. Operands
 * are moved behind the options (their order kept), *first is the index of the first operand. With
 * takes_program everything from the first operand on is left alone. Returns 0, TT_OPT_HELP, or
 * -EINVAL with the error line.
 */
tt_must_check int tt_opt_args(const struct tt_opt_set *set, int argc, char **argv, void *config,
    int *first, char error[TT_OPT_ERROR_MAX]);

/*
 * What a subcommand's first line does: defaults, environment (environ), arguments. Prints help to
 * stdout or the error to stderr. Returns -1 to go on, else the exit status (0 after --help, 2 for
 * bad usage).
 */
tt_must_check int tt_opt_start(
    const struct tt_opt_set *set, int argc, char **argv, void *config, int *first);

/* The nearest of `words` (NULL-terminated) to `word` if it is near enough to be meant, else NULL.
 * No allocation. */
const char *tt_opt_nearest(const char *word, const char *const *words);
/* The same one word at a time: true when `candidate` is near enough and nearer than *best, which
 * starts at UINT_MAX. */
bool tt_opt_nearer(const char *word, size_t word_len, const char *candidate, unsigned int *best);

/*
 * Texts. help: 80 columns. man: man(7) .TP entries, and .TP entries of the environment variables.
 * completion: one line per option, tab-separated: the word, one of none|value|words|file, and for
 * words the words. env_table: the variables with value, default and help, for `taut run
 * --help-options`; with a config, rows that differ from their default carry a "*". A boolean that
 * is on by default is listed as --no-name.
 */
void tt_opt_help(const struct tt_opt_set *set, FILE *out);
void tt_opt_man_options(const struct tt_opt_set *set, FILE *out);
void tt_opt_man_environment(const struct tt_opt_set *set, FILE *out);
void tt_opt_completion(const struct tt_opt_set *set, FILE *out);
void tt_opt_env_table(const struct tt_opt_set *set, const void *config, FILE *out);

#endif
