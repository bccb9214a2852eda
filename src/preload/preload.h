/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * preload.h - what the wrappers share.
 *
 * A wrapper looks its descriptor up; one that the socket room does not know goes to the C library's
 * function by a tail call, so a cancellation point stays one and errno is the C library's.
 * Otherwise the socket room's function of the same name is called. Only here is errno written, and
 * only on failure.
 *
 * In a vfork child (tt_vfork_active) every wrapper goes to the C library and touches no table: the
 * memory is the parent's.
 */
#ifndef TT_PRELOAD_PRELOAD_H
#define TT_PRELOAD_PRELOAD_H

#include "preload/calls.h"

enum tt_preload_state { TT_PRELOAD_NONE, TT_PRELOAD_STARTING, TT_PRELOAD_READY, TT_PRELOAD_OUT };

extern int tt_preload_state;
/* io_uring was set up: its reads and writes of any descriptor pass us by. */
extern int tt_preload_uring;

/*
 * The next n words of a variadic call, whether they were passed or not: they are read from
 * registers or the caller's frame, as the C library does in assembler, and the kernel ignores those
 * that the call does not have.
 */
void tt_preload_args(va_list ap, long *args, int n);

/* The slow half of tt_preload_ready(): runs the stages of start.c once. False while they run, and
 * for good in a secure process. */
bool tt_preload_start(void);
/* The last call of this process into the socket room, made once however it ends. */
void tt_preload_end(void);

/* True when the socket room may be told about descriptors: started, and not a vfork child. Starts
 * it if need be. */
static inline bool tt_preload_ready(void)
{
	if (tt_unlikely(tt_vfork_active))
		return false;
	if (tt_likely(__atomic_load_n(&tt_preload_state, __ATOMIC_ACQUIRE) == TT_PRELOAD_READY))
		return true;
	return tt_preload_start();
}

/* The same without starting: nothing is known yet that could be closed, waited for or copied. */
static inline bool tt_preload_started(void)
{
	return !tt_vfork_active &&
	       __atomic_load_n(&tt_preload_state, __ATOMIC_ACQUIRE) == TT_PRELOAD_READY;
}

static inline struct tt_sock *tt_preload_sock(int fd)
{
	struct tt_sock *s = tt_fd_sock(fd);

	return tt_unlikely(s && tt_vfork_active) ? NULL : s;
}

/* A result of the socket room as the program expects it. saved is errno at the entry of the
 * wrapper. */
static inline ssize_t tt_preload_result(ssize_t ret, int saved)
{
	if (tt_unlikely(ret < 0)) {
		errno = (int)-ret;
		return -1;
	}
	errno = saved;
	return ret;
}

static inline int tt_preload_result_int(int ret, int saved)
{
	return (int)tt_preload_result(ret, saved);
}

/* A descriptor that the kernel just made: told to the socket room, and closed to it again where
 * io_uring may use it. */
void tt_preload_created(int fd, int domain, int type, int protocol);
void tt_preload_accepted(int fd, struct tt_sock *listener);
/* Kernel path for good: this descriptor, or all that are known. */
void tt_preload_unseen(int fd);
void tt_preload_unseen_all(void);
/* Before descriptors lo..hi are closed by the C library or the kernel. */
void tt_preload_vanish(unsigned int lo, unsigned int hi);

/* Around a fork that runs no pthread_atfork handlers. pid is its result. */
void tt_preload_fork_before(void);
void tt_preload_fork_after(long pid);
/* Before a seccomp filter: no system call of ours from now on. */
void tt_preload_confine(void);
/* Before another program takes over. */
void tt_preload_exec(void);
/* Before one is started beside us; any: it may get descriptors that are close-on-exec. */
void tt_preload_spawn(bool any);

#endif
