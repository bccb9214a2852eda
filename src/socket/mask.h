/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mask.h - the signal mask of ppoll, pselect and epoll_pwait while we spin on their behalf: what it blocks must not
 * interrupt the wait, what it lets in must.
 */
#ifndef TT_SOCKET_MASK_H
#define TT_SOCKET_MASK_H

#include <signal.h>

#include "base/raw.h"

#define TT_KERNEL_SIGSET_BYTES 8

/* NULL: nothing to do. Handlers of pending signals that the mask lets in run inside this call. */
static inline void tt_mask_begin(const sigset_t *mask, sigset_t *old)
{
	if (tt_unlikely(mask != NULL))
		(void)tt_raw4(SYS_rt_sigprocmask, SIG_SETMASK, mask, old, TT_KERNEL_SIGSET_BYTES);
}

static inline void tt_mask_end(const sigset_t *mask, const sigset_t *old)
{
	if (tt_unlikely(mask != NULL))
		(void)tt_raw4(SYS_rt_sigprocmask, SIG_SETMASK, old, 0, TT_KERNEL_SIGSET_BYTES);
}

#endif
