/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * process.c - start, fork, exec and end of an accelerated process.
 *
 * fork: before it all leases are closed; what the sockets are to parent and child afterwards is told in share.c.
 */
#include "socket/sock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/raw.h"
#include "socket/banner.h"
#include "socket/dgram.h"
#include "socket/epoll.h"
#include "socket/heir.h"
#include "socket/lease.h"
#include "socket/rules.h"

static bool started;

static void rings_configure(void)
{
	tt_link_set_ring_bytes(tt_tun.ring_kb << 10, tt_tun.ring_bulk_kb << 10, 256u << 10);
}

/* Listening and other sockets that came through exec: read /proc/self/fd without the C library's allocator. */
static void inherited_adopt(void)
{
	struct linux_dirent64 {
		uint64_t ino;
		int64_t off;
		unsigned short reclen;
		unsigned char type;
		char name[];
	};
	_Alignas(8) char buf[2048];
	long n;
	int dir = tt_raw_open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);

	if (dir < 0)
		return;
	while ((n = tt_raw3(SYS_getdents64, dir, buf, sizeof(buf))) > 0) {
		for (long at = 0; at < n;) {
			const struct linux_dirent64 *entry = (const void *)(buf + at);
			int fd = 0;

			for (const char *p = entry->name; *p >= '0' && *p <= '9'; p++)
				fd = fd * 10 + (*p - '0');
			if (entry->name[0] >= '0' && entry->name[0] <= '9' && fd != dir)
				tt_sock_inherited(fd);
			at += entry->reclen;
		}
	}
	(void)tt_raw_close(dir);
}

void tt_process_start(void)
{
	int err;

	if (started)
		return;
	started = true;
	tt_sys_init();
	tt_log_start();
	(void)tt_tunables_load(&tt_tun, environ);
	if (tt_tun.disable) {
		tt_tun.tcp = false;
		tt_tun.udp = false;
		return;
	}
	if (!tt_tun.filtered && tt_process_filtered()) {
		tt_process_confined = true;
		tt_log_trace("a seccomp filter was there before the program: every socket stays with the kernel "
			     "(TAUT_FILTERED=yes where forbidden calls fail and do not kill)");
		return;
	}
	if (tt_tun.log_file[0] && tt_log_open(tt_tun.log_file))
		tt_log_warn("TAUT_LOG_FILE: %s can't be opened for append: messages go to standard error",
		    tt_tun.log_file);
	tt_clock_init();
	rings_configure();
	err = tt_hints_set_folder(tt_tun.dir);
	if (err)
		tt_log_warn("TAUT_DIR: the path is too long: shorten it; every socket stays with the kernel");
	(void)tt_rules_load(tt_tun.config, tt_opt_log_error, NULL);
	err = tt_stat_open(tt_profile_word(tt_tun.profile));
	if (err)
		tt_log_trace("no memory for live counters (error %d): taut stat will not show this process", -err);
	tt_banner();
	inherited_adopt();
}

void tt_process_exit(void)
{
	static int once;

	if (!started || tt_tun.disable || __atomic_exchange_n(&once, 1, __ATOMIC_RELAXED))
		return;
	if (tt_tun.stats_file[0])
		tt_stat_dump(tt_tun.stats_file);
	if (!tt_process_confined)
		tt_share_exit();
}

static void lease_close_for_fork(struct tt_sock *s, void *arg)
{
	struct tt_close_turns t = {0};

	(void)arg;
	if (s->dgram)
		tt_dgram_fork_before(s);
	if (!s->rx.dir || s->foreign || s->rx.kernel_only)
		return;
	/* Bounded: a publisher is inside for no longer than a copy of 64 KB. */
	while (tt_lease_close(s) && !tt_lease_ended(s, tt_load_relaxed(&s->fd)) && tt_close_turn(&t))
		;
}

void tt_fork_before(void)
{
	tt_share_fork_before();
	tt_sock_for_each(lease_close_for_fork, NULL);
	tt_epoll_fork_before();
}

static void forked(struct tt_sock *s, void *arg)
{
	bool child = *(const bool *)arg;

	tt_share_forked(s, child);
	if (s->dgram)
		tt_dgram_forked(s, child);
}

void tt_fork_parent(void)
{
	bool child = false;

	tt_epoll_fork_parent();
	tt_sock_for_each(forked, &child);
}

void tt_fork_child(void)
{
	bool child = true;

	tt_tid_cache = 0;
	tt_fd_fork_child();
	if (tt_process_confined)
		return;
	tt_heir_fork_child();
	tt_link_fork_child();
	tt_inbox_forget();
	tt_epoll_fork_child();
	tt_attach_fork_child();
	if (tt_stat_open(tt_profile_word(tt_tun.profile)))
		tt_log_trace("no memory for live counters: taut stat will not show this process");
	tt_sock_for_each(forked, &child);
}

static void keeps_none(struct tt_sock *s, void *arg)
{
	(void)arg;
	s->exec_keeps = false;
}

/* By descriptor and not by socket: a copy of a close-on-exec descriptor survives. */
void tt_exec_before(bool spawn)
{
	int high = tt_process_confined ? -1 : tt_fd_high();

	tt_epoll_settle_sets();
	tt_sock_for_each(keeps_none, NULL);
	for (int fd = 0; fd <= high; fd++) {
		struct tt_sock *s = tt_fd_sock(fd);
		long flags;

		if (!s || s->role == TT_ROLE_LISTENER)
			continue;
		flags = tt_raw2(SYS_fcntl, fd, F_GETFD);
		if (flags < 0 || (flags & FD_CLOEXEC))
			continue;
		s->exec_keeps = true;
		if (spawn)
			tt_share_given(s);
		else
			tt_attach_unoffer(s);
		if (!s->rx.dir && !s->dgram)
			continue;
		tt_unread_return(s, fd, true);
		tt_tx_stop(s);
		tt_sock_rx_stop(s, TT_REASON_EXEC);
		if (!spawn)
			tt_attach_push_back(s, fd);
	}
}
