/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stream_rx.c - the receiving side of a stream. The order of both paths is told in stream.h.
 */
#include "socket/stream.h"

#include <errno.h>
#include <netinet/in.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sched.h>

#include "base/raw.h"
#include "socket/cancel.h"
#include "socket/epoll.h"
#include "socket/lease.h"
#include "socket/spin.h"

/* A program that polls by non-blocking calls is believed after so many EAGAIN in a row. */
#define EAGAIN_BELIEVED 64u

#define PEEK_TRIES 20000
#define LOOK_NS 1500000000ull
/* The ring, or what S has told of, was there so often in vain: no more spinning. */
#define VAIN_MAX 1000
/* S has told of kernel bytes, and they do not come: a loopback that lost them would have sent them again by now. */
#define BEHIND_NS 5000000000ull

#define RECV_FLAGS_KNOWN (MSG_DONTWAIT | MSG_WAITALL | MSG_PEEK | MSG_NOSIGNAL | MSG_CMSG_CLOEXEC | TT_CALLS)

static ssize_t kernel_recvv(int fd, struct iovec *iov, size_t count, int flags)
{
	ssize_t n;
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = count};
	int call = flags & TT_CALLS;

	flags &= ~TT_CALLS;
	if (flags & MSG_DONTWAIT) /* perhaps with a lock held: no cancellation point */
		return count == 1 ? tt_raw6(SYS_recvfrom, fd, iov->iov_base, iov->iov_len, flags, 0, 0)
				  : tt_raw3(SYS_recvmsg, fd, &msg, flags);
	if ((call == TT_CALL_READ || call == TT_CALL_READV) && !flags)
		n = call == TT_CALL_READ && count == 1 ? tt_sys.read(fd, iov->iov_base, iov->iov_len)
						       : tt_sys.readv(fd, iov, (int)count);
	else
		n = count == 1 ? tt_sys.recv(fd, iov->iov_base, iov->iov_len, flags) : tt_sys.recvmsg(fd, &msg, flags);
	return n < 0 ? -errno : n;
}

static void rx_count_kernel(struct tt_sock *s, ssize_t n, int flags)
{
	struct tt_dir *dir = tt_load_acquire(&s->rx.dir);

	if (n <= 0 || (flags & MSG_PEEK))
		return;
	__atomic_fetch_add(&s->rx.kcons, (uint64_t)n, __ATOMIC_RELAXED);
	if (dir)
		tt_store_relaxed(&dir->kcons, tt_load_relaxed(&s->rx.kcons));
	s->stat->n.rx_kernel_bytes += (uint64_t)n;
	s->stat->n.rx_kernel_msgs++;
	/* The answers "nothing" were not back to back: the program may wait by calls that we don't see (rule 12). */
	s->rx.eagain_run = 0;
}

/*
 * Takes up to limit bytes from the kernel without waiting; they are known to have been accepted from S. Under rx_lock.
 * -EAGAIN when they are not there: still on their way, or taken by code that we do not see.
 */
static ssize_t kernel_take(struct tt_sock *s, int fd, struct tt_cursor *c, uint64_t limit, int flags)
{
	struct iovec rest[16];
	uint64_t consumed;
	ssize_t n;
	size_t count = tt_cursor_rest(c, rest, tt_array_len(rest), (size_t)tt_min(limit, (uint64_t)TT_IO_MAX));

	n = kernel_recvv(fd, rest, count, (flags & MSG_PEEK) | MSG_DONTWAIT);
	if (n != -EAGAIN)
		s->rx.behind_tsc = 0;
	if (n > 0) {
		rx_count_kernel(s, n, flags);
		tt_cursor_step(c, (size_t)n);
		return n;
	}
	/* One that is back from the kernel and has yet to count what it got would count it again: all such are sleepers. */
	if (n == -EAGAIN && tt_ident_tcp_consumed(fd, &consumed) == 0 &&
	    __atomic_load_n(&s->sleepers, __ATOMIC_SEQ_CST) == 0 && consumed > s->rx.kcons)
		s->rx.kcons = consumed;
	return n;
}

