/* SPDX-License-Identifier: BSD-3-Clause */
/* opt_read.c - the two readers of option rows: environment block and argument vector. */
#include "base/opt.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/fmt.h"
#include "base/log.h"
#include "base/opt_priv.h"

static const struct tt_opt *row_by_env(const struct tt_opt_set *set, const char *name, size_t len)
{
	for (; set; set = set->more)
		for (size_t i = 0; i < set->count; i++)
			if (set->rows[i].env && strncmp(set->rows[i].env, name, len) == 0 &&
			    !set->rows[i].env[len])
				return &set->rows[i];
	return NULL;
}

static bool env_is_other(const struct tt_opt_set *set, const char *name, size_t len)
{
	for (; set; set = set->more)
		for (const char *const *w = set->env_other; w && *w; w++)
			if (strncmp(*w, name, len) == 0 && !(*w)[len])
				return true;
	return false;
}

static void env_unknown(const struct tt_opt_set *set, const char *name, size_t len, char *error)
{
	size_t skip = strlen(set->env_prefix);
	const char *near = NULL;
	unsigned int best = UINT_MAX;

	/* The prefix is right by definition: only what follows tells words apart. */
	for (const struct tt_opt_set *s = set; s; s = s->more)
		for (size_t i = 0; i < s->count; i++)
			if (s->rows[i].env && strlen(s->rows[i].env) > skip &&
			    tt_opt_nearer(name + skip, len - skip, s->rows[i].env + skip, &best))
				near = s->rows[i].env;
	tt_fmt(error, TT_OPT_ERROR_MAX, "environment variable %.*s is unknown; %s%s%s",
	    (int)tt_min(len, 64u), name,
	    near ? "did you mean " : "taut run --help-options lists them all", near ? near : "",
	    near ? "?" : "");
}

/* True when an earlier entry of the block has the same name: getenv() would never see this one. */
static bool env_repeated(char *const *envp, char *const *at, size_t name_len)
{
	for (; envp < at; envp++)
		if (strncmp(*envp, *at, name_len + 1) == 0)
			return true;
	return false;
}

void tt_opt_log_error(void *arg, const char *line)
{
	(void)arg;
	tt_log_error("%s", line);
}

int tt_opt_env(
    const struct tt_opt_set *set, char *const *envp, void *config, tt_opt_error_fn *fn, void *arg)
{
	char error[TT_OPT_ERROR_MAX];
	int reported = 0;

	for (char *const *e = envp; *e; e++) {
		const char *equals = strchr(*e, '=');
		const struct tt_opt *row;
		size_t len;

		if (!equals)
			continue;
		len = (size_t)(equals - *e);
		row = row_by_env(set, *e, len);
		if (!row) {
			if (!set->env_prefix ||
			    strncmp(*e, set->env_prefix, strlen(set->env_prefix)) != 0 ||
			    env_is_other(set, *e, len))
				continue;
			env_unknown(set, *e, len, error);
			tt_opt_one_line(error);
		} else if (env_repeated(envp, e, len) ||
			   tt_opt_set(row, config, row->env, equals + 1, error) == 0) {
			continue;
		}
		fn(arg, error);
		reported++;
	}
	return reported;
}

/* The dashes that word processors and web pages make of "-" and "--". Length in bytes, 0 for none.
 */
static size_t typeset_dash(const char *arg, const char **name)
{
	static const struct {
		const char *bytes;
		const char *name;
	} dashes[] = {
	    {"\xe2\x80\x93", "an en dash (U+2013)"},
	    {"\xe2\x80\x94", "an em dash (U+2014)"},
	    {"\xe2\x88\x92", "a minus sign (U+2212)"},
	    {"\xe2\x80\x90", "a typographic hyphen (U+2010)"},
	    {"\xe2\x80\x91", "a non-breaking hyphen (U+2011)"},
	};

	for (size_t i = 0; i < tt_array_len(dashes); i++) {
		if (strncmp(arg, dashes[i].bytes, 3) == 0) {
			*name = dashes[i].name;
			return 3;
		}
	}
	return 0;
}

