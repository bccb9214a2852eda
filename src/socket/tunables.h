/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tunables.h - what a user can set for accelerated processes: one row per variable in tunables.def.
 *
 * libtaut.so reads them once, at its start, from the environment (TAUT_*); `taut run` reads the
 * same rows as options and hands them on in the environment. After the load the struct is only
 * read, by any thread, without locks. Strings are copies: programs overwrite their environment
 * block (setproctitle).
 */
#ifndef TT_SOCKET_TUNABLES_H
#define TT_SOCKET_TUNABLES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"
#include "base/opt.h"

#define TT_TUN_PATH_MAX 256u /* bytes of a path given in a variable, NUL included */
#define TT_DIR_MAX 108u      /* bytes of the directory, NUL included */

enum tt_profile { TT_PROFILE_LATENCY, TT_PROFILE_BALANCED, TT_PROFILE_BLOCKING };
enum tt_banner { TT_BANNER_AUTO, TT_BANNER_ON, TT_BANNER_OFF };

#define TT_SPIN_PROFILE (-2) /* spin_us: as the profile says */
#define TT_SPIN_ENDLESS (-1) /* spin_us, spin_ns: never sleep */

struct tt_tunables {
	int profile;           /* enum tt_profile */
	int32_t spin_us;       /* as given; waits use spin_ns below */
	uint32_t ring_kb;      /* first ring of a direction */
	uint32_t ring_bulk_kb; /* ring of a direction that moves bulk */
	uint32_t attach_after; /* messages before the peer is looked for; 0: from the first byte */
	uint32_t attach_kb;    /* or so many kilobytes, whichever comes first */
	uint32_t kernel_poll_us; /* a spinning wait looks at kernel descriptors so often */
	bool tcp;
	bool udp;
	bool trace;
	bool disable;         /* libtaut does nothing at all */
	bool filtered;        /* also under a seccomp filter that was there before */
	int banner;           /* enum tt_banner */
	char dir[TT_DIR_MAX]; /* as given; "": shm/hints.h says where then */
	char log_file[TT_TUN_PATH_MAX];
	char stats_file[TT_TUN_PATH_MAX];
	char config[TT_TUN_PATH_MAX];

	/* Derived by tt_tunables_finish(). */
	int64_t spin_ns; /* 0: sleep at once; TT_SPIN_ENDLESS */
	bool spin_adapt; /* spin less where it does not pay, never beside a full machine (profile
			    balanced) */
};

extern struct tt_tunables tt_tun;

/* The rows, for `taut run`, its help, the banner, the man page. Offsets count from struct
 * tt_tunables. */
extern const struct tt_opt_set tt_tunables_set;

/*
 * Defaults, then envp, then tt_tunables_finish(). Each mistake is one line of base/log and leaves
 * that row at its default; the number of mistakes is returned (0: none). No malloc, no stdio, no
 * errno: safe before any constructor.
 */
int tt_tunables_load(struct tt_tunables *t, char *const *envp);

/* Fills the derived members from the given ones. Call it after setting rows by hand. */
void tt_tunables_finish(struct tt_tunables *t);

/* The word of the profile: "latency", "balanced", "blocking". */
const char *tt_profile_word(int profile);

#endif
