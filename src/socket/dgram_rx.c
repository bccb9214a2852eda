/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dgram_rx.c - receiving datagrams: rings, kernel, and the order between them. Design note in dgram.c.
 */
#include "socket/dgram_priv.h"

#include <errno.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>

#include "base/copy.h"
#include "base/raw.h"
#include "socket/cancel.h"
#include "socket/epoll.h"

/* A program that polls by non-blocking calls is believed after so many EAGAIN in a row. */
#define EAGAIN_BELIEVED 64u
/* While rings have something, the kernel is asked every so many datagrams. */
#define KERNEL_TURN 256u
/* More than this many datagrams are not taken from the kernel before a record: then its own were dropped there. */
#define DRAIN_MAX 8192u
/* How often a sender in the midst of a kernel send is waited for, before a lease is closed all the same. */
#define SETTLE_YIELDS 20
/* A call that doesn't wait looks at the rings and the kernel in turns so often while each says that the other has something. */
#define ROUNDS_MAX 16
/* Which part of a ring R takes before it says so while there is more: S has half a ring to go on with. */
#define TELL_PART 16u

/* ---- the kernel ---- */

static void settle_early(struct tt_sock *s, int fd);

static ssize_t kernel_recv(struct tt_sock *s, int fd, struct msghdr *msg, int flags)
{
	struct tt_dgram_state *d = tt_dgram_get(s);
	struct sockaddr_in6 name;
	void *own_name = msg->msg_name;
	socklen_t own_len = msg->msg_namelen;
	ssize_t n;

	/* A source shorter than it is can't be compared. */
	if (d && (!own_name || own_len < sizeof(name))) {
		msg->msg_name = &name;
		msg->msg_namelen = sizeof(name);
	}
	if (flags & MSG_DONTWAIT) { /* perhaps with a lock held: no cancellation point */
		n = tt_raw3(SYS_recvmsg, fd, msg, flags);
	} else {
		n = tt_sys.recvmsg(fd, msg, flags);
		n = n < 0 ? -errno : n;
	}
	if (n >= 0 && !(flags & (MSG_PEEK | MSG_ERRQUEUE))) {
		s->stat->n.rx_kernel_bytes += (uint64_t)n;
		s->stat->n.rx_kernel_msgs++;
		if (d && msg->msg_namelen <= sizeof(name)) {
			memcpy(&name, msg->msg_name, msg->msg_namelen);
			tt_dgram_heard(s, &name, msg->msg_namelen);
		}
	}
	if (d && msg->msg_name == &name) {
		msg->msg_name = own_name;
		if (n < 0 || !own_name)
			msg->msg_namelen = own_len;
		else if (!tt_copy(own_name, &name, tt_min(own_len, msg->msg_namelen)))
			n = -EFAULT;
	}
	if (n >= 0)
		s->rx.kernel_event = true; /* there may be more */
	if (d && n >= 0)
		d->chosen = (flags & MSG_PEEK) ? TT_CHOSEN_KERNEL : TT_CHOSEN_NONE;
	if (d && n >= 0 && s->ep_sets && !(flags & MSG_PEEK))
		settle_early(s, fd);
	return n;
}

/*
 * What S had sent by the kernel at one moment. A send under way then may be on its way to us or taken already, so that the
 * count means nothing.
 */
struct told {
	uint32_t high;
	uint32_t kpub[TT_DGRAM_RX_MAX];
	bool sure[TT_DGRAM_RX_MAX];
};

static void told_look(struct tt_dgram_state *d, struct told *told)
{
	told->high = d ? d->rx_high : 0;
	for (uint32_t i = 0; i < told->high; i++) {
		struct tt_rx_flow *f = &d->rx[i];

		told->sure[i] = false;
		if (!tt_load_acquire(&f->in_use))
			continue;
		told->sure[i] = !__atomic_load_n(&f->dir->kpend, __ATOMIC_SEQ_CST);
		told->kpub[i] = (uint32_t)tt_load_acquire(&f->dir->kpub);
		f->kernel_seen = told->kpub[i];
	}
}

