/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dgram_tx.c - sending datagrams: by the ring, by the kernel, and the order between them. Design note in dgram.c.
 */
#include "socket/dgram_priv.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#include "base/copy.h"
#include "base/raw.h"
#include "socket/cancel.h"

/* How long a full ring may stand still before a datagram takes another way, and how long an open one is emptied for. */
#define FULL_NS 30000
/* And how long in all, however it moves. */
#define FULL_MOST_NS 20000000ull
#define EMPTY_NS 5000
/* A lease that is opened and closed in turns is tried so often before a kernel send. */
#define SEND_TRIES 100
/* So many datagrams of a flow that is not offered yet are counted as of its youth. */
#define YOUNG_MSGS 64u
#define SEND_FLAGS_KNOWN (MSG_DONTWAIT | MSG_NOSIGNAL)

/* ---- the kernel ---- */

/* Under tx_lock: a kernel send of the flow begins. */
static void told_begin(struct tt_sock *s, struct tt_dir *dir)
{
	uint32_t cpu = (uint32_t)sched_getcpu();

	if (tt_load_relaxed(&dir->s_cpu) != cpu)
		tt_store_relaxed(&dir->s_cpu, cpu);
	__atomic_add_fetch(&s->inside, 1, __ATOMIC_ACQ_REL);
	__atomic_fetch_add(&dir->kpend, 1, __ATOMIC_SEQ_CST);
}

static bool flow_is_closed(const struct tt_tx_flow *f)
{
	uint32_t gov = tt_load_relaxed(&f->dir->gov);

	if (!gov)
		return tt_word_is_closed(&f->dir->word);
	return tt_word_is_closed(
	    &tt_link_group(f->ref.link, tt_link_tx(f->ref.link), (gov - 1) % TT_LINK_GROUPS)->word);
}

/* Which counter names the reason why a datagram goes by the kernel; NULL: it need not. */
static uint64_t *excuse(struct tt_sock *s, const struct tt_tx_flow *f, const struct tt_dir *dir)
{
	if (dir && f)
		return flow_is_closed(f) ? &s->stat->n.tx_bell_bytes : NULL;
	if (f ? f->msgs < YOUNG_MSGS : !tt_dgram_get(s))
		return &s->stat->n.tx_young_bytes;
	return NULL;
}

static void told_end(struct tt_sock *s, struct tt_dir *dir)
{
	__atomic_fetch_sub(&dir->kpend, 1, __ATOMIC_RELEASE);
	__atomic_sub_fetch(&s->inside, 1, __ATOMIC_ACQ_REL);
}

struct told {
	struct tt_sock *s;
	struct tt_dir *dir; /* NULL: nothing is owed */
};

/* Cancelled in the kernel (cancel.h). Whether the datagram went out nobody knows: R takes one more than it was told of. */
static void told_lost(const struct told *told)
{
	if (tt_unlikely(told->dir != NULL))
		told_end(told->s, told->dir);
}

/* dir: of an offered flow, told by told_begin(), or NULL. No lock is held. */
static ssize_t kernel_send(struct tt_sock *s, int fd, struct tt_tx_flow *f, struct tt_dir *dir,
    const struct msghdr *msg, int flags)
{
	struct told told TT_CLEANUP(told_lost) = {s, dir};
	uint64_t *excused = excuse(s, f, dir);
	ssize_t n;

	if (msg->msg_iovlen == 1 && !msg->msg_controllen)
		n = tt_sys.sendto(fd, msg->msg_iov->iov_base, msg->msg_iov->iov_len, flags, msg->msg_name,
		    msg->msg_namelen);
	else
		n = tt_sys.sendmsg(fd, msg, flags);
	n = n < 0 ? -errno : n;
	if (dir && n >= 0) {
		__atomic_fetch_add(&dir->kpub, 1, __ATOMIC_RELEASE);
		__atomic_fetch_add(&f->kernel_sent, 1, __ATOMIC_RELEASE);
	}
	if (n >= 0) {
		s->stat->n.tx_kernel_bytes += (uint64_t)n;
		s->stat->n.tx_kernel_msgs++;
		if (excused)
			*excused += (uint64_t)n;
	}
	return n;
}

/* ---- the ring ---- */

static size_t msg_len(const struct msghdr *msg)
{
	size_t n = 0;

	for (size_t i = 0; i < msg->msg_iovlen; i++)
		n += msg->msg_iov[i].iov_len;
	return n;
}

static void group_mark(struct tt_group *g, uint32_t index)
{
	/* As in stream_tx.c: unconditional, and ready before summary. */
	if (__atomic_fetch_or(&g->ready[index / 64], 1ull << (index % 64), __ATOMIC_SEQ_CST) == 0)
		__atomic_fetch_or(&g->summary[index / 64 / 64], 1ull << (index / 64 % 64), __ATOMIC_SEQ_CST);
}

