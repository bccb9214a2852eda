/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scribble.c - the hostile thread: finds the segments that this process shares and writes what it likes into them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "hostile.h"
#include "shm/layout.h"

#define LOOK_EVERY 200 /* strokes between two looks at the mappings */

const char *const tt_spoil_word[TT_SPOIL_KINDS] = {"tail", "inline", "kpub", "mark", "kpend", "fin", "head", "kcons",
    "gov", "r_gone", "back", "r_room", "word", "cpu", "state", "done", "group word", "ready bits", "ring", "anything"};

int tt_segs_find(struct tt_hs_seg *segs)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];
	int n = 0;

	while (f && n < TT_HS_SEGS && fgets(line, sizeof(line), f)) {
		unsigned long from, to;
		struct tt_seg_head head;

		if (!strstr(line, "memfd:taut-link") || sscanf(line, "%lx-%lx", &from, &to) != 2)
			continue;
		memcpy(&head, (const void *)from, sizeof(head));
		segs[n] = (struct tt_hs_seg){(unsigned char *)from, to - from, head.seg, head.slots, head.ring_bytes};
		if (memcmp(head.magic, "tautseg", 7) == 0 && head.slots && head.slots <= TT_LINK_SLOTS_MAX)
			n++;
	}
	if (f)
		fclose(f);
	return n;
}

size_t tt_segs_slots_at(const struct tt_hs_seg *g)
{
	return TT_SEG_HEAD_BYTES + (g->seg == 0 ? TT_GROUPS_BYTES : 0);
}

static uint64_t value(struct tt_rng *r, uint64_t now, uint64_t ring)
{
	static const uint64_t odd[] = {0, 1, UINT64_MAX, 1ull << 63, UINT32_MAX, 1ull << 32, INT64_MAX, UINT64_MAX - 1};

	switch (tt_rng_below(r, 8)) {
	case 0:
		return odd[tt_rng_below(r, TT_CK_ARRAY(odd))];
	case 1:
		return tt_rng_next(r);
	case 2:
		return now + tt_rng_below(r, 64) + 1;
	case 3:
		return now - tt_rng_below(r, 64) - 1;
	case 4:
		return now + ring + tt_rng_below(r, 3) - 1;
	case 5:
		return now ^ 1ull << tt_rng_below(r, 64);
	case 6:
		return now + tt_rng_below(r, ring + 1);
	default:
		return tt_rng_below(r, 5);
	}
}

static void put64(struct tt_rng *r, uint64_t *at, uint64_t ring)
{
	uint64_t now = __atomic_load_n(at, __ATOMIC_RELAXED);

	__atomic_store_n(at, value(r, now, ring), __ATOMIC_RELAXED);
}

static void put32(struct tt_rng *r, uint32_t *at, uint64_t ring)
{
	uint32_t now = __atomic_load_n(at, __ATOMIC_RELAXED);

	__atomic_store_n(at, (uint32_t)value(r, now, ring), __ATOMIC_RELAXED);
}

/* Any aligned word of [from, from + bytes), most of the time near its beginning, where the busy slots are. */
static void put_any(struct tt_rng *r, unsigned char *from, size_t bytes, uint64_t ring)
{
	size_t at = tt_rng_pct(r, 50) ? tt_rng_below(r, bytes) : tt_rng_size(r, 1, bytes) - 1;

	at &= ~(size_t)7;
	if (at + 8 <= bytes)
		put64(r, (uint64_t *)(void *)(from + at), ring);
}

static void ring_stroke(struct tt_rng *r, const struct tt_hs_seg *g, uint32_t slot)
{
	size_t rings = (tt_segs_slots_at(g) + g->slots * sizeof(struct tt_slot) + TT_PAGE - 1) & ~(size_t)(TT_PAGE - 1);
	const struct tt_slot *s = (const void *)(g->base + tt_segs_slots_at(g) + slot * sizeof(struct tt_slot));
	unsigned int d = (unsigned int)tt_rng_below(r, 2);
	unsigned char *ring = g->base + rings + ((size_t)slot * 2 + d) * g->ring_bytes;
	/* Around head: the header that is looked at next. */
	uint64_t pos = __atomic_load_n(&s->dir[d].head, __ATOMIC_RELAXED) + 16 * tt_rng_below(r, 4);

	if ((const unsigned char *)ring + g->ring_bytes > g->base + g->bytes)
		return;
	pos &= g->ring_bytes - 1u;
	put32(r, (uint32_t *)(void *)(ring + (pos & ~3ull)), tt_rng_pct(r, 50) ? 65536 : g->ring_bytes);
}