/* After that moment the kernel had nothing: all of it has been taken, or was dropped. */
static void told_settled(struct tt_sock *s, struct tt_dgram_state *d, const struct told *told)
{
	bool more = false;

	for (uint32_t i = 0; i < told->high; i++) {
		struct tt_rx_flow *f = &d->rx[i];

		if (!told->sure[i] || !tt_load_acquire(&f->in_use))
			continue;
		/* Not back: another thread may have taken one that was sent since. */
		if (!f->synced || (int32_t)(told->kpub[i] - f->kernel_taken) > 0)
			tt_store_relaxed(&f->kernel_taken, told->kpub[i]);
		more = more || !f->synced;
		f->synced = true;
		f->doubt = false;
	}
	if (more)
		tt_epoll_attached(s); /* it may join its set's group now */
}

/* Asks the kernel without waiting. */
static ssize_t kernel_now(struct tt_sock *s, int fd, struct msghdr *msg, int flags)
{
	struct tt_dgram_state *d = tt_dgram_get(s);
	struct told told;
	ssize_t n;

	told_look(d, &told);
	n = kernel_recv(s, fd, msg, flags | MSG_DONTWAIT);
	if (n == -EAGAIN && d) {
		told_settled(s, d, &told);
		if (d->chosen == TT_CHOSEN_KERNEL)
			d->chosen = TT_CHOSEN_NONE;
	}
	return n;
}

/* All that this sender has sent by the kernel was taken, or has been dropped. */
static bool clean(const struct tt_rx_flow *f)
{
	return !tt_load_acquire(&f->in_use) ||
	    (f->synced && !__atomic_load_n(&f->dir->kpend, __ATOMIC_SEQ_CST) &&
		(uint32_t)tt_load_acquire(&f->dir->kpub) == tt_load_relaxed(&f->kernel_taken));
}

static bool all_clean(const struct tt_dgram_state *d)
{
	for (uint32_t i = 0; i < d->rx_high; i++)
		if (!clean(&d->rx[i]))
			return false;
	return true;
}

/* Sets closed by their own wait hold only flows that are known to be complete: so find out as early as possible. */
static void settle_early(struct tt_sock *s, int fd)
{
	const struct tt_dgram_state *d = tt_dgram_get(s);

	for (uint32_t i = 0; i < d->rx_high; i++) {
		/* Whether there was more in the kernel, the next call will find out. */
		if (tt_rx_live(&d->rx[i]) && !d->rx[i].synced && !tt_rx_settle(s, fd))
			return;
	}
}

bool tt_rx_settle(struct tt_sock *s, int fd)
{
	struct tt_dgram_state *d = tt_dgram_get(s);
	struct pollfd look = {.fd = fd, .events = POLLIN};
	static const struct timespec none;

	for (int i = 0; d && !all_clean(d) && i < SETTLE_YIELDS; i++) {
		struct told told;

		told_look(d, &told);
		if (tt_raw5(SYS_ppoll, &look, 1, &none, 0, 8) > 0) {
			s->rx.kernel_event = true;
			return false;
		}
		told_settled(s, d, &told);
		if (i > 0)
			(void)tt_raw0(SYS_sched_yield);
	}
	return true;
}

/*
 * Asks the kernel after the rings were found empty. With a lease open something may have come into a ring since, and by the
 * kernel after that: so what the kernel has is taken only if the rings still are empty when it is known to be there.
 * -EAGAIN also when they are not.
 */
static ssize_t kernel_look(struct tt_sock *s, int fd, struct msghdr *msg, int flags)
{
	struct tt_dgram_state *d = tt_dgram_get(s);
	struct pollfd look = {.fd = fd, .events = POLLIN};
	static const struct timespec none;
	struct told told;
	bool open = false;

	for (uint32_t i = 0; d && i < d->rx_high; i++)
		open = open || (tt_load_acquire(&d->rx[i].in_use) && !tt_word_is_closed(tt_rx_flow_word(&d->rx[i])));
	if (!open)
		return kernel_now(s, fd, msg, flags);
	told_look(d, &told);
	if (tt_raw5(SYS_ppoll, &look, 1, &none, 0, 8) <= 0) {
		told_settled(s, d, &told);
		return -EAGAIN;
	}
	if (tt_dgram_readable(s)) {
		s->rx.kernel_event = true;
		return -EAGAIN;
	}
	return kernel_now(s, fd, msg, flags);
}

