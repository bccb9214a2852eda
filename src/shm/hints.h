/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hints.h - the directory: from a socket's cookie to the process that has it (same-host.md rule 17).
 *
 * One fixed-size file in a folder of the user (0700, owner checked, symbolic links refused). An entry is a hint: it may
 * be stale, torn or forged by another process of the same user, and whoever follows it proves with the kernel what it
 * leads to. So entries are overwritten at will, never reclaimed, and read and written by pread and pwrite: a
 * mapping could be truncated under us. Nothing stays open between calls.
 */
#ifndef TT_SHM_HINTS_H
#define TT_SHM_HINTS_H

#include <stdint.h>

#include "base/base.h"

#define TT_INBOX_ID_BYTES 16
#define TT_HINT_BUCKETS 16384u
#define TT_HINT_WAYS 4u

struct tt_hint {
	uint64_t netns;	 /* SO_NETNS_COOKIE of the socket */
	uint64_t cookie; /* SO_COOKIE of the socket */
	uint64_t time_ns; /* CLOCK_MONOTONIC: the oldest entry of a full bucket goes */
	uint8_t inbox[TT_INBOX_ID_BYTES];
	uint64_t sum; /* of all before: a torn entry does not match */
	uint8_t pad[16];
};

/*
 * The folder: override when not NULL or empty, else /run/user/UID where it exists and is ours, else /tmp/taut-UID, the same
 * for every process of a user, whatever its environment. Called once at start and after a change of user.
 */
tt_must_check int tt_hints_set_folder(const char *override);
const char *tt_hints_folder(void);

/*
 * -EPERM: the folder or its file can't be used, or is not ours alone; -EFBIG: a limit on files; -EMFILE, -ENFILE: no descriptor.
 * A lookup that finds nothing, and no folder or file to look into, is -ENOENT.
 */
tt_must_check int tt_hint_publish(uint64_t netns, uint64_t cookie,
    const uint8_t inbox[TT_INBOX_ID_BYTES]);
/* *time_ns, when not NULL: when it was published. */
tt_must_check int tt_hint_lookup(uint64_t netns, uint64_t cookie, uint8_t inbox[TT_INBOX_ID_BYTES],
    uint64_t *time_ns);

#endif