/* 0, or -EFAULT: then nothing was taken. */
static int ring_take(struct tt_sock *s, struct tt_cursor *c, size_t n, int flags)
{
	struct tt_rx *rx = &s->rx;
	const struct tt_cursor before = *c;

	if (tt_unlikely(!tt_ring_copy(c, rx->ring, rx->size, rx->head, n, false)))
		return -EFAULT;
	if (flags & MSG_PEEK)
		return 0;
	if (tt_unlikely(s->shared)) {
		/* Since fork another process may take leftovers too: whoever moves head has the bytes. */
		uint64_t expected = rx->head;

		if (!__atomic_compare_exchange_n(&rx->dir->head, &expected, rx->head + n, false,
			__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
			rx->head = expected;
			*c = before; /* what was copied is the other one's */
			return 0;
		}
		rx->head += n;
	} else {
		rx->head += n;
		tt_store_release(&rx->dir->head, rx->head);
	}
	s->stat->n.rx_shm_bytes += n;
	s->stat->n.rx_shm_msgs++;
	rx->eagain_run = 0;
	return 0;
}

/* The ring's bytes come after kernel bytes that are not there. S never marks more than it has told of. */
static bool behind_for_ever(struct tt_rx *rx, uint64_t mark)
{
	uint64_t now = tt_tsc();

	if (mark > tt_load_acquire(&rx->dir->kpub))
		return true;
	if (!rx->behind_tsc)
		rx->behind_tsc = now;
	return now - rx->behind_tsc > tt_ns_to_tsc(BEHIND_NS);
}

/*
 * What can be had now, in order, without asking the kernel about anything that S has not told. Under rx_lock.
 * > 0 bytes; -EAGAIN nothing; other errors are the connection's.
 */
static ssize_t take_now(struct tt_sock *s, int fd, struct tt_cursor *c, size_t len, int flags)
{
	struct tt_rx *rx = &s->rx;
	struct tt_dir *dir = rx->dir;
	uint64_t kpub;
	uint64_t tail;
	uint64_t avail;
	uint64_t mark;
	uint64_t head;
	size_t n;

	if (tt_unlikely(s->shared))
		rx->head = tt_load_acquire(&dir->head);
	kpub = tt_load_acquire(&dir->kpub); /* before tail: rule (c) */
	if (tt_unlikely(kpub == TT_KPUB_UNKNOWN))
		kpub = rx->kcons;
	tail = tt_load_acquire(&dir->tail);
	avail = tail - rx->head;
	if (avail == 0) {
		uint64_t limit = kpub - rx->kcons;

		if (kpub <= rx->kcons)
			return -EAGAIN;
		/*
		 * Rule (a): with the own word closed, everything. S tells of bytes a moment after the kernel shows them, and a program
		 * that has seen them by a peek expects them all. Leases are opened under rx_lock, which we hold.
		 */
		if (((!tt_load_relaxed(&s->ref.gov) && tt_word_is_closed(&dir->word)) || tt_load_acquire(&dir->fin)) &&
		    tt_load_acquire(&dir->tail) == rx->head)
			limit = TT_IO_MAX; /* likewise when S has left the ring for good */
		return kernel_take(s, fd, c, limit, flags);
	}
	if (tt_unlikely(avail > rx->size)) {
		tt_peer_hostile(s);
		return -ECONNRESET;
	}
	mark = __atomic_load_n(&dir->mark, __ATOMIC_RELAXED);
	if (tt_unlikely(mark > rx->kcons)) {
		ssize_t got = kernel_take(s, fd, c, mark - rx->kcons, flags);

		if (got == -EAGAIN && rx->kcons < mark && behind_for_ever(rx, mark)) {
			tt_peer_hostile(s);
			return -ECONNRESET;
		}
		if (got != -EAGAIN || rx->kcons < mark)
			return got;
	}
	n = tt_min((size_t)avail, len);
	head = rx->head;
	if (tt_unlikely(ring_take(s, c, n, flags)))
		return -EFAULT;
	if (tt_unlikely(s->shared) && !(flags & MSG_PEEK) && rx->head != head + n)
		return -EAGAIN;
	return (ssize_t)n;
}

static bool ring_not_empty(const struct tt_sock *s)
{
	const struct tt_dir *dir = tt_load_acquire(&s->rx.dir);

	return dir && tt_load_acquire(&dir->tail) != s->rx.head;
}

static bool more_to_take(const struct tt_sock *s)
{
	const struct tt_dir *dir = s->rx.dir;
	uint64_t kpub = tt_load_acquire(&dir->kpub);

	return tt_load_acquire(&dir->tail) != s->rx.head || (kpub > s->rx.kcons && kpub != TT_KPUB_UNKNOWN);
}

/* The next byte of the kernel is the urgent one's place: a receive ends there, even one that began in the ring. */
static bool urgent_next(int fd)
{
	int at = 0;

	return !tt_process_confined && tt_raw3(SYS_ioctl, fd, SIOCATMARK, &at) == 0 && at;
}

/* FIONREAD has told the program of bytes that S has not told us of: the next receive gives them, too. Under rx_lock. */
static ssize_t counted_take(struct tt_sock *s, int fd, struct tt_cursor *c)
{
	s->rx.kernel_counted = false;
	if (tt_lease_close(s) || ring_not_empty(s))
		return 0;
	return kernel_take(s, fd, c, TT_IO_MAX, 0);
}

/*
 * All that can be had now, up to len, over both paths. *told, when not NULL: false when S is in the middle of a kernel send, so that
 * less than len need not be all.
 */
static ssize_t take_locked(struct tt_sock *s, int fd, struct tt_cursor *c, size_t len, int flags, bool *told)
{
	size_t done = 0;
	bool more;
	ssize_t n;

	if (!tt_lock_wait(&s->rx_lock))
		return -EAGAIN; /* the interrupted frame is in the middle of a take */
	if (tt_unlikely(!s->rx.dir)) {
		tt_unlock(&s->rx_lock);
		return -ENOTCONN;
	}
	if (tt_unlikely(flags & MSG_PEEK)) {
		if (!tt_stream_peek(s, fd, c, len, &n))
			n = take_now(s, fd, c, len, MSG_PEEK);
		tt_unlock(&s->rx_lock);
		return n;
	}
	do {
		uint64_t head = s->rx.head;
		/* Before what is taken: a send that is over by then has been told. */
		bool pending = tt_load_acquire(&s->rx.dir->kpend);
		bool left = tt_load_acquire(&s->rx.dir->fin);

		n = take_now(s, fd, c, len - done, flags);
		if (n > 0)
			done += (size_t)n;
		/* Where S has left the ring not the kernel twice: one receive of its own ends at the urgent byte, too. */
		more = s->rx.head != head || !left ? more_to_take(s) : ring_not_empty(s);
		if (told)
			*told = !pending;
		if (tt_unlikely(more && done && left) && !ring_not_empty(s) && urgent_next(fd))
			break;
	} while (n > 0 && done < len && more);
	if (tt_unlikely(s->rx.kernel_counted) && n > 0 && done < len && !ring_not_empty(s)) {
		ssize_t behind = counted_take(s, fd, c);

		done += behind > 0 ? (size_t)behind : 0;
	}
	tt_unlock(&s->rx_lock);
	return done ? (ssize_t)done : n;
}

enum spin { SPIN_READY, SPIN_OVER, SPIN_KERNEL, SPIN_SIGNAL };

/*
 * Is there something of the kernel to see? A FIN, an error, or bytes that S has not told of yet. Asked by poll: a peek would take
 * the error of a reset with it, and the program would be shown the end of the stream instead.
 */
static bool kernel_has_something(int fd)
{
	struct pollfd look = {.fd = fd, .events = POLLIN};
	struct timespec now = {0};

	return tt_raw5(SYS_ppoll, &look, 1, &now, 0, 8) != 0;
}

static enum spin rx_spin(struct tt_sock *s, int fd, int64_t limit_ns,
    const struct tt_signal_count *seen)
{
	const struct tt_dir *dir = tt_load_acquire(&s->rx.dir);
	int64_t budget = dir ? tt_spin_budget(s) : 0;
	struct tt_spin spin;

	if (limit_ns > 0 && (budget < 0 || budget > limit_ns))
		budget = limit_ns;
	if (budget == 0 || s->rx.kernel_only || __atomic_load_n(&dir->fin, __ATOMIC_RELAXED))
		return SPIN_OVER;
	if (!s->rx.open) /* S's line is not to be touched at each wait */
		tt_lease_open(s);
	/* A call with a timeout is never restarted (signal(7)). */
	if (s->rcvtimeo_ns)
		tt_spin_start(&spin, budget, &tt_signals.all, seen->all);
	else
		tt_spin_start(&spin, budget, &tt_signals.stop, seen->stop);
	for (;;) {
		for (int i = 0; i < TT_SPIN_BATCH; i++) {
			if (tt_stream_readable(s)) {
				tt_spin_hit(s);
				return SPIN_READY;
			}
			tt_pause();
		}
		switch (tt_spin_step(&spin)) {
		case TT_SPIN_GO:
			break;
		case TT_SPIN_LOOK:
			pthread_testcancel();
			if (__atomic_load_n(&dir->fin, __ATOMIC_RELAXED) || kernel_has_something(fd))
				return SPIN_KERNEL;
			break;
		case TT_SPIN_SIGNALLED:
			return SPIN_SIGNAL;
		case TT_SPIN_END:
			tt_spin_miss(s, spin.preempted);
			return SPIN_OVER;
		}
	}
}

/* What the kernel has answered, it will answer again: the end of the stream, or an error and then the end. */
static bool lasting(ssize_t n)
{
	return n == 0 || (n < 0 && n != -EAGAIN && n != -EINTR);
}

/* Sleeps in the program's own call. The kernel's answer, or -EAGAIN with *again: look at the ring once more. */
static ssize_t rx_sleep(struct tt_sock *s, int fd, struct tt_cursor *c, int flags, bool *again)
{
	TT_SLEEPER(sleeper);
	struct iovec rest[16];
	struct tt_dir *dir;
	size_t count;
	ssize_t n;

	*again = false;
	tt_sleeper_begin(&sleeper, s);
	tt_lease_asleep(s, true); /* for a look, too: S that meets it would have met it asleep or open */
	if (s->rx.dir && (!tt_lease_close_wait(s, fd) || ring_not_empty(s))) {
		tt_lease_asleep(s, false);
		tt_sleeper_end(&sleeper);
		*again = true;
		return -EAGAIN;
	}
	dir = tt_load_acquire(&s->rx.dir);
	if (dir) {
		uint32_t cpu = (uint32_t)sched_getcpu();

		if (dir->r_cpu != cpu)
			__atomic_store_n(&dir->r_cpu, cpu, __ATOMIC_RELAXED);
	}
	count = tt_cursor_rest(c, rest, tt_array_len(rest), TT_IO_MAX);
	if (!(flags & MSG_DONTWAIT))
		s->stat->n.sleeps++;
	n = kernel_recvv(fd, rest, count, flags);
	if (!(flags & MSG_DONTWAIT) && (n <= 0 || s->nonblock || !tt_tun.spin_ns)) /* else when the lease is opened */
		tt_lease_asleep(s, false);
	rx_count_kernel(s, n, flags);
	tt_sleeper_end(&sleeper);
	if (n > 0)
		tt_cursor_step(c, (size_t)n);
	tt_store_relaxed(&s->rx.kernel_event, lasting(n));
	tt_attach_poll();
	return n;
}

/* One look at the kernel with the lease closed, without waiting. *again: look at the ring once more. */
static ssize_t rx_look(struct tt_sock *s, int fd, struct tt_cursor *c, int flags, bool *again)
{
	bool busy;
	struct tt_epset *set = tt_epoll_hold(s, &busy);
	struct iovec rest[16];
	size_t count;
	ssize_t n;

	*again = busy;
	if (busy)
		return -EAGAIN;
	if (!set) {
		bool was_open = s->rx.open;

		n = rx_sleep(s, fd, c, flags | MSG_DONTWAIT, again);
		/* As it was before: the program's next wait will look at the ring. */
		if (s->nonblock && (was_open || tt_load_relaxed(&s->rx.polled)))
			tt_lease_open(s);
		else
			tt_lease_asleep(s, false);
		return n;
	}
	if (ring_not_empty(s)) {
		tt_epoll_release(set, s);
		*again = true;
		return -EAGAIN;
	}
	count = tt_cursor_rest(c, rest, tt_array_len(rest), TT_IO_MAX);
	n = kernel_recvv(fd, rest, count, flags | MSG_DONTWAIT);
	rx_count_kernel(s, n, flags);
	tt_epoll_release(set, s);
	if (n > 0)
		tt_cursor_step(c, (size_t)n);
	tt_store_relaxed(&s->rx.kernel_event, lasting(n));
	return n;
}

/*
 * A publisher was inside: is there a reason to try again? Not where the kernel has nothing: what it gets later it tells of. Else
 * until the word is free, or known to be stuck.
 */
static bool look_again(struct tt_sock *s, int fd, uint64_t begin)
{
	struct pollfd look = {.fd = fd, .events = POLLIN};
	struct timespec none = {0};

	if (s->hostile || tt_raw5(SYS_ppoll, &look, 1, &none, 0, 8) <= 0)
		return false;
	if (tt_lease_stuck(s, fd))
		return !s->hostile;
	(void)tt_raw0(SYS_sched_yield);
	return tt_tsc() - begin < tt_ns_to_tsc(LOOK_NS);
}

/* Nothing to be had now, and the caller does not want to wait. */
static ssize_t recv_nonblock(struct tt_sock *s, int fd, struct tt_cursor *c, size_t len, int flags)
{
	struct tt_dir *dir = tt_load_acquire(&s->rx.dir);
	bool again;
	ssize_t n = -EAGAIN;
	uint64_t begin = tt_tsc();
	uint32_t epoch = tt_epoll_epoch(s);

	if (epoch != s->ep_epoch) {
		/* The set's last answer may have been about this socket. */
		s->ep_epoch = epoch;
		tt_store_relaxed(&s->rx.kernel_event, tt_load_relaxed(&s->rx.kernel_event) || kernel_has_something(fd));
	}
	/*
	 * Open, and S has told of everything: only a FIN or plain bytes can be there. The lease is not closed to find that out: S would
	 * send its next message by the kernel, whose event would bring us here again, and so on.
	 */
	if (!s->rx.kernel_only && dir && !tt_word_is_closed(tt_rx_word(s, dir)) && !tt_load_acquire(&dir->kpend) &&
	    tt_load_acquire(&dir->kpub) <= s->rx.kcons && !tt_load_relaxed(&dir->fin)) {
		if (!tt_load_relaxed(&s->rx.kernel_event) && ++s->rx.eagain_run % EAGAIN_BELIEVED != 0)
			return -EAGAIN;
		if (!kernel_has_something(fd)) {
			tt_store_relaxed(&s->rx.kernel_event, false);
			return -EAGAIN;
		}
	}
	/* Bounded: what the ring holds may have to wait for kernel bytes that are still on their way. */
	for (int i = 0; i < 3; i++) {
		/*
		 * Not given up because another connection's sender is in the set's word: an edge-triggered program has had its one
		 * notice, and would wait for ever.
		 */
		do
			n = rx_look(s, fd, c, flags, &again);
		while (again && !ring_not_empty(s) && look_again(s, fd, begin));
		if (!again)
			break;
		if (tt_unlikely(s->hostile))
			return -ECONNRESET;
		n = take_locked(s, fd, c, len, flags, NULL);
		if (n != -EAGAIN)
			break;
	}
	/* A program that asks again and again without waiting for anything is a wait that we know. */
	if (n == -EAGAIN && ++s->rx.eagain_run >= EAGAIN_BELIEVED && !s->ep_sets) {
		tt_lease_open(s);
		n = take_locked(s, fd, c, len, flags, NULL); /* published while another thread went to sleep */
	}
	return n;
}

/*
 * Less than was asked for, while S is in the middle of a kernel send: an edge-triggered program takes that for the end and waits,
 * but its notice of those bytes may be behind it. What the kernel has of them by now is added. Returns bytes.
 */
static ssize_t short_look(struct tt_sock *s, int fd, struct tt_cursor *c, size_t len, int flags)
{
	uint64_t begin = tt_tsc();
	size_t sum = 0;

	while (sum < len) {
		bool again;
		ssize_t n = rx_look(s, fd, c, flags, &again);

		if (again && ring_not_empty(s))
			n = take_locked(s, fd, c, len - sum, flags, NULL);
		if (n > 0)
			sum += (size_t)n;
		if (!again || (n <= 0 && n != -EAGAIN) || !look_again(s, fd, begin))
			break;
	}
	return (ssize_t)sum;
}

static int64_t time_left(int64_t limit_ns, uint64_t start)
{
	int64_t left;

	if (limit_ns == 0)
		return 0;
	left = limit_ns - (int64_t)tt_tsc_to_ns(tt_tsc() - start);
	return left > 0 ? left : -1;
}

/*
 * The common case by itself: the ring holds something, nothing of the kernel comes before or behind it, one buffer. 0: take
 * the long way.
 */
static inline size_t recv_fast(struct tt_sock *s, void *buf, size_t len)
{
	struct tt_rx *rx = &s->rx;
	const struct tt_dir *dir = rx->dir;
	uint64_t tail;
	uint64_t avail;
	uint64_t at;
	size_t n = 0;

	if (!tt_lock_try(&s->rx_lock))
		return 0;
	/* kpend before kpub: a send by the kernel that is over by now has been told. */
	if (tt_unlikely(rx->dir != dir || s->shared || rx->kernel_counted || tt_load_acquire(&dir->kpend) ||
		tt_load_acquire(&dir->kpub) > rx->kcons))
		goto out;
	tail = tt_load_acquire(&dir->tail);
	avail = tail - rx->head;
	at = rx->head & (rx->size - 1);
	if (avail == 0 || avail > rx->size)
		goto out;
	n = tt_min((size_t)avail, len);
	if (n > rx->size - at || tt_load_relaxed(&dir->mark) > rx->kcons) {
		n = 0;
		goto out;
	}
	if (TT_INLINE_USE && n == avail && n <= TT_INLINE_BYTES && tt_load_acquire(&dir->inline_pos) == rx->head) {
		uint8_t copy[TT_INLINE_BYTES];

		memcpy(copy, dir->inline_bytes, n);
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (tt_unlikely(tt_load_relaxed(&dir->inline_pos) != rx->head))
			memcpy(copy, rx->ring + at, n);
		if (tt_unlikely(!tt_copy(buf, copy, n)))
			n = 0;
	} else if (tt_unlikely(!tt_copy(buf, rx->ring + at, n))) {
		n = 0;
	}
	if (tt_unlikely(n == 0)) /* a buffer that faults: the long way reports it */
		goto out;
	rx->head += n;
	tt_store_release(&rx->dir->head, rx->head);
	rx->eagain_run = 0;
	s->stat->n.rx_shm_bytes += n;
	s->stat->n.rx_shm_msgs++;
out:
	tt_unlock(&s->rx_lock);
	return n;
}

/* The ring is not empty, but what comes before it by the kernel is not there: a moment's sleep for that. */
static void kernel_nap(int fd)
{
	struct pollfd look = {.fd = fd, .events = POLLIN};
	struct timespec nap = {.tv_nsec = 1000000};

	(void)tt_raw5(SYS_ppoll, &look, 1, &nap, 0, 8);
}

/* Nothing to be had now: spin, then sleep. Returns as recv does; 0 with *again means: look once more. */
static ssize_t recv_wait(struct tt_sock *s, int fd, struct tt_cursor *c, int flags, uint64_t start,
    const struct tt_signal_count *seen, uint32_t *vain, bool *again)
{
	int64_t left = time_left(s->rcvtimeo_ns, start);
	ssize_t n;

	*again = false;
	if (left < 0)
		return -EAGAIN;
	switch (++*vain < VAIN_MAX ? rx_spin(s, fd, left, seen) : SPIN_OVER) {
	case SPIN_READY:
		*again = true;
		return 0;
	case SPIN_SIGNAL:
		return -EINTR;
	case SPIN_OVER:
	case SPIN_KERNEL:
		break;
	}
	if (time_left(s->rcvtimeo_ns, start) < 0)
		return -EAGAIN;
	/* A handler that ran since the call began has interrupted it, as if it had slept already. */
	if (tt_signals.stop != seen->stop)
		return -EINTR;
	n = rx_sleep(s, fd, c, flags, again);
	if (tt_unlikely(*again && *vain >= VAIN_MAX))
		kernel_nap(fd);
	return n;
}

static ssize_t recv_native(struct tt_sock *s, int fd, struct iovec *iov, size_t count, int flags)
{
	TT_SLEEPER(sleeper);
	ssize_t n;

	tt_sleeper_begin(&sleeper, s);
	n = kernel_recvv(fd, iov, count, flags);
	rx_count_kernel(s, n, flags);
	tt_sleeper_end(&sleeper);
	if (n >= 0)
		tt_attach_received(s, fd, (flags & MSG_PEEK) ? 0 : (size_t)n);
	else
		tt_attach_poll();
	return n;
}

/*
 * The kernel's own answer to a peek may show bytes that S has yet to tell of, and the next call would give fewer. S tells a moment
 * after its send: wait for that, and show what the next call will give. The kernel's answer stands where S does not tell.
 */
static ssize_t peek_told(struct tt_sock *s, int fd, struct iovec *iov, size_t count, size_t len,
    ssize_t shown)
{
	for (int i = 0; i < PEEK_TRIES; i++) {
		const struct tt_dir *dir = tt_load_acquire(&s->rx.dir);
		struct tt_cursor c = {iov, count, 0};
		ssize_t n;

		tt_cursor_step(&c, 0);
		n = take_locked(s, fd, &c, len, MSG_PEEK, NULL);
		if (n > 0)
			return n;
		if (!dir || !tt_load_acquire(&dir->kpend))
			break;
		tt_pause();
	}
	return shown;
}

bool tt_stream_recv_seen(struct tt_sock *s)
{
	if (tt_unlikely(!tt_load_relaxed(&s->rx_seen))) {
		tt_store_relaxed(&s->rx_seen, true);
		tt_epoll_attached(s);
	}
	if (tt_unlikely(tt_attach_state(s) == TT_ATTACH_OFFERED))
		tt_attach_check(s);
	return tt_load_acquire(&s->rx.dir) != NULL;
}

ssize_t tt_stream_recv(struct tt_sock *s, int fd, struct iovec *iov, size_t count, int flags)
{
	struct tt_cursor c = {iov, count, 0};
	size_t len;
	size_t done = 0;
	uint64_t start = 0;
	uint32_t vain = 0;
	const struct tt_signal_count seen = {tt_signals.all, tt_signals.stop};

	if (tt_unlikely(!tt_stream_recv_seen(s)))
		return recv_native(s, fd, iov, count, flags);
	tt_cancel_look(s->stat->n.rx_shm_msgs);
	len = tt_iov_total(iov, count);
	if (len == 0 && ring_not_empty(s) && !(flags & ~RECV_FLAGS_KNOWN))
		return 0;
	if (tt_unlikely(flags & ~RECV_FLAGS_KNOWN) || len == 0)
		return kernel_recvv(fd, iov, count, flags); /* MSG_OOB, MSG_ERRQUEUE, MSG_TRUNC: see tt_sock_recv() */
	tt_cursor_step(&c, 0);
	if (tt_unlikely((flags & (MSG_PEEK | MSG_WAITALL)) == (MSG_PEEK | MSG_WAITALL)) && !s->nonblock &&
	    !(flags & MSG_DONTWAIT)) {
		ssize_t n;

		if (tt_stream_peek_all(s, fd, &c, len, flags, &n)) {
			s->rx.peeked = true;
			return n;
		}
	}
	for (;;) {
		ssize_t n;
		bool again = false;
		bool told = true;

		if (tt_likely(count == 1 && !(flags & (MSG_PEEK | MSG_WAITALL)))) {
			size_t got = recv_fast(s, iov->iov_base, iov->iov_len);

			if (tt_likely(got))
				return (ssize_t)got;
		}
		if (tt_unlikely(s->forked))
			tt_share_look(s, fd);
		n = take_locked(s, fd, &c, len - done, flags, &told);
		if (tt_unlikely(n == -ENOTCONN && !s->rx.dir)) /* closed by another thread meanwhile, or it has left its slot */
			return done ? (ssize_t)done
				    : tt_fd_sock(fd) == s ? recv_native(s, fd, iov, count, flags)
							  : kernel_recvv(fd, iov, count, flags);
		if (tt_unlikely(n == -EAGAIN && !done && tt_again_due(s)) && tt_again(s, fd))
			return recv_native(s, fd, iov, count, flags);
		if (n == -EAGAIN) {
			if (s->nonblock || (flags & MSG_DONTWAIT)) {
				n = recv_nonblock(s, fd, &c, len - done, flags);
			} else {
				if (s->rcvtimeo_ns && !start)
					start = tt_tsc();
				n = recv_wait(s, fd, &c, flags, start, &seen, &vain, &again);
			}
		}
		if (tt_unlikely(s->hostile))
			return done ? (ssize_t)done : -ECONNRESET;
		if (again)
			continue;
		if (n <= 0)
			return done ? (ssize_t)done : n;
		vain = 0;
		if (tt_unlikely(!told) && s->ep_sets && !(flags & MSG_PEEK) && done + (size_t)n < len)
			n += short_look(s, fd, &c, len - done - (size_t)n, flags);
		s->rx.peeked = (flags & MSG_PEEK) != 0;
		if (tt_unlikely(flags & MSG_PEEK) && s->rx.dir)
			return peek_told(s, fd, iov, count, len, n);
		done += (size_t)n;
		if (tt_unlikely(s->ep != NULL) && s->rx.dir && !tt_load_relaxed(&s->ref.gov))
			tt_epoll_received(s);
		/* A program that reads by blocking calls, or after poll, will look again: what is sent meanwhile can go by the ring. */
		if (tt_unlikely(!s->rx.open) && (!s->nonblock || tt_load_relaxed(&s->rx.polled)) && tt_tun.spin_ns)
			tt_lease_open(s);
		if (!(flags & MSG_WAITALL) || (flags & MSG_PEEK) || done == len)
			return (ssize_t)done;
	}
}

void tt_stream_last_close(struct tt_sock *s, int fd)
{
	static const struct linger reset = {.l_onoff = 1, .l_linger = 0};

	if (s->foreign || s->type != SOCK_STREAM)
		return;
	if (s->tx.dir) {
		tt_unread_give(s);
		__atomic_store_n(&s->tx.dir->fin, 1, __ATOMIC_RELEASE);
	}
	if (!s->rx.dir || s->shared)
		return;
	/* Unread bytes make the kernel answer with RST; ours are not in its queue, so ask for it (rule 13). */
	/* Closed unseen, the number may be another socket's by now (rule 19). */
	if (tt_load_acquire(&s->rx.dir->tail) != s->rx.head && (!s->cookie || tt_ident_cookie(fd) == s->cookie))
		(void)tt_raw5(SYS_setsockopt, fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
}