/* A sender that we know has used the kernel since we last asked it. */
static bool kernel_told(const struct tt_dgram_state *d)
{
	for (uint32_t i = 0; i < d->rx_high; i++) {
		const struct tt_rx_flow *f = &d->rx[i];

		if (tt_load_acquire(&f->in_use) && (uint32_t)tt_load_acquire(&f->dir->kpub) != f->kernel_seen)
			return true;
	}
	return false;
}

/* ---- rings; under rx_lock ---- */

void tt_rx_head_tell(struct tt_rx_flow *f)
{
	f->head_told = f->head;
	tt_store_release(&f->dir->head, f->head);
}

static void flow_hostile(struct tt_sock *s, struct tt_rx_flow *f)
{
	/* Only this sender's ring is spoilt: nothing more is read from it. */
	tt_word_force_close(&f->dir->word);
	tt_store_release(&f->dir->r_gone, 1);
	f->spoilt = true;
	tt_stat_reason(s->stat, TT_REASON_HOSTILE);
	s->stat->n.drops++;
}

static inline struct tt_dgram_head *record_at(const struct tt_rx_flow *f, uint64_t pos)
{
	return (struct tt_dgram_head *)(void *)(f->ring + (pos & (f->size - 1)));
}

/* Shared since a fork: the other process may have taken some of what was left. */
static void head_catch_up(struct tt_rx_flow *f)
{
	f->head = f->head_told = tt_load_acquire(&f->dir->head);
}

/* A small record lies beside tail, too: its reader then needs one cache line, not two. At f->head, which is below tail. */
static void beside_take(struct tt_rx_flow *f)
{
	if (tt_load_acquire(&f->dir->inline_pos) != f->head)
		return;
	memcpy(f->beside, f->dir->inline_bytes, sizeof(f->beside));
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if (tt_likely(tt_load_relaxed(&f->dir->inline_pos) == f->head))
		f->beside_pos = f->head;
}

/* The header of the next record, copied; false: none. Steps over the filler before a wrap. */
static bool record_next(struct tt_sock *s, struct tt_rx_flow *f, struct tt_dgram_head *head)
{
	if (tt_unlikely(s->shared))
		head_catch_up(f);
	for (int i = 0; i < 2; i++) {
		uint64_t avail;
		uint64_t to_end = f->size - (f->head & (f->size - 1));

		if (f->head == f->tail_seen || tt_unlikely(s->shared)) {
			f->tail_seen = tt_load_acquire(&f->dir->tail);
			if (f->head == f->tail_seen) {
				if (f->head != f->head_told)
					tt_rx_head_tell(f);
				return false;
			}
			if (TT_INLINE_USE)
				beside_take(f);
		}
		avail = f->tail_seen - f->head;
		if (tt_unlikely(avail > f->size || (f->head & (TT_DGRAM_ALIGN - 1))))
			break;
		/* A copy, because S can change it after it was looked at. Aligned, it ends inside the ring. */
		memcpy(head, f->beside_pos == f->head ? (const void *)f->beside : record_at(f, f->head),
		    sizeof(*head));
		if (head->len == TT_DGRAM_SKIP && avail >= to_end) {
			f->head += to_end;
			continue;
		}
		if (tt_unlikely(head->len > TT_DGRAM_MAX || tt_record_bytes(head->len) > tt_min(avail, to_end)))
			break;
		return true;
	}
	flow_hostile(s, f);
	return false;
}

/* The flow whose next record is the oldest. */
static struct tt_rx_flow *oldest(struct tt_sock *s, struct tt_dgram_state *d, struct tt_dgram_head *head)
{
	struct tt_rx_flow *best = NULL;
	int scans = d->rx_count > 1 ? 2 : 1;

	if (d->chosen != TT_CHOSEN_NONE && d->chosen <= d->rx_high) {
		best = &d->rx[d->chosen - 1];
		if (tt_rx_live(best) && record_next(s, best, head))
			return best;
		d->chosen = TT_CHOSEN_NONE;
		best = NULL;
	}
	/* Twice: whoever published after having heard of the one that the first scan found may be older than what it passed. */
	while (scans--) {
		for (uint32_t i = 0; i < d->rx_high; i++) {
			struct tt_rx_flow *f = &d->rx[i];
			struct tt_dgram_head h;

			if (!tt_rx_live(f) || f == best || !record_next(s, f, &h))
				continue;
			if (!best || (int64_t)(h.stamp - head->stamp) < 0) {
				best = f;
				*head = h;
			}
		}
		if (!best)
			break;
	}
	return best;
}

