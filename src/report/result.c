/* SPDX-License-Identifier: BSD-3-Clause */
#include "taut/result.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

void *taut_list_grow(void **at, size_t *len, size_t *cap, size_t size)
{
	char *p;

	if (*len >= TAUT_LIST_MAX)
		return NULL;
	if (*len == *cap) {
		size_t want = *cap ? *cap * 2 : 8;

		p = reallocarray(*at, want, size);
		if (!p)
			return NULL;
		*at = p;
		*cap = want;
	}
	p = (char *)*at + *len * size;
	memset(p, 0, size);
	++*len;
	return p;
}

void taut_text_copy(char *to, size_t size, const char *text)
{
	size_t n = strnlen(text, size);

	if (n == size) {
		n = size - 1;
		/* Not in the middle of a UTF-8 sequence. */
		while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80)
			n--;
	}
	memcpy(to, text, n);
	to[n] = '\0';
}

static void host_init(struct taut_host *h)
{
	memset(h, 0, sizeof(*h));
	taut_text_set(h->reason, "not recorded");
}

void taut_result_init(struct taut_result *r, const char *kind)
{
	memset(r, 0, sizeof(*r));
	taut_text_set(r->kind, kind);
	taut_text_set(r->tool.name, "taut");
	taut_text_set(r->tool.version, TAUT_VERSION);
	host_init(&r->local);
	host_init(&r->remote);
}

static void run_free(struct taut_run *run)
{
	for (size_t i = 0; i < run->series.len; i++)
		free(run->series.at[i].points.at);
	for (size_t i = 0; i < run->histograms.len; i++) {
		free(run->histograms.at[i].percentiles.at);
		free(run->histograms.at[i].buckets.at);
	}
	free(run->figures.at);
	free(run->loads.at);
	free(run->series.at);
	free(run->histograms.at);
	free(run->counters.at);
}

void taut_host_free(struct taut_host *h)
{
	free(h->facts.at);
	host_init(h);
}

void taut_result_free(struct taut_result *r)
{
	for (size_t i = 0; i < r->runs.len; i++)
		run_free(&r->runs.at[i]);
	for (size_t i = 0; i < r->commands.len; i++)
		free(r->commands.at[i].line);
	for (size_t i = 0; i < r->environment.len; i++) {
		free(r->environment.at[i].name);
		free(r->environment.at[i].value);
	}
	for (size_t i = 0; i < r->verdicts.len; i++) {
		for (size_t k = 0; k < r->verdicts.at[i].evidence.len; k++)
			free(r->verdicts.at[i].evidence.at[k]);
		free(r->verdicts.at[i].evidence.at);
	}
	free(r->runs.at);
	free(r->commands.at);
	free(r->environment.at);
	free(r->verdicts.at);
	free(r->comparisons.at);
	taut_host_free(&r->local);
	taut_host_free(&r->remote);
	taut_result_init(r, "");
}

int taut_figure_add(struct taut_run *run, const char *name, enum taut_unit unit,
    enum taut_better better, double value)
{
	struct taut_figure *f = taut_list_add(&run->figures);

	if (!f)
		return -ENOMEM;
	taut_text_set(f->name, name);
	f->unit = unit;
	f->better = better;
	f->value = value;
	return 0;
}

int taut_counter_add(struct taut_run *run, const char *name, uint64_t value)
{
	struct taut_counter *c = taut_list_add(&run->counters);

	if (!c)
		return -ENOMEM;
	taut_text_set(c->name, name);
	c->value = value;
	return 0;
}

int taut_command_add(struct taut_result *r, const char *test, const char *side, const char *role,
    int cpu, const char *line)
{
	char *copy = strdup(line);
	struct taut_command *c = copy ? taut_list_add(&r->commands) : NULL;

	if (!c) {
		free(copy);
		return -ENOMEM;
	}
	taut_text_set(c->test, test);
	taut_text_set(c->side, side);
	taut_text_set(c->role, role);
	c->cpu = cpu;
	c->line = copy;
	return 0;
}

static bool variable_matters(const char *text)
{
	static const char *const starts[] = {
	    "TAUT_", "LD_PRELOAD=", "LD_LIBRARY_PATH=", "GLIBC_TUNABLES=", "MALLOC_"};

	for (size_t i = 0; i < tt_array_len(starts); i++) {
		if (strncmp(text, starts[i], strlen(starts[i])) == 0)
			return true;
	}
	return false;
}