static inline struct tt_dgram_head *record_at(const struct tt_tx_flow *f, uint64_t pos)
{
	return (struct tt_dgram_head *)(void *)(f->ring + (pos & (f->size - 1)));
}

/* Bytes that a datagram takes, with the filler before a wrap. */
static uint64_t record_all(const struct tt_tx_flow *f, uint64_t need)
{
	uint64_t to_end = f->size - (f->tail & (f->size - 1));

	return to_end < need ? to_end + need : need;
}

static bool has_room(struct tt_tx_flow *f, uint64_t all)
{
	if (tt_likely(f->size - (f->tail - f->head_seen) >= all))
		return true;
	f->head_seen = tt_load_acquire(&f->dir->head);
	return f->tail - f->head_seen <= f->size && f->size - (f->tail - f->head_seen) >= all;
}

/* Kernel sends that no flow was told of may have been this one's. */
static void untold_tell(struct tt_dgram_state *d, struct tt_tx_flow *f)
{
	uint32_t untold = tt_load_acquire(&d->untold);
	uint32_t more = untold - f->untold_seen;

	f->untold_seen = untold;
	__atomic_fetch_add(&f->dir->kpub, more, __ATOMIC_RELEASE);
	__atomic_fetch_add(&f->kernel_sent, more, __ATOMIC_RELEASE);
}

/* Inside the word, with room. False: a bad pointer, which the kernel has to name. */
static bool record_put(struct tt_dgram_state *d, struct tt_tx_flow *f, const struct msghdr *msg, uint32_t len,
    uint64_t now)
{
	uint64_t need = tt_record_bytes(len);
	uint64_t all = record_all(f, need);
	struct tt_dgram_head *head;
	uint8_t *at;

	if (all != need) {
		record_at(f, f->tail)->len = TT_DGRAM_SKIP;
		f->tail += all - need;
	}
	if (tt_unlikely(tt_load_relaxed(&d->untold) != f->untold_seen))
		untold_tell(d, f);
	head = record_at(f, f->tail);
	at = (uint8_t *)(head + 1);
	for (size_t i = 0; i < msg->msg_iovlen; i++) {
		if (tt_unlikely(!tt_copy(at, msg->msg_iov[i].iov_base, msg->msg_iov[i].iov_len)))
			return false;
		at += msg->msg_iov[i].iov_len;
	}
	head->len = len;
	head->kernel_sent = tt_load_relaxed(&f->kernel_sent);
	head->stamp = now;
	if (TT_INLINE_USE && len <= TT_DGRAM_BESIDE) {
		/* As in stream_tx.c: what R reads torn it sees by inline_pos. */
		tt_store_relaxed(&f->dir->inline_pos, TT_INLINE_NONE);
		__atomic_thread_fence(__ATOMIC_RELEASE);
		memcpy(f->dir->inline_bytes, head, sizeof(*head) + len);
		tt_store_release(&f->dir->inline_pos, f->tail);
	}
	f->last = f->tail;
	f->tail += need;
	tt_store_release(&f->dir->tail, f->tail);
	return true;
}

enum put { PUT_OK, PUT_CLOSED, PUT_FULL };

/* Under tx_lock. */
static enum put flow_put(struct tt_sock *s, struct tt_dgram_state *d, struct tt_tx_flow *f,
    const struct msghdr *msg, uint32_t len, uint64_t now)
{
	struct tt_group *group = NULL;
	struct tt_dir *dir = f->dir;
	struct tt_word *word = &dir->word;
	uint32_t gov = tt_load_relaxed(&dir->gov);
	uint32_t cpu = (uint32_t)sched_getcpu();
	bool ok;

	if (gov) {
		group = tt_link_group(f->ref.link, tt_link_tx(f->ref.link), (gov - 1) % TT_LINK_GROUPS);
		word = &group->word;
	}
	if (!has_room(f, record_all(f, tt_record_bytes(len)))) {
		s->stat->n.ring_full++;
		return tt_word_is_closed(word) ? PUT_CLOSED : PUT_FULL;
	}
	if (tt_load_relaxed(&dir->s_cpu) != cpu)
		tt_store_relaxed(&dir->s_cpu, cpu);
	if (!tt_word_enter(word)) {
		s->stat->n.doorbells++;
		return PUT_CLOSED;
	}
	if (tt_unlikely(tt_load_relaxed(&dir->gov) != gov)) {
		tt_word_leave(word);
		return PUT_CLOSED;
	}
	ok = record_put(d, f, msg, len, now);
	if (ok && group)
		group_mark(group, f->ref.index);
	tt_word_leave(word);
	return ok ? PUT_OK : PUT_CLOSED;
}