static const struct tt_opt *row_by_name(const struct tt_opt_set *set, const char *name, size_t len)
{
	for (; set; set = set->more)
		for (size_t i = 0; i < set->count; i++)
			if (set->rows[i].name && strncmp(set->rows[i].name, name, len) == 0 &&
			    !set->rows[i].name[len])
				return &set->rows[i];
	return NULL;
}

static const struct tt_opt *row_by_letter(const struct tt_opt_set *set, char letter)
{
	for (; set; set = set->more)
		for (size_t i = 0; i < set->count; i++)
			if (set->rows[i].letter && set->rows[i].letter == letter)
				return &set->rows[i];
	return NULL;
}

static int typeset_error(
    const struct tt_opt_set *set, const char *arg, size_t dash, const char *dash_name, char *error)
{
	const char *rest = arg + dash;
	size_t more = 0;
	const char *again;

	while (*rest == '-' || (more = typeset_dash(rest, &again)) != 0)
		rest += *rest == '-' ? 1 : more;
	if (strcspn(rest, "=") > 1 || !row_by_letter(set, rest[0]))
		tt_fmt(error, TT_OPT_ERROR_MAX,
		    "\"%s\" starts with %s, as pasted text does; type --%s", arg, dash_name, rest);
	else
		tt_fmt(error, TT_OPT_ERROR_MAX,
		    "\"%s\" starts with %s, as pasted text does; type -%s", arg, dash_name, rest);
	tt_opt_one_line(error);
	return -EINVAL;
}

static int unknown_error(
    const struct tt_opt_set *set, const char *dashes, const char *name, size_t len, char *error)
{
	const char *near = NULL;
	unsigned int best = UINT_MAX;
	bool no = len > 3 && strncmp(name, "no-", 3) == 0;
	bool near_no = false;
	unsigned int help = UINT_MAX;

	for (const struct tt_opt_set *s = set; s; s = s->more) {
		for (size_t i = 0; i < s->count; i++) {
			const struct tt_opt *row = &s->rows[i];

			if (!row->name || row->hidden)
				continue;
			if (tt_opt_nearer(name, len, row->name, &best)) {
				near = row->name;
				near_no = false;
			}
			if (no && row->type == TT_OPT_BOOL &&
			    tt_opt_nearer(name + 3, len - 3, row->name, &best)) {
				near = row->name;
				near_no = true;
			}
		}
	}
	if (tt_opt_nearer(name, len, "help", &help) && help < best) {
		near = "help";
		near_no = false;
	}
	if (near)
		tt_fmt(error, TT_OPT_ERROR_MAX, "unknown option %s%.*s; did you mean --%s%s?",
		    dashes, (int)tt_min(len, 80u), name, near_no ? "no-" : "", near);
	else
		tt_fmt(error, TT_OPT_ERROR_MAX, "unknown option %s%.*s; %s --help lists them all",
		    dashes, (int)tt_min(len, 80u), name, set->command);
	return -EINVAL;
}

struct reader {
	const struct tt_opt_set *set;
	int argc;
	char **argv;
	void *config;
	char *error;
};

#define HELP_SEEN INT_MAX

/* argv[at] is "--...". Returns how many arguments were used, HELP_SEEN, or -EINVAL. */
static int read_long(struct reader *r, int at)
{
	const char *name = r->argv[at] + 2;
	size_t len = strcspn(name, "=");
	const char *value = name[len] == '=' ? name + len + 1 : NULL;
	const struct tt_opt *row = row_by_name(r->set, name, len);
	char where[TT_OPT_WORD_MAX + 8];
	int used = 1;

	if (!row && len == 4 && strncmp(name, "help", 4) == 0 && !value)
		return HELP_SEEN;
	if (!row && len > 3 && strncmp(name, "no-", 3) == 0) {
		row = row_by_name(r->set, name + 3, len - 3);
		if (row && row->type == TT_OPT_BOOL && !value)
			return tt_opt_set(row, r->config, name, "no", r->error) ? -EINVAL : 1;
		if (row && row->type == TT_OPT_BOOL)
			tt_fmt(r->error, TT_OPT_ERROR_MAX,
			    "--no-%s takes no value; leave out \"=%.80s\"", row->name, value);
		else if (row)
			tt_fmt(r->error, TT_OPT_ERROR_MAX,
			    "--no-%s: --%s takes a value and cannot be switched off", row->name,
			    row->name);
		if (row)
			return -EINVAL;
	}
	if (!row)
		return unknown_error(r->set, "--", name, len, r->error);
	tt_fmt(where, sizeof(where), "--%s", row->name);
	if (!value && row->type == TT_OPT_BOOL)
		value = "yes";
	if (!value) {
		if (at + 1 >= r->argc) {
			tt_fmt(r->error, TT_OPT_ERROR_MAX,
			    "%s needs a value; %s --help tells which", where, r->set->command);
			return -EINVAL;
		}
		value = r->argv[at + 1];
		used = 2;
	}
	return tt_opt_set(row, r->config, where, value, r->error) ? -EINVAL : used;
}