static bool behind(const struct tt_rx_flow *f, const struct tt_dgram_head *head)
{
	return !f->synced || (int32_t)(head->kernel_sent - tt_load_relaxed(&f->kernel_taken)) > 0;
}

/* Are those of its datagrams that we miss in the kernel for sure? Not if any were dropped since all were accounted for. */
static bool complete(struct tt_dgram_state *d, const struct tt_rx_flow *f, int fd)
{
	uint32_t info[SK_MEMINFO_VARS] = {0};
	socklen_t len = sizeof(info);

	if (tt_raw5(SYS_getsockopt, fd, SOL_SOCKET, SO_MEMINFO, info, &len) < 0 || info[SK_MEMINFO_DROPS] != d->drops) {
		d->drops = info[SK_MEMINFO_DROPS];
		for (uint32_t i = 0; i < d->rx_high; i++)
			d->rx[i].doubt = true;
	}
	return f->synced && !f->doubt;
}

/*
 * A record that is behind: the kernel's datagrams come first. S sends by the kernel as soon as the lease is closed, so what
 * is there now may be younger. It is older if it was there before S began another send, or if nothing was dropped: then
 * those that are missing must be there. Else the missing ones were dropped: a lease is closed only when R has everything
 * that it can have (tt_rx_settle()).
 */
static ssize_t older_recv(struct tt_sock *s, struct tt_dgram_state *d, struct tt_rx_flow *f, const struct tt_dgram_head *head,
    int fd, struct msghdr *msg, int flags)
{
	struct pollfd look = {.fd = fd, .events = POLLIN};
	static const struct timespec none;
	ssize_t n = -EAGAIN;

	(void)tt_raw5(SYS_ppoll, &look, 1, &none, 0, 8);
	if (look.revents &&
	    (((uint32_t)tt_load_acquire(&f->dir->kpub) == head->kernel_sent &&
		 !__atomic_load_n(&f->dir->kpend, __ATOMIC_SEQ_CST)) ||
		complete(d, f, fd)))
		n = kernel_now(s, fd, msg, flags);
	if (n == -EAGAIN || (n >= 0 && !(flags & MSG_PEEK) && ++f->drained >= DRAIN_MAX)) {
		tt_store_relaxed(&f->kernel_taken, head->kernel_sent);
		f->synced = true;
		f->doubt = false;
	}
	return n;
}

/* False: another process that shares the socket was faster. */
static bool head_move(struct tt_sock *s, struct tt_rx_flow *f, uint64_t to)
{
	uint64_t expected = f->head_told;

	if (tt_unlikely(s->shared)) {
		if (!tt_cas_acq_rel(&f->dir->head, &expected, to))
			return false;
		f->head = f->head_told = to;
		return true;
	}
	f->head = to;
	if (to == f->tail_seen || to - f->head_told >= f->size / TELL_PART)
		tt_rx_head_tell(f);
	return true;
}

static ssize_t record_take(struct tt_sock *s, struct tt_dgram_state *d, struct tt_rx_flow *f,
    const struct tt_dgram_head *head, struct msghdr *msg, int flags)
{
	const uint8_t *payload = f->beside_pos == f->head && head->len <= TT_DGRAM_BESIDE
				     ? f->beside + sizeof(*head)
				     : (const uint8_t *)(record_at(f, f->head) + 1);
	size_t left = head->len;
	bool fault = false;

	for (size_t i = 0; i < msg->msg_iovlen && left; i++) {
		size_t part = tt_min(left, msg->msg_iov[i].iov_len);

		fault = !tt_copy(msg->msg_iov[i].iov_base, payload, part) || fault;
		payload += part;
		left -= part;
	}
	if (msg->msg_name) {
		fault = !tt_copy(msg->msg_name, &f->source, tt_min(msg->msg_namelen, f->source_len)) || fault;
		msg->msg_namelen = f->source_len;
	}
	msg->msg_controllen = 0;
	msg->msg_flags = (left ? MSG_TRUNC : 0) | (flags & MSG_CMSG_CLOEXEC);
	if (flags & MSG_PEEK) {
		d->chosen = (uint32_t)(f - d->rx) + 1;
	} else {
		if (!head_move(s, f, f->head + tt_record_bytes(head->len)))
			return -EAGAIN;
		f->drained = 0;
		d->chosen = TT_CHOSEN_NONE;
		d->turn++;
		s->stat->n.rx_shm_bytes += head->len - left;
		s->stat->n.rx_shm_msgs++;
	}
	if (tt_unlikely(fault)) /* the datagram is gone, as in the kernel */
		return -EFAULT;
	return (ssize_t)((flags & MSG_TRUNC) ? head->len : head->len - left);
}