/* Waits, holding nothing, while R takes datagrams out, until `left` bytes are left at most. False: it does not move. */
static bool ring_wait(const struct tt_dir *dir, uint64_t tail, uint64_t left, uint64_t limit_ns)
{
	uint64_t head = tt_load_acquire(&dir->head);
	uint64_t start = tt_tsc();
	uint64_t begin = start;

	for (;;) {
		uint64_t now_head = tt_load_acquire(&dir->head);

		if (tail - now_head <= left)
			return true;
		if (now_head != head) {
			head = now_head;
			start = tt_tsc();
		}
		if (tt_tsc() - start > tt_ns_to_tsc(limit_ns) || tt_tsc() - begin > tt_ns_to_tsc(FULL_MOST_NS))
			return false;
		for (int i = 0; i < 16; i++)
			tt_pause();
	}
}

static bool worth_waiting(const struct tt_tx_flow *f, const struct tt_dir *dir)
{
	return f->ref.link->peer_pid != (int)tt_raw0(SYS_getpid) &&
	    tt_load_relaxed(&dir->r_cpu) != (uint32_t)sched_getcpu();
}

/* After PUT_FULL, under tx_lock, which is let go and taken again. False: no more room than before. */
static bool full_wait(struct tt_sock *s, struct tt_tx_flow *f)
{
	const struct tt_dir *dir = f->dir;
	uint64_t tail = f->tail;
	uint64_t size = f->size;
	bool moved;

	if (f->stuck == f->head_seen || !worth_waiting(f, dir))
		return false;
	tt_unlock(&s->tx_lock);
	moved = ring_wait(dir, tail, size - size / 8, FULL_NS);
	if (!tt_lock_wait(&s->tx_lock))
		return false;
	if (!moved)
		f->stuck = f->head_seen;
	return moved;
}

/*
 * A kernel send although the lease is open: R asks the kernel when it has seen the ring empty, and must not get this
 * datagram before one that came into the ring meanwhile.
 */
static void empty_wait(const struct tt_tx_flow *f, const struct tt_dir *dir)
{
	if (tt_load_acquire(&dir->head) != f->tail)
		(void)ring_wait(dir, f->tail, 0, EMPTY_NS);
}

enum sent { SENT_RING, SENT_DROPPED, SENT_NOT };

/* Under tx_lock, which is held again at the end. */
static enum sent ring_try(struct tt_sock *s, struct tt_dgram_state *d, int fd, struct tt_tx_flow *f,
    const struct msghdr *msg, size_t len, struct tt_slot_ref *ended)
{
	uint64_t now = tt_tsc();
	enum put put;

	f->used_tsc = now;
	if (tt_unlikely(now - f->verified_tsc >= tt_ns_to_tsc(TT_VERIFY_NS)) && !tt_flow_verify(s, d, fd, f, ended))
		return SENT_NOT;
	put = flow_put(s, d, f, msg, (uint32_t)len, now);
	if (tt_unlikely(put == PUT_FULL) && full_wait(s, f)) {
		if (tt_dgram_get(s) != d || f->state != TT_FLOW_OFFERED)
			return SENT_NOT;
		put = flow_put(s, d, f, msg, (uint32_t)len, now);
	}
	if (tt_likely(put == PUT_OK))
		return SENT_RING;
	if (put == PUT_CLOSED && tt_load_relaxed(&f->dir->r_gone)) {
		tt_stat_reason(s->stat, TT_REASON_PEER_CHANGED);
		tt_flow_end(d, f, ended);
		return SENT_NOT;
	}
	if (put == PUT_FULL && f->tail - f->head_seen >= tt_load_relaxed(&f->dir->r_room)) {
		s->stat->n.drops++;
		return SENT_DROPPED;
	}
	return SENT_NOT;
}

/*
 * By the ring, or else *dir is told that a kernel send begins. R that opens the lease and then finds no such send under way
 * must not be surprised by one: so after telling, S looks at the word once more.
 */
static enum sent ring_send(struct tt_sock *s, struct tt_dgram_state *d, int fd, struct tt_tx_flow *f,
    const struct msghdr *msg, size_t len, struct tt_slot_ref *ended, struct tt_dir **dir)
{
	for (int i = 0;; i++) {
		enum sent sent = ring_try(s, d, fd, f, msg, len, ended);

		if (tt_likely(sent != SENT_NOT) || tt_dgram_get(s) != d || f->state != TT_FLOW_OFFERED)
			return sent;
		told_begin(s, f->dir);
		if (i >= SEND_TRIES || flow_is_closed(f)) {
			*dir = f->dir;
			if (!flow_is_closed(f))
				empty_wait(f, f->dir);
			return SENT_NOT;
		}
		told_end(s, f->dir);
	}
}

