/* SPDX-License-Identifier: BSD-3-Clause */
#include "shm/link.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/raw.h"
#include "base/tid.h"
#include "shm/word.h"

#define LOCK_TRIES 2000
#define SEG_SLOTS_FIRST 4u
#define SEG_SLOTS_MAX 256u
#define SEG_BYTES_MAX (64u << 20)

static struct tt_link links[TT_LINKS_MAX];
static uint32_t links_high;
static uint32_t ring_bytes[TT_RING_CLASSES] = {16u << 10, 1u << 20, 256u << 10};

static int lock_owner; /* thread id, 0 when free */

static bool lock_try(int tid)
{
	int expected = 0;

	return __atomic_compare_exchange_n(&lock_owner, &expected, tid, false, __ATOMIC_ACQUIRE,
	    __ATOMIC_RELAXED);
}

bool tt_link_trylock(void)
{
	int tid = tt_tid();

	for (int i = 0; i < LOCK_TRIES; i++) {
		if (lock_try(tid))
			return true;
		if (__atomic_load_n(&lock_owner, __ATOMIC_RELAXED) == tid)
			return false;
		if (i % 64 == 63)
			(void)tt_raw0(SYS_sched_yield);
	}
	return false;
}

bool tt_link_lock(void)
{
	int tid = tt_tid();

	while (!lock_try(tid)) {
		if (__atomic_load_n(&lock_owner, __ATOMIC_RELAXED) == tid)
			return false;
		(void)tt_raw0(SYS_sched_yield);
	}
	return true;
}

void tt_link_unlock(void)
{
	__atomic_store_n(&lock_owner, 0, __ATOMIC_RELEASE);
}

void tt_link_set_ring_bytes(uint32_t small, uint32_t bulk, uint32_t dgram)
{
	const uint32_t wanted[TT_RING_CLASSES] = {small, bulk, dgram};

	for (int i = 0; i < TT_RING_CLASSES; i++) {
		uint32_t bytes = TT_RING_BYTES_MIN;

		while (bytes < wanted[i] && bytes < TT_RING_BYTES_MAX)
			bytes *= 2;
		ring_bytes[i] = bytes;
	}
}

static void *pages_get(size_t bytes)
{
	long p = tt_raw6(SYS_mmap, 0, bytes, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p < 0 && p > -4096 ? NULL : (void *)p;
}

static void pages_put(void *p, size_t bytes)
{
	if (p)
		(void)tt_raw2(SYS_munmap, p, bytes);
}

#define OWNER_BYTES (TT_LINK_SLOTS_MAX * sizeof(void *))
#define LIST_BYTES (TT_LINK_SLOTS_MAX * sizeof(uint32_t))

static void link_free(struct tt_link *link)
{
	for (uint32_t i = 0; i < link->segs_count; i++)
		tt_seg_unmap(&link->segs[i]);
	pages_put(link->owner, OWNER_BYTES);
	for (int i = 0; i < TT_RING_CLASSES; i++)
		pages_put(link->free_list[i], LIST_BYTES);
	pages_put(link->zombies, LIST_BYTES);
	memset(link, 0, sizeof(*link));
}

static int link_init(struct tt_link *link, const uint8_t peer[TT_INBOX_ID_BYTES], bool offerer)
{
	bool ok;

	memset(link, 0, sizeof(*link));
	link->owner = pages_get(OWNER_BYTES);
	ok = link->owner != NULL;
	if (offerer) {
		link->zombies = pages_get(LIST_BYTES);
		ok = ok && link->zombies;
		for (int i = 0; i < TT_RING_CLASSES; i++) {
			link->free_list[i] = pages_get(LIST_BYTES);
			link->class_next_slots[i] = SEG_SLOTS_FIRST;
			ok = ok && link->free_list[i];
		}
	}
	if (!ok) {
		link_free(link);
		return -ENOMEM;
	}
	memcpy(link->peer, peer, TT_INBOX_ID_BYTES);
	link->offerer = offerer;
	link->in_use = true;
	return 0;
}

static struct tt_link *link_find(const uint8_t peer[TT_INBOX_ID_BYTES], bool offerer)
{
	for (uint32_t i = 0; i < links_high; i++) {
		struct tt_link *link = &links[i];

		if (link->in_use && link->offerer == offerer && !link->dead &&
		    memcmp(link->peer, peer, TT_INBOX_ID_BYTES) == 0)
			return link;
	}
	return NULL;
}

static int link_get(const uint8_t peer[TT_INBOX_ID_BYTES], bool offerer, struct tt_link **out)
{
	struct tt_link *link = link_find(peer, offerer);
	uint32_t i;
	int err;

	if (link) {
		*out = link;
		return 0;
	}
	tt_link_sweep();
	for (i = 0; i < TT_LINKS_MAX && links[i].in_use; i++)
		;
	if (i == TT_LINKS_MAX)
		return -ENOSPC;
	err = link_init(&links[i], peer, offerer);
	if (err)
		return err;
	if (i >= links_high)
		links_high = i + 1;
	*out = &links[i];
	return 0;
}

void tt_link_sweep(void)
{
	uint64_t now = tt_clock_cycles();

	for (uint32_t i = 0; i < links_high; i++) {
		struct tt_link *link = &links[i];
		bool groups = false;

		if (!link->in_use || link->held || now - link->idle_since < tt_ns_to_cycles(TT_LINK_IDLE_NS))
			continue;
		for (uint32_t g = 0; g < TT_LINK_GROUPS; g++)
			groups = groups || link->group_owner[g];
		if (!groups && (link->dead || !tt_inbox_alive(link->peer)))
			link_free(link);
	}
}

static void ref_fill(struct tt_slot_ref *ref, struct tt_link *link, uint32_t index)
{
	for (uint32_t i = 0; i < link->segs_count; i++) {
		struct tt_seg *seg = &link->segs[i];

		if (index >= seg->geo.first_slot && index - seg->geo.first_slot < seg->geo.slots) {
			ref->link = link;
			ref->seg = seg;
			ref->index = index;
			ref->in_seg = index - seg->geo.first_slot;
			ref->gov = 0;
			ref->slot = tt_seg_slot(seg, ref->in_seg);
			return;
		}
	}
	TT_ASSERT(false); /* a slot of no segment: our own index is wrong */
}

/* Zombies that the acceptor has let go of become free again. */
static void zombies_sweep(struct tt_link *link)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < link->zombies_count; i++) {
		struct tt_slot_ref ref;
		uint8_t class;

		ref_fill(&ref, link, link->zombies[i]);
		if (!tt_load_acquire(&ref.slot->done[1])) {
			link->zombies[kept++] = link->zombies[i];
			continue;
		}
		class = link->seg_class[ref.seg->geo.seg];
		link->free_list[class][link->free_count[class]++] = ref.index;
	}
	link->zombies_count = kept;
}

