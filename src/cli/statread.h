/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * statread.h - the reader's side of socket/statpage.h: finds the pages of running processes and
 * copies them.
 *
 * A page belongs to another process and may hold anything, change at any moment and come from
 * another version. So it is never mapped but copied by pread(), which can't fault; sizes are
 * checked against the file, strings are ended and rid of what a terminal would obey, and a row that
 * changed while it was copied is left out. Numbers are taken as they are, except the enumerations:
 * see tt_reason_word().
 */
#ifndef TT_CLI_STATREAD_H
#define TT_CLI_STATREAD_H

#include <sys/types.h>

#include "base/base.h"
#include "socket/statpage.h"

#define TT_STAT_PROCS_MAX 65536u /* processes looked at in one round */

/* One socket that was open when the page was copied. Its enumerations hold what the page said. */
struct tt_stat_row {
	uint32_t index; /* its place in the page; with in_use it names the socket for ever */
	struct tt_stat_sock sock;
};

struct tt_stat_view {
	pid_t pid; /* in our own namespace */
	uid_t uid;
	uint64_t start_ns;
	uint64_t socks_seen;
	uint64_t socks_attached;
	uint64_t unlisted;
	uint64_t fallbacks[64];
	struct tt_stat_counters total; /* open and closed sockets */
	char comm[17 * 3];
	char profile[17];
	char version[17];
	char cmdline[257 * 3];
	struct tt_stat_row *rows; /* malloc'ed */
	size_t count;
};

struct tt_stat_list {
	struct tt_stat_view *views; /* malloc'ed */
	size_t count;
	size_t bad;    /* processes whose page made no sense */
	pid_t bad_pid; /* one of them */
	int bad_rc;
};

/*
 * Copies the page behind fd. 0, -EBADMSG when it is no page or makes no sense, -EPROTO when another
 * version wrote it (then out->version says which), -ENOMEM. *pid_inside is the process number that
 * the page gives.
 */
tt_must_check int tt_stat_read_fd(int fd, struct tt_stat_view *out, pid_t *pid_inside);

/*
 * Copies the page of a process. As above, and: -ESRCH no such process, -EACCES it may not be looked
 * into, -ENOENT it has no page: it is not accelerated.
 */
tt_must_check int tt_stat_read_pid(pid_t pid, struct tt_stat_view *out);

/* All processes that may be looked into, but not this one. 0, -ENOMEM, or why /proc can't be read.
 */
tt_must_check int tt_stat_read_all(struct tt_stat_list *out);

/* Appends a view and takes what it holds. 0 or -ENOMEM. */
tt_must_check int tt_stat_list_add(struct tt_stat_list *list, struct tt_stat_view *view);

void tt_stat_view_free(struct tt_stat_view *view);
void tt_stat_list_free(struct tt_stat_list *list);

/* Copies text of at most in_size bytes, keeping valid UTF-8 and replacing control characters and
 * the rest by '?'. */
void tt_text_clean(char *out, size_t out_size, const char *in, size_t in_size);

#endif
