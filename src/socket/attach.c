/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * attach.c - how the two ends of a connection find each other (same-host.md rules 14 to 19).
 *
 * Lazily: after a few messages the end that accepted publishes a hint (its socket's cookie -> its inbox), and the end that
 * connected asks the kernel whose socket is at the other end, looks that cookie up, and sends an offer. The acceptor
 * asks the kernel the same question the other way round before it believes the offer. No step blocks; whatever fails
 * leaves the connection on the kernel's path, with the reason in its statistics row.
 */
#include "socket/sock.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <string.h>

#include "base/raw.h"
#include "socket/dgram.h"
#include "socket/epoll.h"
#include "socket/lease.h"
#include "socket/rules.h"
#include "socket/spin.h"
#include "socket/trace.h"

#define COOKIE_BUCKETS 4096u
#define OFFERS_A_TIME 16
/* The inbox is looked at so often after something was published or came in, and twice as seldom after each look in vain. */
#define POLL_EVERY_NS 50000
#define POLL_SELDOM_NS 2000000
/* A look that found nobody is followed by another when twice as many messages have moved, or half as many bytes again, and at least these. */
#define PROBE_BYTES (256u << 10)
/* The test setting "from the first byte" looks this often in a row before it backs off. */
#define EAGER_PROBES 4096u
/* and waits so long for the other end, before the first byte. */
#define FIRST_WAIT_NS 2000000
#define BULK_MESSAGE 4096u
/* An offer that nobody has taken after so many more messages is withdrawn. */
#define OFFER_MSGS 64u
/* What an heir waits for is looked for at each of so many messages, then at every so many. */
#define HEIR_EAGER 256u
#define HEIR_SELDOM 64u

uint32_t tt_attached_count;
uint32_t tt_published_count;

/* Published sockets by cookie. Under the link lock. */
static struct tt_sock *by_cookie[COOKIE_BUCKETS];

/* How long from one look at the inbox to the next, in cycles. */
static uint64_t poll_every;

static struct tt_sock **cookie_bucket(uint64_t cookie)
{
	return &by_cookie[(cookie ^ cookie >> 12) % COOKIE_BUCKETS];
}

static struct tt_sock *cookie_find(uint64_t cookie)
{
	for (struct tt_sock *s = *cookie_bucket(cookie); s; s = s->hash_next)
		if (s->cookie == cookie)
			return s;
	return NULL;
}

static void cookie_remove(struct tt_sock *s)
{
	struct tt_sock **at = cookie_bucket(s->cookie);

	while (*at && *at != s)
		at = &(*at)->hash_next;
	if (*at)
		*at = s->hash_next;
}

void tt_attach_never(struct tt_sock *s, enum tt_reason reason)
{
	tt_attach_set(s, TT_ATTACH_NEVER);
	tt_stat_reason(s->stat, reason);
	tt_trace_sock(tt_load_relaxed(&s->fd), s->stat, "kernel", reason);
}

static void later(struct tt_sock *s, enum tt_reason reason)
{
	uint32_t msgs = tt_load_relaxed(&s->msgs);
	bool eager = tt_tun.attach_after == 0 && msgs < EAGER_PROBES;
	uint64_t bytes = tt_load_relaxed(&s->kernel_bytes);

	tt_store_relaxed(&s->probe_bytes, bytes + tt_max(bytes / 2, (uint64_t)PROBE_BYTES));
	tt_store_relaxed(&s->probe_at, eager ? msgs + 1 : tt_max(msgs * 2, msgs + tt_tun.attach_after));
	tt_stat_reason(s->stat, reason);
}

enum tt_reason tt_attach_reason(int err)
{
	switch (err) {
	case -ENOMEM:
	case -EFBIG:
		return TT_REASON_MEMORY;
	case -EMFILE:
	case -ENFILE:
		return TT_REASON_DESCRIPTORS;
	case -ENOSPC:
		return TT_REASON_LIMIT;
	case -ENOTCONN:
		return TT_REASON_PEER_CHANGED;
	case -EPERM:
	case -EAFNOSUPPORT: /* no netlink sockets */
		return TT_REASON_PERMISSION;
	case -EACCES:
		return TT_REASON_PEER_USER;
	default:
		return TT_REASON_PEER_PLAIN;
	}
}

static void address_show(struct sockaddr_in6 *out, int family, const uint8_t ip[16], uint16_t port)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	uint8_t bytes[16];

	memcpy(bytes, ip, sizeof(bytes));
	if (family == AF_INET) {
		memcpy(bytes, mapped, sizeof(mapped));
		memcpy(bytes + 12, ip, 4);
	}
	out->sin6_family = AF_INET6;
	memcpy(&out->sin6_addr, bytes, sizeof(bytes));
	out->sin6_port = port;
}

