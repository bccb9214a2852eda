/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * slot.h - for the targets that play a hostile peer: a slot at the very end of a segment, with nothing mapped behind it, and the
 * input as a list of strokes and calls.
 */
#ifndef TT_FUZZ_SLOT_H
#define TT_FUZZ_SLOT_H

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/raw.h"
#include "socket/sock.h"

struct input {
	const uint8_t *at;
	size_t left;
};

static inline uint64_t in_take(struct input *in, size_t n)
{
	uint64_t v = 0;

	n = tt_min(n, in->left);
	memcpy(&v, in->at, n);
	in->at += n;
	in->left -= n;
	return v;
}

/* Near what is there, at an edge, or anything. */
static inline uint64_t in_value(struct input *in, uint64_t now, uint64_t ring)
{
	uint8_t how = (uint8_t)in_take(in, 1);

	switch (how % 6) {
	case 0:
		return now + (how >> 3);
	case 1:
		return now - (how >> 3);
	case 2:
		return now + ring + (how >> 3) - 16;
	case 3:
		return in_take(in, 8);
	case 4:
		return now + in_take(in, 2);
	default:
		return how >> 3;
	}
}

/*
 * One stroke on a direction. No publisher stays inside: that is waited for by the clock, and a target that does so finds nothing
 * else (the live checker has it).
 */
static inline void in_stroke(struct input *in, struct tt_dir *d, uint64_t ring)
{
	uint64_t *const wide[] = {&d->tail, &d->inline_pos, &d->kpub, &d->mark, &d->head, &d->kcons, &d->word.v};
	uint32_t *const narrow[] = {&d->kpend, &d->fin, &d->s_fd, &d->r_cpu, &d->s_cpu, &d->gov, &d->r_gone, &d->back, &d->r_room};
	uint8_t which = (uint8_t)in_take(in, 1);

	if (which % 2)
		*wide[which / 2 % tt_array_len(wide)] = in_value(in, *wide[which / 2 % tt_array_len(wide)], ring);
	else
		*narrow[which / 2 % tt_array_len(narrow)] =
		    (uint32_t)in_value(in, *narrow[which / 2 % tt_array_len(narrow)], ring);
	d->word.v &= ~0xfffffffeull;
	d->word.asleep &= 1;
	d->gov %= 20;
	if (d->back == 2 || d->back == 3) /* somebody is at it: waited for as well */
		d->back = 1;
}

/* To where nothing lies on either side. */
static inline void guard(struct tt_seg *seg)
{
	uint8_t *room = mmap(NULL, seg->bytes + 2u * TT_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	TT_ASSERT(room != MAP_FAILED);
	TT_ASSERT(mremap(seg->base, seg->bytes, seg->bytes, MREMAP_MAYMOVE | MREMAP_FIXED, room + TT_PAGE) == room + TT_PAGE);
	seg->base = room + TT_PAGE;
}

/* The last slot of a first segment. Its ring of direction 1 ends where the mapping ends. */
static inline void slot_get(struct tt_slot_ref *ref, void *owner)
{
	static const uint8_t peer[TT_INBOX_ID_BYTES] = {1};
	static bool taken;
	int fd;

	for (int i = 0; i < (taken ? 1 : 4); i++) {
		TT_ASSERT(tt_link_slot_new(peer, TT_RING_SMALL, owner, ref, &fd) == 0);
		if (fd >= 0)
			close(fd);
	}
	if (!taken)
		guard(ref->seg);
	taken = true;
	ref->slot = tt_seg_slot(ref->seg, ref->in_seg);
	ref->link->peer_pid = 1;
	TT_ASSERT(ref->in_seg == ref->seg->geo.slots - 1);
}

static inline void slot_put(struct tt_slot_ref *ref)
{
	ref->slot->state = TT_SLOT_WORD(ref->ticket, TT_SLOT_OFFERED); /* taken by nobody: free at once */
	tt_link_slot_release(ref);
}

static inline void slot_start(void)
{
	static bool started;
	static char *none[] = {NULL};

	if (started)
		return;
	started = true;
	tt_sys_init();
	(void)tt_tunables_load(&tt_tun, none);
	tt_clock_init();
	tt_link_set_ring_bytes(4096, 4096, 4096);
}

/* A receive buffer of n bytes with a fence behind it: the guarded copy is not seen by the sanitizer. */
#define FENCE 32
static inline uint8_t *fence_get(size_t n)
{
	uint8_t *buf = malloc(n + FENCE);

	TT_ASSERT(buf);
	memset(buf + n, 0xa5, FENCE);
	return buf;
}

static inline void fence_put(uint8_t *buf, size_t n)
{
	for (size_t i = 0; i < FENCE; i++)
		TT_ASSERT(buf[n + i] == 0xa5);
	free(buf);
}

#endif
