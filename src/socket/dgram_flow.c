/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dgram_flow.c - the flows of a sending socket: their table, finding the receiver, making it an offer. Design note in dgram.c.
 */
#include "socket/dgram_priv.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "base/raw.h"
#include "socket/rules.h"
#include "socket/trace.h"

/* A flow that was idle for so long makes room for another one. */
#define IDLE_NS 1000000000ull
/* R is told of kernel sends so long after the end of a flow. */
#define ENDED_NS 1000000000ull
/* The test setting "from the first byte" looks this often in a row before it backs off. */
#define EAGER_PROBES 4096u

/* ---- the table of flows; under tx_lock ---- */

bool tt_same_target(const struct tt_tuple *a, const struct tt_tuple *b)
{
	return a->family == b->family && a->remote_port == b->remote_port && a->scope == b->scope &&
	    memcmp(a->remote, b->remote, 16) == 0;
}

/* Only unicast flows; the kernel has multicast and broadcast. */
static bool is_unicast(const struct tt_tuple *t)
{
	static const uint8_t any[16];

	if (memcmp(t->remote, any, t->family == AF_INET ? 4 : 16) == 0)
		return false;
	if (t->family == AF_INET)
		return t->remote[0] < 224;
	return t->remote[0] != 0xff;
}

/* Where msg goes; false: nowhere that a flow can know. */
static bool target_of(const struct tt_dgram_state *d, const struct msghdr *msg, struct tt_tuple *to)
{
	memset(to, 0, sizeof(*to));
	if (!msg->msg_name) {
		*to = d->peer;
		return d->peer.family != 0;
	}
	if (msg->msg_namelen < sizeof(struct sockaddr_in) || msg->msg_namelen > sizeof(struct sockaddr_storage) ||
	    (((const struct sockaddr *)msg->msg_name)->sa_family == AF_INET6 &&
		msg->msg_namelen < sizeof(struct sockaddr_in6)))
		return false;
	return tt_tuple_set_remote(to, msg->msg_name) == 0;
}

static struct tt_tx_flow *set_of(struct tt_dgram_state *d, const struct tt_tuple *to)
{
	uint64_t part[2];
	uint64_t h;

	memcpy(part, to->remote, 16);
	h = (part[0] ^ part[1] * 3 ^ to->remote_port) * 0x9e3779b97f4a7c15ull;
	return &d->tx[(h >> 32) % (TT_DGRAM_TX_MAX / TT_TX_WAYS) * TT_TX_WAYS];
}

static void flow_begin(struct tt_sock *s, struct tt_dgram_state *d, struct tt_tx_flow *f,
    const struct tt_tuple *to)
{
	uint32_t at = (uint32_t)(f - d->tx);

	memset(f, 0, sizeof(*f));
	f->tuple = *to;
	f->stuck = UINT64_MAX;
	f->state = is_unicast(to) ? TT_FLOW_KERNEL : TT_FLOW_NEVER;
	if (f->state == TT_FLOW_NEVER)
		tt_stat_reason(s->stat, TT_REASON_MULTICAST);
	/* What the socket sent before it had a state counts too: most have one flow. */
	f->probe_at = tt_tun.attach_after > s->dgram_sent ? tt_tun.attach_after - s->dgram_sent : 1;
	d->tx_used[at / 64] |= 1ull << (at % 64);
}

/* The place for one more flow; NULL: all are in use. What is taken away from a flow that was idle, *ended gets. */
static struct tt_tx_flow *flow_room(struct tt_dgram_state *d, struct tt_tx_flow *set, struct tt_slot_ref *ended)
{
	uint64_t now = tt_tsc();
	struct tt_tx_flow *best = NULL;

	for (uint32_t i = 0; i < TT_TX_WAYS; i++) {
		struct tt_tx_flow *f = &set[i];

		if (f->state == TT_FLOW_FREE)
			return f;
		if (f->dir && now - f->used_tsc < tt_ns_to_tsc(IDLE_NS))
			continue;
		if (!best || (best->dir && !f->dir) || (!best->dir && f->msgs < best->msgs))
			best = f;
	}
	if (best && best->dir) {
		*ended = best->ref;
		d->offered--;
	}
	return best;
}

/* The flow to where msg goes; NULL: kernel. */
struct tt_tx_flow *tt_flow_find(struct tt_sock *s, struct tt_dgram_state *d, const struct msghdr *msg,
    struct tt_slot_ref *ended)
{
	struct tt_tx_flow *f = d->tx_last;
	struct tt_tx_flow *set;
	struct tt_tuple to;