static void addresses_show(struct tt_sock *s)
{
	address_show(&s->stat->local, s->tuple.family, s->tuple.local, s->tuple.local_port);
	address_show(&s->stat->remote, s->tuple.family, s->tuple.remote, s->tuple.remote_port);
}

/* Facts that hold for the life of a connection. False: kernel for good. */
static bool identity(struct tt_sock *s, int fd)
{
	if (s->tuple_known)
		return true;
	if (tt_tuple_of(fd, &s->tuple)) {
		tt_attach_never(s, TT_REASON_FAMILY);
		return false;
	}
	addresses_show(s);
	if (!tt_rules_allow(s->role == TT_ROLE_SERVER, IPPROTO_TCP, &s->tuple)) {
		tt_attach_never(s, TT_REASON_RULE);
		return false;
	}
	s->cookie = tt_ident_cookie(fd);
	s->netns = tt_ident_netns(fd);
	if (!s->cookie || !tt_ident_not_translated(fd, &s->tuple)) {
		tt_attach_never(s, s->cookie ? TT_REASON_NAT : TT_REASON_PERMISSION);
		return false;
	}
	s->tuple_known = true;
	return true;
}

static bool option_is_on(int fd, int name)
{
	int value = 0;
	socklen_t len = sizeof(value);

	return tt_raw5(SYS_getsockopt, fd, IPPROTO_TCP, name, &value, &len) == 0 && value;
}

/*
 * Nagle would hold a lone kernel send between ring sends back until the peer's delayed ACK, and a cork for 200 ms (rule 10). What
 * the program has set, or sets from now on, it is told from our copy.
 */
