/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz_stream.c - a stream whose peer writes anything into the slot, between calls of ours that don't wait. No call gives or takes more
 * than it was asked for, none writes behind its buffer or reaches outside the rings, and once the peer is found out
 * every call says ECONNRESET.
 */
#include <errno.h>
#include <sys/ioctl.h>

#include "slot.h"
#include "socket/lease.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CALL_MAX 9000u

/* A connection of the kernel's. */
static void pair_get(int fds[2])
{
	static int lfd = -1;
	static struct sockaddr_in addr = {.sin_family = AF_INET};
	socklen_t len = sizeof(addr);

	if (lfd < 0) {
		addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		lfd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		TT_ASSERT(lfd >= 0 && bind(lfd, (void *)&addr, len) == 0 && listen(lfd, 8) == 0 &&
			  getsockname(lfd, (void *)&addr, &len) == 0);
	}
	fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	TT_ASSERT(fds[0] >= 0 && connect(fds[0], (void *)&addr, len) == 0);
	fds[1] = accept4(lfd, NULL, NULL, SOCK_CLOEXEC);
	TT_ASSERT(fds[1] >= 0);
}

static void views(struct tt_sock *s)
{
	s->tx = (struct tt_tx){.ring = tt_seg_ring(s->ref.seg, s->ref.in_seg, 0), .size = 4096, .kernel_gen = 1,
	    .dir = &s->ref.slot->dir[0]};
	s->rx = (struct tt_rx){.ring = tt_seg_ring(s->ref.seg, s->ref.in_seg, 1), .size = 4096, .dir = &s->ref.slot->dir[1]};
	s->ref.slot->dir[0].kpub = s->ref.slot->dir[1].kpub = 0;
	s->attach = TT_ATTACH_DONE;
	s->role = TT_ROLE_SERVER;
	s->rx_seen = true;
	s->cookie = tt_ident_cookie(s->fd);
}

static void receive(struct tt_sock *s, struct input *in)
{
	static const int flags[] = {0, MSG_PEEK, MSG_WAITALL, MSG_TRUNC, MSG_PEEK | MSG_WAITALL, MSG_NOSIGNAL};
	uint8_t how = (uint8_t)in_take(in, 1);
	size_t n = (size_t)in_take(in, 2) % CALL_MAX;
	uint8_t *buf = fence_get(n);
	int left = 0;
	ssize_t got;

	if (how & 0x80) {
		struct iovec v[3] = {{buf, n / 3}, {buf + n / 3, 0}, {buf + n / 3, n - n / 3}};
		struct msghdr msg = {.msg_iov = v, .msg_iovlen = 3};

		got = tt_sock_recvmsg(s, s->fd, &msg, MSG_DONTWAIT | flags[how % 2]);
	} else {
		got = tt_sock_recv(s, s->fd, buf, n, MSG_DONTWAIT | flags[how % tt_array_len(flags)]);
	}
	TT_ASSERT(got <= (ssize_t)n);
	TT_ASSERT(got >= 0 || got == -EAGAIN || got == -ECONNRESET);
	TT_ASSERT(tt_sock_ioctl(s, s->fd, FIONREAD, &left) < 0 || (left >= 0 && left < 1 << 28));
	fence_put(buf, n);
}

static void send_some(struct tt_sock *s, struct input *in)
{
	size_t n = (size_t)in_take(in, 2) % CALL_MAX;
	uint8_t *buf = calloc(1, n + 1);
	ssize_t got;

	TT_ASSERT(buf);
	got = tt_sock_send(s, s->fd, buf, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	TT_ASSERT(got <= (ssize_t)n);
	TT_ASSERT(got >= 0 || got == -EAGAIN || got == -ECONNRESET || got == -EPIPE);
	free(buf);
}

static void peer_kernel(int fd, struct input *in)
{
	uint8_t how = (uint8_t)in_take(in, 1);
	static uint8_t bytes[4096];

	if (how % 4 == 3)
		while (recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
			;
	else if (how == 2)
		(void)shutdown(fd, SHUT_WR);
	else
		(void)send(fd, bytes, 1 + (size_t)in_take(in, 2) % sizeof(bytes), MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void ring_stroke(struct tt_sock *s, struct input *in)
{
	uint64_t at = (s->rx.head + in_take(in, 1)) & 4095;

	s->rx.ring[at] = (uint8_t)in_take(in, 1);
	s->ref.slot->dir[1].inline_bytes[at % TT_INLINE_BYTES] ^= 1;
}

static void lease(struct tt_sock *s, struct input *in)
{
	if (in_take(in, 1) % 2)
		tt_lease_open(s);
	else
		(void)tt_lease_close(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	struct tt_sock *s;
	int fds[2];

	slot_start();
	pair_get(fds);
	s = tt_sock_alloc(fds[1], AF_INET, SOCK_STREAM);
	TT_ASSERT(s);
	slot_get(&s->ref, s);
	views(s);
	for (int i = 0; in.left && s->tx.dir && i < 200; i++) { /* until it has left its slot, as of a peer that has (again.c) */
		switch (in_take(&in, 1) % 8) {
		case 0:
		case 1:
			in_stroke(&in, &s->ref.slot->dir[1], 4096);
			break;
		case 2:
			in_stroke(&in, &s->ref.slot->dir[0], 4096);
			break;
		case 3:
			receive(s, &in);
			break;
		case 4:
			send_some(s, &in);
			break;
		case 5:
			peer_kernel(fds[0], &in);
			break;
		case 6:
			ring_stroke(s, &in);
			break;
		default:
			lease(s, &in);
		}
		TT_ASSERT(!s->hostile || tt_sock_send(s, s->fd, "", 1, MSG_NOSIGNAL) == -ECONNRESET);
		TT_ASSERT(s->rx.head - 0 <= UINT64_MAX && tt_sock_stranded(s) <= 4096);
	}
	if (s->tx.dir) {
		s->tx.dir = NULL;
		s->rx.dir = NULL;
		slot_put(&s->ref);
	}
	tt_sock_put(s);
	close(fds[0]);
	close(fds[1]);
	return 0;
}
