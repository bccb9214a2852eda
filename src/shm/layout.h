/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * layout.h - what lies in memory shared by two processes, byte for byte.
 *
 * A *link* joins two processes: the one that offers (index 0) and the one that accepts (index 1). Its memory is a
 * list of sealed memfds (*segments*) made by the offerer. Segment 0 starts with the link's *groups*; every segment
 * holds *slots*, one for each connection or datagram flow. A slot has two *directions*: [0] carries bytes from
 * offerer to acceptor, [1] the other way. In each direction one end sends (S) and the other receives (R).
 *
 * Everything here can be overwritten by the other process at any time with anything. So geometry (offsets, sizes,
 * masks) is agreed once, in the offer message that the kernel copied, kept in private memory, and never
 * read from here; counters that are read from here are clamped before use.
 *
 * Cache lines are split by who writes: a line written by S on each message is read by R on each message and
 * nothing else lies in it.
 */
#ifndef TT_SHM_LAYOUT_H
#define TT_SHM_LAYOUT_H

#include <stdint.h>

#include "base/atomic.h"
#include "base/base.h"

#define TT_SHM_VERSION 3u

/* Limits. Reaching one means kernel path, counted as TT_REASON_LIMIT. */
#define TT_LINK_SLOTS_MAX 16384u /* connections of one link */
#define TT_LINK_SEGS_MAX 64u
#define TT_LINK_GROUPS 16u /* epoll sets of one receiving process that hold connections of one link */

/*
 * The sleep word (same-host.md rule 2): bit 0 closed; bits 1..31 twice the number of publishers inside; bits 32..63 a
 * generation that R advances at each close. A connection obeys its own word, or, while it is in an
 * epoll set, the word of its group.
 */
enum tt_asleep {
	TT_AWAKE,
	TT_ASLEEP,   /* a thread sleeps */
	TT_LEFT_OFF, /* R asked for what only the kernel can do: for good */
	TT_SHARED,   /* R has forked, and the other process may read as well */
};

struct tt_word {
	_Alignas(TT_CACHE_LINE) uint64_t v;
	uint32_t asleep; /* R: why it is closed, enum tt_asleep. S only counts by it what it sent */
};

/*
 * A group: R's epoll set, seen by one sending process. Two-level bitmap of connections that became ready;
 * bit i of ready[] is slot i of the link, bit j of summary says that ready[j] is not zero.
 */
#define TT_READY_WORDS (TT_LINK_SLOTS_MAX / 64u)
struct tt_group {
	struct tt_word word;
	_Alignas(TT_CACHE_LINE) uint64_t summary[TT_READY_WORDS / 64u];
	_Alignas(TT_CACHE_LINE) uint64_t ready[TT_READY_WORDS];
	_Alignas(TT_PAGE) char end[];
};

/* kpub before S has looked: R grants no lease on it. */
#define TT_KPUB_UNKNOWN UINT64_MAX

/* No processor yet: the end has not said where it runs. */
#define TT_CPU_UNKNOWN UINT32_MAX

/* A message of at most so many bytes also lies beside tail: its reader then needs one cache line, not two. */
#define TT_INLINE_BYTES 48u
#define TT_INLINE_NONE UINT64_MAX
#ifdef TT_TSAN
#define TT_INLINE_USE 0 /* a copy that may be torn and is then thrown away is a race to ThreadSanitizer */
#else
#define TT_INLINE_USE 1
#endif

struct tt_dir {
	/*
	 * Written by S on each message, read by a spinning R. tail grows for ever. The bytes [inline_pos, tail) may be
	 * taken from inline_bytes instead of the ring: S sets inline_pos to NONE before it touches them and to the
	 * message's position after; R copies, and then checks that inline_pos still is what it was.
	 */
	_Alignas(TT_CACHE_LINE) uint64_t tail; /* bytes ever published in the ring */
	uint64_t inline_pos;
	uint8_t inline_bytes[TT_INLINE_BYTES];

	/* Written by S when a path changes. Kernel positions grow for ever, too. */
	_Alignas(TT_CACHE_LINE) uint64_t kpub; /* bytes ever accepted by the kernel from S, as far as S has said */
	uint64_t mark;	/* kernel bytes that come before what the ring holds now (rule 6 b) */
	uint32_t kpend; /* kernel sends under way */
	uint32_t s_cpu; /* processor S last sent on */
	uint32_t fin;	/* S has shut down, closed or left the ring for good: look at the kernel */
	uint32_t s_fd;	/* a descriptor of S's socket in its process, + 1 (socket/unread.c); 0: not told */

	/* Written by R, read by S when the ring looks full. */
	_Alignas(TT_CACHE_LINE) uint64_t head; /* bytes ever taken out of the ring */
	uint64_t kcons; /* kernel bytes ever taken by R */
	uint32_t r_cpu;

	/* Written by R rarely, read by S on each send; R has its own copy of gov (struct tt_slot_ref). */
	_Alignas(TT_CACHE_LINE) uint32_t gov; /* 0: own word; g + 1: groups[g] of this direction */
	uint32_t r_gone; /* R has detached: kernel only, for ever */
	uint32_t back;	 /* what lies unread is to go by the kernel: who is at it (socket/unread.c) */
	uint32_t r_room; /* datagrams: R's receive buffer in the kernel, bytes */

	struct tt_word word; /* own word */
};

/*
 * How far a slot has come. Offered -> accepted by R's process or cancelled by the offerer, by compare-and-swap. The word also holds
 * the offer's ticket, in the bits above: an offer that was withdrawn may still lie in the acceptor's inbox when the slot
 * has become another connection's.
 */
enum tt_slot_state { TT_SLOT_FREE, TT_SLOT_OFFERED, TT_SLOT_ACCEPTED, TT_SLOT_CANCELLED };
#define TT_SLOT_STATE_BITS 2u
#define TT_SLOT_TICKETS (1u << (32 - TT_SLOT_STATE_BITS))
#define TT_SLOT_WORD(ticket, state) ((ticket) << TT_SLOT_STATE_BITS | (uint32_t)(state))

struct tt_slot {
	struct tt_dir dir[2];
	_Alignas(TT_CACHE_LINE) uint32_t state;
	uint32_t done[2]; /* this end no longer looks at the slot */
};

/* The head of a segment, for people with a debugger: neither end reads it back. */
struct tt_seg_head {
	char magic[8]; /* "tautseg\0" */
	uint32_t version;
	uint32_t seg;
	uint32_t slots;
	uint32_t ring_bytes;
};

#define TT_SEG_HEAD_BYTES TT_PAGE
#define TT_GROUPS_BYTES (2u * TT_LINK_GROUPS * sizeof(struct tt_group))

_Static_assert(sizeof(struct tt_group) == TT_PAGE, "a group is a page");
_Static_assert(sizeof(struct tt_slot) % TT_CACHE_LINE == 0, "slots are cache-line aligned");

/*
 * A datagram in a ring. Records are 16-byte aligned and never wrap: a record with len = TT_DGRAM_SKIP fills
 * the rest of the ring before the wrap.
 */
#define TT_DGRAM_SKIP UINT32_MAX
#define TT_DGRAM_ALIGN 16u
struct tt_dgram_head {
	uint32_t len;
	uint32_t kernel_sent; /* how many datagrams of this flow went by the kernel before it, modulo 2^32 */
	uint64_t stamp;		/* time stamp counter when published: order between flows */
};

#endif