static int link_grow(struct tt_link *link, enum tt_ring_class class, int *fd)
{
	struct tt_seg_geo geo = {
	    .seg = link->segs_count,
	    .first_slot = link->slots_count,
	    .slots = link->class_next_slots[class],
	    .ring_bytes = ring_bytes[class],
	};
	int err;

	if (link->segs_count == TT_LINK_SEGS_MAX)
		return -ENOSPC;
	geo.slots = tt_min(geo.slots, TT_LINK_SLOTS_MAX - link->slots_count);
	geo.slots = tt_min(geo.slots, tt_max(SEG_BYTES_MAX / (2 * geo.ring_bytes), 1u));
	if (geo.slots == 0)
		return -ENOSPC;
	err = tt_seg_create(&link->segs[link->segs_count], &geo, fd);
	if (err)
		return err;
	link->seg_class[link->segs_count] = (uint8_t)class;
	link->segs_count++;
	link->slots_count += geo.slots;
	link->class_next_slots[class] = tt_min(link->class_next_slots[class] * 2, SEG_SLOTS_MAX);
	for (uint32_t i = geo.slots; i-- > 0;)
		link->free_list[class][link->free_count[class]++] = geo.first_slot + i;
	return 0;
}

int tt_link_slot_new(const uint8_t peer[TT_INBOX_ID_BYTES], enum tt_ring_class class, void *owner,
    struct tt_slot_ref *ref, int *seg_fd)
{
	struct tt_link *link;
	uint32_t index;
	int err = link_get(peer, true, &link);

	*seg_fd = -1;
	if (err)
		return err;
	if (!link->free_count[class])
		zombies_sweep(link);
	if (!link->free_count[class]) {
		err = link_grow(link, class, seg_fd);
		if (err)
			return err;
	}
	index = link->free_list[class][--link->free_count[class]];
	ref_fill(ref, link, index);
	err = tt_seg_slot_prepare(ref->seg, ref->in_seg, class == TT_RING_DGRAM ? 1 : 2);
	if (err) {
		link->free_list[class][link->free_count[class]++] = index;
		/* A segment that the other end never heard of would leave a hole in its list: start over with a new link. */
		if (*seg_fd >= 0) {
			(void)tt_raw1(SYS_close, *seg_fd);
			*seg_fd = -1;
			link->dead = true;
		}
		return err;
	}
	ref->ticket = link->tickets = (link->tickets + 1) % TT_SLOT_TICKETS;
	/* A thread of the socket that had the slot before may still look at it, to find another one's ticket. */
	tt_store_relaxed(&ref->slot->state, TT_SLOT_WORD(ref->ticket, TT_SLOT_OFFERED));
	tt_store_release(&link->owner[index], owner);
	link->held++;
	return 0;
}

