/* SPDX-License-Identifier: BSD-3-Clause */
#include "socket/dgram.h"

#include <errno.h>

ssize_t tt_dgram_recv(struct tt_sock *s, int fd, struct msghdr *msg, int flags)
{
	ssize_t n = tt_sys.recvmsg(fd, msg, flags);

	if (n < 0)
		return -errno;
	s->stat->n.rx_kernel_bytes += (uint64_t)n;
	s->stat->n.rx_kernel_msgs++;
	return n;
}

ssize_t tt_dgram_send(struct tt_sock *s, int fd, const struct msghdr *msg, int flags)
{
	ssize_t n = tt_sys.sendmsg(fd, msg, flags);

	if (n < 0)
		return -errno;
	s->stat->n.tx_kernel_bytes += (uint64_t)n;
	s->stat->n.tx_kernel_msgs++;
	return n;
}

void tt_dgram_offered(struct tt_sock *s, const struct tt_offer *offer, int fd, int pid)
{
	(void)s;
	(void)offer;
	(void)fd;
	(void)pid;
}

void tt_dgram_moved(struct tt_sock *s)
{
	(void)s;
}

bool tt_dgram_readable(const struct tt_sock *s)
{
	(void)s;
	return false;
}

int64_t tt_dgram_spin_budget(struct tt_sock *s)
{
	(void)s;
	return 0;
}

void tt_dgram_open(struct tt_sock *s)
{
	(void)s;
}

bool tt_dgram_close_wait(struct tt_sock *s, int fd)
{
	(void)s;
	(void)fd;
	return true;
}

size_t tt_dgram_next_bytes(struct tt_sock *s)
{
	(void)s;
	return 0;
}

void tt_dgram_close(struct tt_sock *s)
{
	s->dgram = NULL;
}
