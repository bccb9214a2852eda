/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * confine.c - what a process has of its own besides the program's sockets, and how it gives that up.
 *
 * A seccomp filter may answer a system call with the end of the process, and nobody can ask it which. So from the moment that
 * one is set up (and for good where one was inherited) nothing of ours enters the kernel: all leases are closed and every
 * socket is forgotten, so that each call of the program is the very call that it made. Only a socket with unread bytes in
 * a ring stays known until they are read.
 */
#include "socket/sock.h"

#include <string.h>

#include "base/raw.h"
#include "shm/inbox.h"
#include "socket/dgram.h"
#include "socket/epoll.h"

bool tt_process_confined;

static bool unread(const struct tt_sock *s)
{
	const struct tt_dir *dir = tt_load_acquire(&s->rx.dir);

	if (s->dgram)
		return tt_dgram_readable(s);
	return dir && tt_load_acquire(&dir->tail) != s->rx.head;
}

/* False: something of it lies in a ring. */
static bool leave(int fd)
{
	struct tt_sock *s = tt_fd_sock(fd);

	if (!s)
		return true;
	if (s->role != TT_ROLE_LISTENER)
		tt_sock_stop(s, TT_REASON_SECCOMP);
	tt_tx_stop(s); /* what we send from now on is not told */
	if (unread(s))
		return false;
	tt_fd_forget(fd);
	return true;
}

static void back_to_kernel(struct tt_sock *s, void *arg)
{
	(void)arg;
	if (s->rx.dir && s->fd >= 0)
		tt_unread_return(s, s->fd, false);
}

bool tt_process_confine(void)
{
	int high = tt_fd_high();
	bool all = true;

	if (__atomic_exchange_n(&tt_process_confined, true, __ATOMIC_ACQ_REL))
		return false;
	tt_sock_for_each(back_to_kernel, NULL);
	for (int fd = 0; fd <= high; fd++)
		if (tt_epoll_is_set(fd))
			tt_epoll_make_native(fd);
	for (int fd = 0; fd <= high; fd++)
		all = leave(fd) && all;
	for (int fd = 0; all && fd <= high; fd++)
		tt_epoll_vanish(fd);
	if (tt_link_lock()) {
		tt_inbox_forget();
		tt_link_unlock();
	}
	tt_process_exit(); /* the counters go out now or never */
	return all;
}

/* A line of /proc/self/status; "Seccomp:\t2" is a filter, 1 the strict mode. */
bool tt_process_filtered(void)
{
	static const char key[] = "\nSeccomp:\t";
	char text[4096];
	const char *at;
	long n;
	int fd = tt_raw_open("/proc/self/status", O_RDONLY | O_CLOEXEC, 0);

	if (fd < 0)
		return false;
	n = tt_raw_read(fd, text, sizeof(text) - 1);
	(void)tt_raw_close(fd);
	if (n <= 0)
		return false;
	text[n] = '\0';
	at = strstr(text, key);
	return at && at[sizeof(key) - 1] != '0';
}

/* ---- descriptors of ours ---- */

bool tt_fd_is_own(int fd)
{
	if (fd < 0 || (fd != tt_inbox_fd() && fd != tt_stat_fd()))
		return false;
	/* Closed by code that we don't see, the number may be the program's now. */
	return (fd == tt_inbox_fd() && tt_inbox_is_ours()) ||
	    (fd == tt_stat_fd() && tt_stat_fd_is_ours());
}

bool tt_fd_own_next(unsigned int lo, unsigned int hi, unsigned int *own)
{
	const int ours[] = {tt_inbox_fd(), tt_stat_fd()};
	bool found = false;

	for (size_t i = 0; i < tt_array_len(ours); i++) {
		if (ours[i] < 0 || (unsigned int)ours[i] < lo || (unsigned int)ours[i] > hi ||
		    !tt_fd_is_own(ours[i]))
			continue;
		if (!found || (unsigned int)ours[i] < *own)
			*own = (unsigned int)ours[i];
		found = true;
	}
	return found;
}

void tt_fd_own_move(int fd)
{
	if (!tt_fd_is_own(fd) || !tt_link_lock())
		return;
	if (fd == tt_inbox_fd())
		tt_inbox_move();
	else
		tt_stat_fd_move();
	tt_link_unlock();
}
