/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz_dgram.c - a datagram socket with a flow that comes in and one that goes out, whose other ends write anything into the
 * slot, between calls of ours that don't wait. No call gives more than it was asked for or reaches outside the rings;
 * a flow that was found out is not looked at again.
 */
#include <errno.h>
#include <sys/ioctl.h>

#include "slot.h"
#include "socket/dgram_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct sockaddr_in6 addr_of(int fd)
{
	struct sockaddr_in6 a = {0};
	socklen_t len = sizeof(a);

	TT_ASSERT(getsockname(fd, (void *)&a, &len) == 0);
	return a;
}

static int udp_new(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	TT_ASSERT(fd >= 0 && bind(fd, (void *)&a, sizeof(a)) == 0);
	return fd;
}

static struct tt_rx_flow *flows(struct tt_sock *s, struct tt_dgram_state *d, int peer)
{
	struct tt_rx_flow *rx = &d->rx[0];
	struct tt_tx_flow *tx = &d->tx[0];

	memset(rx, 0, sizeof(*rx));
	rx->ref = s->ref;
	rx->dir = &s->ref.slot->dir[1];
	rx->ring = tt_seg_ring(s->ref.seg, s->ref.in_seg, 1);
	rx->size = 4096;
	rx->source = addr_of(peer);
	rx->source_len = sizeof(struct sockaddr_in);
	rx->proven = rx->synced = rx->in_use = true;
	rx->dir->kpub = 0;
	d->rx_high = d->rx_count = 1;
	memset(tx, 0, sizeof(*tx));
	tx->state = TT_FLOW_OFFERED;
	tx->tuple = d->peer;
	tx->ref = s->ref;
	tx->dir = &s->ref.slot->dir[0];
	tx->ring = tt_seg_ring(s->ref.seg, s->ref.in_seg, 0);
	tx->size = 4096;
	tx->stuck = UINT64_MAX;
	tx->receiver = tt_ident_cookie(peer);
	tx->verified_tsc = tx->offered_tsc = tt_tsc();
	tx->dir->kpub = 0;
	d->offered = 1;
	d->tx_last = tx;
	d->tx_used[0] = 1;
	s->attach = TT_ATTACH_DONE;
	s->rx_seen = true;
	return rx;
}

static void receive(struct tt_sock *s, struct input *in)
{
	static const int flags[] = {0, MSG_PEEK, MSG_TRUNC};
	uint8_t how = (uint8_t)in_take(in, 1);
	size_t n = (size_t)in_take(in, 2) % 9000;
	uint8_t *buf = fence_get(n);
	struct sockaddr_in6 from;
	struct iovec v[2] = {{buf, n / 2}, {buf + n / 2, n - n / 2}};
	struct msghdr msg = {.msg_iov = v, .msg_iovlen = 2, .msg_name = &from, .msg_namelen = how % 29};
	int left = 0;
	ssize_t got = tt_sock_recvmsg(s, s->fd, &msg, MSG_DONTWAIT | flags[how % tt_array_len(flags)]);

	TT_ASSERT(got <= (ssize_t)n || ((flags[how % tt_array_len(flags)] & MSG_TRUNC) && got <= 65536));
	TT_ASSERT(got >= 0 || got == -EAGAIN || got == -ECONNREFUSED);
	TT_ASSERT(tt_sock_ioctl(s, s->fd, FIONREAD, &left) < 0 || (left >= 0 && left <= 65536));
	fence_put(buf, n);
}

static void send_some(struct tt_sock *s, struct input *in)
{
	size_t n = (size_t)in_take(in, 2) % 3000;
	uint8_t *buf = calloc(1, n + 1);
	ssize_t got;

	TT_ASSERT(buf);
	got = tt_sock_send(s, s->fd, buf, n, MSG_DONTWAIT);
	TT_ASSERT(got == (ssize_t)n || got == -EAGAIN || got == -ECONNREFUSED);
	free(buf);
}

/* A record, or the filler, where the receiver looks next. */
static void record_stroke(struct tt_rx_flow *f, struct input *in)
{
	struct tt_dgram_head head = {.len = (uint32_t)in_take(in, 2), .kernel_sent = (uint32_t)in_take(in, 1)};
	uint64_t at = (f->head + 16 * in_take(in, 1)) & 4080;
	uint8_t how = (uint8_t)in_take(in, 1);

	if (how % 4 == 0)
		head.len = TT_DGRAM_SKIP;
	else if (how % 4 == 1)
		head.len = (uint32_t)in_take(in, 4);
	memcpy(f->ring + at, &head, sizeof(head));
	if (how & 0x80) /* and tell of it */
		f->dir->tail = f->head + (tt_record_bytes(head.len) & 8191);
}

static void peer_kernel(int fd, struct input *in)
{
	static uint8_t bytes[2048];

	if (in_take(in, 1) % 2)
		while (recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) >= 0)
			;
	else
		(void)send(fd, bytes, (size_t)in_take(in, 2) % sizeof(bytes), MSG_DONTWAIT);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	struct sockaddr_in6 a, b;
	struct tt_dgram_state *d;
	struct tt_rx_flow *f;
	struct tt_sock *s;
	int mine, peer;

	slot_start();
	mine = udp_new();
	peer = udp_new();
	a = addr_of(mine);
	b = addr_of(peer);
	TT_ASSERT(connect(peer, (void *)&a, sizeof(struct sockaddr_in)) == 0 &&
		  connect(mine, (void *)&b, sizeof(struct sockaddr_in)) == 0);
	s = tt_sock_alloc(mine, AF_INET, SOCK_DGRAM);
	TT_ASSERT(s);
	slot_get(&s->ref, s);
	d = tt_dgram_state(s);
	TT_ASSERT(d);
	f = flows(s, d, peer);
	for (int i = 0; in.left && i < 200; i++) {
		switch (in_take(&in, 1) % 8) {
		case 0:
			in_stroke(&in, &s->ref.slot->dir[1], 4096);
			break;
		case 1:
			in_stroke(&in, &s->ref.slot->dir[0], 4096);
			break;
		case 2:
		case 3:
			receive(s, &in);
			break;
		case 4:
			send_some(s, &in);
			break;
		case 5:
			peer_kernel(peer, &in);
			break;
		case 6:
			record_stroke(f, &in);
			break;
		default:
			if (in_take(&in, 1) % 2)
				tt_dgram_open(s);
			else
				(void)tt_dgram_close_try(s);
		}
		TT_ASSERT(!f->spoilt || !tt_dgram_readable(s));
	}
	f->in_use = false;
	d->rx_high = d->rx_count = 0;
	if (d->tx[0].dir) /* else it has ended, and let go of the slot */
		slot_put(&s->ref);
	tt_tx_forget_all(d);
	s->fd = -1;
	tt_sock_put(s);
	close(mine);
	close(peer);
	return 0;
}
