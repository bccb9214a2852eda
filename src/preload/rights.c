/* SPDX-License-Identifier: BSD-3-Clause */
#include "preload/rights.h"

#include <string.h>

static void leaving(int fd)
{
	struct tt_sock *s = tt_preload_sock(fd);

	if (s)
		tt_sock_passed(s, fd);
	else
		tt_epoll_passed(fd);
}

static void arrived(int fd)
{
	tt_preload_vanish((unsigned int)fd, (unsigned int)fd); /* what was closed unseen at this number */
	tt_sock_received(fd);
	if (tt_preload_uring)
		tt_preload_unseen(fd);
}

static void each(const struct msghdr *msg, void (*visit)(int fd))
{
	/* CMSG_NXTHDR wants a writable header and only reads it. */
	struct msghdr copy = *msg;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(&copy); c; c = CMSG_NXTHDR(&copy, c)) {
		if (c->cmsg_len < CMSG_LEN(0))
			return; /* the kernel will refuse it */
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = 0; at + sizeof(int) <= c->cmsg_len - CMSG_LEN(0);
		     at += sizeof(int)) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + at, sizeof(fd));
			if (fd >= 0)
				visit(fd);
		}
	}
}

void tt_rights_leaving_slow(const struct msghdr *msg)
{
	int saved = errno;

	if (tt_process_confined && !tt_vfork_active)
		tt_share_lost_given();
	if (tt_preload_started())
		each(msg, leaving);
	errno = saved;
}

void tt_rights_arrived_slow(const struct msghdr *msg)
{
	int saved = errno;

	if (tt_preload_ready())
		each(msg, arrived);
	errno = saved;
}