	if (!target_of(d, msg, &to))
		return NULL;
	if (f && tt_same_target(&f->tuple, &to))
		return f;
	set = set_of(d, &to);
	for (uint32_t i = 0; i < TT_TX_WAYS; i++) {
		f = &set[i];
		if (f->state != TT_FLOW_FREE && tt_same_target(&f->tuple, &to)) {
			d->tx_last = f;
			return f;
		}
	}
	f = flow_room(d, set, ended);
	if (!f) {
		tt_stat_reason(s->stat, TT_REASON_LIMIT);
		return NULL;
	}
	flow_begin(s, d, f, &to);
	d->tx_last = f;
	return f;
}

/* The slot goes back. With no lock of the socket held; threads that are still in a kernel send keep it to the end. */
void tt_flow_release(struct tt_sock *s, const struct tt_slot_ref *ref)
{
	if (!ref->link || tt_load_acquire(&s->inside) || !tt_link_lock())
		return;
	tt_link_slot_release(ref);
	tt_link_unlock();
}

/* Under tx_lock. The flow's next datagrams look anew; the caller releases *ref later. */
void tt_flow_let_go(struct tt_dgram_state *d, struct tt_tx_flow *f, struct tt_slot_ref *ref)
{
	*ref = f->ref;
	tt_store_release(&f->dir, NULL);
	f->state = TT_FLOW_KERNEL;
	f->probe_at = f->msgs + tt_max(tt_tun.attach_after, 1u);
	d->offered--;
}

/* Under tx_lock. When R has emptied the ring, or long enough after the end. */
void tt_flow_let_go_if(struct tt_dgram_state *d, struct tt_tx_flow *f, struct tt_slot_ref *ref)
{
	if (tt_load_acquire(&f->dir->head) == f->tail || tt_tsc() - f->offered_tsc > tt_ns_to_tsc(ENDED_NS))
		tt_flow_let_go(d, f, ref);
}

/* Under tx_lock. No more by the ring. */
void tt_flow_end(struct tt_dgram_state *d, struct tt_tx_flow *f, struct tt_slot_ref *ref)
{
	f->state = TT_FLOW_ENDED;
	f->offered_tsc = tt_tsc();
	tt_flow_let_go_if(d, f, ref);
}

void tt_tx_end_all(struct tt_sock *s, bool closing)
{
	for (;;) {
		struct tt_slot_ref ref = {0};
		struct tt_dgram_state *d;

		if (!tt_lock_wait(&s->tx_lock))
			return;
		d = tt_dgram_get(s);
		for (uint32_t i = 0; d && d->offered && !ref.link && i < TT_DGRAM_TX_MAX; i++) {
			if (d->tx[i].state == TT_FLOW_OFFERED)
				tt_flow_end(d, &d->tx[i], &ref);
			if (d->tx[i].state == TT_FLOW_ENDED && closing)
				tt_flow_let_go(d, &d->tx[i], &ref);
		}
		tt_unlock(&s->tx_lock);
		if (!ref.link)
			return;
		tt_flow_release(s, &ref);
	}
}

void tt_tx_forget_all(struct tt_dgram_state *d)
{
	for (uint32_t i = 0; i < TT_DGRAM_TX_MAX; i++) {
		d->tx[i].dir = NULL;
		if (d->tx[i].state == TT_FLOW_OFFERED || d->tx[i].state == TT_FLOW_ENDED)
			d->tx[i].state = TT_FLOW_KERNEL;
	}
	d->offered = 0;
}

/* ---- finding the receiver; under tx_lock ---- */

static void flow_later(struct tt_sock *s, struct tt_tx_flow *f, enum tt_reason reason)
{
	bool eager = tt_tun.attach_after == 0 && f->msgs < EAGER_PROBES;

	f->probe_at = eager ? f->msgs + 1 : tt_max(f->msgs * 2, f->msgs + 1);
	tt_stat_reason(s->stat, reason);
}

/* Our own port, and our address if bound to one. */
static int source_of(int fd, struct tt_tuple *t)
{
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);
	struct tt_tuple mine = {0};
	static const uint8_t any[16];
	int err = (int)tt_raw3(SYS_getsockname, fd, &addr, &len);

	if (err < 0)
		return err;
	err = tt_tuple_set_local(&mine, (struct sockaddr *)&addr);
	if (err)
		return err;
	if (mine.local_port == 0)
		return -EAGAIN;
	t->local_port = mine.local_port;
	memset(t->local, 0, sizeof(t->local));
	if (memcmp(mine.local, any, 16) == 0)
		return 0;
	if (mine.family != t->family)
		return -EAFNOSUPPORT;
	memcpy(t->local, mine.local, 16);
	return 0;
}

