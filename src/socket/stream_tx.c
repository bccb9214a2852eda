/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stream_tx.c - the sending side of a stream. The order of both paths is told in stream.h.
 */
#include "socket/stream.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>

#include "base/raw.h"
#include "socket/cancel.h"
#include "socket/lease.h"
#include "socket/spin.h"
#include "socket/trace.h"

/* Never longer inside the word than this many bytes take to copy. */
#define PUBLISH_MAX (64u << 10)
#define KERNEL_PIECE (64u << 10)
/* A ring send trusts the lifeline this long. */
#define LOOK_NS 10000000
/*
 * How long a full ring may stand still before its sender takes the kernel: this time, of which the first part is spent spinning, and
 * so many times that others had the processor.
 */
#define FULL_NS 200000
#define FULL_BLOCK_NS 4000000 /* by a send that may block: it would soon wait in the kernel, too */
#define FULL_LOOP_NS 2000000 /* by one that may not, however it moves: a loop over many connections is not held up for one */
#define FULL_MOST_NS 100000000 /* by one that may block, however it moves */
/* So often in one call a ring that seemed to have room again had none. */
#define FULL_TRIES 20
#define FULL_SPIN_NS 20000
#define FULL_YIELDS 4u
/* Once it was waited for in vain, R is waited for again only at every so many sends. */
#define WAIT_RETRY 4u
/*
 * A message larger than this to a receiver that sleeps: so much of it by the kernel, as a bell, and the rest by the ring when the
 * receiver, awake, opens its lease soon. One that does not is asked again only every so many messages.
 */
#define BELL_PIECE (4u << 10)
#define BELL_WORTH (16u << 10)
#define BELL_NS 50000
#define BELL_RETRY 32u
/*
 * Of a connection that is not attached yet so much is counted as of its youth. The other end is found when it has read something: the
 * kernel takes megabytes before. Messages alone count until its receiver has waited once.
 */
#define YOUNG_BYTES (4u << 20)
#define YOUNG_MSGS 64u

#define SEND_FLAGS_KNOWN (MSG_DONTWAIT | MSG_NOSIGNAL | MSG_MORE | MSG_EOR | TT_CALLS)

static ssize_t kernel_sendv(int fd, const struct iovec *iov, size_t count, int flags)
{
	ssize_t n;

	int call = flags & TT_CALLS;

	flags &= ~TT_CALLS;
	if ((call == TT_CALL_READ || call == TT_CALL_READV) && !flags) {
		n = call == TT_CALL_READ && count == 1 ? tt_sys.write(fd, iov->iov_base, iov->iov_len)
						       : tt_sys.writev(fd, iov, (int)count);
	} else if (count == 1) {
		n = tt_sys.send(fd, iov->iov_base, iov->iov_len, flags);
	} else {
		struct msghdr msg = {.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = count};

		n = tt_sys.sendmsg(fd, &msg, flags);
	}
	return n < 0 ? -errno : n;
}

static inline bool tx_by_kernel(const struct tt_tx *tx)
{
	return tt_load_acquire(&tx->kernel_gen) != tt_load_relaxed(&tx->ring_gen);
}

static void dir_cpu(struct tt_tx *tx)
{
	uint32_t cpu = (uint32_t)sched_getcpu();

	if (tt_likely(tx->cpu == cpu))
		return;
	tx->cpu = cpu;
	tt_store_relaxed(&tx->dir->s_cpu, cpu);
}

/* Never lowered: another thread may have added its own bytes meanwhile. */
static void kpub_raise(struct tt_dir *dir, uint64_t accepted)
{
	uint64_t kpub = tt_load_relaxed(&dir->kpub);

	while (kpub < accepted && !tt_cas_release(&dir->kpub, &kpub, accepted))
		;
}

/* The word this connection obeys now, as R says. */
static const struct tt_word *word_of(const struct tt_sock *s, const struct tt_dir *dir)
{
	uint32_t gov = tt_load_relaxed(&dir->gov);

	if (!gov)
		return &dir->word;
	return &tt_link_group(s->ref.link, tt_link_tx(s->ref.link), (gov - 1) % TT_LINK_GROUPS)->word;
}

/* False: closed, or no ring any more. */
static bool tx_open(const struct tt_sock *s)
{
	const struct tt_dir *dir = tt_load_acquire(&s->tx.dir);

	return dir && !tt_word_is_closed(word_of(s, dir));
}

