/* SPDX-License-Identifier: BSD-3-Clause */
#include "socket/epoll_set.h"

#include <errno.h>
#include <time.h>

#include "base/raw.h"
#include "socket/dgram.h"
#include "socket/lease.h"
#include "socket/spin.h"

#define TURNS_YIELD_NS 1000000ull
#define TURNS_NS 150000000ull

bool tt_ep_wait_turn(uint64_t *begin)
{
	static const struct timespec nap = {.tv_nsec = 1000000};
	uint64_t now = tt_tsc();

	if (!*begin)
		*begin = now;
	if (now - *begin < tt_ns_to_tsc(TURNS_YIELD_NS))
		(void)tt_raw0(SYS_sched_yield);
	else
		(void)tt_raw4(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &nap, 0);
	return now - *begin < tt_ns_to_tsc(TURNS_NS);
}

/* A socket's receiving directions: one for a stream, one for each flow of a datagram socket. */
static uint32_t lanes(const struct tt_sock *s)
{
	return s->type == SOCK_STREAM ? (tt_load_acquire(&s->rx.dir) ? 1 : 0) : tt_dgram_lanes(s);
}

/* False: no such lane. */
static bool lane(struct tt_sock *s, uint32_t i, struct tt_dir **dir, struct tt_slot_ref **ref)
{
	if (s->type != SOCK_STREAM)
		return tt_dgram_lane(s, i, dir, ref);
	*dir = tt_load_acquire(&s->rx.dir);
	*ref = &s->ref;
	return *dir != NULL;
}

static bool governed(struct tt_sock *s)
{
	struct tt_slot_ref *ref;
	struct tt_dir *dir;

	for (uint32_t i = 0; i < lanes(s); i++)
		if (lane(s, i, &dir, &ref) && tt_load_relaxed(&ref->gov))
			return true;
	return false;
}

static bool eligible(const struct tt_sock *s)
{
	return s->ep && s->ep_reg && __atomic_load_n(&s->ep_sets, __ATOMIC_SEQ_CST) == 1 &&
	    !s->ep->native && !(s->ep_reg->events & TT_EP_NATIVE_EVENTS) &&
	    tt_attach_state(s) == TT_ATTACH_DONE && tt_load_relaxed(&s->rx_seen) && !s->rx.kernel_only && !s->foreign;
}

bool tt_ep_waits_to_join(struct tt_sock *s)
{
	struct tt_slot_ref *ref;
	struct tt_dir *dir;

	if (!eligible(s))
		return false;
	for (uint32_t i = 0; i < lanes(s); i++)
		if (lane(s, i, &dir, &ref) && !tt_load_relaxed(&ref->gov) && !tt_load_relaxed(&dir->fin))
			return true;
	return false;
}

void tt_epoll_received(struct tt_sock *s)
{
	struct tt_epset *set = __atomic_load_n(&s->ep, __ATOMIC_ACQUIRE);

	if (!set || !tt_load_relaxed(&set->join_wanted) || !tt_lease_grantable(s) || !tt_link_trylock())
		return;
	if (tt_lock_try(&set->lock)) {
		if (s->ep == set && tt_ep_waits_to_join(s))
			tt_ep_join(set, s);
		tt_epset_unlock(set);
	}
	tt_link_unlock();
}

static struct tt_ep_link *entry_of(struct tt_epset *set, const struct tt_link *link)
{
	for (uint32_t i = 0; i < set->links_count; i++)
		if (set->links[i].link == link)
			return &set->links[i];
	return NULL;
}

/* One group of an open set. Set lock held: a sleeper that is not counted yet will close it. */
static void group_reopen(struct tt_epset *set, struct tt_group *group)
{
	if (__atomic_load_n(&set->pins[TT_EP_SLEEP], __ATOMIC_SEQ_CST))
		set->open = false;
	else
		tt_word_open(&group->word);
}

static struct tt_ep_link *entry_new(struct tt_epset *set, struct tt_link *link)
{
	struct tt_ep_link *el;
	uint32_t index;

	if (set->links_count == TT_EP_LINKS_MAX || tt_link_group_get(link, set, &index))
		return NULL;
	el = &set->links[set->links_count];
	*el = (struct tt_ep_link){
	    .link = link,
	    .index = index,
	    .group = tt_link_group(link, tt_link_rx(link), index),
	};
	__atomic_store_n(&set->links_count, set->links_count + 1, __ATOMIC_SEQ_CST);
	if (set->open) /* the new group is closed */
		group_reopen(set, el->group);
	return el;
}