static void dir_stroke(struct tt_rng *r, struct tt_dir *d, enum tt_spoil kind, uint64_t ring)
{
	switch (kind) {
	case TT_SPOIL_TAIL:
		put64(r, &d->tail, ring);
		break;
	case TT_SPOIL_INLINE:
		put64(r, &d->inline_pos, ring);
		d->inline_bytes[tt_rng_below(r, sizeof(d->inline_bytes))] ^= 1;
		break;
	case TT_SPOIL_KPUB:
		put64(r, &d->kpub, ring);
		break;
	case TT_SPOIL_MARK:
		put64(r, &d->mark, ring);
		break;
	case TT_SPOIL_KPEND:
		put32(r, &d->kpend, ring);
		break;
	case TT_SPOIL_FIN:
		put32(r, &d->fin, ring);
		break;
	case TT_SPOIL_HEAD:
		put64(r, &d->head, ring);
		break;
	case TT_SPOIL_KCONS:
		put64(r, &d->kcons, ring);
		break;
	case TT_SPOIL_GOV:
		d->gov = (uint32_t)(tt_rng_pct(r, 70) ? tt_rng_below(r, 20) : tt_rng_next(r));
		break;
	case TT_SPOIL_GONE:
		put32(r, &d->r_gone, ring);
		break;
	case TT_SPOIL_BACK:
		put32(r, &d->back, 3);
		break;
	case TT_SPOIL_ROOM:
		put32(r, &d->r_room, ring);
		break;
	case TT_SPOIL_CPU:
		put32(r, tt_rng_pct(r, 50) ? &d->s_cpu : tt_rng_pct(r, 50) ? &d->r_cpu : &d->s_fd, 2);
		break;
	default:
		put64(r, &d->word.v, 4);
		break;
	}
}

static void stroke(struct tt_rng *r, const struct tt_hs_seg *g, enum tt_spoil kind)
{
	size_t most = (g->bytes - tt_segs_slots_at(g)) / sizeof(struct tt_slot);
	uint32_t slot = (uint32_t)tt_rng_below(r, most < g->slots ? most : g->slots);
	struct tt_slot *s = (struct tt_slot *)(void *)(g->base + tt_segs_slots_at(g) + slot * sizeof(struct tt_slot));
	struct tt_group *groups = (struct tt_group *)(void *)(g->base + TT_SEG_HEAD_BYTES);
	struct tt_group *group = &groups[tt_rng_below(r, 2) * TT_LINK_GROUPS + tt_rng_size(r, 1, TT_LINK_GROUPS) - 1];

	switch (kind) {
	case TT_SPOIL_STATE:
		put32(r, &s->state, 2);
		break;
	case TT_SPOIL_DONE:
		put32(r, &s->done[tt_rng_below(r, 2)], 2);
		break;
	case TT_SPOIL_GROUP_WORD:
		if (g->seg == 0)
			put64(r, &group->word.v, 4);
		break;
	case TT_SPOIL_READY:
		if (g->seg == 0) {
			put64(r, &group->ready[tt_rng_size(r, 1, TT_READY_WORDS) - 1], 64);
			put64(r, &group->summary[tt_rng_below(r, TT_CK_ARRAY(group->summary))], 64);
		}
		break;
	case TT_SPOIL_RING:
		ring_stroke(r, g, slot);
		break;
	case TT_SPOIL_ANY:
		put_any(r, g->base + TT_SEG_HEAD_BYTES, g->bytes - TT_SEG_HEAD_BYTES, g->ring_bytes);
		break;
	default:
		dir_stroke(r, &s->dir[tt_rng_below(r, 2)], kind, g->ring_bytes);
		break;
	}
}

static enum tt_spoil pick(struct tt_rng *r, uint64_t kinds)
{
	unsigned int kind;

	do
		kind = (unsigned int)tt_rng_below(r, TT_SPOIL_KINDS);
	while (!(kinds >> kind & 1));
	return (enum tt_spoil)kind;
}

uint64_t tt_scribble(const struct tt_hs_order *o, const _Atomic bool *stop)
{
	struct tt_rng r = {tt_mix64(o->seed ^ 0x5c)};
	struct tt_hs_seg segs[TT_HS_SEGS];
	uint64_t strokes = 0;
	int n = 0;

	/* Not unmapped meanwhile: a link lives on for two seconds after its last slot. */
	for (uint64_t i = 0; !atomic_load(stop); i++) {
		if (i % LOOK_EVERY == 0 || n == 0)
			n = tt_segs_find(segs);
		if (n) {
			stroke(&r, &segs[tt_rng_below(&r, (uint64_t)n)], pick(&r, o->kinds));
			strokes++;
		}
		if (o->pause_us)
			tt_nap_us((unsigned int)tt_rng_size(&r, 1, o->pause_us));
	}
	return strokes;
}