/*
 * The kernel's turn: plain senders must not starve while rings are never empty. A datagram of a flow whose ring holds
 * something stays where it is, its order is the record's business.
 */
static ssize_t kernel_turn(struct tt_sock *s, struct tt_dgram_state *d, int fd, struct msghdr *msg, int flags)
{
	struct sockaddr_in6 name = {0};
	struct msghdr look = {.msg_name = &name, .msg_namelen = sizeof(name)};
	ssize_t n = tt_raw3(SYS_recvmsg, fd, &look, MSG_PEEK | MSG_DONTWAIT);

	if (n < 0 && n != -EAGAIN)
		return n;
	for (uint32_t i = 0; n >= 0 && i < d->rx_high; i++) {
		const struct tt_rx_flow *f = &d->rx[i];

		if (tt_rx_live(f) && tt_load_acquire(&f->dir->tail) != f->head && f->source_len == look.msg_namelen &&
		    tt_same_source(&f->source, &name))
			n = -1;
	}
	if (n >= 0) {
		n = kernel_now(s, fd, msg, flags);
		if (n != -EAGAIN)
			return n;
	}
	d->turn = 0;
	return -EAGAIN;
}

/* What the rings have, or first the kernel's datagrams that come before it. -EAGAIN: nothing. */
static ssize_t rings_recv(struct tt_sock *s, struct tt_dgram_state *d, int fd, struct msghdr *msg, int flags)
{
	struct tt_dgram_head head;
	struct tt_rx_flow *f;
	ssize_t n;

	if (tt_unlikely(d->chosen == TT_CHOSEN_KERNEL)) {
		n = kernel_now(s, fd, msg, flags);
		if (n != -EAGAIN)
			return n;
	}
	f = oldest(s, d, &head);
	if (!f)
		return -EAGAIN;
	if (tt_unlikely(behind(f, &head))) {
		n = older_recv(s, d, f, &head, fd, msg, flags);
		if (n != -EAGAIN)
			return n;
	} else if (tt_unlikely(d->turn >= KERNEL_TURN) && d->chosen == TT_CHOSEN_NONE) {
		n = kernel_turn(s, d, fd, msg, flags);
		if (n != -EAGAIN)
			return n;
	}
	return record_take(s, d, f, &head, msg, flags);
}

/* -EINTR: the frame that this one interrupted is in the midst of it. */
static ssize_t rings_locked(struct tt_sock *s, int fd, struct msghdr *msg, int flags)
{
	struct tt_dgram_state *d;
	ssize_t n = -EAGAIN;

	if (tt_unlikely(!tt_lock_wait(&s->rx_lock)))
		return -EINTR;
	d = tt_dgram_get(s);
	if (tt_likely(d && d->rx_count))
		n = rings_recv(s, d, fd, msg, flags);
	tt_unlock(&s->rx_lock);
	return n;
}

/* ---- waiting ---- */

static ssize_t asleep_recv(struct tt_sock *s, int fd, struct msghdr *msg, int flags, bool *again)
{
	TT_SLEEPER(sleeper);
	ssize_t n;

	*again = false;
	tt_sleeper_begin(&sleeper, s);
	if (!tt_dgram_close_wait(s, fd)) {
		tt_sleeper_end(&sleeper);
		*again = true;
		return -EAGAIN;
	}
	s->stat->n.sleeps++;
	n = kernel_recv(s, fd, msg, flags);
	tt_sleeper_end(&sleeper);
	tt_attach_poll();
	return n;
}