/* argv[at] is "-..." with at least one letter. */
static int read_short(struct reader *r, int at)
{
	const char *arg = r->argv[at];
	size_t len = strcspn(arg + 1, "=");
	char where[3] = "-?";

	for (const char *p = arg + 1; *p; p++) {
		const struct tt_opt *row = row_by_letter(r->set, *p);

		if (!row && *p == 'h' && p == arg + 1 && !p[1])
			return HELP_SEEN;
		if (p == arg + 1 && len > 1 && row_by_name(r->set, arg + 1, len)) {
			tt_fmt(r->error, TT_OPT_ERROR_MAX,
			    "unknown option -%.*s; did you mean --%.*s?", (int)len, arg + 1,
			    (int)len, arg + 1);
			return -EINVAL;
		}
		if (!row)
			return unknown_error(r->set, "-", arg + 1, len, r->error);
		where[1] = *p;
		if (row->type == TT_OPT_BOOL) {
			if (tt_opt_set(row, r->config, where, "yes", r->error))
				return -EINVAL;
			continue;
		}
		if (p[1])
			return tt_opt_set(row, r->config, where, p + 1 + (p[1] == '='), r->error)
				   ? -EINVAL
				   : 1;
		if (at + 1 >= r->argc) {
			tt_fmt(r->error, TT_OPT_ERROR_MAX,
			    "%s needs a value; %s --help tells which", where, r->set->command);
			return -EINVAL;
		}
		return tt_opt_set(row, r->config, where, r->argv[at + 1], r->error) ? -EINVAL : 2;
	}
	return 1;
}

/* Moves argv[at .. at + n - 1] down to argv[to], keeping the order of what lies between. */
static void move_down(char **argv, int to, int at, int n)
{
	for (int i = 0; i < n; i++) {
		char *arg = argv[at + i];

		memmove(&argv[to + i + 1], &argv[to + i], sizeof(*argv) * (size_t)(at - to));
		argv[to + i] = arg;
	}
}

int tt_opt_args(const struct tt_opt_set *set, int argc, char **argv, void *config, int *first,
    char error[TT_OPT_ERROR_MAX])
{
	struct reader r = {set, argc, argv, config, error};
	int operands = 1; /* argv[operands .. at - 1] are operands met so far */
	int at = 1;

	while (at < argc) {
		const char *arg = argv[at];
		const char *dash_name;
		size_t dash = typeset_dash(arg, &dash_name);
		int used;

		if (dash)
			return typeset_error(set, arg, dash, dash_name, error);
		if (arg[0] != '-' || !arg[1]) {
			if (set->takes_program)
				break;
			at++;
			continue;
		}
		if (strcmp(arg, "--") == 0) {
			move_down(argv, operands, at, 1);
			operands++;
			break;
		}
		used = arg[1] == '-' ? read_long(&r, at) : read_short(&r, at);
		if (used == HELP_SEEN)
			return TT_OPT_HELP;
		if (used < 0) {
			tt_opt_one_line(error);
			return used;
		}
		move_down(argv, operands, at, used);
		operands += used;
		at += used;
	}
	*first = operands;
	return 0;
}
