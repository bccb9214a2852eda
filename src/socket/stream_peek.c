/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stream_peek.c - peeks over both paths (same-host.md rule 13). A program that peeks for a whole record would loop for ever on a part of
 * it, so a peek joins, in their order, what the kernel holds before the ring, the ring, and what the kernel holds behind it. The
 * kernel can be peeked once only, from its beginning: the program's buffers get a hole in the middle for the ring's bytes.
 */
#include "socket/stream.h"

#include <errno.h>
#include <sys/ioctl.h>

#include "base/raw.h"
#include "socket/cancel.h"

#define PIECES 1026u /* as many buffers as a call may name, and two more for the cut */

struct peek {
	size_t before; /* by the kernel before the ring */
	size_t ring;
	size_t behind; /* by the kernel again */
	uint64_t head; /* the ring's first byte */
};

/* How len bytes are spread; with an empty ring all is behind it. False: the peer has written nonsense. */
static bool spread(const struct tt_sock *s, size_t len, struct peek *p)
{
	const struct tt_rx *rx = &s->rx;
	uint64_t head = s->shared ? tt_load_acquire(&rx->dir->head) : rx->head;
	uint64_t avail = tt_load_acquire(&rx->dir->tail) - head;
	uint64_t mark = tt_load_relaxed(&rx->dir->mark);
	uint64_t before = mark > rx->kcons ? mark - rx->kcons : 0;

	if (avail > rx->size)
		return false;
	if (avail == 0)
		before = 0;
	p->head = head;
	p->before = (size_t)tt_min(before, (uint64_t)len);
	p->ring = (size_t)tt_min(avail, (uint64_t)(len - p->before));
	p->behind = len - p->before - p->ring;
	return true;
}

static ssize_t kernel_peek(int fd, struct iovec *iov, size_t count, int flags)
{
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = count};
	ssize_t n;

	flags = (flags & ~TT_CALLS) | MSG_PEEK;
	if (flags & MSG_DONTWAIT) /* with a lock held: no cancellation point */
		return tt_raw3(SYS_recvmsg, fd, &msg, flags);
	n = count == 1 ? tt_sys.recv(fd, iov->iov_base, iov->iov_len, flags) : tt_sys.recvmsg(fd, &msg, flags);
	return n < 0 ? -errno : n;
}

/* The kernel's part, around the hole, of which at most p->before + behind bytes are known to be S's. */
static ssize_t around(const struct tt_cursor *c, int fd, const struct peek *p, size_t behind, int flags)
{
	struct iovec rest[PIECES];
	struct tt_cursor after = *c;
	size_t count = tt_cursor_rest(c, rest, PIECES, p->before);

	tt_cursor_step(&after, p->before + p->ring);
	count += tt_cursor_rest(&after, rest + count, PIECES - count, behind);
	return count ? kernel_peek(fd, rest, count, flags) : 0;
}

/* n: what the kernel gave of its part. */
static ssize_t join(struct tt_sock *s, const struct tt_cursor *c, const struct peek *p, ssize_t n)
{
	struct tt_cursor hole = *c;
	size_t have = n > 0 ? (size_t)n : 0;

	if (have < p->before || !p->ring)
		return n;
	tt_cursor_step(&hole, p->before);
	if (!tt_ring_copy(&hole, s->rx.ring, s->rx.size, p->head, p->ring, false))
		return p->before ? (ssize_t)p->before : -EFAULT;
	return (ssize_t)(have + p->ring);
}

/* Does the kernel hold more than that? S may have yet to tell of it, or somebody has written by calls that S does not see. */
static bool kernel_has_more(int fd, uint64_t than)
{
	int bytes = 0;

	return tt_raw3(SYS_ioctl, fd, FIONREAD, &bytes) == 0 && bytes > 0 && (uint64_t)bytes > than;
}

bool tt_stream_peek(struct tt_sock *s, int fd, const struct tt_cursor *c, size_t len, ssize_t *n)
{
	uint64_t kpub = tt_load_acquire(&s->rx.dir->kpub); /* before tail: stream.h, (c) */
	uint64_t known = kpub != TT_KPUB_UNKNOWN && kpub > s->rx.kcons ? kpub - s->rx.kcons : 0;
	struct peek p;

	if (!spread(s, len, &p))
		return false;
	known = known > p.before ? known - p.before : 0;
	if (known < p.behind && kernel_has_more(fd, p.before + known) && !tt_lease_close(s)) {
		if (!spread(s, len, &p))
			return false;
		known = p.behind; /* nothing more comes by the ring now */
		s->rx.kernel_counted = true; /* the next receive gives what is shown here */
	} else if (!p.ring) {
		return false;
	}
	*n = join(s, c, &p, around(c, fd, &p, (size_t)tt_min(known, (uint64_t)p.behind), MSG_DONTWAIT));
	return true;
}

/* Counted in sleepers. With the lease closed nothing comes by the ring: the kernel waits for its part as the program asked it to. */
static bool peek_asleep(struct tt_sock *s, int fd, const struct tt_cursor *c, size_t len, int flags, ssize_t *n)
{
	struct tt_close_turns t = {0};
	struct iovec rest[PIECES];
	struct peek p;

	while (s->rx.dir && tt_lease_close(s) && !tt_lease_ended(s, fd))
		if (!tt_close_turn(&t))
			return false;
	if (!s->rx.dir || !spread(s, len, &p)) {
		*n = kernel_peek(fd, rest, tt_cursor_rest(c, rest, PIECES, len), flags);
		return true;
	}
	*n = around(c, fd, &p, p.behind, flags);
	if (tt_lock_wait(&s->rx_lock)) {
		if (s->rx.dir)
			*n = join(s, c, &p, *n);
		tt_unlock(&s->rx_lock);
	}
	return true;
}

bool tt_stream_peek_all(struct tt_sock *s, int fd, const struct tt_cursor *c, size_t len, int flags, ssize_t *n)
{
	TT_SLEEPER(sleeper);
	bool ok;

	tt_sleeper_begin(&sleeper, s);
	ok = peek_asleep(s, fd, c, len, flags, n);
	tt_sleeper_end(&sleeper);
	return ok;
}