void tt_dgram_tx_stop(struct tt_sock *s, enum tt_reason reason)
{
	struct tt_dgram_state *d = tt_dgram_get(s);

	if (s->tx.kernel_only)
		return;
	tt_tx_stop(s);
	s->stat->tx = TT_TRANSPORT_KERNEL;
	tt_stat_reason(s->stat, reason);
	if (!d || s->foreign)
		return;
	if (tt_lock_wait(&s->tx_lock)) {
		d = tt_dgram_get(s);
		for (uint32_t i = 0; d && d->offered && i < TT_DGRAM_TX_MAX; i++)
			if (d->tx[i].state == TT_FLOW_OFFERED)
				empty_wait(&d->tx[i], d->tx[i].dir);
		tt_unlock(&s->tx_lock);
	}
	tt_tx_end_all(s, false);
}

static void probe_if_due(struct tt_sock *s, struct tt_dgram_state *d, int fd, struct tt_tx_flow *f)
{
	if (f->state != TT_FLOW_KERNEL || ++f->msgs < f->probe_at || tt_share_held(s) || !tt_lock_try(&s->tx_lock))
		return;
	if (tt_dgram_get(s) == d && f->state == TT_FLOW_KERNEL)
		tt_flow_probe(s, d, fd, f);
	tt_unlock(&s->tx_lock);
}

/* Sockets that send a datagram or two cost nothing. */
static struct tt_dgram_state *state_when_due(struct tt_sock *s)
{
	struct tt_dgram_state *d = tt_dgram_get(s);

	if (tt_unlikely(s->forked))
		tt_share_look(s, s->fd);
	if (tt_likely(d) || s->tx.kernel_only || s->foreign)
		return d;
	if (s->dgram_sent + 1 < tt_tun.attach_after) {
		s->dgram_sent++;
		return NULL;
	}
	return tt_dgram_state(s);
}

ssize_t tt_dgram_send(struct tt_sock *s, int fd, const struct msghdr *msg, int flags)
{
	struct tt_dgram_state *d = state_when_due(s);
	struct tt_slot_ref ended = {0};
	struct tt_tx_flow *f = NULL;
	struct tt_dir *dir = NULL;
	enum sent sent = SENT_NOT;
	bool odd = (flags & ~SEND_FLAGS_KNOWN) || msg->msg_controllen || msg->msg_iovlen > 1024;
	size_t len;
	ssize_t n;

	if (tt_unlikely(s->pending_err)) {
		int err = tt_dgram_pending_take(s);

		if (err)
			return err;
	}
	if (!d || s->tx.kernel_only || s->foreign)
		return kernel_send(s, fd, NULL, NULL, msg, flags);
	if (tt_unlikely(!tt_lock_wait(&s->tx_lock))) {
		n = kernel_send(s, fd, NULL, NULL, msg, flags);
		if (n >= 0) /* in a handler that interrupted this very call: which flow it was nobody can ask now */
			__atomic_fetch_add(&d->untold, 1, __ATOMIC_RELEASE);
		return n;
	}
	d = tt_dgram_get(s);
	f = d ? tt_flow_find(s, d, msg, &ended) : NULL;
	len = msg_len(msg);
	if (tt_likely(f && f->state == TT_FLOW_OFFERED) && !odd &&
	    len <= tt_min(TT_DGRAM_MAX - 20u, (uint32_t)f->size / 4)) {
		sent = ring_send(s, d, fd, f, msg, len, &ended, &dir);
	} else if (f && f->state == TT_FLOW_OFFERED) {
		told_begin(s, dir = f->dir);
		if (!flow_is_closed(f))
			empty_wait(f, dir);
	}
	if (tt_unlikely(sent == SENT_NOT && f && f->state == TT_FLOW_ENDED && !ended.link)) {
		tt_flow_let_go_if(d, f, &ended);
		if (f->dir && !dir)
			told_begin(s, dir = f->dir);
	}
	if (tt_likely(sent == SENT_RING)) {
		if (d->peer.family)
			tt_flow_note(s);
		s->stat->n.tx_shm_bytes += len;
		s->stat->n.tx_shm_msgs++;
	}
	tt_unlock(&s->tx_lock);
	if (tt_unlikely(ended.link != NULL))
		tt_flow_release(s, &ended);
	if (sent != SENT_NOT) {
		tt_spin_sent();
		return (ssize_t)len;
	}
	n = kernel_send(s, fd, f, dir, msg, flags);
	if (n >= 0 && f)
		probe_if_due(s, d, fd, f);
	tt_attach_poll();
	return n;
}