/* What R has taken on either path: while it moves, R is at work. */
static uint64_t r_position(const struct tt_dir *dir)
{
	return tt_load_acquire(&dir->head) + tt_load_relaxed(&dir->kcons);
}

/* R has not waited yet, so its lease was never open (rule 12). */
static bool never_opened(const struct tt_dir *dir)
{
	return !tt_load_relaxed(&dir->gov) && (tt_load_relaxed(&dir->word.v) & ~TT_WORD_PUBLISHERS) == TT_WORD_CLOSED;
}

/* R is a thread of ours, which may wait for us in turn (rule 8): no waiting for it. */
static bool r_is_here(const struct tt_sock *s)
{
	return tt_load_relaxed(&s->ref.link->peer_pid) == (int)tt_raw0(SYS_getpid);
}

static bool is_young(const struct tt_sock *s)
{
	return tt_attach_state(s) != TT_ATTACH_NEVER &&
	    (tt_load_relaxed(&s->msgs) < YOUNG_MSGS || tt_load_relaxed(&s->kernel_bytes) < YOUNG_BYTES);
}

/* Which counter names the reason why a send that begins now goes by the kernel; NULL: it need not have. */
static uint64_t *excuse(struct tt_sock *s, const struct tt_dir *dir)
{
	struct tt_stat_counters *n = &s->stat->n;
	const struct tt_word *word;

	if (tt_load_relaxed(&s->tx.last))
		return &n->tx_last_bytes;
	if (tt_share_held(s))
		return &n->tx_shared_bytes;
	if (!dir || tt_attach_state(s) != TT_ATTACH_DONE)
		return is_young(s) ? &n->tx_young_bytes : NULL;
	if (s->forked || s->foreign)
		return &n->tx_shared_bytes;
	switch (tt_load_relaxed(&dir->word.asleep)) {
	case TT_LEFT_OFF:
		return &n->tx_last_bytes;
	case TT_SHARED:
		return &n->tx_shared_bytes;
	}
	word = word_of(s, dir);
	if (!tt_word_is_closed(word)) /* full, or not empty again; and R was waited for, or is this process itself */
		return tt_load_relaxed(&s->tx.waits_vain) || r_is_here(s) ? &n->tx_still_bytes : NULL;
	if (tt_load_relaxed(&word->asleep) == TT_ASLEEP)
		return &n->tx_bell_bytes;
	if (!never_opened(dir))
		return NULL;
	if (tt_load_relaxed(&s->tx.kernel_gen) < YOUNG_MSGS)
		return &n->tx_young_bytes;
	return r_position(dir) == 0 ? &n->tx_still_bytes : NULL; /* its program has not read at all yet */
}

void tt_told_begin(struct tt_sock *s, struct tt_told *told)
{
	told->s = s;
	told->counted = false;
	/*
	 * In this order: while somebody is inside no offer is withdrawn and no slot left, and what dir points to stays this
	 * connection's.
	 */
	__atomic_add_fetch(&s->inside, 1, __ATOMIC_SEQ_CST);
	told->dir = __atomic_load_n(&s->tx.dir, __ATOMIC_SEQ_CST);
	/* Waits for a thread that attaches it at this moment: a send that R is never told of would look like nothing to R. */
	if (!told->dir && tt_lock_wait(&s->tx_lock)) {
		told->dir = s->tx.dir; /* attached since */
		if (!told->dir) {
			told->counted = true;
			s->native_sends++;
		}
		tt_unlock(&s->tx_lock);
	}
	told->excuse = excuse(s, told->dir);
	if (!told->dir)
		return;
	dir_cpu(&s->tx);
	/* In this order: a thread of ours that goes by the new generation must find this send pending, or done. */
	__atomic_fetch_add(&told->dir->kpend, 1, __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&s->tx.kernel_gen, 1, __ATOMIC_SEQ_CST);
	if (tt_unlikely(__atomic_load_n(&told->dir->back, __ATOMIC_SEQ_CST)))
		tt_unread_gate(s, told->dir);
}

