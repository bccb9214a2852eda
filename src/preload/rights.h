/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rights.h - descriptors inside control messages (SCM_RIGHTS), on any socket.
 *
 * leaving: before the message is sent; a socket of ours in it becomes the kernel's for good, so
 * that its bytes are where the receiver will look. arrived: after a message was received.
 */
#ifndef TT_PRELOAD_RIGHTS_H
#define TT_PRELOAD_RIGHTS_H

#include "preload/preload.h"

#include <limits.h>

#include "base/copy.h"

void tt_rights_leaving_slow(const struct msghdr *msg);
void tt_rights_arrived_slow(const struct msghdr *msg);

/* The header, and what it points to of that kind: otherwise the kernel answers EFAULT, and nothing may be looked into here. */
static inline bool tt_rights_readable(const struct msghdr *msg)
{
	return tt_copy_readable(msg, sizeof(*msg)) &&
	       tt_copy_readable(msg->msg_control, msg->msg_controllen) &&
	       (msg->msg_iovlen > IOV_MAX ||
		   tt_copy_readable(msg->msg_iov, msg->msg_iovlen * sizeof(*msg->msg_iov)));
}

static inline void tt_rights_leaving(const struct msghdr *msg)
{
	if (tt_copy_readable(msg, sizeof(*msg)) && tt_unlikely(msg->msg_controllen != 0) &&
	    tt_rights_readable(msg))
		tt_rights_leaving_slow(msg);
}

/* The kernel just wrote to msg, so it can be read. */
static inline void tt_rights_arrived(const struct msghdr *msg)
{
	if (tt_unlikely(msg->msg_controllen != 0))
		tt_rights_arrived_slow(msg);
}

#endif
