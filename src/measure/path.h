/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * path.h - did the traffic take the path under test? Told by the counters that each accelerated
 * process leaves at its end, one line of JSON in the file that TAUT_STATS_FILE names.
 *
 * The line is ours (socket/statpage.h), so it is read by looking for its names; a line that was cut
 * short by a killed process counts as far as it goes.
 */
#ifndef TT_MEASURE_PATH_H
#define TT_MEASURE_PATH_H

#include "base/base.h"
#include "measure/parse.h"
#include "taut/result.h"

#define TT_PATH_FILE_MAX (1u << 20)

struct tt_path {
	unsigned int lines; /* processes that left their counters */
	uint64_t shm_msgs, kernel_msgs, shm_bytes, kernel_bytes; /* both directions */
	uint64_t sent_shm, sent_kernel; /* bytes, of senders only */
	uint64_t excused;		/* of sent_kernel: what had to go so (docs/stat.md) */
	char unread[TAUT_TEXT_MAX]; /* why not all the counters were read; "": they were */
	char reasons[TAUT_TEXT_MAX]; /* "closed 12, ring-full 3": why not, largest first */
};

/*
 * Adds what the file holds to *path, and its counters to run as "ROLE.name" (a program with several
 * processes gives sums). A file that is not there holds nothing. One that can't be read, or has more than TT_PATH_FILE_MAX
 * bytes, is read as far as that goes, and path->unread makes the round void. 0 or a negative errno value.
 */
tt_must_check int tt_path_read(
    const char *file, const char *role, struct tt_path *path, struct taut_run *run);

/* Share of messages or bytes that went by shared memory, 0 to 1; NaN when nothing was counted. */
double tt_path_share(const struct tt_path *path, enum tt_parse_weight weight);

/* The same of the bytes sent that could have gone so: NaN when there were none. */
double tt_path_share_possible(const struct tt_path *path);

/*
 * Judges one run: sets run->path_share, and run->void_reason when it is void. accelerated: the side is meant to go by shared
 * memory; otherwise it is meant not to. It went so when share_min of all did; or when at least half of all did, and share_min of
 * what could: what wakes a receiver that sleeps goes by the kernel, and a program that sleeps often has much of that. The tests of
 * the tree have the same rule with a floor of 5 % (docs/stat.md, "A good share"); a measurement has to take its path for the most
 * part. Counters that contradict each other, and counters that were not all read, make the round void.
 */
void tt_path_judge(const struct tt_path *path, enum tt_parse_weight weight, bool accelerated,
    double share_min, struct taut_run *run);

#endif
