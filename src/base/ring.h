/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring.h - bounded queues of fixed-size records between threads of one process.
 *
 * tt_spsc: one producer thread, one consumer thread. tt_mpsc: any number of producers, one
 * consumer. The caller gives the memory (tt_spsc_bytes(), tt_mpsc_bytes(); alignment TT_CACHE_LINE)
 * and keeps it as long as the ring is used. Capacity is a power of two and the limit: a push into a
 * full ring returns false and changes nothing, the caller counts it. Records are copied in and out.
 * Nothing blocks, allocates or fails otherwise; all functions are async-signal-safe as long as no
 * handler takes the role (producer of an spsc, consumer) that it interrupted.
 *
 * Not for shared memory between processes: positions are trusted. A producer of an mpsc that is
 * suspended between claiming its cell and filling it hides the later ones until it goes on.
 */
#ifndef TT_BASE_RING_H
#define TT_BASE_RING_H

#include <string.h>

#include "base/atomic.h"
#include "base/base.h"

/* Each side's words on a line of their own: the other side's progress costs a miss only when its
 * copy has run out. */
struct tt_spsc {
	tt_aligned(TT_CACHE_LINE) uint32_t tail; /* records ever pushed; written by the producer */
	uint32_t head_seen;                      /* producer's copy of head */
	tt_aligned(TT_CACHE_LINE) uint32_t head; /* records ever popped; written by the consumer */
	uint32_t tail_seen;                      /* consumer's copy of tail */
	tt_aligned(TT_CACHE_LINE) uint32_t mask;
	uint32_t record_size;
	unsigned char *memory;
};

static inline size_t tt_spsc_bytes(uint32_t capacity, uint32_t record_size)
{
	return (size_t)capacity * record_size;
}

static inline void tt_spsc_init(
    struct tt_spsc *r, void *memory, uint32_t capacity, uint32_t record_size)
{
	TT_ASSERT(capacity >= 1 && capacity <= 1u << 30 && (capacity & (capacity - 1)) == 0);
	TT_ASSERT(record_size > 0);
	*r = (struct tt_spsc){.mask = capacity - 1, .record_size = record_size, .memory = memory};
}

/* Producer only. */
static inline bool tt_spsc_push(struct tt_spsc *r, const void *record)
{
	uint32_t tail = r->tail; /* our own word */

	if (tail - r->head_seen > r->mask) {
		/* Acquire: the consumer has read the cell before it let go of it. */
		r->head_seen = tt_load_acquire(&r->head);
		if (tail - r->head_seen > r->mask)
			return false;
	}
	memcpy(r->memory + (size_t)(tail & r->mask) * r->record_size, record, r->record_size);
	/* Release: the record before the position that shows it. */
	tt_store_release(&r->tail, tail + 1);
	return true;
}

/* Consumer only. */
static inline bool tt_spsc_pop(struct tt_spsc *r, void *record)
{
	uint32_t head = r->head;

	if (head == r->tail_seen) {
		/* Acquire: pairs with the release in tt_spsc_push(). */
		r->tail_seen = tt_load_acquire(&r->tail);
		if (head == r->tail_seen)
			return false;
	}
	memcpy(record, r->memory + (size_t)(head & r->mask) * r->record_size, r->record_size);
	/* Release: the record is read before the producer may overwrite it. */
	tt_store_release(&r->head, head + 1);
	return true;
}

/* Any thread; exact only for the two parties while the other one rests. */
static inline uint32_t tt_spsc_count(const struct tt_spsc *r)
{
	uint32_t head = tt_load_acquire(&r->head);

	/* head first: tail can only have grown since, so the difference is never negative. */
	return tt_min(tt_load_acquire(&r->tail) - head, r->mask + 1);
}

/*
 * D. Vyukov's bounded queue: each cell carries the position for which it is free (== position) or
 * filled (== position + 1).
 */
struct tt_mpsc {
	tt_aligned(TT_CACHE_LINE) uint32_t tail; /* next position to claim; producers */
	tt_aligned(TT_CACHE_LINE) uint32_t head; /* consumer */
	tt_aligned(TT_CACHE_LINE) uint32_t mask;
	uint32_t record_size;
	uint32_t cell_size;
	unsigned char *memory;
};

/* A cell is its sequence word in 8 bytes, then the record, rounded up to 8. */
static inline uint32_t tt_mpsc_cell_size(uint32_t record_size)
{
	return (8 + record_size + 7) & ~7u;
}

static inline size_t tt_mpsc_bytes(uint32_t capacity, uint32_t record_size)
{
	return (size_t)capacity * tt_mpsc_cell_size(record_size);
}

static inline uint32_t *tt_mpsc_cell(const struct tt_mpsc *r, uint32_t position)
{
	return (uint32_t *)(void *)(r->memory + (size_t)(position & r->mask) * r->cell_size);
}

/* Capacity of at least 2: with a single cell "filled" and "free for the next turn" would be the
 * same number. */
static inline void tt_mpsc_init(
    struct tt_mpsc *r, void *memory, uint32_t capacity, uint32_t record_size)
{
	TT_ASSERT(capacity >= 2 && capacity <= 1u << 30 && (capacity & (capacity - 1)) == 0);
	TT_ASSERT(record_size > 0 && record_size < 1u << 20);
	TT_ASSERT(((uintptr_t)memory & 7) == 0);
	*r = (struct tt_mpsc){.mask = capacity - 1,
	    .record_size = record_size,
	    .cell_size = tt_mpsc_cell_size(record_size),
	    .memory = memory};
	for (uint32_t i = 0; i < capacity; i++)
		*tt_mpsc_cell(r, i) = i;
}

/* Any thread. */
static inline bool tt_mpsc_push(struct tt_mpsc *r, const void *record)
{
	/* Relaxed: a stale position is found out by the cell's sequence or by the compare-and-swap.
	 */
	uint32_t at = tt_load_relaxed(&r->tail);
	uint32_t *cell;

	for (;;) {
		int32_t ahead;

		cell = tt_mpsc_cell(r, at);
		/* Acquire: pairs with the consumer's release, who has read the record. */
		ahead = (int32_t)(tt_load_acquire(cell) - at);
		if (ahead < 0)
			return false;
		/* Relaxed: the claim only shares out numbers; the record is published by the cell's
		 * word. */
		if (ahead == 0 && tt_cas_relaxed(&r->tail, &at, at + 1))
			break;
		if (ahead > 0)
			at = tt_load_relaxed(&r->tail);
	}
	memcpy((unsigned char *)cell + 8, record, r->record_size);
	/* Release: the record before the sequence that shows it. */
	tt_store_release(cell, at + 1);
	return true;
}

/* Consumer only. */
static inline bool tt_mpsc_pop(struct tt_mpsc *r, void *record)
{
	uint32_t head = r->head;
	uint32_t *cell = tt_mpsc_cell(r, head);

	/* Acquire: pairs with the producer's release. */
	if (tt_load_acquire(cell) != head + 1)
		return false;
	memcpy(record, (unsigned char *)cell + 8, r->record_size);
	/* Release: free for the turn after this one, once the record has been read. */
	tt_store_release(cell, head + r->mask + 1);
	r->head = head + 1;
	return true;
}

#endif