static ssize_t nonblock_recv(struct tt_sock *s, int fd, struct msghdr *msg, int flags)
{
	struct tt_dgram_state *d = tt_dgram_get(s);
	uint64_t now = tt_tsc();
	uint32_t epoch = tt_epoll_epoch(s);
	ssize_t n;

	if (!d)
		return kernel_recv(s, fd, msg, flags | MSG_DONTWAIT);
	tt_dgram_look_check(s, fd);
	if (epoch != s->ep_epoch) {
		/* The set's last answer may have been about this socket. */
		s->ep_epoch = epoch;
		s->rx.kernel_event = true;
	}
	/* Asks again and again without waiting for anything: a wait that we know. */
	if (++d->eagain_run >= EAGAIN_BELIEVED) {
		if (!s->ep_sets)
			tt_dgram_open(s);
		if (!s->rx.kernel_event && now < d->look_tsc && !kernel_told(d))
			return -EAGAIN;
	}
	s->rx.kernel_event = false;
	d->look_tsc = now + tt_ns_to_tsc((uint64_t)tt_tun.kernel_poll_us * 1000);
	n = kernel_look(s, fd, msg, flags);
	if (n != -EAGAIN)
		d->eagain_run = 0;
	tt_attach_poll();
	return n;
}

/* The rings are empty. Is there reason to think that the kernel has something? Then ask it before spinning. */
static ssize_t kernel_first(struct tt_sock *s, int fd, struct msghdr *msg, int flags)
{
	const struct tt_dgram_state *d = tt_dgram_get(s);

	if (tt_likely(!s->rx.kernel_event && !(d && kernel_told(d))))
		return -EAGAIN;
	s->rx.kernel_event = false;
	return kernel_look(s, fd, msg, flags);
}

enum spun { SPUN_READY, SPUN_OVER, SPUN_SIGNAL, SPUN_KERNEL };

static enum spun spin_recv(struct tt_sock *s, int fd, struct msghdr *msg, int flags, int64_t budget,
    int64_t limit_ns, const struct tt_signal_count *seen, ssize_t *n)
{
	struct tt_spin spin;

	if (limit_ns > 0 && (budget < 0 || budget > limit_ns))
		budget = limit_ns;
	tt_dgram_open(s);
	/* A call with a timeout is never restarted (signal(7)). */
	if (s->rcvtimeo_ns)
		tt_spin_start(&spin, budget, &tt_signals.all, seen->all);
	else
		tt_spin_start(&spin, budget, &tt_signals.stop, seen->stop);
	for (;;) {
		for (int i = 0; i < TT_SPIN_BATCH; i++) {
			if (tt_dgram_readable(s)) {
				tt_spin_hit(s);
				return SPUN_READY;
			}
			tt_pause();
		}
		switch (tt_spin_step(&spin)) {
		case TT_SPIN_GO:
			break;
		case TT_SPIN_LOOK:
			pthread_testcancel();
			if (tt_unlikely(tt_fd_sock(fd) != s)) { /* closed by another thread */
				*n = -EBADF;
				return SPUN_KERNEL;
			}
			*n = kernel_look(s, fd, msg, flags);
			if (*n != -EAGAIN)
				return SPUN_KERNEL;
			if (s->rx.kernel_only)
				return SPUN_OVER;
			tt_attach_poll();
			tt_dgram_open(s);
			break;
		case TT_SPIN_SIGNALLED:
			return SPUN_SIGNAL;
		case TT_SPIN_END:
			tt_spin_miss(s, spin.preempted);
			return SPUN_OVER;
		}
	}
}

/* After a datagram by the kernel: enough of them, and senders may look for us. */
static void note_received(struct tt_sock *s, int fd)
{
	if (tt_unlikely(!s->rx_seen)) {
		s->rx_seen = true;
		tt_epoll_attached(s);
	}
	/* Several processes hold it: nobody can know which of them will read. */
	if (++s->msgs < s->probe_at || s->published || s->rx.kernel_only || s->foreign || s->shared || tt_share_held(s))
		return;
	if (!tt_dgram_state(s))
		return;
	if (!s->cookie) {
		s->cookie = tt_ident_cookie(fd);
		s->netns = tt_ident_netns(fd);
	}
	tt_stat_addresses(s->stat, fd);
	tt_attach_publish_dgram(s);
}

