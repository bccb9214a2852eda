/* SPDX-License-Identifier: BSD-3-Clause */
#include "socket/tunables.h"

#include <string.h>
#include <sys/stat.h>

#include "base/fmt.h"
#include "base/log.h"
#include "base/raw.h"

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

static bool owned(const char *path, unsigned int uid)
{
	struct stat st = {0};

	if (tt_raw4(SYS_newfstatat, AT_FDCWD, (long)path, (long)&st, 0) != 0)
		return false;
	return S_ISDIR(st.st_mode) && st.st_uid == uid;
}

void tt_tunables_dir(struct tt_tunables *t)
{
	unsigned int uid = tt_raw_geteuid();
	char run[64];

	if (t->dir[0]) {
		memcpy(t->dir_path, t->dir, sizeof(t->dir_path));
		return;
	}
	if (t->runtime_dir[0] && owned(t->runtime_dir, uid) &&
	    tt_fmt(t->dir_path, sizeof(t->dir_path), "%s/taut", t->runtime_dir) <
		sizeof(t->dir_path))
		return;
	tt_fmt(run, sizeof(run), "/run/user/%u", uid);
	if (owned(run, uid))
		tt_fmt(t->dir_path, sizeof(t->dir_path), "%s/taut", run);
	else
		tt_fmt(t->dir_path, sizeof(t->dir_path), "/tmp/taut-%u", uid);
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
	tt_tunables_dir(t);
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
	static const char runtime[] = "XDG_RUNTIME_DIR=";
	int bad;

	memset(t, 0, sizeof(*t));
	tt_opt_defaults(&tt_tunables_set, t);
	bad = tt_opt_env(&tt_tunables_set, envp, t, tt_opt_log_error, NULL);
	bad += check(t);
	for (char *const *e = envp; *e; e++) {
		const char *value = *e + sizeof(runtime) - 1;

		if (strncmp(*e, runtime, sizeof(runtime) - 1) != 0)
			continue;
		if (value[0] == '/' && strlen(value) < sizeof(t->runtime_dir))
			memcpy(t->runtime_dir, value, strlen(value) + 1);
		break;
	}
	tt_tunables_finish(t);
	return bad;
}
