/* SPDX-License-Identifier: BSD-3-Clause */
/* What the runs of a comparison say: comparisons by figure, verdicts about the rounds. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"
#include "measure/compare.h"

/* The figures worth a sentence of their own, the first one that a test has. */
static const char *const headlines[] = {"p50", "received rate", "GET rate", "rate"};

static const struct taut_run *run_of(
    const struct taut_result *r, const char *test, const char *side, uint32_t round)
{
	for (size_t i = 0; i < r->runs.len; i++) {
		const struct taut_run *run = &r->runs.at[i];

		if (run->round == round && strcmp(run->test, test) == 0 &&
		    strcmp(run->side, side) == 0)
			return run;
	}
	return NULL;
}

static double value_of(const struct taut_run *run, const char *figure)
{
	const struct taut_figure *f = run ? taut_figure_find(run, figure) : NULL;

	return f ? f->value : NAN;
}

/* The values of both sides in the rounds that count on both sides. A side without the figure has
 * none. */
struct pairs {
	double a[TT_RUNS_MAX], b[TT_RUNS_MAX];
	size_t na, nb;
	uint32_t rounds; /* that count */
};

static void collect(const struct tt_compare *c, const struct taut_result *r, const char *test,
    const char *a_side, const char *b_side, const char *figure, struct pairs *p)
{
	memset(p, 0, sizeof(*p));
	for (uint32_t round = 1; round <= c->rounds && round <= TT_RUNS_MAX; round++) {
		const struct taut_run *a = run_of(r, test, a_side, round);
		const struct taut_run *b = run_of(r, test, b_side, round);
		double x = value_of(a, figure), y = value_of(b, figure);

		if (!a || !b || a->void_reason[0] || b->void_reason[0])
			continue;
		p->rounds++;
		if (isfinite(x))
			p->a[p->na++] = x;
		if (isfinite(y))
			p->b[p->nb++] = y;
	}
}

static void spread_of(const double *v, size_t n, struct taut_spread *out)
{
	double sorted[TT_RUNS_MAX];

	out->median = out->low = out->high = NAN;
	if (n == 0)
		return;
	memcpy(sorted, v, n * sizeof(*v));
	tt_sort_double(sorted, n);
	out->median = tt_median_sorted(sorted, n);
	out->low = sorted[0];
	out->high = sorted[n - 1];
}

static void ratio_of(const struct pairs *p, double level, struct taut_comparison *out)
{
	bool lower = out->better == TAUT_BETTER_LOWER;
	const double *top = lower ? p->a : p->b, *bottom = lower ? p->b : p->a;
	size_t ntop = lower ? p->na : p->nb, nbottom = lower ? p->nb : p->na;
	bool paired = p->na == p->nb && p->na == p->rounds && p->na >= TT_COMPARE_PAIRED_MIN;
	struct tt_ratio ratio;
	int rc;

	out->ratio = out->ratio_low = out->ratio_high = out->smallest_seen = NAN;
	out->level = level;
	out->seen = TAUT_SEEN_UNKNOWN;
	if (ntop == 0 || nbottom == 0)
		return;
	rc = paired ? tt_ratio_paired(top, bottom, ntop, level, &ratio)
		    : tt_ratio_unpaired(top, ntop, bottom, nbottom, level, &ratio);
	if (rc < 0)
		return; /* a value of 0: counts, which have no ratio */
	out->ratio = ratio.estimate;
	if (ratio.level <= 0)
		return;
	out->ratio_low = ratio.low;
	out->ratio_high = ratio.high;
	out->level = ratio.level;
	out->smallest_seen = isfinite(ratio.detectable) ? ratio.detectable : NAN;
	if (out->better == TAUT_BETTER_NEITHER)
		return;
	out->seen = ratio.low > 1    ? TAUT_SEEN_BETTER
		    : ratio.high < 1 ? TAUT_SEEN_WORSE
				     : TAUT_SEEN_NO_DIFFERENCE;
}

static int one_figure(const struct tt_compare *c, struct taut_result *r, const char *test,
    const char *b_side, const struct taut_figure *f)
{
	struct taut_comparison *out;
	struct pairs p;

	collect(c, r, test, c->sides[0].label, b_side, f->name, &p);
	out = taut_list_add(&r->comparisons);
	if (!out)
		return -ENOMEM;
	taut_text_set(out->test, test);
	taut_text_set(out->figure, f->name);
	taut_text_set(out->a_side, c->sides[0].label);
	taut_text_set(out->b_side, b_side);
	out->unit = f->unit;
	out->better = f->better;
	out->pairs = p.rounds;
	spread_of(p.a, p.na, &out->a);
	spread_of(p.b, p.nb, &out->b);
	ratio_of(&p, c->level, out);
	return 0;
}

static bool compared(
    const struct taut_result *r, const char *test, const char *b_side, const char *figure)
{
	for (size_t i = 0; i < r->comparisons.len; i++) {
		const struct taut_comparison *c = &r->comparisons.at[i];

		if (strcmp(c->test, test) == 0 && strcmp(c->b_side, b_side) == 0 &&
		    strcmp(c->figure, figure) == 0)
			return true;
	}
	return false;
}