int tt_link_segment_take(const struct tt_offer *offer, int fd)
{
	const struct tt_seg_geo *geo = &offer->geo;
	struct tt_link *link;
	struct tt_seg *seg;
	int err = link_get(offer->from, false, &link);

	if (err)
		return err;
	if (tt_seg_bytes(geo) == 0)
		return -EPROTO;
	seg = &link->segs[geo->seg];
	if (seg->base)
		return memcmp(&seg->geo, geo, sizeof(*geo)) == 0 ? 0 : -EPROTO;
	err = tt_seg_map(seg, geo, fd);
	if (!err)
		link->segs_count = tt_max(link->segs_count, geo->seg + 1);
	return err;
}

int tt_link_slot_take(const struct tt_offer *offer, int pid, void *owner, struct tt_slot_ref *ref)
{
	const struct tt_seg_geo *geo = &offer->geo;
	uint32_t ticket = offer->ticket % TT_SLOT_TICKETS;
	uint32_t expected = TT_SLOT_WORD(ticket, TT_SLOT_OFFERED);
	struct tt_link *link;
	struct tt_seg *seg;
	int err = link_get(offer->from, false, &link);

	if (err)
		return err;
	if (tt_seg_bytes(geo) == 0 || offer->slot >= geo->slots)
		return -EPROTO;
	seg = &link->segs[geo->seg];
	if (!seg->base || memcmp(&seg->geo, geo, sizeof(*geo)) != 0)
		return -EPROTO;
	tt_store_relaxed(&link->peer_pid, pid);
	if (!link->segs[0].base)
		return -EPROTO; /* without the groups nobody could wait */
	ref_fill(ref, link, geo->first_slot + offer->slot);
	if (ref->seg != seg || link->owner[ref->index])
		return -EPROTO;
	ref->ticket = ticket;
	if (!tt_cas_acq_rel(&ref->slot->state, &expected, TT_SLOT_WORD(ticket, TT_SLOT_ACCEPTED)))
		return -ECANCELED;
	tt_store_release(&link->owner[ref->index], owner);
	link->held++;
	return 0;
}

void tt_link_slot_release(const struct tt_slot_ref *ref)
{
	struct tt_link *link = ref->link;
	uint32_t offered = TT_SLOT_WORD(ref->ticket, TT_SLOT_OFFERED);
	uint8_t class = link->seg_class[ref->seg->geo.seg];

	TT_ASSERT(link->held > 0);
	if (--link->held == 0)
		link->idle_since = tt_clock_cycles();
	tt_store_relaxed(&link->owner[ref->index], NULL);
	if (!link->offerer) {
		tt_store_release(&ref->slot->done[1], 1);
		return;
	}
	tt_store_release(&ref->slot->done[0], 1);
	if (tt_cas_acq_rel(&ref->slot->state, &offered, TT_SLOT_WORD(ref->ticket, TT_SLOT_CANCELLED)) ||
	    tt_load_acquire(&ref->slot->done[1]))
		link->free_list[class][link->free_count[class]++] = ref->index;
	else
		link->zombies[link->zombies_count++] = ref->index;
}

int tt_link_group_get(struct tt_link *link, void *owner, uint32_t *group)
{
	uint32_t unused = TT_LINK_GROUPS;

	for (uint32_t i = 0; i < TT_LINK_GROUPS; i++) {
		if (link->group_owner[i] == owner) {
			*group = i;
			return 0;
		}
		if (!link->group_owner[i] && unused == TT_LINK_GROUPS)
			unused = i;
	}
	if (unused == TT_LINK_GROUPS)
		return -ENOSPC;
	link->group_owner[unused] = owner;
	tt_word_force_close(&tt_link_group(link, tt_link_rx(link), unused)->word);
	*group = unused;
	return 0;
}

void tt_link_group_put(struct tt_link *link, uint32_t group)
{
	TT_ASSERT(group < TT_LINK_GROUPS);
	link->group_owner[group] = NULL;
}

struct tt_group *tt_link_group(const struct tt_link *link, unsigned int dir, uint32_t group)
{
	return tt_seg_group(&link->segs[0], dir, group);
}

void tt_link_fork_child(void)
{
	/* The parent may have held the lock in another thread: that thread does not exist here. */
	lock_owner = 0;
	for (uint32_t i = 0; i < links_high; i++) {
		links[i].dead = true;
		memset(links[i].group_owner, 0, sizeof(links[i].group_owner));
	}
}

void tt_link_retire(void)
{
	for (uint32_t i = 0; i < links_high; i++)
		if (links[i].offerer)
			links[i].dead = true;
}