/* rx_lock and the set's lock held. */
static void lane_join(struct tt_epset *set, struct tt_sock *s, struct tt_dir *dir,
    struct tt_slot_ref *ref)
{
	struct tt_ep_link *el;

	/* Already; or somebody sleeps on the socket itself; or a publisher is inside: next time. */
	if (tt_load_relaxed(&ref->gov) || __atomic_load_n(&s->sleepers, __ATOMIC_SEQ_CST) ||
	    (s->type == SOCK_STREAM && !tt_lease_grantable(s)) || !tt_word_try_close(&dir->word))
		return;
	el = entry_of(set, ref->link);
	if (!el)
		el = entry_new(set, ref->link);
	if (!el) {
		tt_stat_reason(s->stat, TT_REASON_LIMIT);
		return;
	}
	set->dgrams = set->dgrams || s->type != SOCK_STREAM;
	el->members++;
	tt_store_relaxed(&ref->gov, el->index + 1);
	__atomic_store_n(&dir->gov, el->index + 1, __ATOMIC_SEQ_CST);
}

void tt_ep_join(struct tt_epset *set, struct tt_sock *s)
{
	struct tt_slot_ref *ref;
	struct tt_dir *dir;

	/* Under rx_lock nobody opens the own word (lease.c). */
	if (!tt_lock_try(&s->rx_lock)) /* never waited for under a set's lock: next time */
		return;
	for (uint32_t i = 0; i < lanes(s); i++)
		if (lane(s, i, &dir, &ref))
			lane_join(set, s, dir, ref);
	tt_unlock(&s->rx_lock);
}

/* Did S mark it since the marks were last taken? They are not looked at again. */
static bool marked(const struct tt_group *g, uint32_t slot)
{
	return (tt_load_acquire(&g->ready[slot / 64]) >> (slot % 64)) & 1;
}

static bool lane_leave(struct tt_epset *set, struct tt_sock *s, struct tt_dir *dir,
    struct tt_slot_ref *ref, bool force)
{
	struct tt_ep_link *el = entry_of(set, ref->link);
	bool closed;

	if (!el || !tt_load_relaxed(&ref->gov))
		return true;
	/* With the group closed nobody is inside who might still publish under it. */
	closed = tt_word_try_close(&el->group->word);
	if (!closed && !force)
		return false;
	tt_store_relaxed(&ref->gov, 0);
	__atomic_store_n(&dir->gov, 0, __ATOMIC_SEQ_CST);
	if (s->ep_reg && marked(el->group, ref->index))
		s->ep_reg->edge = true;
	if (--el->members == 0) {
		tt_word_force_close(&el->group->word);
		tt_link_group_put(el->link, el->index);
		*el = set->links[--set->links_count];
		return true;
	}
	/* The others go on: whoever found it open will look at the rings, as before. */
	if (closed && set->open)
		group_reopen(set, el->group);
	return true;
}

bool tt_ep_leave(struct tt_epset *set, struct tt_sock *s, bool force)
{
	struct tt_slot_ref *ref;
	struct tt_dir *dir;
	bool all = true;

	if (set->last == s)
		set->last = NULL;
	if (s->foreign)
		return true;
	for (uint32_t i = 0; i < lanes(s); i++)
		if (lane(s, i, &dir, &ref))
			all = lane_leave(set, s, dir, ref, force) && all;
	return all;
}

/* One turn of tt_ep_ungovern(), all locks taken. */
static bool ungovern_locked(struct tt_sock *s, bool force)
{
	struct tt_epset *set = s->ep;
	struct tt_epreg *reg = s->ep_reg;
	bool done;

	if (!set || !tt_epset_lock(set))
		return true;
	done = tt_ep_leave(set, s, force);
	if (done) {
		tt_store_release(&s->ep, NULL);
		s->ep_reg = NULL;
		if (reg && !reg->ready && tt_epreg_due(reg))
			tt_epset_ready_add(set, reg);
	}
	tt_epset_unlock(set);
	return done;
}

void tt_ep_ungovern(struct tt_sock *s, bool dying)
{
	uint64_t begin = 0;
	bool force = dying;

	if (!dying)
		tt_epoll_settle_sock(s);
	while (__atomic_load_n(&s->ep, __ATOMIC_ACQUIRE)) {
		bool linked = tt_link_lock();
		bool done = true;

		if (tt_lock_wait(&tt_ep_regs_lock)) {
			done = ungovern_locked(s, force);
			tt_unlock(&tt_ep_regs_lock);
		}
		if (linked)
			tt_link_unlock();
		if (done)
			return;
		if (tt_lease_ended(s, tt_load_relaxed(&s->fd))) /* has left */
			return;
		force = !tt_ep_wait_turn(&begin);
	}
}