/* Every figure that any of the two sides had, in the order of the run that has most of them. */
static int one_pair(
    const struct tt_compare *c, struct taut_result *r, const char *test, const char *b_side)
{
	const struct taut_run *richest = NULL;
	int rc = 0;

	for (size_t i = 0; i < r->runs.len; i++) {
		const struct taut_run *run = &r->runs.at[i];

		if (strcmp(run->test, test) != 0 ||
		    (strcmp(run->side, b_side) != 0 && strcmp(run->side, c->sides[0].label) != 0))
			continue;
		if (!richest || run->figures.len > richest->figures.len)
			richest = run;
	}
	for (size_t k = 0; rc == 0 && richest && k < richest->figures.len; k++) {
		if (!compared(r, test, b_side, richest->figures.at[k].name))
			rc = one_figure(c, r, test, b_side, &richest->figures.at[k]);
	}
	return rc;
}

/* "udp, taut: p50 is 21.3 times better than kernel's (95 % interval 19.8 to 22.6)" */
static int headline(struct taut_result *r, const struct taut_comparison *c)
{
	char text[TAUT_TEXT_MAX], name[2 * TAUT_NAME_MAX + 2];
	enum taut_verdict_state state = TAUT_VERDICT_NOTE;

	snprintf(name, sizeof(name), "%s%s%s", c->test, c->test[0] ? ", " : "", c->b_side);
	switch (c->seen) {
	case TAUT_SEEN_BETTER:
		state = TAUT_VERDICT_GOOD;
		snprintf(text, sizeof(text),
		    "%s is %.3g times better than %s's (interval %.3g to %.3g, %.1f %%)", c->figure,
		    c->ratio, c->a_side, c->ratio_low, c->ratio_high, c->level * 100);
		break;
	case TAUT_SEEN_WORSE:
		snprintf(text, sizeof(text),
		    "%s is %.3g times worse than %s's (interval %.3g to %.3g, %.1f %%)", c->figure,
		    1 / c->ratio, c->a_side, 1 / c->ratio_high, 1 / c->ratio_low, c->level * 100);
		break;
	case TAUT_SEEN_NO_DIFFERENCE:
		if (isfinite(c->smallest_seen))
			snprintf(text, sizeof(text),
			    "no difference seen in %s; one of %.3g times or more would have been",
			    c->figure, c->smallest_seen);
		else
			snprintf(text, sizeof(text), "no difference seen in %s", c->figure);
		break;
	case TAUT_SEEN_UNKNOWN:
		snprintf(text, sizeof(text),
		    "%u round%s that count: too few to tell a difference in %s (4 are needed)",
		    c->pairs, c->pairs == 1 ? "" : "s", c->figure);
		break;
	}
	return taut_verdict_add(r, name, state, text) ? 0 : -ENOMEM;
}

static int headline_of(struct taut_result *r, const char *test, const char *b_side)
{
	for (size_t h = 0; h < tt_array_len(headlines); h++) {
		for (size_t i = 0; i < r->comparisons.len; i++) {
			const struct taut_comparison *c = &r->comparisons.at[i];

			if (strcmp(c->test, test) == 0 && strcmp(c->b_side, b_side) == 0 &&
			    strcmp(c->figure, headlines[h]) == 0)
				return headline(r, c);
		}
	}
	return 0;
}

/* A verdict per side and test that has void rounds; the reasons are its evidence. */
static int voids(
    const struct tt_compare *c, struct taut_result *r, const char *test, const char *side)
{
	char text[TAUT_TEXT_MAX], name[2 * TAUT_NAME_MAX + 2], line[2 * TAUT_TEXT_MAX];
	unsigned int n = 0;
	struct taut_verdict *v;

	for (size_t i = 0; i < r->runs.len; i++)
		n += strcmp(r->runs.at[i].test, test) == 0 &&
		     strcmp(r->runs.at[i].side, side) == 0 && r->runs.at[i].void_reason[0];
	if (n == 0)
		return 0;
	snprintf(name, sizeof(name), "%s%s%s", test, test[0] ? ", " : "", side);
	snprintf(text, sizeof(text), "%u of %u rounds are void", n, c->rounds);
	v = taut_verdict_add(r, name, TAUT_VERDICT_VOID, text);
	if (!v)
		return -ENOMEM;
	for (size_t i = 0; i < r->runs.len; i++) {
		const struct taut_run *run = &r->runs.at[i];

		if (strcmp(run->test, test) != 0 || strcmp(run->side, side) != 0 ||
		    !run->void_reason[0])
			continue;
		snprintf(line, sizeof(line), "round %u: %s", run->round, run->void_reason);
		if (taut_evidence_add(v, line) < 0)
			return -ENOMEM;
	}
	return 0;
}

int tt_compare_conclude(const struct tt_compare *c, struct taut_result *r)
{
	int rc = 0;

	for (size_t t = 0; rc == 0 && t < c->tests_count; t++) {
		const char *test = c->tests[t].label;

		for (size_t s = 1; rc == 0 && s < c->sides_count; s++) {
			rc = one_pair(c, r, test, c->sides[s].label);
			if (rc == 0)
				rc = headline_of(r, test, c->sides[s].label);
		}
		for (size_t s = 0; rc == 0 && s < c->sides_count; s++)
			rc = voids(c, r, test, c->sides[s].label);
	}
	return rc;
}
