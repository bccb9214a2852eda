/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stream_io.h - one end of a checked TCP connection: each send and receive picks a call, flags and
 * a size by the end's own generator, fills or checks the bytes by their position, and waits in the
 * end's own way.
 *
 * An end belongs to one thread. Two ends may share a descriptor (one sends, one receives). All
 * results: bytes moved, or a negative errno value; 0 from tt_end_recv is the end of the stream. A
 * wrong byte, a wrong count or a call that breaks its contract ends the process by tt_fail().
 */
#ifndef TT_TESTS_STREAM_IO_H
#define TT_TESTS_STREAM_IO_H

#include <stdio.h>

#include "check.h"

#define TT_END_OP_MAX (1u << 20)

/* How an end waits. From TT_WAIT_POLL on the descriptor is non-blocking. */
enum tt_wait {
	TT_WAIT_BLOCK,
	TT_WAIT_TIMEO,    /* SO_RCVTIMEO and SO_SNDTIMEO of some milliseconds */
	TT_WAIT_DONTWAIT, /* blocking descriptor, MSG_DONTWAIT, then poll */
	TT_WAIT_POLL,
	TT_WAIT_PPOLL,
	TT_WAIT_SELECT,
	TT_WAIT_EPOLL_LT,
	TT_WAIT_EPOLL_ET,
	TT_WAIT_EPOLL_ONESHOT,
	TT_WAIT_YIELD, /* tries again and again */
	TT_WAIT_COUNT
};

extern const char *const tt_wait_word[TT_WAIT_COUNT];

/* Which unseen (bare) system calls the receiver may mix in. */
enum tt_unseen_rx {
	TT_UNSEEN_RX_NONE,
	TT_UNSEEN_RX_FIRST, /* before its first read through libc, and after fdopen(): positions the
			       reader declares */
	TT_UNSEEN_RX_ANY /* at any moment; nothing that keeps bytes in user space can promise this
			    one */
};

struct tt_end_opts {
	unsigned int unseen_tx_pct;
	enum tt_unseen_rx unseen_rx;
	unsigned int pause_pct; /* chance of a nap before a call */
	unsigned int pause_us;  /* longest nap */
	bool signals;           /* calls may end early with EINTR */
	bool more;              /* MSG_MORE may be used */
	bool peek;
	bool plain; /* read() and write() alone, no flags: the coverage run */
};

struct tt_end {
	int fd;
	const char *who;
	uint64_t conn;
	struct tt_rng rng;
	const struct tt_end_opts *o;
	enum tt_wait wait;
	uint64_t tx_key, rx_key;
	uint64_t tx_off, rx_off;
	uint64_t raw_until; /* received bytes below this position are read by bare calls */
	bool short_is_dry;  /* edge-triggered: a short read counts as drained, epoll(7) allows it */
	bool dry;
	bool ended; /* a wait has told of the end or a reset: edge-triggered, no further notice comes */
	bool strict; /* the other end reads all: a blocking send takes everything */
	bool shut;   /* this side has been shut down already */
	bool half;   /* the descriptor is shared with another end: leave its status flags alone */
	int epfd;
	uint32_t ep_events;
	int memfd; /* source of sendfile */
	unsigned char *buf;
	struct tt_watch *w;
	FILE *in, *out;
	uint64_t calls_tx, calls_rx, waits;
};

void tt_end_start(struct tt_end *e);
/* One send call of at most max bytes; last: nothing follows soon, so MSG_MORE must not be set on
 * all of max. */
ssize_t tt_end_send(struct tt_end *e, size_t max, bool last);
/* One receive of at most max bytes (max > 0). exact: those bytes are sure to come, so MSG_WAITALL
 * may ask for all. */
ssize_t tt_end_recv(struct tt_end *e, size_t max, bool exact);
/* Waits in the end's own way for POLLIN and/or POLLOUT. May return early. */
void tt_end_wait(struct tt_end *e, short events);
/* From here on this end reads or writes through stdio, whose system calls no preloaded library
 * sees. */
void tt_end_stdio_rx(struct tt_end *e);
void tt_end_stdio_tx(struct tt_end *e);
/* Frees what the end holds besides the descriptor and buf. */
void tt_end_stop(struct tt_end *e);
/* Closes the descriptor (through the FILE where there is one). */
void tt_end_close(struct tt_end *e);

#endif