void tt_told_end(struct tt_sock *s, int fd, struct tt_told *told, ssize_t n)
{
	told->s = NULL;
	if (told->dir) {
		if (n > 0)
			__atomic_fetch_add(&told->dir->kpub, (uint64_t)n, __ATOMIC_SEQ_CST);
		__atomic_fetch_sub(&told->dir->kpend, 1, __ATOMIC_RELEASE);
	} else if (told->counted && tt_lock_wait(&s->tx_lock)) {
		struct tt_dir *dir = s->tx.dir;
		uint64_t accepted;

		s->native_sends--;
		if (dir) { /* another thread attached it meanwhile, and told R that this send is under way */
			if (tt_ident_tcp_accepted(fd, &accepted) == 0)
				kpub_raise(dir, accepted);
			__atomic_fetch_sub(&dir->kpend, 1, __ATOMIC_RELEASE);
		}
		tt_unlock(&s->tx_lock);
	}
	__atomic_sub_fetch(&s->inside, 1, __ATOMIC_ACQ_REL);
	if (n > 0) {
		s->stat->n.tx_kernel_bytes += (uint64_t)n;
		s->stat->n.tx_kernel_msgs++;
		if (told->excuse)
			*told->excuse += (uint64_t)n;
	}
}

void tt_told_lost(struct tt_told *told)
{
	struct tt_sock *s = told->s;
	uint64_t accepted;

	if (tt_likely(!s))
		return;
	/* The kernel may have taken some of it. */
	if (told->dir && tt_ident_tcp_accepted(s->fd, &accepted) == 0)
		kpub_raise(told->dir, accepted);
	tt_told_end(s, s->fd, told, 0);
}

/* One send by the kernel. No lock is held. */
static ssize_t kernel_send_told(struct tt_sock *s, int fd, const struct iovec *iov, size_t count,
    int flags)
{
	TT_TOLD(told);
	ssize_t n;

	tt_told_begin(s, &told);
	/* No MSG_MORE around a change of path: held back in the kernel's queue, it would hold up the ring behind it (rule 10). */
	n = kernel_sendv(fd, iov, count, told.dir ? flags & ~MSG_MORE : flags);
	tt_told_end(s, fd, &told, n);
	return n;
}

/* After kernel bytes the ring may be used again only when R has emptied it and no kernel send is under way. */
static bool tx_back_to_ring(struct tt_sock *s, int fd, uint64_t *mark)
{
	struct tt_tx *tx = &s->tx;

	if (tt_load_acquire(&tx->dir->head) != tx->tail)
		return false;
	if (__atomic_load_n(&tx->dir->kpend, __ATOMIC_SEQ_CST))
		return false;
	/* The kernel's own count: plain code may have written, and so may another process since fork. */
	if (tt_ident_tcp_accepted(fd, mark))
		return false;
	/* A kernel send that began meanwhile may be in that count and not yet in kpub. */
	return !__atomic_load_n(&tx->dir->kpend, __ATOMIC_SEQ_CST);
}

/* The lifeline, at most every LOOK_NS: a peer that is gone, or has sent FIN, is the kernel's business. */
static bool tx_lifeline_good(struct tt_sock *s, int fd)
{
	uint64_t now = tt_tsc();
	struct pollfd look = {.fd = fd, .events = POLLRDHUP};
	struct timespec none = {0};
	uint64_t accepted;
	uint32_t gen;

	if (tt_likely(now - s->tx.look_tsc < tt_ns_to_tsc(LOOK_NS)))
		return true;
	s->tx.look_tsc = now;
	/* No kernel send of ours begins or ends between the first look and the last. */
	gen = __atomic_load_n(&s->tx.kernel_gen, __ATOMIC_SEQ_CST);
	if (gen == tt_load_relaxed(&s->tx.ring_gen) && !__atomic_load_n(&s->tx.dir->kpend, __ATOMIC_SEQ_CST) &&
	    tt_ident_tcp_accepted(fd, &accepted) == 0 &&
	    accepted != __atomic_load_n(&s->tx.dir->kpub, __ATOMIC_SEQ_CST) &&
	    gen == __atomic_load_n(&s->tx.kernel_gen, __ATOMIC_SEQ_CST)) {
		/* Somebody wrote by calls that we don't see: the order of what follows can only be the kernel's. */
		tt_tx_stop(s);
		s->barred = true;
		tt_stat_reason(s->stat, TT_REASON_UNSEEN);
		tt_trace_sock(fd, s->stat, "written unseen", TT_REASON_UNSEEN);
		return false;
	}
	if (tt_raw5(SYS_ppoll, &look, 1, &none, 0, 8) <= 0)
		return true;
	tt_store_relaxed(&s->tx.last, true);
	tt_tx_stop(s);
	return false;
}

