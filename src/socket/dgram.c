/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dgram.c - UDP over shared memory.
 *
 * A *flow* is one sending socket, one destination, one receiving socket. The kernel names the receiver (a socket-diagnostics
 * lookup with the datagram's own addresses), the receiver checks with the same question both ways round, and from then on
 * datagrams of the flow go through a ring of its own: one producer and one consumer, so that a producer that dies
 * blocks nobody. The receiver opens it when a datagram of that source has come by the kernel as well: the lookup knows
 * nothing of address translation. It merges its flows by time stamp. Its kernel socket stays in use for everything else: plain
 * senders, odd flags, a sleeping receiver.
 *
 * Order inside a flow. S counts what it sends by the kernel (kernel_sent), and each record carries that count. R counts
 * what it takes from the kernel with the flow's source address (kernel_taken), and takes a record only when it is not
 * behind the record's count, or when the kernel has nothing: on loopback a datagram is in R's queue, or dropped, when
 * sendto() returns. What the kernel dropped leaves R behind; each time the kernel has nothing, R takes over the kpub that
 * it loaded before it asked. The other way round, a datagram by the kernel after records: R reads the rings first, and
 * asks the kernel with an open lease only when they are empty; S, before it sends by the kernel although the lease is
 * open (odd flags), waits a moment for R to empty the ring.
 *
 * A full ring. S waits a moment while R takes datagrams out. Then: where the ring holds at least what R's receive buffer
 * would have, the kernel would have dropped this datagram long ago, and so do we, counted; else the kernel has it. So bulk
 * stays on one path, and nothing is dropped that the kernel would have kept (same-host.md rule 25).
 *
 * The sender asks the kernel again every 10 ms, and before it sleeps with a datagram unread, whether the receiver is still
 * the one; that is also the only way to learn that a process was killed. Where nobody is there any more it sends the
 * last unread datagram by the kernel, which raises the error that the program expects.
 *
 * Design rules 24 to 26 of same-host transport.
 */
#include "socket/dgram.h"

#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "base/raw.h"
#include "socket/dgram_priv.h"
#include "socket/epoll.h"
#include "socket/lease.h"
#include "socket/rules.h"
#include "socket/trace.h"

/* Waiting for a publisher: so long by yields, then in naps. By time: on a busy machine a yield takes as long as the others like. */
#define CLOSE_YIELD_NS 200000ull
#define CLOSE_NS 20000000ull
/* A table full of flows is looked through for dead senders this often. */
#define SWEEP_NS 100000000

/* ---- states: type-stable, handed from socket to socket ---- */

static struct tt_dgram_state *free_states;
static struct tt_lock states_lock;

static struct tt_dgram_state *state_new(void)
{
	struct tt_dgram_state *d;
	long p;

	if (!tt_lock_wait(&states_lock))
		return NULL;
	d = free_states;
	if (d)
		free_states = d->free_next;
	tt_unlock(&states_lock);
	if (d)
		return d; /* as state_put() left it: empty */
	p = tt_raw6(SYS_mmap, 0, sizeof(*d), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return p < 0 && p > -4096 ? NULL : (struct tt_dgram_state *)p;
}

/* Empties what was used, not the whole: most sockets have one flow. */
static void state_put(struct tt_dgram_state *d)
{
	for (uint32_t w = 0; w < tt_array_len(d->tx_used); w++)
		for (; d->tx_used[w]; d->tx_used[w] &= d->tx_used[w] - 1)
			d->tx[w * 64 + (uint32_t)__builtin_ctzll(d->tx_used[w])].state = TT_FLOW_FREE;
	if (d->heard_any)
		memset(d->heard, 0, sizeof(d->heard));
	memset(d, 0, offsetof(struct tt_dgram_state, heard));
	if (!tt_lock_wait(&states_lock))
		return; /* in a handler that interrupted the list: lost */
	d->free_next = free_states;
	free_states = d;
	tt_unlock(&states_lock);
}

struct tt_dgram_state *tt_dgram_state(struct tt_sock *s)
{
	struct tt_dgram_state *d = tt_dgram_get(s);
	struct tt_dgram_state *expected = NULL;

	if (d)
		return d;
	d = state_new();
	if (!d)
		return NULL;
	if (tt_tuple_of(s->fd, &d->peer))
		memset(&d->peer, 0, sizeof(d->peer)); /* not connected */
	if (!__atomic_compare_exchange_n(&s->dgram, &expected, d, false, __ATOMIC_ACQ_REL,
		__ATOMIC_ACQUIRE)) {
		state_put(d);
		return expected;
	}
	return d;
}

void tt_addr_make(struct sockaddr_in6 *out, socklen_t *len, int domain, int family, const uint8_t ip[16],
    uint16_t port, uint32_t scope)
{
	memset(out, 0, sizeof(*out));
	if (domain == AF_INET) {
		struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = port};

		memcpy(&in.sin_addr, ip, 4);
		memcpy(out, &in, sizeof(in));
		*len = sizeof(in);
		return;
	}
	out->sin6_family = AF_INET6;
	out->sin6_port = port;
	*len = sizeof(*out);
	if (family == AF_INET) {
		out->sin6_addr.s6_addr[10] = out->sin6_addr.s6_addr[11] = 0xff;
		memcpy(&out->sin6_addr.s6_addr[12], ip, 4);
	} else {
		memcpy(&out->sin6_addr, ip, 16);
		out->sin6_scope_id = scope;
	}
}

/* ---- who has been heard by the kernel ---- */

static uint64_t source_hash(const struct sockaddr_in6 *a)
{
	uint64_t h = (uint64_t)a->sin6_family << 16 | a->sin6_port;
	uint64_t part[2] = {0, 0};

	if (a->sin6_family == AF_INET)
		memcpy(part, &((const struct sockaddr_in *)(const void *)a)->sin_addr, 4);
	else
		memcpy(part, &a->sin6_addr, 16);
	h = (h ^ part[0]) * 0x9e3779b97f4a7c15ull;
	h = (h ^ h >> 29 ^ part[1]) * 0xbf58476d1ce4e5b9ull;
	return (h ^ h >> 32) | 1;
}

/* One more than S has sent can't be: then some had been given up that came after all. */
static void taken_add(struct tt_rx_flow *f)
{
	uint32_t most = tt_load_acquire(&f->dir->kpend) + (uint32_t)tt_load_acquire(&f->dir->kpub);

	if ((int32_t)(tt_load_relaxed(&f->kernel_taken) - most) < 0)
		__atomic_fetch_add(&f->kernel_taken, 1, __ATOMIC_RELAXED);
}

void tt_dgram_heard(struct tt_sock *s, const struct sockaddr_in6 *addr, socklen_t len)
{
	struct tt_dgram_state *d = tt_dgram_get(s);
	uint64_t hash;
	bool proven = false;

	if (!d || len < sizeof(struct sockaddr_in))
		return;
	hash = source_hash(addr);
	d->heard_any = true;
	tt_store_relaxed(&d->heard[hash % TT_HEARD_SLOTS], hash);
	for (uint32_t i = 0; i < d->rx_high; i++) {
		struct tt_rx_flow *f = &d->rx[i];

		if (!tt_rx_live(f) || !tt_same_source(&f->source, addr))
			continue;
		if (f->synced)
			taken_add(f);
		else
			f->drained++;
		proven = proven || !f->proven;
		f->proven = true;
	}
	if (proven)
		tt_epoll_attached(s);
}

/* ---- lanes: what waits need to know of each receiving flow ---- */

uint32_t tt_dgram_lanes(const struct tt_sock *s)
{
	const struct tt_dgram_state *d = tt_dgram_get(s);

	return d && tt_load_relaxed(&d->rx_count) ? tt_load_relaxed(&d->rx_high) : 0;
}

bool tt_dgram_lane(struct tt_sock *s, uint32_t i, struct tt_dir **dir, struct tt_slot_ref **ref)
{
	struct tt_dgram_state *d = tt_dgram_get(s);
	struct tt_rx_flow *f;

	if (!d)
		return false;
	f = &d->rx[i];
	if (!tt_load_acquire(&f->in_use) || ((!f->proven || !f->synced) && !tt_load_relaxed(&f->ref.gov)))
		return false;
	*dir = f->dir;
	*ref = &f->ref;
	return true;
}

bool tt_dgram_readable(const struct tt_sock *s)
{
	const struct tt_dgram_state *d = tt_dgram_get(s);

	for (uint32_t i = 0; d && i < d->rx_high; i++) {
		const struct tt_rx_flow *f = &d->rx[i];

		if (tt_rx_live(f) && tt_load_acquire(&f->dir->tail) != f->head)
			return true;
	}
	return false;
}

static bool may_open(struct tt_sock *s, const struct tt_rx_flow *f)
{
	return tt_rx_live(f) && f->proven && (f->synced || f->drained >= TT_UNSYNCED_MAX) &&
	    !tt_load_relaxed(&f->dir->r_gone) && tt_epoll_may_open(s, &f->ref);
}

bool tt_dgram_close_try(struct tt_sock *s)
{
	struct tt_dgram_state *d = tt_dgram_get(s);
	bool all = !s->ep || tt_epoll_unjoin(s);

	for (uint32_t i = 0; d && i < d->rx_high; i++)
		if (tt_load_acquire(&d->rx[i].in_use) && !d->rx[i].spoilt) {
			tt_store_relaxed(&d->rx[i].open, false);
			all = tt_word_try_close(tt_rx_flow_word(&d->rx[i])) && all;
		}
	return all;
}

static bool none_unsynced(const struct tt_dgram_state *d)
{
	for (uint32_t i = 0; i < d->rx_high; i++)
		if (tt_rx_live(&d->rx[i]) && d->rx[i].proven && !d->rx[i].synced)
			return false;
	return true;
}

void tt_dgram_open(struct tt_sock *s)
{
	struct tt_close_turns t = {0};
	struct tt_dgram_state *d = tt_dgram_get(s);
	bool closed = false;

	if (!d || s->rx.kernel_only || s->foreign || tt_load_acquire(&s->sleepers))
		return;
	if (tt_unlikely(!none_unsynced(d)) && s->fd >= 0 && !tt_rx_settle(s, s->fd))
		s->rx.kernel_event = true; /* some flows may have to wait for the next time */
	for (uint32_t i = 0; i < d->rx_high; i++)
		closed = closed || (!tt_load_relaxed(&d->rx[i].open) && may_open(s, &d->rx[i]));
	if (!closed || !tt_lock_try(&s->rx_lock))
		return;
	d = tt_dgram_get(s);
	for (uint32_t i = 0; d && i < d->rx_high; i++) {
		struct tt_rx_flow *f = &d->rx[i];

		if (!may_open(s, f))
			continue;
		tt_store_relaxed(&f->open, true);
		if (!tt_word_is_closed(tt_rx_flow_word(f)))
			continue;
		tt_store_relaxed(&f->dir->r_cpu, (uint32_t)sched_getcpu());
		tt_word_open(tt_rx_flow_word(f));
		s->stat->n.lease_opens++;
	}
	tt_unlock(&s->rx_lock);
	/* As in tt_lease_open(): a thread that counted itself asleep meanwhile found the words still closed. */
	while (__atomic_load_n(&s->sleepers, __ATOMIC_SEQ_CST) || s->ep_sets)
		if (tt_dgram_close_try(s) || !tt_close_turn(&t))
			return;
}

/* Where a sender's whole process is gone, so are its publishers that died inside. UDP may lose what they had not published. */
static void dead_flows_close(struct tt_sock *s)
{
	struct tt_dgram_state *d = tt_dgram_get(s);

	if (tt_process_confined)
		return;
	for (uint32_t i = 0; d && i < d->rx_high; i++)
		if (tt_rx_live(&d->rx[i]) && !tt_word_is_closed(tt_rx_flow_word(&d->rx[i])) &&
		    !tt_inbox_alive(d->rx[i].ref.link->peer))
			tt_word_bury(tt_rx_flow_word(&d->rx[i]));
}

static bool any_open(const struct tt_dgram_state *d)
{
	for (uint32_t i = 0; d && i < d->rx_high; i++)
		if (tt_rx_live(&d->rx[i]) && !tt_word_is_closed(tt_rx_flow_word(&d->rx[i])))
			return true;
	return false;
}

bool tt_dgram_close_wait(struct tt_sock *s, int fd)
{
	static const struct timespec nap = {.tv_nsec = 1000000};
	uint64_t begin = tt_tsc();

	tt_dgram_sleep_check(s, fd);
	/* With no lease open there is nothing to settle; to wait for a sender that shares our core would cost two switches. */
	if (any_open(tt_dgram_get(s)) && !tt_rx_settle(s, fd))
		return false;
	while (!tt_dgram_close_try(s)) {
		uint64_t passed = tt_tsc() - begin;

		if (tt_dgram_readable(s))
			return false;
		if (passed < tt_ns_to_tsc(CLOSE_YIELD_NS)) {
			(void)tt_raw0(SYS_sched_yield);
		} else if (passed < tt_ns_to_tsc(CLOSE_NS)) {
			(void)tt_raw4(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &nap, 0);
		} else {
			dead_flows_close(s);
			if (tt_dgram_close_try(s))
				break;
			/* One that lives may publish yet, so nobody may sleep. The kernel may have something meanwhile. */
			s->rx.kernel_event = true;
			return false;
		}
	}
	return !tt_dgram_readable(s);
}

int64_t tt_dgram_spin_budget(struct tt_sock *s)
{
	const struct tt_dgram_state *d = tt_dgram_get(s);

	if (!d || !d->rx_count || s->rx.kernel_only)
		return 0;
	if (d->rx_count == 1) { /* one sender: does it share our core? */
		for (uint32_t i = 0; i < d->rx_high; i++)
			if (tt_load_acquire(&d->rx[i].in_use) &&
			    tt_load_relaxed(&d->rx[i].dir->s_cpu) == (uint32_t)sched_getcpu())
				return 0;
	}
	return tt_spin_budget(s);
}

/* ---- life of a receiving flow ---- */

/* Under rx_lock and, when linked, the link lock. */
static void flow_drop(struct tt_dgram_state *d, struct tt_rx_flow *f, bool linked)
{
	tt_store_relaxed(&f->ref.gov, 0);
	__atomic_store_n(&f->dir->gov, 0, __ATOMIC_SEQ_CST);
	tt_word_force_close(&f->dir->word);
	tt_store_release(&f->dir->r_gone, 1);
	tt_store_release(&f->in_use, false);
	tt_store_relaxed(&d->rx_count, d->rx_count - 1);
	if (linked)
		tt_link_slot_release(&f->ref);
}

/* Both questions: do datagrams from source to target reach us, and is the sender the one that source names? */
static bool offer_good(struct tt_sock *s, const struct tt_offer *offer)
{
	const struct tt_tuple *t = &offer->flow;
	struct tt_tuple back = {.family = t->family, .local_port = t->remote_port, .remote_port = t->local_port,
	    .scope = t->scope};
	uint64_t cookie;
	uint32_t uid;

	if ((t->family != AF_INET && t->family != AF_INET6) || offer->netns != s->netns || s->fd < 0)
		return false;
	memcpy(back.local, t->remote, 16);
	memcpy(back.remote, t->local, 16);
	if (!tt_rules_allow(true, IPPROTO_UDP, &back)) {
		tt_stat_reason(s->stat, TT_REASON_RULE);
		return false;
	}
	if (tt_ident_udp_receiver(t, &cookie, &uid) || cookie != s->cookie)
		return false;
	return tt_ident_udp_receiver(&back, &cookie, &uid) == 0 && cookie == offer->from_cookie &&
	    tt_ident_cookie(s->fd) == s->cookie;
}

static bool sender_alive(struct tt_sock *s, struct tt_dgram_state *d, uint64_t now, const struct tt_rx_flow *f)
{
	(void)s;
	if (now - d->swept_tsc < tt_ns_to_tsc(SWEEP_NS))
		return true;
	return !f->ref.link->dead && tt_inbox_alive(f->ref.link->peer);
}

/* A flow whose sender has let go and whose ring is empty makes room. Under rx_lock and link lock. */
static struct tt_rx_flow *flow_room(struct tt_sock *s, struct tt_dgram_state *d)
{
	struct tt_rx_flow *room = NULL;
	uint64_t now = tt_tsc();

	for (uint32_t i = 0; i < d->rx_high; i++) {
		struct tt_rx_flow *f = &d->rx[i];

		if (f->in_use && tt_load_acquire(&f->ref.slot->done[0]) &&
		    (f->spoilt || tt_load_acquire(&f->dir->tail) == f->head) && !tt_load_relaxed(&f->ref.gov))
			flow_drop(d, f, true);
		if (!f->in_use && !room)
			room = f;
	}
	if (room)
		return room;
	if (d->rx_high < TT_DGRAM_RX_MAX)
		return &d->rx[d->rx_high];
	for (uint32_t i = 0; i < d->rx_high; i++) {
		struct tt_rx_flow *f = &d->rx[i];

		if (!tt_load_relaxed(&f->ref.gov) && !sender_alive(s, d, now, f)) {
			flow_drop(d, f, true);
			room = f;
		}
	}
	if (now - d->swept_tsc >= tt_ns_to_tsc(SWEEP_NS))
		d->swept_tsc = now;
	return room;
}

/* How much the kernel would have kept for us: the sender drops only beyond that. */
static uint32_t kernel_room(int fd)
{
	int bytes = 0;
	socklen_t len = sizeof(bytes);

	if (tt_raw5(SYS_getsockopt, fd, SOL_SOCKET, SO_RCVBUF, &bytes, &len) < 0 || bytes < 0)
		return UINT32_MAX;
	return (uint32_t)bytes;
}

static void flow_fill(struct tt_sock *s, struct tt_dgram_state *d, struct tt_rx_flow *f, const struct tt_tuple *t)
{
	uint64_t hash;

	f->dir = &f->ref.slot->dir[0];
	f->ring = tt_seg_ring(f->ref.seg, f->ref.in_seg, 0);
	f->size = f->ref.seg->geo.ring_bytes;
	f->head = f->head_told = f->tail_seen = 0;
	f->beside_pos = UINT64_MAX;
	f->synced = f->doubt = false;
	f->spoilt = f->open = false;
	f->kernel_taken = f->kernel_seen = f->drained = 0;
	tt_addr_make(&f->source, &f->source_len, s->domain, t->family, t->local, t->local_port, t->scope);
	hash = source_hash(&f->source);
	f->proven = tt_load_relaxed(&d->heard[hash % TT_HEARD_SLOTS]) == hash;
	tt_store_relaxed(&f->dir->r_cpu, (uint32_t)sched_getcpu());
	tt_store_release(&f->dir->r_room, kernel_room(s->fd));
	tt_store_release(&f->in_use, true);
}

void tt_dgram_offered(struct tt_sock *s, const struct tt_offer *offer, int pid)
{
	struct tt_dgram_state *d = tt_dgram_get(s);
	struct tt_rx_flow *f;

	if (!d || s->type != SOCK_DGRAM || s->rx.kernel_only || s->foreign || !offer_good(s, offer) ||
	    !tt_lock_try(&s->rx_lock))
		return;
	d = tt_dgram_get(s);
	f = d ? flow_room(s, d) : NULL;
	if (d && !f)
		tt_stat_reason(s->stat, TT_REASON_LIMIT);
	if (f && tt_link_slot_take(offer, pid, s, &f->ref) == 0) {
		flow_fill(s, d, f, &offer->flow);
		if (f == &d->rx[d->rx_high])
			tt_store_release(&d->rx_high, d->rx_high + 1);
		tt_store_relaxed(&d->rx_count, d->rx_count + 1);
		if (!d->counted)
			__atomic_add_fetch(&tt_attached_count, 1, __ATOMIC_RELAXED);
		d->counted = true;
		s->stat->rx = TT_TRANSPORT_SHM;
		s->stat->peer_pid = pid;
		tt_stat_add(&tt_stat->socks_attached, s->attach != TT_ATTACH_DONE);
		s->attach = TT_ATTACH_DONE;
		tt_stat_reason(s->stat, TT_REASON_NONE);
		tt_trace_sock(s->fd, s->stat, "attached", TT_REASON_NONE);
	}
	tt_unlock(&s->rx_lock);
	tt_epoll_attached(s);
}

/* ---- life of a socket ---- */

/*
 * Nobody's proof holds any longer. Datagrams already in rings stay readable, as the kernel keeps what it had
 * queued; the words are closed, so that no more come in before a new proof.
 */
static void flows_gone(struct tt_sock *s)
{
	struct tt_close_turns t = {0};
	struct tt_dgram_state *d = tt_dgram_get(s);

	for (uint32_t i = 0; d && i < d->rx_high; i++)
		if (tt_load_acquire(&d->rx[i].in_use))
			tt_store_release(&d->rx[i].dir->r_gone, 1);
	while (!tt_dgram_close_try(s) && tt_close_turn(&t))
		;
}

void tt_dgram_moved(struct tt_sock *s)
{
	struct tt_dgram_state *d = tt_dgram_get(s);
	struct tt_tuple t;

	if (!d)
		return;
	tt_tx_end_all(s, false);
	if (tt_lock_wait(&s->tx_lock)) {
		memset(&d->peer, 0, sizeof(d->peer));
		if (tt_tuple_of(s->fd, &t) == 0)
			d->peer = t;
		tt_unlock(&s->tx_lock);
	}
	flows_gone(s);
}

void tt_dgram_fork_before(struct tt_sock *s)
{
	struct tt_dgram_state *d;

	if (s->foreign || !tt_dgram_get(s))
		return;
	flows_gone(s);
	if (!tt_lock_wait(&s->rx_lock))
		return;
	d = tt_dgram_get(s);
	for (uint32_t i = 0; d && i < d->rx_high; i++)
		if (d->rx[i].in_use)
			tt_rx_head_tell(&d->rx[i]); /* either process may take what is left, from there */
	tt_unlock(&s->rx_lock);
}

void tt_dgram_forked(struct tt_sock *s, bool child)
{
	struct tt_dgram_state *d = tt_dgram_get(s);

	if (!d)
		return;
	if (child) {
		s->foreign = d->rx_count != 0;
		for (uint32_t i = 0; i < d->rx_high; i++)
			d->rx[i].ref.gov = 0; /* the parent's sets govern */
		tt_tx_forget_all(d);
	} else {
		tt_tx_end_all(s, false); /* two processes would send by the kernel under one address, and count apart */
	}
}

void tt_dgram_alone(struct tt_sock *s)
{
	struct tt_dgram_state *d;

	if (!tt_lock_try(&s->rx_lock))
		return;
	d = tt_dgram_get(s);
	for (uint32_t i = 0; d && i < d->rx_high; i++)
		if (d->rx[i].in_use)
			d->rx[i].head = d->rx[i].head_told = tt_load_acquire(&d->rx[i].dir->head);
	s->shared = false;
	s->tx.kernel_only = s->tx.kernel_only && !(s->forked & TT_FORKED_TX);
	s->rx.kernel_only = s->rx.kernel_only && !(s->forked & TT_FORKED_RX);
	s->forked = 0;
	tt_stat_reason(s->stat, TT_REASON_NONE);
	tt_unlock(&s->rx_lock);
}

static void rx_drop_all(struct tt_sock *s)
{
	bool linked = tt_link_lock();
	struct tt_dgram_state *d;

	if (tt_lock_wait(&s->rx_lock)) {
		d = tt_dgram_get(s);
		for (uint32_t i = 0; d && i < d->rx_high; i++)
			if (d->rx[i].in_use)
				flow_drop(d, &d->rx[i], linked);
		tt_unlock(&s->rx_lock);
	}
	if (linked)
		tt_link_unlock();
}

void tt_dgram_close(struct tt_sock *s)
{
	struct tt_dgram_state *d = tt_dgram_get(s);
	bool tx;
	bool rx;

	if (!s->foreign) {
		rx_drop_all(s);
		tt_tx_end_all(s, true);
	}
	tx = tt_lock_wait(&s->tx_lock);
	rx = tt_lock_wait(&s->rx_lock);
	__atomic_store_n(&s->dgram, NULL, __ATOMIC_RELEASE);
	if (rx)
		tt_unlock(&s->rx_lock);
	if (tx)
		tt_unlock(&s->tx_lock);
	if (d->counted)
		__atomic_sub_fetch(&tt_attached_count, 1, __ATOMIC_RELAXED);
	d->counted = false;
	/* Threads that are still inside have the memory for themselves. */
	if (tx && rx && !tt_load_acquire(&s->inside) && !tt_load_acquire(&s->sleepers))
		state_put(d);
}
