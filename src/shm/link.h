/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link.h - the memory shared with one other process, and its slots.
 *
 * A link has a direction of offering: the process that offered made all segments and hands out the slots; two processes
 * that each offer to the other have two links. Slots are reused last in, first out, so that their pages are
 * warm. A slot comes back when both ends have let go of it, or when the other process is dead.
 *
 * Threads: everything here runs under one lock of the process (tt_link_lock), taken with a bounded try: attaching is
 * never necessary, so a caller that does not get it, a signal handler for example, goes on with the kernel. The slot
 * memory itself is used without it. A link is never unmapped while one of its slots is held by this process.
 */
#ifndef TT_SHM_LINK_H
#define TT_SHM_LINK_H

#include "shm/inbox.h"
#include "shm/layout.h"

#define TT_LINKS_MAX 1024u /* links of one process */

enum tt_ring_class { TT_RING_SMALL, TT_RING_BULK, TT_RING_DGRAM, TT_RING_CLASSES };

struct tt_link {
	uint8_t peer[TT_INBOX_ID_BYTES];
	bool in_use;
	bool offerer; /* which of the two ends this process is */
	bool dead;    /* the other process is gone: no new slots */
	int peer_pid; /* as the kernel told it; for people only */
	uint32_t segs_count;
	uint32_t slots_count; /* slots of all segments so far */
	uint32_t held; /* slots that this process holds */
	uint64_t idle_since; /* cycles: when held became 0 */
	struct tt_seg segs[TT_LINK_SEGS_MAX];
	/* By slot of the link: who uses it here. Written under the lock, read by waits. */
	void **owner;
	/* Offerer: free slots of each class, last in first out. */
	uint32_t *free_list[TT_RING_CLASSES];
	uint32_t free_count[TT_RING_CLASSES];
	uint32_t class_next_slots[TT_RING_CLASSES];
	/* Offerer: slots let go here that the acceptor still holds. */
	uint32_t *zombies;
	uint32_t zombies_count;
	uint32_t tickets; /* offerer: the last one given */
	/* Receiver: which of its epoll sets owns each group of the direction that it receives. */
	void *group_owner[TT_LINK_GROUPS];
	/* Slots of a class by segment, for finding the class again. */
	uint8_t seg_class[TT_LINK_SEGS_MAX];
};

/* Sizes of rings by class, bytes; made powers of two within the limits of a segment. Set once at start. */
void tt_link_set_ring_bytes(uint32_t small, uint32_t bulk, uint32_t dgram);

/* Bounded try; false: do without. tt_link_unlock() by the same thread. */
tt_must_check bool tt_link_trylock(void);
/* For detaching: waits, unless this very thread already holds it (a signal handler), then false. */
tt_must_check bool tt_link_lock(void);
void tt_link_unlock(void);

/* What both sides need to know of a slot they hold. */
struct tt_slot_ref {
	struct tt_link *link;
	struct tt_seg *seg;
	struct tt_slot *slot;
	uint32_t index;	 /* in the link: the bit in ready bitmaps */
	uint32_t in_seg; /* in the segment */
	uint32_t ticket; /* of the offer by which we hold it */
	uint32_t gov;	 /* R: what it has written to gov of its direction. Never read back: the peer can write there, too */
};

/* How far our offer has come; FREE: the other end has written nonsense. */
static inline enum tt_slot_state tt_slot_state(const struct tt_slot_ref *ref)
{
	uint32_t word = tt_load_acquire(&ref->slot->state);

	return word >> TT_SLOT_STATE_BITS == ref->ticket ? (enum tt_slot_state)(word % (1u << TT_SLOT_STATE_BITS))
							  : TT_SLOT_FREE;
}

/* Offerer. Fills *ref with a fresh slot on a link to that inbox; state OFFERED, words closed. owner as for the link. */
tt_must_check int tt_link_slot_new(const uint8_t peer[TT_INBOX_ID_BYTES], enum tt_ring_class class,
    void *owner, struct tt_slot_ref *ref, int *seg_fd);
/*
 * Acceptor. A segment that comes with an offer is mapped whatever becomes of the offer: the offerer sends it once, and later
 * offers count on it. fd stays the caller's.
 */
tt_must_check int tt_link_segment_take(const struct tt_offer *offer, int fd);
/* Acceptor. The slot of an offer, on the link of its sender; -ECANCELED when the offerer has withdrawn it. */
tt_must_check int tt_link_slot_take(const struct tt_offer *offer, int pid, void *owner,
    struct tt_slot_ref *ref);
/* Either end lets go. */
void tt_link_slot_release(const struct tt_slot_ref *ref);

/* Direction this process sends on, and receives on, on a link. */
static inline unsigned int tt_link_tx(const struct tt_link *link)
{
	return link->offerer ? 0 : 1;
}

static inline unsigned int tt_link_rx(const struct tt_link *link)
{
	return link->offerer ? 1 : 0;
}

/* R: a group for owner (an epoll set) on this link, -ENOSPC when all are taken. Under the lock. */
tt_must_check int tt_link_group_get(struct tt_link *link, void *owner, uint32_t *group);
void tt_link_group_put(struct tt_link *link, uint32_t group);
/* dir is tt_link_tx() or tt_link_rx(). */
struct tt_group *tt_link_group(const struct tt_link *link, unsigned int dir, uint32_t group);

/* Our inbox has a new name: no new slots on links that were offered from the old one. Under the lock. */
void tt_link_retire(void);
/* fork child: the mappings stay, the links are no longer ours to extend. */
void tt_link_fork_child(void);
/*
 * Unmaps links that nobody has held for TT_LINK_IDLE_NS and whose process is gone. Under the lock. The time is for threads that
 * were looking at a slot when another one closed it.
 */
#define TT_LINK_IDLE_NS 2000000000ull
void tt_link_sweep(void);

#endif