static void group_ready(struct tt_group *g, uint32_t index)
{
	uint64_t bit = 1ull << (index % 64);
	uint64_t *word = &g->ready[index / 64];

	/*
	 * Unconditional, because a plain look at the bit could pass before the store of tail. R clears summary, then
	 * ready, then looks at the ring: a bit found set here will still be seen by an R that has yet to take it.
	 */
	if (__atomic_fetch_or(word, bit, __ATOMIC_SEQ_CST) == 0)
		__atomic_fetch_or(&g->summary[index / 64 / 64], 1ull << (index / 64 % 64),
		    __ATOMIC_SEQ_CST);
}

enum put { PUT_OK, PUT_CLOSED, PUT_FULL, PUT_FAULT };

/* Publishes up to *n bytes. Under tx_lock. */
static enum put ring_put(struct tt_sock *s, struct tt_cursor *c, size_t *n, const uint64_t *new_mark)
{
	struct tt_tx *tx = &s->tx;
	struct tt_dir *dir = tx->dir;
	struct tt_group *group = NULL;
	struct tt_word *word = &dir->word;
	uint32_t gov = __atomic_load_n(&dir->gov, __ATOMIC_RELAXED);
	uint64_t space;

	if (gov) {
		group = tt_link_group(s->ref.link, tt_link_tx(s->ref.link), (gov - 1) % TT_LINK_GROUPS);
		word = &group->word;
	}
	if (!tt_word_enter(word))
		return PUT_CLOSED;
	/* Governed by another word meanwhile: what we hold open is not what R closes. Or R has moved bytes to the kernel. */
	if (tt_unlikely(__atomic_load_n(&dir->gov, __ATOMIC_RELAXED) != gov || tt_load_relaxed(&dir->back))) {
		tt_word_leave(word);
		return PUT_CLOSED;
	}
	space = tx->size - (tx->tail - tx->head_seen);
	if (space < *n || space < tx->size / 4) {
		tx->head_seen = tt_load_acquire(&dir->head);
		space = tx->size - (tx->tail - tx->head_seen);
		if (tt_unlikely(space > tx->size)) { /* head beyond tail */
			tt_word_leave(word);
			tt_peer_hostile(s);
			*n = 0;
			return PUT_CLOSED;
		}
	}
	*n = tt_min(tt_min(*n, (size_t)space), (size_t)PUBLISH_MAX);
	if (*n == 0) {
		tt_word_leave(word);
		return PUT_FULL;
	}
	tt_store_relaxed(&dir->inline_pos, TT_INLINE_NONE);
	if (tt_unlikely(!tt_ring_copy(c, tx->ring, tx->size, tx->tail, *n, true))) {
		tt_word_leave(word);
		return PUT_FAULT;
	}
	if (new_mark) {
		kpub_raise(dir, *new_mark);
		__atomic_store_n(&dir->mark, *new_mark, __ATOMIC_RELAXED);
	}
	tx->tail += *n;
	tt_store_release(&dir->tail, tx->tail);
	dir_cpu(tx);
	if (group)
		group_ready(group, s->ref.index);
	tt_word_leave(word);
	return PUT_OK;
}

/* While we spin R could not run. */
static bool on_r_cpu(const struct tt_sock *s)
{
	const struct tt_dir *dir = tt_load_acquire(&s->tx.dir);

	return !dir || r_is_here(s) || tt_load_relaxed(&dir->r_cpu) == (uint32_t)sched_getcpu();
}

/* A wait for R, holding nothing: spins, then gives the processor to others, of which R may be one. */
struct r_wait {
	uint64_t patience; /* while it stands still */
	uint64_t end;	   /* however it moves */
	uint32_t yields_all;
	uint64_t position;
	uint64_t start; /* when it was seen to move last */
	uint32_t signals;
	uint32_t yields;
};

/* False: R is not to be waited for. */
static bool r_wait_start(struct r_wait *w, struct tt_sock *s, bool dontwait)
{
	const struct tt_dir *dir = tt_load_acquire(&s->tx.dir);
	uint32_t vain = tt_load_relaxed(&s->tx.waits_vain);
	uint64_t now = tt_tsc();

	if (!dir)
		return false;
	*w = (struct r_wait){
	    .patience = tt_ns_to_tsc(dontwait ? FULL_NS : FULL_BLOCK_NS),
	    .end = now + tt_ns_to_tsc(dontwait ? FULL_LOOP_NS : FULL_MOST_NS),
	    .position = r_position(dir),
	    .start = now,
	    .signals = tt_signals.all,
	};
	if (r_is_here(s) || w->position == tt_load_relaxed(&s->tx.stuck))
		return false;
	if (!vain)
		return true;
	tt_store_relaxed(&s->tx.waits_vain, vain + 1);
	return vain % WAIT_RETRY == 0;
}