void tt_epoll_detaching(struct tt_sock *s)
{
	if (s->ep)
		tt_ep_ungovern(s, true);
}

bool tt_epoll_unjoin(struct tt_sock *s)
{
	struct tt_epset *set = __atomic_load_n(&s->ep, __ATOMIC_ACQUIRE);
	bool linked;
	bool done = true; /* unless it turns out to be busy: a new set is the caller's next turn */

	if (!set)
		return !governed(s);
	if (tt_lock_is_mine(&set->lock)) /* in a handler: nobody can open the group before it returns */
		return true;
	linked = tt_link_lock();
	if (tt_epset_lock(set)) {
		if (s->ep == set) {
			done = tt_ep_leave(set, s, false);
			if (s->ep_reg) { /* looked at again, and taken in again, by the next wait */
				tt_epset_ready_add(set, s->ep_reg);
				tt_store_relaxed(&set->join_wanted, true);
			}
		}
		tt_epset_unlock(set);
	}
	if (linked)
		tt_link_unlock();
	return done && (!governed(s) || tt_lock_is_mine(&set->lock));
}

struct tt_epset *tt_epoll_hold(struct tt_sock *s, bool *busy)
{
	struct tt_epset *set = __atomic_load_n(&s->ep, __ATOMIC_ACQUIRE);
	uint32_t gov;

	*busy = false;
	if (!set || !s->rx.dir || !tt_load_relaxed(&s->ref.gov) || !tt_epset_lock(set))
		return NULL;
	gov = tt_load_relaxed(&s->ref.gov);
	if (s->ep == set && gov) {
		struct tt_group *g = tt_link_group(s->ref.link, tt_link_rx(s->ref.link), gov - 1);

		if (tt_word_try_close(&g->word))
			return set;
		*busy = true;
	}
	tt_epset_unlock(set);
	return NULL;
}

void tt_epoll_release(struct tt_epset *set, const struct tt_sock *s)
{
	uint32_t gov = tt_load_relaxed(&s->ref.gov);

	/* As it was before: the group's other connections must not pay for one look at this one. */
	if (set->open && gov)
		group_reopen(set, tt_link_group(s->ref.link, tt_link_rx(s->ref.link), gov - 1));
	tt_epset_unlock(set);
}

void tt_epset_open(struct tt_epset *set)
{
	if (!tt_epset_lock(set))
		return;
	for (uint32_t i = 0; i < set->links_count; i++) /* this thread, for one, is awake */
		__atomic_store_n(&set->links[i].group->word.asleep, TT_AWAKE, __ATOMIC_RELAXED);
	/* A sleeper counts itself before it takes the lock to close: it is seen here, or closes after us. */
	if (!__atomic_load_n(&set->pins[TT_EP_SLEEP], __ATOMIC_SEQ_CST) && !set->native &&
	    __atomic_load_n(&set->pins[TT_EP_WAIT], __ATOMIC_SEQ_CST) == 1) {
		for (uint32_t i = 0; i < set->links_count; i++)
			if (tt_word_is_closed(&set->links[i].group->word))
				tt_word_open(&set->links[i].group->word);
		set->open = true;
	}
	tt_epset_unlock(set);
}

bool tt_epset_close(struct tt_epset *set)
{
	bool all = true;

	set->open = false;
	for (uint32_t i = 0; i < set->links_count; i++)
		all = tt_word_try_close(&set->links[i].group->word) && all;
	return all;
}

bool tt_epoll_may_open(const struct tt_sock *s, const struct tt_slot_ref *ref)
{
	/* Only a set's own wait opens what it governs; beside a registration the own word stays closed. */
	return !__atomic_load_n(&s->ep_sets, __ATOMIC_SEQ_CST) && !tt_load_relaxed(&ref->gov);
}

uint32_t tt_epoll_epoch(const struct tt_sock *s)
{
	const struct tt_epset *set = __atomic_load_n(&s->ep, __ATOMIC_ACQUIRE);

	return set ? __atomic_load_n(&set->epoch, __ATOMIC_RELAXED) : 0;
}

void tt_epoll_attached(struct tt_sock *s)
{
	struct tt_epset *set = __atomic_load_n(&s->ep, __ATOMIC_ACQUIRE);

	if (!set || !tt_epset_lock(set))
		return;
	if (s->ep == set && s->ep_reg) {
		s->ep_reg->edge = true;
		tt_store_relaxed(&set->join_wanted, true);
		tt_epset_ready_add(set, s->ep_reg);
	}
	tt_epset_unlock(set);
}
