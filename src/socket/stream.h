/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stream.h - private to stream_tx.c and stream_rx.c: TCP over two paths in one order.
 *
 * Per direction the sender S and the receiver R share a ring and three counters: kpub, the bytes that S knows the kernel to have
 * accepted; mark, how many kernel bytes come before what the ring holds; and kpend, the kernel sends under way. The
 * order of the stream is always
 *
 *	kernel bytes up to mark, then the ring, then kernel bytes beyond mark
 *
 * S may send by the kernel at any time (closed lease, full ring, odd flag); those bytes follow the ring. S comes back to
 * the ring only when R has emptied it, and then stores a new mark before tail. R reads the kernel only
 *
 *	(a) with the lease closed and the ring empty: then nothing can be published meanwhile;
 *	(b) up to mark, while the ring holds something that must come after;
 *	(c) up to a kpub that was loaded before a tail that showed the ring empty.
 *
 * Where plain code may have used the descriptor behind our back, S and R take their kernel counts from TCP_INFO at
 * each change of path (shm/ident.h).
 */
#ifndef TT_SOCKET_STREAM_H
#define TT_SOCKET_STREAM_H

#include <string.h>

#include "base/copy.h"
#include "socket/sock.h"

/* More than any call moves (read(2) stops at 0x7ffff000). */
#define TT_IO_MAX ((size_t)0x7ffff000)

/* A place in a list of buffers. */
struct tt_cursor {
	const struct iovec *iov;
	size_t count;
	size_t off; /* inside iov[0] */
};

static inline size_t tt_iov_total(const struct iovec *iov, size_t count)
{
	size_t sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += iov[i].iov_len;
	return sum;
}

static inline void tt_cursor_step(struct tt_cursor *c, size_t n)
{
	c->off += n;
	while (c->count && c->off >= c->iov->iov_len) {
		c->off -= c->iov->iov_len;
		c->iov++;
		c->count--;
	}
}

/* Copies n bytes between the buffers at c and flat memory, and moves c on. False: the program has no such memory. */
static inline bool tt_cursor_copy(struct tt_cursor *c, uint8_t *flat, size_t n, bool to_flat)
{
	while (n) {
		uint8_t *at = (uint8_t *)c->iov->iov_base + c->off;
		size_t part = tt_min(n, c->iov->iov_len - c->off);

		if (tt_unlikely(!(to_flat ? tt_copy(flat, at, part) : tt_copy(at, flat, part))))
			return false;
		flat += part;
		n -= part;
		tt_cursor_step(c, part);
	}
	return true;
}

static inline bool tt_ring_copy(struct tt_cursor *c, uint8_t *ring, uint64_t size, uint64_t pos, size_t n,
    bool to_ring)
{
	size_t at = (size_t)(pos & (size - 1));
	size_t first = tt_min(n, (size_t)size - at);

	if (tt_unlikely(!tt_cursor_copy(c, ring + at, first, to_ring)))
		return false;
	return tt_likely(n == first) || tt_cursor_copy(c, ring, n - first, to_ring);
}

/* The rest of the buffers from c on, for the kernel. Fills out[max]; what does not fit waits for the next call. */
static inline size_t tt_cursor_rest(const struct tt_cursor *c, struct iovec *out, size_t max, size_t limit)
{
	size_t n = 0;
	size_t off = c->off;

	for (size_t i = 0; i < c->count && n < max && limit; i++) {
		size_t part = tt_min(c->iov[i].iov_len - off, limit);

		if (part) {
			out[n].iov_base = (uint8_t *)c->iov[i].iov_base + off;
			out[n].iov_len = part;
			limit -= part;
			n++;
		}
		off = 0;
	}
	return n;
}

/*
 * stream_peek.c. What can be peeked now, joined over both paths; false: it is the kernel's alone, and S has told of all. Under
 * rx_lock.
 * peek_all: for len bytes, waiting as the kernel does (MSG_WAITALL); false: the lease could not be closed.
 */
tt_must_check bool tt_stream_peek(struct tt_sock *s, int fd, const struct tt_cursor *c, size_t len, ssize_t *n);
tt_must_check bool tt_stream_peek_all(struct tt_sock *s, int fd, const struct tt_cursor *c, size_t len, int flags,
    ssize_t *n);

#endif