/* The end of a wait. */
static bool r_waited(struct tt_sock *s, bool good)
{
	tt_store_relaxed(&s->tx.waits_vain, good ? 0 : tt_load_relaxed(&s->tx.waits_vain) + 1);
	return good;
}

/* One turn. False: R has stood still for too long, and is not waited for again before it has moved. */
static bool r_wait_turn(struct r_wait *w, struct tt_sock *s)
{
	const struct tt_dir *dir = tt_load_acquire(&s->tx.dir);
	uint64_t position = dir ? r_position(dir) : w->position;
	uint64_t now = tt_tsc();
	uint64_t still = now - w->start;

	if (!dir)
		return false;

	if (now > w->end && w->yields_all >= FULL_YIELDS)
		return false;
	if (position != w->position) {
		w->position = position;
		w->start = now;
		w->yields = 0;
	} else if (w->signals != tt_signals.all) {
		return false;
	} else if (still > w->patience && w->yields >= FULL_YIELDS) {
		tt_store_relaxed(&s->tx.stuck, position);
		return false;
	} else if (still > tt_ns_to_tsc(FULL_SPIN_NS) || on_r_cpu(s)) {
		w->yields++;
		w->yields_all++;
		(void)tt_raw0(SYS_sched_yield);
	}
	for (int i = 0; i < 16; i++)
		tt_pause();
	return true;
}

/* Waits until R has taken some of a full ring. False: it does not move. */
static bool full_wait(struct tt_sock *s, bool dontwait)
{
	const struct tt_tx *tx = &s->tx;
	const struct tt_dir *dir = tt_load_acquire(&tx->dir);
	struct r_wait w;

	if (!dir || !r_wait_start(&w, s, dontwait))
		return false;
	do {
		/* Half a ring at a time: each look at head takes the line away from R. */
		if (tx->tail - tt_load_acquire(&dir->head) <= tx->size / 2)
			return r_waited(s, true);
	} while (r_wait_turn(&w, s));
	return r_waited(s, false) || tt_load_acquire(&dir->head) != tx->head_seen;
}

/*
 * Bytes went by the kernel and the ring still holds some: waits until R has emptied it. Without that a sender that
 * once found the ring full would stay with the kernel for as long as R is busy (rule 8).
 */
static bool empty_wait(struct tt_sock *s, bool dontwait)
{
	const struct tt_dir *dir = tt_load_acquire(&s->tx.dir);
	struct r_wait w;

	if (!dir || !r_wait_start(&w, s, dontwait))
		return false;
	do {
		if (tt_load_acquire(&dir->head) == s->tx.tail)
			return r_waited(s, true);
	} while (tx_open(s) && r_wait_turn(&w, s));
	return r_waited(s, false);
}

/* Our bell has gone by the kernel: waits, holding nothing, until R has taken it and opens its lease. */
static void bell_wait(struct tt_sock *s)
{
	const struct tt_dir *dir = tt_load_acquire(&s->tx.dir);
	uint64_t end = tt_tsc() + tt_ns_to_tsc(BELL_NS);
	uint32_t signals = tt_signals.all;

	if (!dir)
		return;
	do {
		if (tx_open(s) && tt_load_acquire(&dir->head) == s->tx.tail &&
		    tt_load_relaxed(&dir->kcons) >= tt_load_relaxed(&dir->kpub)) {
			s->tx.bells_lost = 0;
			return;
		}
		for (int i = 0; i < 16; i++)
			tt_pause();
	} while (tt_tsc() < end && signals == tt_signals.all);
	s->tx.bells_lost++;
}

/* Is it worth a bell of its own? */
static bool bell_worth(const struct tt_sock *s, size_t len)
{
	return len >= BELL_WORTH && tt_attach_state(s) == TT_ATTACH_DONE && !s->tx.kernel_only && tt_tun.spin_ns &&
	    s->tx.bells_lost % BELL_RETRY == 0 && !tx_open(s) && !on_r_cpu(s);
}