int taut_environment_add(struct taut_result *r, char *const *envp)
{
	for (; *envp; envp++) {
		const char *equal = strchr(*envp, '=');
		struct taut_variable *v;

		if (!equal || !variable_matters(*envp))
			continue;
		v = taut_list_add(&r->environment);
		if (!v)
			return -ENOMEM;
		v->name = strndup(*envp, (size_t)(equal - *envp));
		v->value = strdup(equal + 1);
		if (!v->name || !v->value)
			return -ENOMEM;
	}
	return 0;
}

struct taut_run *taut_run_add(struct taut_result *r)
{
	struct taut_run *run = taut_list_add(&r->runs);

	if (run) {
		run->round = 1;
		run->raw_round_trip_ns = NAN;
		run->path_share = NAN;
	}
	return run;
}

struct taut_verdict *taut_verdict_add(
    struct taut_result *r, const char *name, enum taut_verdict_state state, const char *text)
{
	struct taut_verdict *v = taut_list_add(&r->verdicts);

	if (!v)
		return NULL;
	taut_text_set(v->name, name);
	v->state = state;
	taut_text_set(v->text, text);
	return v;
}

int taut_evidence_add(struct taut_verdict *v, const char *line)
{
	char *copy = strdup(line);
	char **at = copy ? taut_list_add(&v->evidence) : NULL;

	if (!at) {
		free(copy);
		return -ENOMEM;
	}
	*at = copy;
	return 0;
}

static struct taut_fact *fact_add(struct taut_host *h, const char *key, enum taut_fact_kind kind)
{
	struct taut_fact *f = taut_list_add(&h->facts);

	if (!f)
		return NULL;
	taut_text_set(f->key, key);
	f->kind = kind;
	return f;
}

int taut_fact_text(struct taut_host *h, const char *key, const char *text)
{
	struct taut_fact *f = fact_add(h, key, TAUT_FACT_TEXT);

	if (!f)
		return -ENOMEM;
	taut_text_set(f->text, text);
	return 0;
}

int taut_fact_number(struct taut_host *h, const char *key, double number)
{
	struct taut_fact *f = fact_add(h, key, TAUT_FACT_NUMBER);

	if (!f)
		return -ENOMEM;
	f->number = number;
	return 0;
}

int taut_fact_flag(struct taut_host *h, const char *key, bool flag)
{
	struct taut_fact *f = fact_add(h, key, TAUT_FACT_FLAG);

	if (!f)
		return -ENOMEM;
	f->flag = flag;
	return 0;
}

int taut_fact_unknown(struct taut_host *h, const char *key, const char *reason)
{
	struct taut_fact *f = fact_add(h, key, TAUT_FACT_UNKNOWN);

	if (!f)
		return -ENOMEM;
	taut_text_set(f->text, reason);
	return 0;
}

const struct taut_fact *taut_fact_find(const struct taut_host *h, const char *key)
{
	for (size_t i = 0; i < h->facts.len; i++) {
		if (strcmp(h->facts.at[i].key, key) == 0)
			return &h->facts.at[i];
	}
	return NULL;
}

const struct taut_figure *taut_figure_find(const struct taut_run *run, const char *name)
{
	for (size_t i = 0; i < run->figures.len; i++) {
		if (strcmp(run->figures.at[i].name, name) == 0)
			return &run->figures.at[i];
	}
	return NULL;
}

static const char *const unit_words[] = {
#define X(name, word) word,
    TAUT_UNITS(X)
#undef X
};

const char *taut_unit_word(enum taut_unit unit)
{
	TT_ASSERT((size_t)unit < tt_array_len(unit_words));
	return unit_words[unit];
}

bool taut_unit_from_word(const char *word, enum taut_unit *unit)
{
	for (size_t i = 0; i < tt_array_len(unit_words); i++) {
		if (strcmp(unit_words[i], word) == 0) {
			*unit = (enum taut_unit)i;
			return true;
		}
	}
	return false;
}

const char *taut_better_word(enum taut_better better)
{
	static const char *const words[] = {"neither", "lower", "higher"};

	TT_ASSERT((size_t)better < tt_array_len(words));
	return words[better];
}

const char *taut_seen_word(enum taut_seen seen)
{
	static const char *const words[] = {"unknown", "no-difference", "better", "worse"};

	TT_ASSERT((size_t)seen < tt_array_len(words));
	return words[seen];
}

const char *taut_verdict_word(enum taut_verdict_state state)
{
	static const char *const words[] = {"good", "failed", "void", "note"};

	TT_ASSERT((size_t)state < tt_array_len(words));
	return words[state];
}