static ssize_t recv_native(struct tt_sock *s, int fd, struct msghdr *msg, int flags)
{
	bool waits = !s->nonblock && !(flags & (MSG_DONTWAIT | MSG_ERRQUEUE));
	TT_SLEEPER(sleeper);
	ssize_t n;

	if (waits)
		tt_dgram_sleep_check(s, fd);
	else
		tt_dgram_look_check(s, fd);
	tt_sleeper_begin(&sleeper, s);
	n = kernel_recv(s, fd, msg, flags);
	tt_sleeper_end(&sleeper);
	if (n >= 0 && !(flags & (MSG_PEEK | MSG_ERRQUEUE)))
		note_received(s, fd);
	tt_attach_poll();
	return n;
}

ssize_t tt_dgram_recv(struct tt_sock *s, int fd, struct msghdr *msg, int flags)
{
	const struct tt_signal_count seen = {tt_signals.all, tt_signals.stop};
	bool dontwait = s->nonblock || (flags & MSG_DONTWAIT);
	uint64_t start = 0;
	int rounds = 0;

	if (tt_unlikely(s->pending_err)) {
		int err = tt_dgram_pending_take(s);

		if (err)
			return err;
	}
	if (tt_unlikely(s->forked))
		tt_share_look(s, fd);
	if (!tt_dgram_lanes(s) || (flags & MSG_ERRQUEUE) || msg->msg_iovlen > 1024)
		return recv_native(s, fd, msg, flags);
	tt_cancel_look(s->stat->n.rx_shm_msgs);
	for (;;) {
		ssize_t n = rings_locked(s, fd, msg, flags);
		int64_t left = 0;
		int64_t budget;
		bool again;

		if (tt_likely(n != -EAGAIN)) {
			if (tt_unlikely(n == -EINTR) && dontwait)
				n = -EAGAIN;
			if (tt_unlikely(tt_dgram_turn(s) == 1)) /* now and then: offers may be waiting */
				tt_attach_poll();
			return n;
		}
		if (dontwait) {
			n = nonblock_recv(s, fd, msg, flags);
			if (n != -EAGAIN || !tt_dgram_readable(s) || ++rounds > ROUNDS_MAX)
				return n;
			continue;
		}
		if (s->rcvtimeo_ns) {
			uint64_t now = tt_tsc();

			start = start ? start : now;
			left = s->rcvtimeo_ns - (int64_t)tt_tsc_to_ns(now - start);
			if (left <= 0)
				return -EAGAIN;
		}
		budget = tt_dgram_spin_budget(s);
		n = budget ? kernel_first(s, fd, msg, flags) : -EAGAIN; /* it sleeps in the kernel, which will know */
		if (n != -EAGAIN)
			return n;
		switch (budget ? spin_recv(s, fd, msg, flags, budget, left, &seen, &n) : SPUN_OVER) {
		case SPUN_READY:
			continue;
		case SPUN_SIGNAL:
			return -EINTR;
		case SPUN_KERNEL:
			return n;
		case SPUN_OVER:
			break;
		}
		if (tt_unlikely(tt_fd_sock(fd) != s))
			return -EBADF;
		n = asleep_recv(s, fd, msg, flags, &again);
		if (again) /* a lease that was open can't be closed before the kernel is empty */
			n = kernel_first(s, fd, msg, flags);
		if (!again || n != -EAGAIN)
			return n;
		/* As if it had slept already. A call with a timeout is never restarted (signal(7)). */
		if ((s->rcvtimeo_ns ? tt_signals.all != seen.all : tt_signals.stop != seen.stop) && !tt_dgram_readable(s))
			return -EINTR;
	}
}

ssize_t tt_dgram_next_bytes(struct tt_sock *s, int fd)
{
	struct msghdr look = {0};
	struct tt_dgram_head head;
	struct tt_dgram_state *d;
	struct tt_rx_flow *f;
	ssize_t n = -1;

	if (!tt_dgram_lanes(s) || !tt_lock_wait(&s->rx_lock))
		return -1;
	d = tt_dgram_get(s);
	f = d && d->chosen != TT_CHOSEN_KERNEL ? oldest(s, d, &head) : NULL;
	if (f && !(behind(f, &head) && older_recv(s, d, f, &head, fd, &look, MSG_PEEK) != -EAGAIN)) {
		d->chosen = (uint32_t)(f - d->rx) + 1;
		n = (ssize_t)head.len;
	}
	tt_unlock(&s->rx_lock);
	return n;
}