/* As much as goes by the ring without the kernel; *c is moved on. Returns bytes. */
static size_t ring_send(struct tt_sock *s, int fd, struct tt_cursor *c, size_t len, bool dontwait)
{
	size_t done = 0;
	int vain = 0;

	if (tt_unlikely(tt_attach_state(s) == TT_ATTACH_OFFERED))
		tt_attach_check(s);
	if (!tt_lock_try(&s->tx_lock))
		return 0;
	if (s->tx.dir && !tx_open(s)) {
		/* Before any question to the kernel: the receiver sleeps. */
		s->stat->n.doorbells++;
		tt_unlock(&s->tx_lock);
		return 0;
	}
	while (done < len && s->tx.dir && !s->tx.kernel_only && vain < FULL_TRIES) {
		uint64_t mark;
		const uint64_t *new_mark = NULL;
		uint32_t gen = tt_load_acquire(&s->tx.kernel_gen);
		size_t n = len - done;
		const struct tt_cursor before = *c;
		enum put put;

		if (!tx_lifeline_good(s, fd))
			break;
		if (tt_unlikely(gen != s->tx.ring_gen)) {
			if (tt_load_acquire(&s->tx.dir->head) != s->tx.tail) {
				tt_unlock(&s->tx_lock);
				vain++;
				if (!empty_wait(s, dontwait) || !tt_lock_try(&s->tx_lock))
					goto out;
				continue;
			}
			if (!tx_back_to_ring(s, fd, &mark))
				break;
			new_mark = &mark;
		}
		put = ring_put(s, c, &n, new_mark);
		if (put == PUT_OK) {
			tt_store_relaxed(&s->tx.ring_gen, gen);
			done += n;
			vain = 0;
			tt_store_relaxed(&s->tx.waits_vain, 0);
			continue;
		}
		if (put == PUT_CLOSED) {
			s->stat->n.doorbells++;
			break;
		}
		if (put == PUT_FAULT) { /* the kernel sends what there is, and says EFAULT */
			*c = before;
			break;
		}
		s->stat->n.ring_full++;
		vain++;
		tt_unlock(&s->tx_lock);
		if (!full_wait(s, dontwait) || !tt_lock_try(&s->tx_lock))
			goto out;
	}
	tt_unlock(&s->tx_lock);
out:
	if (done) {
		s->stat->n.tx_shm_bytes += done;
		s->stat->n.tx_shm_msgs++;
	}
	return done;
}

/*
 * The common case by itself: an open lease, one buffer, room without a wrap. False: nothing has happened, take the long way.
 * The order of its steps is ring_put()'s.
 */
static inline bool send_fast(struct tt_sock *s, int fd, const void *buf, size_t len)
{
	struct tt_tx *tx = &s->tx;
	struct tt_dir *dir = tx->dir;
	struct tt_group *group = NULL;
	struct tt_word *word;
	uint64_t at;
	uint32_t gov;
	bool ok = false;

	if (tx_by_kernel(tx) || tx->kernel_only || tt_attach_state(s) != TT_ATTACH_DONE || !tt_lock_try(&s->tx_lock))
		return false;
	at = tx->tail & (tx->size - 1);
	if (tx->dir != dir || tx_by_kernel(tx) || tx->kernel_only || len > tx->size - at ||
	    len > PUBLISH_MAX || len > tx->size - (tx->tail - tx->head_seen) || !tx_lifeline_good(s, fd))
		goto out;
	word = &dir->word;
	gov = tt_load_relaxed(&dir->gov);
	if (gov) {
		group = tt_link_group(s->ref.link, tt_link_tx(s->ref.link), (gov - 1) % TT_LINK_GROUPS);
		word = &group->word;
	}
	if (!tt_word_enter(word))
		goto out;
	/* A buffer that faults is for the long way to report. */
	ok = tt_load_relaxed(&dir->gov) == gov && !tt_load_relaxed(&dir->back) && tt_copy(tx->ring + at, buf, len);
	if (tt_likely(ok)) {
		tt_store_relaxed(&dir->inline_pos, TT_INLINE_NONE);
		if (TT_INLINE_USE && len <= TT_INLINE_BYTES) {
			/* A compiler barrier on x86; what R reads torn it sees by inline_pos. */
			__atomic_thread_fence(__ATOMIC_RELEASE);
			memcpy(dir->inline_bytes, tx->ring + at, len);
			tt_store_release(&dir->inline_pos, tx->tail);
		}
		tx->tail += len;
		tt_store_release(&dir->tail, tx->tail);
		if (group)
			group_ready(group, s->ref.index);
	}
	tt_word_leave(word);
	if (tt_likely(ok)) {
		dir_cpu(tx);
		s->stat->n.tx_shm_bytes += len;
		s->stat->n.tx_shm_msgs++;
	}
out:
	tt_unlock(&s->tx_lock);
	return ok;
}