static int flow_offer(struct tt_sock *s, struct tt_tx_flow *f, const uint8_t inbox[TT_INBOX_ID_BYTES])
{
	struct tt_offer offer = {.magic = TT_OFFER_MAGIC, .version = TT_SHM_VERSION};
	int seg_fd;
	int pid = 0;
	int err = tt_inbox_open();

	if (err)
		return err;
	err = tt_link_slot_new(inbox, TT_RING_DGRAM, s, &f->ref, &seg_fd);
	if (err)
		return err;
	memcpy(offer.from, tt_inbox_id(), TT_INBOX_ID_BYTES);
	offer.geo = f->ref.seg->geo;
	offer.slot = f->ref.in_seg;
	offer.ticket = f->ref.ticket;
	offer.protocol = IPPROTO_UDP;
	offer.from_cookie = s->cookie;
	offer.to_cookie = f->receiver;
	offer.netns = s->netns;
	offer.flow = f->tuple;
	err = tt_inbox_send(inbox, &offer, seg_fd, &pid);
	if (seg_fd >= 0)
		(void)tt_raw1(SYS_close, seg_fd);
	if (err) {
		if (seg_fd >= 0 || err == -ECONNREFUSED)
			f->ref.link->dead = true;
		tt_link_slot_release(&f->ref);
		return err;
	}
	f->ref.link->peer_pid = pid;
	return 0;
}

static void flow_offered(struct tt_sock *s, struct tt_dgram_state *d, struct tt_tx_flow *f)
{
	/* Before R's first wait, as for a stream (attach.c). */
	tt_store_relaxed(&f->ref.slot->dir[0].s_cpu, (uint32_t)sched_getcpu());
	f->ring = tt_seg_ring(f->ref.seg, f->ref.in_seg, 0);
	f->size = f->ref.seg->geo.ring_bytes;
	f->tail = f->head_seen = f->last = 0;
	f->stuck = UINT64_MAX;
	f->kernel_sent = 0;
	f->untold_seen = tt_load_relaxed(&d->untold);
	f->verified_tsc = f->offered_tsc = f->used_tsc = tt_tsc();
	f->state = TT_FLOW_OFFERED;
	d->offered++;
	tt_store_release(&f->dir, &f->ref.slot->dir[0]);
	s->stat->tx = TT_TRANSPORT_SHM;
	s->stat->n.attaches++;
	tt_stat_reason(s->stat, TT_REASON_NONE);
}

/* What went wrong, where that says more than that nobody is there. */
static enum tt_reason probe_reason(int err, enum tt_reason nobody)
{
	enum tt_reason reason = tt_attach_reason(err);

	return reason == TT_REASON_PEER_PLAIN || reason == TT_REASON_PEER_CHANGED ? nobody : reason;
}

void tt_flow_probe(struct tt_sock *s, struct tt_dgram_state *d, int fd, struct tt_tx_flow *f)
{
	uint8_t inbox[TT_INBOX_ID_BYTES];
	uint32_t uid;
	int err;

	s->stat->n.attach_tries++;
	if (!s->cookie) {
		s->cookie = tt_ident_cookie(fd);
		s->netns = tt_ident_netns(fd);
	}
	err = source_of(fd, &f->tuple);
	if (!err)
		err = tt_ident_local_route(&f->tuple);
	if (!err && !tt_rules_allow(false, IPPROTO_UDP, &f->tuple)) {
		f->state = TT_FLOW_NEVER;
		tt_stat_reason(s->stat, TT_REASON_RULE);
		tt_trace_sock(fd, s->stat, "kernel", TT_REASON_RULE);
		return;
	}
	if (!err)
		err = tt_ident_udp_receiver(&f->tuple, &f->receiver, &uid);
	if (err) {
		flow_later(s, f, probe_reason(err, TT_REASON_PEER_REMOTE));
		return;
	}
	err = tt_hint_lookup(s->netns, f->receiver, inbox, NULL);
	if (err || !tt_link_trylock()) {
		flow_later(s, f, probe_reason(err, TT_REASON_PEER_PLAIN));
		return;
	}
	err = flow_offer(s, f, inbox);
	tt_link_unlock();
	if (err)
		flow_later(s, f, probe_reason(err, TT_REASON_PEER_PLAIN));
	else
		flow_offered(s, d, f);
}
