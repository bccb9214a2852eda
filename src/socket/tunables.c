/* SPDX-License-Identifier: BSD-3-Clause */
#include "socket/tunables.h"

#include <string.h>

#include "base/log.h"

#define SPIN_BALANCED_US 50

struct tt_tunables tt_tun;

static const char *const profile_words[] = {"latency", "balanced", "blocking", NULL};
static const char *const banner_words[] = {"auto", "on", "off", NULL};
static const char *const spin_words[] = {"profile", "endless", NULL};

#define TT_TUNABLE(member, option, variable, ...)                                                  \
	{.name = option, .env = variable, TT_OPT_AT(struct tt_tunables, member), __VA_ARGS__},
static const struct tt_opt rows[] = {
#include "socket/tunables.def"
};
#undef TT_TUNABLE

/* TAUT_ variables that other parts of the project read. */
static const char *const env_other[] = {"TAUT_BANNER_PID", "TAUT_LIBRARY", NULL};

const struct tt_opt_set tt_tunables_set = {
    .command = "taut run",
    .rows = rows,
    .count = tt_array_len(rows),
    .env_prefix = "TAUT_",
    .env_other = env_other,
};

const char *tt_profile_word(int profile)
{
	TT_ASSERT(profile >= 0 && profile <= TT_PROFILE_BLOCKING);
	return profile_words[profile];
}

void tt_tunables_finish(struct tt_tunables *t)
{
	int64_t us = t->spin_us;

	if (us == TT_SPIN_PROFILE)
		us = t->profile == TT_PROFILE_LATENCY    ? TT_SPIN_ENDLESS
		     : t->profile == TT_PROFILE_BALANCED ? SPIN_BALANCED_US
							 : 0;
	t->spin_ns = us == TT_SPIN_ENDLESS ? TT_SPIN_ENDLESS : us * 1000;
	t->spin_adapt = t->profile == TT_PROFILE_BALANCED && t->spin_ns > 0;
}

static bool power_of_two(uint32_t n)
{
	return n != 0 && (n & (n - 1)) == 0;
}

/* What no single row can see. Returns the number of mistakes. */
static int check(struct tt_tunables *t)
{
	int bad = 0;

	if (!power_of_two(t->ring_kb)) {
		tt_log_error("TAUT_RING_KB: %u is not a power of two; using 16", t->ring_kb);
		t->ring_kb = 16;
		bad++;
	}
	if (!power_of_two(t->ring_bulk_kb)) {
		tt_log_error(
		    "TAUT_RING_BULK_KB: %u is not a power of two; using 1024", t->ring_bulk_kb);
		t->ring_bulk_kb = 1024;
		bad++;
	}
	if (t->ring_bulk_kb < t->ring_kb) {
		tt_log_error("TAUT_RING_BULK_KB: %u is less than TAUT_RING_KB; using %u",
		    t->ring_bulk_kb, t->ring_kb);
		t->ring_bulk_kb = t->ring_kb;
		bad++;
	}
	if (t->dir[0] && t->dir[0] != '/') {
		tt_log_error("TAUT_DIR: \"%s\" is not an absolute path; using the default", t->dir);
		memset(t->dir, 0, sizeof(t->dir));
		bad++;
	}
	return bad;
}

int tt_tunables_load(struct tt_tunables *t, char *const *envp)
{
	int bad;

	memset(t, 0, sizeof(*t));
	tt_opt_defaults(&tt_tunables_set, t);
	bad = tt_opt_env(&tt_tunables_set, envp, t, tt_opt_log_error, NULL);
	bad += check(t);
	tt_tunables_finish(t);
	return bad;
}