static ssize_t send_native(struct tt_sock *s, int fd, const struct iovec *iov, size_t count,
    int flags)
{
	ssize_t n = kernel_send_told(s, fd, iov, count, flags);

	if (n >= 0)
		tt_attach_sent(s, fd, (size_t)n);
	return n;
}

/* The C library has written to it, or holds what it will write: the order can only be the kernel's. */
static tt_noinline void tx_stdio(struct tt_sock *s, int fd)
{
	tt_tx_stop(s);
	s->barred = true;
	tt_store_relaxed(&s->stat->tx, (uint16_t)TT_TRANSPORT_KERNEL);
	tt_stat_reason(s->stat, TT_REASON_UNSEEN);
	tt_trace_sock(fd, s->stat, "standard output", TT_REASON_UNSEEN);
}

bool tt_stream_send_seen(struct tt_sock *s, int fd)
{
	if (tt_unlikely(tt_tun.attach_after == 0) && s->role == TT_ROLE_CLIENT && tt_load_relaxed(&s->msgs) == 0 &&
	    tt_attach_state(s) == TT_ATTACH_NONE)
		tt_attach_first(s, fd);
	return tt_load_acquire(&s->tx.dir) != NULL;
}

ssize_t tt_stream_send(struct tt_sock *s, int fd, const struct iovec *iov, size_t count, int flags)
{
	struct tt_cursor c = {iov, count, 0};
	size_t len;
	size_t done;
	bool dontwait;

	if (tt_unlikely(!tt_stream_send_seen(s, fd)))
		return send_native(s, fd, iov, count, flags);
	tt_cancel_look(s->stat->n.tx_shm_msgs);
	if (tt_unlikely(s->standard) && !s->tx.kernel_only && tt_stdio_writes(s))
		tx_stdio(s, fd);
	if (tt_likely(count == 1 && !(flags & ~SEND_FLAGS_KNOWN) && iov->iov_len) && !s->foreign &&
	    send_fast(s, fd, iov->iov_base, iov->iov_len)) {
		tt_spin_sent();
		return (ssize_t)iov->iov_len;
	}
	if (tt_unlikely(s->forked))
		tt_share_look(s, fd);
	if (tt_unlikely(tt_again_due(s)) && tt_again(s, fd))
		return send_native(s, fd, iov, count, flags);
	len = tt_iov_total(iov, count);
	if (tt_unlikely(flags & ~SEND_FLAGS_KNOWN) || len == 0 || s->foreign) {
		if (flags & (MSG_OOB | MSG_ZEROCOPY)) {
			tt_store_relaxed(&s->tx.last, true);
			tt_tx_stop(s);
		}
		return kernel_send_told(s, fd, iov, count, flags);
	}
	tt_cursor_step(&c, 0);
	dontwait = s->nonblock || (flags & MSG_DONTWAIT);
	done = ring_send(s, fd, &c, len, dontwait);
	if (tt_likely(done == len)) {
		tt_spin_sent();
		return (ssize_t)done;
	}
	while (done < len) {
		struct iovec rest[16];
		bool bell = bell_worth(s, len - done);
		size_t n = tt_cursor_rest(&c, rest, tt_array_len(rest), bell ? BELL_PIECE : KERNEL_PIECE);
		ssize_t sent = tt_unlikely(s->hostile) ? -ECONNRESET
						       : kernel_send_told(s, fd, rest, n, flags);

		if (sent <= 0)
			return done ? (ssize_t)done : sent;
		tt_cursor_step(&c, (size_t)sent);
		done += (size_t)sent;
		if (dontwait && (size_t)sent < tt_iov_total(rest, n))
			break;
		if (bell && done < len)
			bell_wait(s);
		if (done < len) /* R may have caught up meanwhile */
			done += ring_send(s, fd, &c, len - done, dontwait);
	}
	return (ssize_t)done;
}