static void push_on(struct tt_sock *s, int fd)
{
	static const int on = 1;
	static const int off;

	if (tt_load_relaxed(&s->push_own))
		return;
	tt_store_relaxed(&s->nodelay, option_is_on(fd, TCP_NODELAY));
	tt_store_relaxed(&s->cork, option_is_on(fd, TCP_CORK));
	tt_store_release(&s->push_own, true);
	if (!tt_load_relaxed(&s->nodelay))
		(void)tt_raw5(SYS_setsockopt, fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (tt_load_relaxed(&s->cork))
		(void)tt_raw5(SYS_setsockopt, fd, IPPROTO_TCP, TCP_CORK, &off, sizeof(off));
}

void tt_attach_push_back(struct tt_sock *s, int fd)
{
	int nodelay = tt_load_relaxed(&s->nodelay);
	int cork = tt_load_relaxed(&s->cork);

	if (!tt_load_relaxed(&s->push_own))
		return;
	tt_store_release(&s->push_own, false);
	(void)tt_raw5(SYS_setsockopt, fd, IPPROTO_TCP, TCP_NODELAY, &nodelay, sizeof(nodelay));
	(void)tt_raw5(SYS_setsockopt, fd, IPPROTO_TCP, TCP_CORK, &cork, sizeof(cork));
}

static void view_tx(struct tt_sock *s, int fd)
{
	unsigned int dir = tt_link_tx(s->ref.link);
	uint64_t accepted = 0;

	push_on(s, fd); /* also pushes out what MSG_MORE had held back */
	/* Sends that are in the kernel now: each takes itself out when it is back (send_native()). */
	tt_store_release(&s->ref.slot->dir[dir].kpend, s->native_sends);
	if (tt_ident_tcp_accepted(fd, &accepted) == 0)
		__atomic_store_n(&s->ref.slot->dir[dir].kpub, accepted, __ATOMIC_RELEASE);
	/* One by one: a sender looks at some of it before it sees dir. */
	s->tx.ring = tt_seg_ring(s->ref.seg, s->ref.in_seg, dir);
	s->tx.size = s->ref.seg->geo.ring_bytes;
	s->tx.tail = 0;
	s->tx.head_seen = 0;
	s->tx.look_tsc = 0;
	/* R must know before its first wait: a spin on our own processor would keep us from it. */
	s->tx.cpu = (uint32_t)sched_getcpu();
	tt_store_relaxed(&s->ref.slot->dir[dir].s_cpu, s->tx.cpu);
	s->tx.bells_lost = 0;
	s->tx.stuck = UINT64_MAX;
	tt_store_relaxed(&s->tx.ring_gen, 0);
	tt_store_relaxed(&s->tx.kernel_gen, 1); /* by the kernel so far */
	tt_store_release(&s->ref.slot->dir[dir].s_fd, (uint32_t)fd + 1);
	__atomic_store_n(&s->tx.dir, &s->ref.slot->dir[dir], __ATOMIC_RELEASE);
}

static void view_rx(struct tt_sock *s)
{
	unsigned int dir = tt_link_rx(s->ref.link);
	uint64_t consumed;

	/* Another process that held it may have read, too. */
	if ((s->share || s->recount) && tt_ident_tcp_consumed(tt_load_relaxed(&s->fd), &consumed) == 0)
		s->rx.kcons = consumed;

	s->rx.ring = tt_seg_ring(s->ref.seg, s->ref.in_seg, dir);
	s->rx.size = s->ref.seg->geo.ring_bytes;
	s->rx.head = 0;
	tt_store_relaxed(&s->rx.kernel_event, true);
	if (tt_stdio_may_read(s))
		s->rx.kernel_only = true;
	if (s->rx.kernel_only) /* since the offer */
		__atomic_store_n(&s->ref.slot->dir[dir].word.asleep, TT_LEFT_OFF, __ATOMIC_RELAXED);
	__atomic_store_n(&s->rx.dir, &s->ref.slot->dir[dir], __ATOMIC_RELEASE);
}

static void attached(struct tt_sock *s)
{
	tt_attach_set(s, TT_ATTACH_DONE);
	__atomic_add_fetch(&tt_attached_count, 1, __ATOMIC_RELAXED);
	tt_stat_add(&tt_stat->socks_attached, 1);
	s->stat->n.attaches++;
	tt_store_relaxed(&s->stat->tx, (uint16_t)TT_TRANSPORT_SHM);
	tt_store_relaxed(&s->stat->rx, (uint16_t)TT_TRANSPORT_SHM);
	s->stat->peer_pid = tt_load_relaxed(&s->ref.link->peer_pid);
	if (s->rx.kernel_only)
		tt_store_relaxed(&s->stat->rx, (uint16_t)TT_TRANSPORT_KERNEL);
	tt_stat_reason(s->stat, tt_stdio_may_read(s) ? TT_REASON_UNSEEN : TT_REASON_NONE);
	tt_trace_sock(tt_load_relaxed(&s->fd), s->stat, "attached", TT_REASON_NONE);
	tt_epoll_attached(s);
}

static void republish(struct tt_sock *s, void *arg)
{
	(void)arg;
	if (!tt_load_relaxed(&s->published))
		return;
	cookie_remove(s);
	tt_store_relaxed(&s->published, false);
	tt_store_relaxed(&s->probe_at, tt_load_relaxed(&s->msgs));
	__atomic_sub_fetch(&tt_published_count, 1, __ATOMIC_RELAXED);
}

/*
 * After set*id the folder is another one, and so must the inbox be: its peers are shown who called listen() (rule 19). Asked
 * where the answer matters; the calls themselves come in too many forms. Under the link lock.
 */
static void user_look(void)
{
	static unsigned int user;
	static bool known;
	unsigned int now = tt_raw_geteuid();

	if (known && now == user)
		return;
	if (known) {
		tt_sock_for_each(republish, NULL);
		tt_inbox_forget();
		tt_link_retire();
	}
	user = now;
	known = true;
	if (tt_hints_set_folder(tt_tun.dir))
		return; /* too long a name: said at the start */
}

/* ---- the end that connected ---- */

static int offer_make(struct tt_sock *s, const uint8_t inbox[TT_INBOX_ID_BYTES])
{
	struct tt_offer offer = {.magic = TT_OFFER_MAGIC, .version = TT_SHM_VERSION};
	int seg_fd;
	int pid = 0;
	int err = tt_inbox_open();

	if (err)
		return err;
	err = tt_link_slot_new(inbox, s->want_bulk ? TT_RING_BULK : TT_RING_SMALL, s, &s->ref, &seg_fd);
	if (err)
		return err;
	memcpy(offer.from, tt_inbox_id(), TT_INBOX_ID_BYTES);
	offer.geo = s->ref.seg->geo;
	offer.slot = s->ref.in_seg;
	offer.ticket = s->ref.ticket;
	offer.protocol = IPPROTO_TCP;
	offer.from_cookie = s->cookie;
	offer.to_cookie = s->peer_cookie;
	offer.netns = s->netns;
	err = tt_inbox_send(inbox, &offer, seg_fd, &pid);
	if (seg_fd >= 0) {
		(void)tt_raw1(SYS_close, seg_fd);
		if (err) /* the other end lacks a segment that we count: this link can't go on */
			s->ref.link->dead = true;
	}
	if (err) {
		if (err == -ECONNREFUSED)
			s->ref.link->dead = true;
		tt_link_slot_release(&s->ref);
		return err;
	}
	tt_store_relaxed(&s->ref.link->peer_pid, pid);
	return 0;
}

static void probe(struct tt_sock *s, int fd)
{
	uint8_t inbox[TT_INBOX_ID_BYTES];
	uint32_t msgs;
	uint32_t uid;
	int err;

	s->stat->n.attach_tries++;
	if (!identity(s, fd))
		return;
	err = tt_ident_tcp_peer(&s->tuple, &s->peer_cookie, &uid);
	if (err == -ENOENT) {
		tt_attach_never(s, TT_REASON_PEER_REMOTE);
		return;
	}
	if (err == -ENOTCONN && !tt_ident_tcp_established(fd)) {
		/* The other end has closed its sending half, and ours is the only direction left. */
		tt_store_relaxed(&s->tx.last, true);
		tt_attach_never(s, TT_REASON_CLOSED);
		return;
	}
	if (err) {
		later(s, tt_attach_reason(err));
		return;
	}
	if (tt_link_trylock()) {
		user_look();
		tt_link_unlock();
	}
	err = tt_hint_lookup(s->netns, s->peer_cookie, inbox, NULL);
	if (err) {
		later(s, tt_attach_reason(err));
		return;
	}
	msgs = tt_load_relaxed(&s->msgs);
	s->want_bulk = msgs && tt_load_relaxed(&s->kernel_bytes) / msgs >= BULK_MESSAGE;
	if (!tt_lock_try(&s->tx_lock)) {
		later(s, TT_REASON_YOUNG);
		return;
	}
	if (!tt_link_trylock()) {
		tt_unlock(&s->tx_lock);
		later(s, TT_REASON_YOUNG);
		return;
	}
	/* After the lookup: our own connection still stands, so the cookie was its peer's. */
	err = tt_attach_state(s) == TT_ATTACH_NONE && tt_ident_tcp_established(fd) ? 0 : -ENOTCONN;
	if (!err)
		err = offer_make(s, inbox);
	if (!err) {
		view_tx(s, fd);
		tt_attach_set(s, TT_ATTACH_OFFERED);
		tt_store_relaxed(&s->probe_at, tt_max(msgs * 2, msgs + OFFER_MSGS));
	} else {
		later(s, tt_attach_reason(err));
	}
	tt_link_unlock();
	tt_unlock(&s->tx_lock);
}

void tt_attach_check(struct tt_sock *s)
{
	if (tt_attach_state(s) != TT_ATTACH_OFFERED || tt_slot_state(&s->ref) != TT_SLOT_ACCEPTED)
		return;
	/* Under tx_lock no other thread withdraws the offer and gives the slot away. */
	if (!tt_lock_try(&s->tx_lock))
		return;
	if (tt_lock_try(&s->rx_lock)) {
		if (tt_attach_state(s) == TT_ATTACH_OFFERED && s->tx.dir &&
		    tt_slot_state(&s->ref) == TT_SLOT_ACCEPTED) {
			view_rx(s);
			attached(s);
		}
		tt_unlock(&s->rx_lock);
	}
	tt_unlock(&s->tx_lock);
}

/* ---- the end that accepted ---- */

static void publish_sock(struct tt_sock *s)
{
	int err;

	if (!tt_link_trylock())
		return;
	user_look();
	err = tt_inbox_open();
	if (!err)
		err = tt_hint_publish(s->netns, s->cookie, tt_inbox_id());
	if (!err) {
		struct tt_sock **bucket = cookie_bucket(s->cookie);

		s->hash_next = *bucket;
		*bucket = s;
		tt_store_relaxed(&s->published, true);
		tt_store_relaxed(&poll_every, tt_ns_to_tsc(POLL_EVERY_NS));
		__atomic_add_fetch(&tt_published_count, 1, __ATOMIC_RELAXED);
		tt_stat_reason(s->stat, TT_REASON_PEER_PLAIN);
	} else {
		later(s, tt_attach_reason(err));
	}
	tt_link_unlock();
}

static void publish(struct tt_sock *s, int fd)
{
	if (identity(s, fd))
		publish_sock(s);
}

void tt_attach_publish_dgram(struct tt_sock *s)
{
	publish_sock(s);
}

/* Is the offer what it says? The kernel answers. */
static int offer_check(struct tt_sock *s, const struct tt_offer *offer)
{
	int fd = tt_load_relaxed(&s->fd);
	uint64_t cookie;
	uint32_t uid;
	int err;

	if (tt_attach_state(s) != TT_ATTACH_NONE || tt_share_held(s) || s->type != SOCK_STREAM || fd < 0 ||
	    offer->netns != s->netns)
		return -ENOTCONN;
	err = tt_ident_tcp_peer(&s->tuple, &cookie, &uid);
	if (err)
		return err;
	if (cookie != offer->from_cookie)
		return -EACCES;
	return tt_ident_cookie(fd) == s->cookie && tt_ident_tcp_established(fd) ? 0 : -ENOTCONN;
}

static void offer_accept(struct tt_sock *s, const struct tt_offer *offer, int pid)
{
	if (offer_check(s, offer))
		return;
	if (!tt_lock_try(&s->tx_lock))
		return;
	if (tt_lock_try(&s->rx_lock)) {
		int err = tt_link_slot_take(offer, pid, s, &s->ref);

		if (!err) {
			s->peer_cookie = offer->from_cookie;
			view_tx(s, tt_load_relaxed(&s->fd));
			view_rx(s);
			cookie_remove(s);
			tt_store_relaxed(&s->published, false);
			__atomic_sub_fetch(&tt_published_count, 1, __ATOMIC_RELAXED);
			attached(s);
		} else {
			tt_stat_reason(s->stat, tt_attach_reason(err));
		}
		tt_unlock(&s->rx_lock);
	}
	tt_unlock(&s->tx_lock);
}

/* False: there were none. */
static bool offers_take(void)
{
	for (int i = 0; i < OFFERS_A_TIME; i++) {
		struct tt_offer offer;
		struct tt_sock *s;
		int fd;
		int pid;
		int err = tt_inbox_take(&offer, &fd, &pid);

		if (err == -EAGAIN)
			return i > 0;
		if (err)
			continue;
		if (fd >= 0) {
			err = tt_link_segment_take(&offer, fd);
			(void)tt_raw1(SYS_close, fd);
			if (err) {
				tt_stat_add(&tt_stat->fallbacks[tt_attach_reason(err)], 1);
				continue;
			}
		}
		s = cookie_find(offer.to_cookie);
		if (s && offer.protocol == IPPROTO_TCP)
			offer_accept(s, &offer, pid);
		else if (s && offer.protocol == IPPROTO_UDP)
			tt_dgram_offered(s, &offer, pid);
	}
	return true;
}

void tt_attach_poll(void)
{
	static uint64_t last;
	uint64_t now;

	if (!__atomic_load_n(&tt_published_count, __ATOMIC_RELAXED))
		return;
	now = tt_tsc();
	if (tt_tun.attach_after && now - tt_load_relaxed(&last) < tt_load_relaxed(&poll_every))
		return;
	tt_store_relaxed(&last, now);
	if (!tt_link_trylock())
		return;
	tt_store_relaxed(&poll_every, offers_take() ? tt_ns_to_tsc(POLL_EVERY_NS)
		: tt_min(2 * tt_load_relaxed(&poll_every), tt_ns_to_tsc(POLL_SELDOM_NS)));
	tt_link_unlock();
}

/* ---- both ---- */

static bool due(const struct tt_sock *s)
{
	return tt_load_relaxed(&s->msgs) >= tt_load_relaxed(&s->probe_at) ||
	    tt_load_relaxed(&s->kernel_bytes) >=
	    tt_max(tt_load_relaxed(&s->probe_bytes), (uint64_t)tt_tun.attach_kb << 10);
}

/* To an acceptor that is just taking the offer, or has it in its inbox yet: nobody is here any more (again.c). */
static void offer_dead(const struct tt_sock *s)
{
	struct tt_slot *slot = s->ref.slot;

	tt_store_release(&slot->dir[tt_link_tx(s->ref.link)].fin, 1);
	tt_store_release(&slot->dir[tt_link_rx(s->ref.link)].r_gone, 1);
}

/*
 * Nobody answers: the process that published the socket may have given it to a child since. What was offered goes back, and
 * the search begins again. One that accepts at this very moment sees that it was withdrawn.
 */
static void offer_withdraw(struct tt_sock *s)
{
	struct tt_dir *dir;

	if (!tt_lock_try(&s->tx_lock))
		return;
	dir = s->tx.dir;
	if (dir && tt_slot_state(&s->ref) == TT_SLOT_OFFERED && tt_link_trylock()) {
		/* A send that begins counts itself inside, then looks at dir: either we see it, or it sees none (and waits for the lock). */
		__atomic_store_n(&s->tx.dir, NULL, __ATOMIC_SEQ_CST);
		if (__atomic_load_n(&s->inside, __ATOMIC_SEQ_CST) == 0) {
			offer_dead(s);
			tt_attach_set(s, TT_ATTACH_NONE); /* before the slot can be another connection's */
			tt_link_slot_release(&s->ref);
			later(s, TT_REASON_PEER_CHANGED);
		} else {
			tt_store_release(&s->tx.dir, dir);
		}
		tt_link_unlock();
	}
	tt_unlock(&s->tx_lock);
}

#define UNOFFER_TRIES 100

void tt_attach_unoffer(struct tt_sock *s)
{
	for (int i = 0; i < UNOFFER_TRIES && tt_attach_state(s) == TT_ATTACH_OFFERED && !s->foreign; i++) {
		tt_attach_check(s);
		if (tt_attach_state(s) == TT_ATTACH_OFFERED)
			offer_withdraw(s);
		if (tt_attach_state(s) == TT_ATTACH_OFFERED)
			(void)tt_raw0(SYS_sched_yield);
	}
}

/* One step towards the other end, by one thread at a time. */
static void search(struct tt_sock *s, int fd)
{
	if (tt_swap_acquire(&s->searching, true))
		return;
	if (tt_attach_state(s) != TT_ATTACH_NONE)
		; /* by the thread before us */
	else if (s->role == TT_ROLE_CLIENT)
		probe(s, fd);
	else if (s->role == TT_ROLE_SERVER && !tt_load_relaxed(&s->published))
		publish(s, fd);
	tt_store_release(&s->searching, false);
}

static void moved(struct tt_sock *s, int fd, size_t bytes)
{
	uint32_t msgs = tt_load_relaxed(&s->msgs) + 1;

	/* Two threads may count over each other: then it attaches a message later. */
	tt_store_relaxed(&s->msgs, msgs);
	tt_store_relaxed(&s->kernel_bytes, tt_load_relaxed(&s->kernel_bytes) + bytes);
	if (tt_unlikely(tt_attach_state(s) == TT_ATTACH_OFFERED && !s->foreign &&
		msgs >= tt_load_relaxed(&s->probe_at)))
		offer_withdraw(s);
	if (tt_attach_state(s) != TT_ATTACH_NONE || !due(s))
		return;
	/* Asked at each message: the other holder may be about to close it, or to execute a program. */
	if (tt_share_held(s) && (!s->heir_nonce || (msgs >= HEIR_EAGER && msgs % HEIR_SELDOM) || !tt_heir_look(s))) {
		if (s->stat->reason != TT_REASON_FORKED)
			tt_stat_reason(s->stat, TT_REASON_FORKED);
		return;
	}
	if (s->role != TT_ROLE_LISTENER)
		search(s, fd);
}

void tt_attach_first(struct tt_sock *s, int fd)
{
	uint64_t end = tt_tsc() + tt_ns_to_tsc(FIRST_WAIT_NS);

	/* With whom a socket is shared is not known yet: the lazy way looks at that. */
	while (tt_attach_state(s) != TT_ATTACH_DONE && tt_attach_state(s) != TT_ATTACH_NEVER && !tt_share_held(s)) {
		if (tt_attach_state(s) == TT_ATTACH_OFFERED)
			tt_attach_check(s);
		else
			search(s, fd);
		tt_attach_poll();
		if (tt_tsc() > end)
			return;
		(void)tt_raw0(SYS_sched_yield);
	}
}

void tt_attach_sent(struct tt_sock *s, int fd, size_t bytes)
{
	moved(s, fd, bytes);
	if (tt_attach_state(s) == TT_ATTACH_OFFERED)
		tt_attach_check(s);
	else
		tt_attach_poll();
}

void tt_attach_received(struct tt_sock *s, int fd, size_t bytes)
{
	tt_attach_sent(s, fd, bytes);
}

void tt_detach(struct tt_sock *s)
{
	bool had_rx;

	if (tt_load_relaxed(&s->published)) {
		if (tt_link_lock()) {
			cookie_remove(s);
			tt_store_relaxed(&s->published, false);
			__atomic_sub_fetch(&tt_published_count, 1, __ATOMIC_RELAXED);
			tt_link_unlock();
		}
	}
	if (!s->tx.dir && !s->rx.dir)
		return;
	tt_epoll_detaching(s);
	/* In a handler that interrupted this very socket: leave the slot to the end of the process. */
	if (!tt_lock_wait(&s->tx_lock))
		return;
	if (!tt_lock_wait(&s->rx_lock)) {
		tt_unlock(&s->tx_lock);
		return;
	}
	had_rx = s->rx.dir != NULL;
	if (!had_rx && !s->foreign)
		offer_dead(s);
	if (had_rx && !s->foreign) {
		s->rx.kernel_only = true;
		s->ref.gov = 0;
		__atomic_store_n(&s->rx.dir->gov, 0, __ATOMIC_SEQ_CST);
		tt_word_force_close(&s->rx.dir->word);
		__atomic_store_n(&s->rx.dir->r_gone, 1, __ATOMIC_RELEASE);
	}
	/* As in offer_withdraw(): who counts itself inside after this finds none, and of who did before we know below. */
	__atomic_store_n(&s->tx.dir, NULL, __ATOMIC_SEQ_CST);
	__atomic_store_n(&s->rx.dir, NULL, __ATOMIC_SEQ_CST);
	if (had_rx)
		__atomic_sub_fetch(&tt_attached_count, 1, __ATOMIC_RELAXED);
	/*
	 * Threads that are still in a kernel call on it will come back to the slot, and so may another process that holds the
	 * socket since a fork: it then stays to the end.
	 */
	if (!s->foreign && !tt_share_held(s) && !__atomic_load_n(&s->inside, __ATOMIC_SEQ_CST) &&
	    !__atomic_load_n(&s->sleepers, __ATOMIC_SEQ_CST) && tt_link_lock()) {
		tt_link_slot_release(&s->ref);
		tt_link_unlock();
	}
	tt_unlock(&s->rx_lock);
	tt_unlock(&s->tx_lock);
}

static void unpublish(struct tt_sock *s, void *arg)
{
	(void)arg;
	/* The child may publish what it inherited and uses alone. */
	tt_store_relaxed(&s->published, false);
	s->hash_next = NULL;
}

/*
 * As a reset of the peer's would: who waits on it wakes with ECONNRESET, and so does the peer. (Shutting it down instead
 * would raise SIGPIPE in a thread that sends.)
 */
static void lifeline_reset(struct tt_sock *s)
{
	static const struct sockaddr none = {.sa_family = AF_UNSPEC};

	/* Closed unseen, the number may be another socket's (rule 19). */
	if (s->fd < 0 || !s->cookie || tt_ident_cookie(s->fd) != s->cookie)
		return;
	/* Some kernels refuse it while a thread waits. */
	if (tt_raw3(SYS_connect, s->fd, &none, sizeof(none)) < 0)
		(void)tt_raw2(SYS_shutdown, s->fd, SHUT_RDWR);
}

void tt_peer_hostile(struct tt_sock *s)
{
	tt_tx_stop(s);
	s->rx.kernel_only = true;
	s->forked = 0;
	s->hostile = true;
	tt_stat_reason(s->stat, TT_REASON_HOSTILE);
	tt_trace_sock(s->fd, s->stat, "reset", TT_REASON_HOSTILE);
	lifeline_reset(s);
}

void tt_attach_fork_child(void)
{
	memset(by_cookie, 0, sizeof(by_cookie));
	tt_published_count = 0;
	tt_sock_for_each(unpublish, NULL);
}
