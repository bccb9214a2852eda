/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dgram_gone.c - learning that a receiver is gone, and telling the program. Design note in dgram.c.
 *
 * By the kernel, a datagram for a port that nobody has is answered at once, and the next call or wait on the connected socket
 * shows it. One that went into the ring of a process that was killed is answered by nobody. So whoever is about to sleep, or asks
 * again and again without sleeping, looks whether the newest datagram was read; if not, whether the receiver is still there; and if
 * it isn't, has the kernel refuse that datagram. A set of epoll doesn't know which sockets have sent: they are noted here.
 */
#include "socket/dgram_priv.h"

#include <errno.h>

#include "base/raw.h"

/* An offer that nobody has taken is made anew. */
#define OFFER_NS 1000000000ull
/* Sockets, by descriptor; one that another one has pushed out learns of it at its next send. */
#define NOTED 64u

static struct tt_sock *noted[NOTED];
static bool any_noted;

/*
 * Nobody is there any more. Datagrams that lie unread would have been refused by now: the last one, sent by the kernel,
 * raises that error where the program looks for it. (Unconnected sockets get none.)
 */
static void flow_lost(struct tt_dgram_state *d, int fd, const struct tt_tx_flow *f)
{
	const struct tt_dgram_head *head;
	uint64_t at = f->last & (f->size - 1);
	uint32_t len;

	if (!d->peer.family || !tt_same_target(&d->peer, &f->tuple) || tt_load_acquire(&f->dir->head) == f->tail ||
	    f->tail == 0)
		return;
	head = (const struct tt_dgram_head *)(const void *)(f->ring + at);
	len = tt_load_relaxed(&head->len); /* once: R can write there, too */
	if (len <= TT_DGRAM_MAX && tt_record_bytes(len) <= f->size - at)
		(void)tt_raw6(SYS_sendto, fd, head + 1, len, MSG_DONTWAIT | MSG_NOSIGNAL, 0, 0);
}

bool tt_flow_verify(struct tt_sock *s, struct tt_dgram_state *d, int fd, struct tt_tx_flow *f,
    struct tt_slot_ref *ended)
{
	uint64_t cookie = 0;
	enum tt_reason why = TT_REASON_PEER_CHANGED;
	uint32_t uid;
	int err = 0;

	f->verified_tsc = tt_tsc();
	if (!tt_load_relaxed(&f->dir->r_gone)) {
		err = tt_ident_udp_receiver(&f->tuple, &cookie, &uid);
		if (!err && cookie == f->receiver) {
			if (tt_slot_state(&f->ref) == TT_SLOT_ACCEPTED ||
			    f->verified_tsc - f->offered_tsc < tt_ns_to_tsc(OFFER_NS))
				return true;
			why = TT_REASON_DECLINED;
		}
		if (err == -ENOENT)
			flow_lost(d, fd, f);
	}
	tt_stat_reason(s->stat, why);
	if (err == -ENOENT)
		tt_flow_let_go(d, f, ended);
	else
		tt_flow_end(d, f, ended);
	return false;
}

/* True: the newest datagram is still unread, by a receiver that is there. */
static bool unread_check(struct tt_sock *s, int fd, bool sleeps)
{
	struct tt_dgram_state *d = tt_dgram_get(s);
	struct tt_slot_ref ended = {0};
	struct tt_tx_flow *f;
	bool unread = false;

	if (!d || !tt_load_relaxed(&d->offered) || !d->peer.family || fd < 0 || !tt_lock_try(&s->tx_lock))
		return false;
	d = tt_dgram_get(s);
	f = d ? d->tx_last : NULL;
	if (f && f->state == TT_FLOW_OFFERED && f->tail != f->head_seen) {
		f->head_seen = tt_load_acquire(&f->dir->head);
		unread = f->tail != f->head_seen;
		if (unread && (sleeps || tt_tsc() - f->verified_tsc >= tt_ns_to_tsc(TT_VERIFY_NS)))
			unread = tt_flow_verify(s, d, fd, f, &ended);
	}
	tt_unlock(&s->tx_lock);
	tt_flow_release(s, &ended);
	return unread;
}

void tt_dgram_sleep_check(struct tt_sock *s, int fd)
{
	(void)unread_check(s, fd, true);
}

void tt_dgram_look_check(struct tt_sock *s, int fd)
{
	struct tt_dgram_state *d = tt_dgram_get(s);
	uint64_t now;

	if (!d || !tt_load_relaxed(&d->offered))
		return;
	now = tt_tsc();
	if (now - tt_load_relaxed(&d->gone_tsc) < tt_ns_to_tsc(TT_VERIFY_NS))
		return;
	tt_store_relaxed(&d->gone_tsc, now);
	(void)unread_check(s, fd, false);
}

/* ---- for sets ---- */

void tt_flow_note(struct tt_sock *s)
{
	struct tt_sock **at = &noted[(uint32_t)s->fd % NOTED];

	if (tt_load_relaxed(at) != s)
		tt_store_relaxed(at, s);
	if (!tt_load_relaxed(&any_noted))
		tt_store_release(&any_noted, true);
}

void tt_dgram_noted_check(bool sleeps)
{
	bool left = false;

	if (tt_likely(!tt_load_acquire(&any_noted)))
		return;
	tt_store_relaxed(&any_noted, false);
	for (uint32_t i = 0; i < NOTED; i++) {
		struct tt_sock *s = tt_load_relaxed(&noted[i]);

		if (!s)
			continue;
		if (unread_check(s, s->fd, sleeps)) {
			left = true;
		} else {
			struct tt_sock *expected = s;

			(void)tt_cas_acq_rel(&noted[i], &expected, NULL);
		}
	}
	if (left)
		tt_store_relaxed(&any_noted, true);
}
