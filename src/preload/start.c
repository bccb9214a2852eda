/* SPDX-License-Identifier: BSD-3-Clause */
#include "preload/fault.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/resource.h>

#include "socket/tunables.h"

int tt_preload_state;
int tt_preload_uring;

static int ended;

static bool stage_calls(void)
{
	tt_sys_init();
	return true;
}

/* A program with more rights than its user keeps the kernel path: no memory of the user's is for
 * it. */
static bool stage_secure(void)
{
	return getauxval(AT_SECURE) == 0;
}

static void fork_parent(void)
{
	tt_preload_fork_after(1);
}

static void fork_child(void)
{
	tt_preload_fork_after(0);
}

/*
 * Ours is registered first where nobody forked before, so it runs last before the fork and first
 * after it: the program's own handlers find their sockets as they were. These handlers also run for
 * the forks inside daemon() and forkpty().
 */
static bool stage_fork(void)
{
	return pthread_atfork(tt_preload_fork_before, fork_parent, fork_child) == 0;
}

/* quick_exit() ends in an _exit() inside the C library. */
static bool stage_quick_exit(void)
{
	return at_quick_exit(tt_preload_end) == 0;
}

static bool stage_room(void)
{
	tt_process_start();
	return true;
}

/* A process in which nothing is accelerated copies nothing; under a filter it is left alone. */
static bool stage_fault(void)
{
	if (!tt_tun.disable && !tt_process_confined)
		tt_fault_start();
	return !tt_process_confined;
}

/*
 * The order of the start. It runs from our constructor, or before it from the first call that makes
 * a socket (another library's constructor). No stage may need a later one; a false result leaves
 * the process on the kernel path.
 */
static bool (*const stages[])(void) = {
    stage_calls,
    stage_secure,
    stage_fork,
    stage_quick_exit,
    stage_room,
    stage_fault,
};

bool tt_preload_start(void)
{
	int none = TT_PRELOAD_NONE;
	int saved = errno;
	bool good = true;

	/*
	 * Whoever comes while another thread, or an outer frame of this one, is starting does not
	 * wait: the socket that it makes stays with the kernel, which is always right.
	 */
	if (!__atomic_compare_exchange_n(&tt_preload_state, &none, TT_PRELOAD_STARTING, false,
		__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return none == TT_PRELOAD_READY;
	for (size_t i = 0; good && i < tt_array_len(stages); i++)
		good = stages[i]();
	__atomic_store_n(
	    &tt_preload_state, good ? TT_PRELOAD_READY : TT_PRELOAD_OUT, __ATOMIC_RELEASE);
	errno = saved;
	return good;
}

__attribute__((constructor)) static void preload_load(void)
{
	(void)tt_preload_ready();
}

__attribute__((destructor)) static void preload_unload(void)
{
	tt_preload_end();
}

void tt_preload_end(void)
{
	int saved = errno;

	if (tt_process_confined && !tt_vfork_active)
		tt_share_lost_exit();
	if (!tt_preload_started() || __atomic_exchange_n(&ended, 1, __ATOMIC_ACQ_REL))
		return;
	tt_process_exit();
	errno = saved;
}

void tt_preload_created(int fd, int domain, int type, int protocol)
{
	int saved = errno;

	if (!tt_preload_ready())
		return;
	tt_sock_created(fd, domain, type, protocol);
	if (tt_unlikely(tt_preload_uring))
		tt_preload_unseen(fd);
	errno = saved;
}

void tt_preload_accepted(int fd, struct tt_sock *listener)
{
	int saved = errno;

	tt_sock_accepted(fd, listener);
	if (tt_unlikely(tt_preload_uring))
		tt_preload_unseen(fd);
	errno = saved;
}

void tt_preload_unseen(int fd)
{
	struct tt_sock *s = tt_preload_sock(fd);
	int saved = errno;

	if (s)
		tt_sock_unseen(s, fd);
	errno = saved;
}

void tt_preload_unseen_all(void)
{
	struct rlimit limit;
	int high = TT_FD_MAX;

	/* The limit may have been lowered under open descriptors: then the hard one bounds them. */
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_max < TT_FD_MAX)
		high = (int)limit.rlim_max;
	for (int fd = 0; fd < high; fd++)
		tt_preload_unseen(fd);
}

void tt_preload_vanish(unsigned int lo, unsigned int hi)
{
	int saved = errno;

	if (!tt_preload_started())
		return;
	tt_fd_vanish(lo, hi);
	errno = saved;
}

void tt_preload_fork_before(void)
{
	int saved = errno;

	if (tt_process_confined && !tt_vfork_active)
		tt_share_lost_forked();
	if (tt_preload_started())
		tt_fork_before();
	errno = saved;
}

void tt_preload_fork_after(long pid)
{
	int saved = errno;

	if (!tt_preload_started())
		return;
	if (pid == 0)
		tt_fork_child();
	else
		tt_fork_parent();
	errno = saved;
}

void tt_preload_exec(void)
{
	int saved = errno;

	tt_sys_init();
	if (tt_preload_started())
		tt_exec_before(false);
	errno = saved;
}

void tt_preload_spawn(bool any)
{
	int saved = errno;

	tt_sys_init();
	if (tt_process_confined && !tt_vfork_active)
		tt_share_lost_given();
	if (tt_preload_started()) {
		tt_exec_before(true);
		if (any) {
			tt_unread_return_all();
			tt_share_given_all();
		}
	}
	errno = saved;
}

void tt_preload_confine(void)
{
	int saved = errno;

	if (tt_preload_started() && tt_process_confine())
		__atomic_store_n(&tt_preload_state, TT_PRELOAD_OUT, __ATOMIC_RELEASE);
	errno = saved;
}
