/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dgram.c - UDP over shared memory.
 *
 * A *flow* is one sending socket, one destination, one receiving socket. The kernel names the receiver (a socket-diagnostics
 * lookup with the datagram's own addresses), the receiver checks with the same question both ways round, and from then on
 * datagrams of the flow go through a ring of its own: one producer and one consumer, so that a producer that dies
 * blocks nobody. The receiver merges its flows by time stamp. Its kernel socket stays in use for everything else: plain
 * senders, odd flags, a full ring, a sleeping receiver; what the kernel would drop, the kernel drops.
 *
 * Order inside a flow: a record that follows datagrams sent by the kernel says how many, and the receiver takes those from
 * the kernel first. On loopback they are in the receiver's queue (or dropped) when sendto() returns.
 *
 * The sender asks the kernel again every 10 ms whether the receiver is still the one; that is also the only way
 * to learn that a process was killed. Design rules 24 to 26 of same-host transport.
 */
#include "socket/dgram.h"

#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>

#include "base/copy.h"
#include "base/raw.h"
#include "socket/epoll.h"
#include "socket/lease.h"
#include "socket/spin.h"
#include "socket/trace.h"

#define VERIFY_NS 10000000
#define KERNEL_LOOK_EVERY 64u
#define CLOSE_YIELDS 50
#define SEND_FLAGS_KNOWN (MSG_DONTWAIT | MSG_NOSIGNAL)
#define RECV_FLAGS_KNOWN (MSG_DONTWAIT | MSG_PEEK | MSG_TRUNC | MSG_NOSIGNAL | MSG_CMSG_CLOEXEC)
#define DGRAM_MAX 65507u

enum flow_state { FLOW_FREE, FLOW_KERNEL, FLOW_OFFERED, FLOW_NEVER };

struct tx_flow {
	uint8_t state; /* enum flow_state */
	struct tt_tuple tuple; /* us -> destination */
	struct tt_slot_ref ref;
	struct tt_dir *dir;
	uint8_t *ring;
	uint64_t size;
	uint64_t tail;
	uint64_t head_seen;
	uint64_t verified_tsc;
	uint64_t receiver; /* cookie */
	uint32_t msgs;
	uint32_t probe_at;
	uint32_t kernel_since; /* datagrams by the kernel since the last record */
};

struct rx_flow {
	bool in_use;
	struct tt_slot_ref ref;
	struct tt_dir *dir;
	uint8_t *ring;
	uint64_t size;
	uint64_t head;
	uint64_t kernel_seen; /* of dir->kpub */
	uint32_t kernel_left; /* datagrams of the kernel that come before the record at head */
	bool kernel_known;    /* kernel_left is about that record */
	socklen_t source_len;
	struct sockaddr_in6 source; /* as this socket's family shows it */
};

struct tt_dgram_state {
	uint64_t look_tsc;
	uint32_t eagain_run;
	uint32_t tx_count;
	uint32_t tx_last; /* most recently used */
	uint32_t rx_high;
	uint32_t rx_count;
	struct tt_tuple peer; /* connected, or family 0 */
	struct sockaddr_storage bound;
	bool bound_known;
	struct rx_flow rx[TT_DGRAM_RX_MAX];
	struct tx_flow tx[TT_DGRAM_TX_MAX];
};

static struct tt_dgram_state *state_get(struct tt_sock *s)
{
	struct tt_dgram_state *d = __atomic_load_n(&s->dgram, __ATOMIC_ACQUIRE);
	struct tt_dgram_state *expected = NULL;
	long p;

	if (d)
		return d;
	p = tt_raw6(SYS_mmap, 0, sizeof(*d), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p < 0 && p > -4096)
		return NULL;
	d = (struct tt_dgram_state *)p;
	if (!__atomic_compare_exchange_n(&s->dgram, &expected, d, false, __ATOMIC_ACQ_REL,
		__ATOMIC_ACQUIRE)) {
		(void)tt_raw2(SYS_munmap, d, sizeof(*d));
		return expected;
	}
	return d;
}

/* ---- lanes: what waits need to know of each receiving flow ---- */

uint32_t tt_dgram_lanes(const struct tt_sock *s)
{
	return s->dgram && s->dgram->rx_count ? s->dgram->rx_high : 0;
}

bool tt_dgram_lane(struct tt_sock *s, uint32_t i, struct tt_dir **dir, struct tt_slot_ref **ref)
{
	struct rx_flow *f = &s->dgram->rx[i];

	if (!__atomic_load_n(&f->in_use, __ATOMIC_ACQUIRE))
		return false;
	*dir = f->dir;
	*ref = &f->ref;
	return true;
}

bool tt_dgram_readable(const struct tt_sock *s)
{
	const struct tt_dgram_state *d = s->dgram;

	for (uint32_t i = 0; d && i < d->rx_high; i++) {
		const struct rx_flow *f = &d->rx[i];

		if (__atomic_load_n(&f->in_use, __ATOMIC_ACQUIRE) && tt_load_acquire(&f->dir->tail) != f->head)
			return true;
	}
	return false;
}

static struct tt_word *flow_word(const struct rx_flow *f)
{
	uint32_t gov = tt_load_relaxed(&f->dir->gov);

	if (gov == 0 || gov > TT_LINK_GROUPS)
		return &f->dir->word;
	return &tt_link_group(f->ref.link, tt_link_rx(f->ref.link), gov - 1)->word;
}

void tt_dgram_open(struct tt_sock *s)
{
	struct tt_dgram_state *d = s->dgram;

	if (!d || s->rx.kernel_only || s->foreign || __atomic_load_n(&s->sleepers, __ATOMIC_SEQ_CST))
		return;
	for (uint32_t i = 0; i < d->rx_high; i++) {
		struct rx_flow *f = &d->rx[i];
		struct tt_word *word;

		if (!f->in_use || tt_load_relaxed(&f->dir->r_gone) ||
		    (s->ep_sets && !tt_epoll_may_open(s, f->dir)))
			continue;
		word = flow_word(f);
		if (tt_word_is_closed(word)) {
			tt_word_open(word);
			s->stat->n.lease_opens++;
		}
	}
}

/* One try at all; false: a publisher is inside somewhere. */
static bool flows_close(struct tt_sock *s)
{
	struct tt_dgram_state *d = s->dgram;
	bool all = true;

	for (uint32_t i = 0; d && i < d->rx_high; i++) {
		struct rx_flow *f = &d->rx[i];

		if (!f->in_use)
			continue;
		if (!tt_word_try_close(flow_word(f)))
			all = false;
	}
	return all;
}

bool tt_dgram_close_wait(struct tt_sock *s, int fd)
{
	(void)fd;
	if (s->ep)
		tt_epoll_unjoin(s);
	for (int i = 0; !flows_close(s); i++) {
		struct timespec nap = {.tv_nsec = 1000000};

		if (tt_dgram_readable(s))
			return false;
		if (i < CLOSE_YIELDS) {
			(void)tt_raw0(SYS_sched_yield);
			continue;
		}
		if (i > CLOSE_YIELDS + 20) {
			/* Killed or stopped inside. UDP may lose what a dead sender had not published. */
			for (uint32_t k = 0; k < s->dgram->rx_high; k++)
				if (s->dgram->rx[k].in_use)
					tt_word_force_close(flow_word(&s->dgram->rx[k]));
			break;
		}
		(void)tt_raw4(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &nap, 0);
	}
	return !tt_dgram_readable(s);
}

int64_t tt_dgram_spin_budget(struct tt_sock *s)
{
	const struct tt_dgram_state *d = s->dgram;

	if (!d || !d->rx_count)
		return 0;
	if (d->rx_count == 1) { /* one sender: does it share our core? */
		for (uint32_t i = 0; i < d->rx_high; i++)
			if (d->rx[i].in_use && tt_load_relaxed(&d->rx[i].dir->s_cpu) == (uint32_t)sched_getcpu())
				return 0;
	}
	return tt_spin_budget(s);
}

/* ---- receiving ---- */

static struct tt_dgram_head *record_at(const struct rx_flow *f, uint64_t pos)
{
	return (struct tt_dgram_head *)(void *)(f->ring + (pos & (f->size - 1)));
}

static uint64_t record_bytes(uint32_t len)
{
	return (sizeof(struct tt_dgram_head) + (uint64_t)len + TT_DGRAM_ALIGN - 1) & ~(uint64_t)(TT_DGRAM_ALIGN - 1);
}

static void flow_drop(struct tt_sock *s, struct rx_flow *f)
{
	__atomic_store_n(&f->dir->gov, 0, __ATOMIC_SEQ_CST);
	tt_word_force_close(&f->dir->word);
	tt_store_release(&f->dir->r_gone, 1);
	__atomic_store_n(&f->in_use, false, __ATOMIC_RELEASE);
	s->dgram->rx_count--;
	tt_link_slot_release(&f->ref);
}

static void flow_hostile(struct tt_sock *s, struct rx_flow *f)
{
	/* Only this sender's ring is spoilt: nothing more is read from it. */
	tt_word_force_close(&f->dir->word);
	f->head = tt_load_acquire(&f->dir->tail);
	tt_stat_reason(s->stat, TT_REASON_HOSTILE);
	s->stat->n.drops++;
}

/* The header of the next record, copied; false: none. Steps over the filler before a wrap. */
static bool record_next(struct tt_sock *s, struct rx_flow *f, struct tt_dgram_head *head)
{
	for (int i = 0; i < 2; i++) {
		uint64_t tail = tt_load_acquire(&f->dir->tail);
		uint64_t avail = tail - f->head;
		uint64_t to_end = f->size - (f->head & (f->size - 1));

		if (avail == 0)
			return false;
		memcpy(head, record_at(f, f->head), sizeof(*head));
		if (avail <= f->size && head->len == TT_DGRAM_SKIP && avail >= to_end) {
			f->head += to_end;
			tt_store_release(&f->dir->head, f->head);
			continue;
		}
		if (avail <= f->size && head->len <= DGRAM_MAX && record_bytes(head->len) <= tt_min(avail, to_end) &&
		    (f->head & (TT_DGRAM_ALIGN - 1)) == 0)
			return true;
		flow_hostile(s, f);
		return false;
	}
	return false;
}

/* The flow whose next record is the oldest. */
static struct rx_flow *oldest(struct tt_sock *s, struct tt_dgram_head *head)
{
	struct tt_dgram_state *d = s->dgram;
	struct rx_flow *best = NULL;

	for (uint32_t i = 0; i < d->rx_high; i++) {
		struct rx_flow *f = &d->rx[i];
		struct tt_dgram_head h;

		if (!f->in_use || !record_next(s, f, &h))
			continue;
		if (!best || (int64_t)(h.stamp - head->stamp) < 0) {
			best = f;
			*head = h;
		}
	}
	return best;
}

static ssize_t kernel_recv(struct tt_sock *s, int fd, struct msghdr *msg, int flags)
{
	ssize_t n = tt_sys.recvmsg(fd, msg, flags);

	if (n < 0)
		return -errno;
	if (!(flags & MSG_PEEK)) {
		s->stat->n.rx_kernel_bytes += (uint64_t)n;
		s->stat->n.rx_kernel_msgs++;
	}
	return n;
}

static ssize_t record_take(struct tt_sock *s, struct rx_flow *f, const struct tt_dgram_head *head,
    struct msghdr *msg, int flags)
{
	const uint8_t *payload = (const uint8_t *)(record_at(f, f->head) + 1);
	size_t left = head->len;
	bool fault = false;

	for (size_t i = 0; i < msg->msg_iovlen && left; i++) {
		size_t part = tt_min(left, msg->msg_iov[i].iov_len);

		fault = !tt_copy(msg->msg_iov[i].iov_base, payload, part) || fault;
		payload += part;
		left -= part;
	}
	if (msg->msg_name) {
		memcpy(msg->msg_name, &f->source, tt_min(msg->msg_namelen, f->source_len));
		msg->msg_namelen = f->source_len;
	}
	msg->msg_controllen = 0;
	msg->msg_flags = left ? MSG_TRUNC : 0;
	if (!(flags & MSG_PEEK)) {
		f->head += record_bytes(head->len);
		f->kernel_known = false;
		tt_store_release(&f->dir->head, f->head);
		s->stat->n.rx_shm_bytes += head->len - left;
		s->stat->n.rx_shm_msgs++;
	}
	if (tt_unlikely(fault)) /* the datagram is gone, as in the kernel */
		return -EFAULT;
	return (ssize_t)((flags & MSG_TRUNC) ? head->len : head->len - left);
}

/* What the rings have, or first the kernel's datagrams that come before it. Under rx_lock. -EAGAIN: nothing. */
static ssize_t rings_recv(struct tt_sock *s, int fd, struct msghdr *msg, int flags)
{
	struct tt_dgram_head head;
	struct rx_flow *f = oldest(s, &head);

	if (!f)
		return -EAGAIN;
	if (!f->kernel_known) {
		f->kernel_left = head.kernel_before;
		f->kernel_known = true;
	}
	if (f->kernel_left) {
		ssize_t n = kernel_recv(s, fd, msg, (flags & ~MSG_DONTWAIT) | MSG_DONTWAIT);

		if (n != -EAGAIN) {
			if (!(flags & MSG_PEEK))
				f->kernel_left--;
			return n;
		}
		f->kernel_left = 0; /* taken already, or dropped */
	}
	return record_take(s, f, &head, msg, flags);
}

static ssize_t rings_locked(struct tt_sock *s, int fd, struct msghdr *msg, int flags)
{
	ssize_t n;

	if (!tt_lock_wait(&s->rx_lock))
		return -EAGAIN;
	n = s->dgram->rx_count ? rings_recv(s, fd, msg, flags) : -EAGAIN;
	tt_unlock(&s->rx_lock);
	return n;
}

/* A sender that we know has used the kernel since we last asked it. */
static bool kernel_told(struct tt_sock *s)
{
	struct tt_dgram_state *d = s->dgram;
	bool told = false;

	for (uint32_t i = 0; i < d->rx_high; i++) {
		struct rx_flow *f = &d->rx[i];
		uint64_t kpub;

		if (!f->in_use)
			continue;
		kpub = tt_load_acquire(&f->dir->kpub);
		told = told || kpub != f->kernel_seen || tt_load_relaxed(&f->dir->kpend);
		f->kernel_seen = kpub;
	}
	return told;
}

static ssize_t asleep_recv(struct tt_sock *s, int fd, struct msghdr *msg, int flags, bool *again)
{
	ssize_t n;

	*again = false;
	__atomic_add_fetch(&s->sleepers, 1, __ATOMIC_SEQ_CST);
	if (!tt_dgram_close_wait(s, fd)) {
		__atomic_sub_fetch(&s->sleepers, 1, __ATOMIC_SEQ_CST);
		*again = true;
		return -EAGAIN;
	}
	if (!(flags & MSG_DONTWAIT))
		s->stat->n.sleeps++;
	n = kernel_recv(s, fd, msg, flags);
	__atomic_sub_fetch(&s->sleepers, 1, __ATOMIC_SEQ_CST);
	tt_attach_poll();
	return n;
}

static ssize_t nonblock_recv(struct tt_sock *s, int fd, struct msghdr *msg, int flags)
{
	struct tt_dgram_state *d = s->dgram;
	uint64_t now = tt_tsc();

	d->eagain_run++;
	if (d->eagain_run >= KERNEL_LOOK_EVERY)
		tt_dgram_open(s); /* asks again and again: a wait that we know */
	if (d->eagain_run >= KERNEL_LOOK_EVERY && now < d->look_tsc && !kernel_told(s))
		return -EAGAIN;
	d->look_tsc = now + tt_ns_to_tsc((uint64_t)tt_tun.kernel_poll_us * 1000);
	return kernel_recv(s, fd, msg, flags | MSG_DONTWAIT);
}

enum spun { SPUN_READY, SPUN_OVER, SPUN_SIGNAL, SPUN_KERNEL };

static enum spun spin_recv(struct tt_sock *s, int fd, struct msghdr *msg, int flags, int64_t limit_ns,
    ssize_t *n)
{
	int64_t budget = tt_dgram_spin_budget(s);
	struct tt_spin spin;

	if (limit_ns > 0 && (budget < 0 || budget > limit_ns))
		budget = limit_ns;
	if (budget == 0)
		return SPUN_OVER;
	tt_dgram_open(s);
	if (s->rcvtimeo_ns)
		tt_spin_start(&spin, budget, &tt_signals.all, tt_signals.all);
	else
		tt_spin_start(&spin, budget, &tt_signals.stop, tt_signals.stop);
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
			*n = kernel_recv(s, fd, msg, flags | MSG_DONTWAIT);
			if (*n != -EAGAIN)
				return SPUN_KERNEL;
			break;
		case TT_SPIN_SIGNALLED:
			return SPUN_SIGNAL;
		case TT_SPIN_END:
			tt_spin_miss(s, spin.preempted);
			return SPUN_OVER;
		}
	}
}

static void note_received(struct tt_sock *s, int fd);

static ssize_t recv_native(struct tt_sock *s, int fd, struct msghdr *msg, int flags)
{
	ssize_t n;

	__atomic_add_fetch(&s->sleepers, 1, __ATOMIC_SEQ_CST);
	n = kernel_recv(s, fd, msg, flags);
	__atomic_sub_fetch(&s->sleepers, 1, __ATOMIC_SEQ_CST);
	if (n >= 0 && !(flags & (MSG_PEEK | MSG_ERRQUEUE)))
		note_received(s, fd);
	tt_attach_poll();
	return n;
}

ssize_t tt_dgram_recv(struct tt_sock *s, int fd, struct msghdr *msg, int flags)
{
	uint64_t start = s->rcvtimeo_ns ? tt_tsc() : 0;

	if (!tt_dgram_lanes(s) || (flags & ~RECV_FLAGS_KNOWN) || msg->msg_iovlen > 1024)
		return recv_native(s, fd, msg, flags);
	for (;;) {
		ssize_t n = rings_locked(s, fd, msg, flags);
		int64_t left = 0;
		bool again;

		if (n != -EAGAIN) {
			s->dgram->eagain_run = 0;
			return n;
		}
		if (s->nonblock || (flags & MSG_DONTWAIT))
			return nonblock_recv(s, fd, msg, flags);
		if (s->rcvtimeo_ns) {
			left = s->rcvtimeo_ns - (int64_t)tt_tsc_to_ns(tt_tsc() - start);
			if (left <= 0)
				return -EAGAIN;
		}
		switch (spin_recv(s, fd, msg, flags, left, &n)) {
		case SPUN_READY:
			continue;
		case SPUN_SIGNAL:
			return -EINTR;
		case SPUN_KERNEL:
			return n;
		case SPUN_OVER:
			break;
		}
		n = asleep_recv(s, fd, msg, flags, &again);
		if (!again)
			return n;
	}
}

size_t tt_dgram_next_bytes(struct tt_sock *s)
{
	struct tt_dgram_head head;
	struct rx_flow *f;
	size_t n = 0;

	if (!s->dgram || !tt_lock_try(&s->rx_lock))
		return 0;
	f = oldest(s, &head);
	/* Datagrams of the kernel that come first are the caller's to ask for. */
	if (f && !(f->kernel_known ? f->kernel_left : head.kernel_before))
		n = head.len;
	tt_unlock(&s->rx_lock);
	return n;
}

/* ---- sending ---- */

static ssize_t kernel_send(struct tt_sock *s, int fd, struct tx_flow *f, const struct msghdr *msg,
    int flags)
{
	ssize_t n;

	if (f && f->dir) {
		uint32_t cpu = (uint32_t)sched_getcpu();

		if (tt_load_relaxed(&f->dir->s_cpu) != cpu)
			tt_store_relaxed(&f->dir->s_cpu, cpu);
		__atomic_fetch_add(&f->dir->kpend, 1, __ATOMIC_SEQ_CST);
	}
	n = tt_sys.sendmsg(fd, msg, flags);
	if (f && f->dir) {
		if (n >= 0) {
			__atomic_fetch_add(&f->dir->kpub, 1, __ATOMIC_SEQ_CST);
			__atomic_fetch_add(&f->kernel_since, 1, __ATOMIC_RELAXED);
		}
		__atomic_fetch_sub(&f->dir->kpend, 1, __ATOMIC_RELEASE);
	}
	if (n < 0)
		return -errno;
	s->stat->n.tx_kernel_bytes += (uint64_t)n;
	s->stat->n.tx_kernel_msgs++;
	return n;
}

static bool same_target(const struct tt_tuple *a, const struct tt_tuple *b)
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

/* The flow to where msg goes; NULL: kernel. Under tx_lock. */
static struct tx_flow *flow_find(struct tt_sock *s, struct tt_dgram_state *d,
    const struct msghdr *msg)
{
	struct tt_tuple to = {0};
	struct tx_flow *f;

	if (msg->msg_name && msg->msg_namelen >= sizeof(struct sockaddr_in)) {
		if (((const struct sockaddr *)msg->msg_name)->sa_family == AF_INET6 &&
		    msg->msg_namelen < sizeof(struct sockaddr_in6))
			return NULL;
		if (tt_tuple_set_remote(&to, msg->msg_name))
			return NULL;
	} else if (msg->msg_name || !d->peer.family) {
		return NULL;
	} else {
		to = d->peer;
	}
	f = &d->tx[d->tx_last];
	if (d->tx_count && same_target(&f->tuple, &to))
		return f;
	for (uint32_t i = 0; i < d->tx_count; i++) {
		if (same_target(&d->tx[i].tuple, &to)) {
			d->tx_last = i;
			return &d->tx[i];
		}
	}
	if (d->tx_count == TT_DGRAM_TX_MAX) {
		tt_stat_reason(s->stat, TT_REASON_LIMIT);
		return NULL;
	}
	f = &d->tx[d->tx_count];
	memset(f, 0, sizeof(*f));
	f->tuple = to;
	f->state = is_unicast(&to) ? FLOW_KERNEL : FLOW_NEVER;
	if (f->state == FLOW_NEVER)
		tt_stat_reason(s->stat, TT_REASON_MULTICAST);
	f->probe_at = tt_max(tt_tun.attach_after, 1u);
	d->tx_last = d->tx_count++;
	return f;
}

static void addr_make(struct sockaddr_in6 *out, socklen_t *len, int domain, int family, const uint8_t ip[16],
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

/* The source address the kernel would use: ours if bound to one, else what a connected twin gets. */
static int source_of(int fd, struct tt_tuple *t)
{
	static const uint8_t any[16];
	struct sockaddr_storage addr;
	struct sockaddr_in6 to;
	socklen_t len = sizeof(addr);
	struct tt_tuple mine = {0};
	struct tt_tuple twin = {0};
	int err = (int)tt_raw3(SYS_getsockname, fd, &addr, &len);
	int probe;

	if (err < 0)
		return err;
	err = tt_tuple_set_local(&mine, (struct sockaddr *)&addr);
	if (err)
		return err;
	if (mine.local_port == 0)
		return -EAGAIN;
	t->local_port = mine.local_port;
	if (memcmp(mine.local, any, 16) != 0) {
		if (mine.family != t->family)
			return -EAFNOSUPPORT;
		memcpy(t->local, mine.local, 16);
		return 0;
	}
	probe = (int)tt_raw3(SYS_socket, t->family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (probe < 0)
		return probe;
	addr_make(&to, &len, t->family, t->family, t->remote, t->remote_port, t->scope);
	err = (int)tt_raw3(SYS_connect, probe, &to, len);
	len = sizeof(addr);
	if (!err)
		err = (int)tt_raw3(SYS_getsockname, probe, &addr, &len);
	(void)tt_raw1(SYS_close, probe);
	if (!err)
		err = tt_tuple_set_local(&twin, (struct sockaddr *)&addr);
	if (!err)
		memcpy(t->local, twin.local, 16);
	return err;
}

static void flow_later(struct tt_sock *s, struct tx_flow *f, enum tt_reason reason)
{
	bool eager = tt_tun.attach_after == 0 && f->msgs < 4096;

	f->probe_at = eager ? f->msgs + 1 : f->msgs * 2;
	tt_stat_reason(s->stat, reason);
}

static int flow_offer(struct tt_sock *s, struct tx_flow *f, const uint8_t inbox[TT_INBOX_ID_BYTES])
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

/* Under tx_lock. */
static void flow_probe(struct tt_sock *s, int fd, struct tx_flow *f)
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
		err = tt_ident_udp_receiver(&f->tuple, &f->receiver, &uid);
	if (err) {
		flow_later(s, f, TT_REASON_PEER_REMOTE);
		return;
	}
	err = tt_hint_lookup(s->netns, f->receiver, inbox);
	if (err || !tt_link_trylock()) {
		flow_later(s, f, TT_REASON_PEER_PLAIN);
		return;
	}
	err = flow_offer(s, f, inbox);
	tt_link_unlock();
	if (err) {
		flow_later(s, f, TT_REASON_PEER_PLAIN);
		return;
	}
	f->ring = tt_seg_ring(f->ref.seg, f->ref.in_seg, 0);
	f->size = f->ref.seg->geo.ring_bytes;
	f->tail = f->head_seen = 0;
	f->kernel_since = 1; /* all that went before */
	f->verified_tsc = tt_tsc();
	f->state = FLOW_OFFERED;
	__atomic_store_n(&f->dir, &f->ref.slot->dir[0], __ATOMIC_RELEASE);
	s->stat->tx = TT_TRANSPORT_SHM;
	s->stat->n.attaches++;
	tt_stat_reason(s->stat, TT_REASON_NONE);
}

/* Under tx_lock: the flow ends; its next datagrams look anew. */
static void flow_end(struct tx_flow *f)
{
	struct tt_slot_ref ref = f->ref;

	if (f->state != FLOW_OFFERED)
		return;
	f->dir = NULL;
	f->state = FLOW_KERNEL;
	f->probe_at = f->msgs + tt_max(tt_tun.attach_after, 1u);
	if (tt_link_lock()) {
		tt_link_slot_release(&ref);
		tt_link_unlock();
	}
}

/* Every 10 ms: is the receiver still the one? */
static bool flow_verified(struct tt_sock *s, struct tx_flow *f)
{
	uint64_t now = tt_tsc();
	uint64_t cookie = 0;
	uint32_t uid;

	if (tt_likely(now - f->verified_tsc < tt_ns_to_tsc(VERIFY_NS)))
		return true;
	f->verified_tsc = now;
	if (!tt_load_relaxed(&f->dir->r_gone) && tt_ident_udp_receiver(&f->tuple, &cookie, &uid) == 0 &&
	    cookie == f->receiver)
		return true;
	tt_stat_reason(s->stat, TT_REASON_PEER_CHANGED);
	flow_end(f);
	return false;
}

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

/* Inside the word. False: no room. */
static bool record_put(struct tx_flow *f, const struct msghdr *msg, uint32_t len)
{
	uint64_t need = record_bytes(len);
	uint64_t to_end = f->size - (f->tail & (f->size - 1));
	uint64_t all = to_end < need ? to_end + need : need;
	struct tt_dgram_head *head;
	uint8_t *at;

	if (f->size - (f->tail - f->head_seen) < all) {
		f->head_seen = tt_load_acquire(&f->dir->head);
		if (f->tail - f->head_seen > f->size || f->size - (f->tail - f->head_seen) < all)
			return false;
	}
	if (to_end < need) {
		head = (struct tt_dgram_head *)(void *)(f->ring + (f->tail & (f->size - 1)));
		head->len = TT_DGRAM_SKIP;
		f->tail += to_end;
	}
	head = (struct tt_dgram_head *)(void *)(f->ring + (f->tail & (f->size - 1)));
	at = (uint8_t *)(head + 1);
	for (size_t i = 0; i < msg->msg_iovlen; i++) {
		if (tt_unlikely(!tt_copy(at, msg->msg_iov[i].iov_base, msg->msg_iov[i].iov_len)))
			return false; /* the kernel says EFAULT */
		at += msg->msg_iov[i].iov_len;
	}
	head->len = len;
	head->kernel_before = f->kernel_since;
	head->stamp = tt_tsc();
	f->kernel_since = 0;
	f->tail += need;
	tt_store_release(&f->dir->tail, f->tail);
	return true;
}

/* Under tx_lock. True: the datagram is in the ring. */
static bool flow_put(struct tt_sock *s, struct tx_flow *f, const struct msghdr *msg, uint32_t len)
{
	struct tt_group *group = NULL;
	struct tt_word *word = &f->dir->word;
	uint32_t gov = tt_load_relaxed(&f->dir->gov);
	uint32_t cpu;
	bool ok;

	if (gov) {
		group = tt_link_group(f->ref.link, tt_link_tx(f->ref.link), (gov - 1) % TT_LINK_GROUPS);
		word = &group->word;
	}
	if (!tt_word_enter(word)) {
		s->stat->n.doorbells++;
		return false;
	}
	ok = tt_load_relaxed(&f->dir->gov) == gov && record_put(f, msg, len);
	if (ok && group)
		group_mark(group, f->ref.index);
	cpu = (uint32_t)sched_getcpu();
	if (tt_load_relaxed(&f->dir->s_cpu) != cpu)
		tt_store_relaxed(&f->dir->s_cpu, cpu);
	tt_word_leave(word);
	if (!ok)
		s->stat->n.ring_full++;
	return ok;
}

ssize_t tt_dgram_send(struct tt_sock *s, int fd, const struct msghdr *msg, int flags)
{
	struct tt_dgram_state *d = state_get(s);
	struct tx_flow *f;
	size_t len;
	ssize_t n;

	if (!d || (flags & ~SEND_FLAGS_KNOWN) || msg->msg_controllen || msg->msg_iovlen > 1024 ||
	    s->tx.kernel_only || s->foreign || !tt_lock_try(&s->tx_lock))
		return kernel_send(s, fd, NULL, msg, flags);
	f = flow_find(s, d, msg);
	len = msg_len(msg);
	if (f && f->state == FLOW_OFFERED && len <= tt_min(DGRAM_MAX - 20u, (uint32_t)f->size / 4) &&
	    flow_verified(s, f) && flow_put(s, f, msg, (uint32_t)len)) {
		s->stat->n.tx_shm_bytes += len;
		s->stat->n.tx_shm_msgs++;
		tt_unlock(&s->tx_lock);
		return (ssize_t)len;
	}
	tt_unlock(&s->tx_lock);
	n = kernel_send(s, fd, f, msg, flags);
	if (n >= 0 && f && f->state == FLOW_KERNEL && ++f->msgs >= f->probe_at && tt_lock_try(&s->tx_lock)) {
		if (f->state == FLOW_KERNEL)
			flow_probe(s, fd, f);
		tt_unlock(&s->tx_lock);
	}
	tt_attach_poll();
	return n;
}

/* ---- life ---- */

static void note_received(struct tt_sock *s, int fd)
{
	struct tt_dgram_state *d;

	s->rx_seen = true;
	if (++s->msgs < s->probe_at || s->published || s->rx.kernel_only || s->foreign)
		return;
	d = state_get(s);
	if (!d)
		return;
	if (!s->cookie) {
		s->cookie = tt_ident_cookie(fd);
		s->netns = tt_ident_netns(fd);
	}
	tt_attach_publish_dgram(s);
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
	if (tt_ident_udp_receiver(t, &cookie, &uid) || cookie != s->cookie)
		return false;
	return tt_ident_udp_receiver(&back, &cookie, &uid) == 0 && cookie == offer->from_cookie &&
	    tt_ident_cookie(s->fd) == s->cookie;
}

/* A flow whose sender has let go and whose ring is empty makes room. Under rx_lock and link lock. */
static struct rx_flow *flow_room(struct tt_sock *s)
{
	struct tt_dgram_state *d = s->dgram;

	for (uint32_t i = 0; i < d->rx_high; i++) {
		struct rx_flow *f = &d->rx[i];

		if (f->in_use && tt_load_acquire(&f->ref.slot->done[0]) &&
		    tt_load_acquire(&f->dir->tail) == f->head && !tt_load_relaxed(&f->dir->gov))
			flow_drop(s, f);
		if (!f->in_use)
			return f;
	}
	return d->rx_high < TT_DGRAM_RX_MAX ? &d->rx[d->rx_high] : NULL;
}

void tt_dgram_offered(struct tt_sock *s, const struct tt_offer *offer, int fd, int pid)
{
	const struct tt_tuple *t = &offer->flow;
	struct tt_dgram_state *d = s->dgram;
	struct rx_flow *f;

	if (!d || s->type != SOCK_DGRAM || s->rx.kernel_only || !offer_good(s, offer) ||
	    !tt_lock_try(&s->rx_lock))
		return;
	f = flow_room(s);
	if (!f) {
		tt_stat_reason(s->stat, TT_REASON_LIMIT);
	} else if (tt_link_slot_take(offer, fd, pid, s, &f->ref) == 0) {
		f->dir = &f->ref.slot->dir[0];
		f->ring = tt_seg_ring(f->ref.seg, f->ref.in_seg, 0);
		f->size = f->ref.seg->geo.ring_bytes;
		f->head = 0;
		f->kernel_known = false;
		f->kernel_seen = 0;
		addr_make(&f->source, &f->source_len, s->domain, t->family, t->local, t->local_port, t->scope);
		__atomic_store_n(&f->in_use, true, __ATOMIC_RELEASE);
		if (f == &d->rx[d->rx_high])
			d->rx_high++;
		if (d->rx_count++ == 0)
			__atomic_add_fetch(&tt_attached_count, 1, __ATOMIC_RELAXED);
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

static void flows_drop_all(struct tt_sock *s)
{
	struct tt_dgram_state *d = s->dgram;
	bool linked = tt_link_lock();

	if (tt_lock_wait(&s->rx_lock)) {
		bool had = d->rx_count != 0;

		for (uint32_t i = 0; linked && i < d->rx_high; i++)
			if (d->rx[i].in_use)
				flow_drop(s, &d->rx[i]);
		d->rx_high = 0;
		if (had)
			__atomic_sub_fetch(&tt_attached_count, 1, __ATOMIC_RELAXED);
		tt_unlock(&s->rx_lock);
	}
	if (linked)
		tt_link_unlock();
	if (tt_lock_wait(&s->tx_lock)) {
		for (uint32_t i = 0; i < d->tx_count; i++)
			flow_end(&d->tx[i]);
		d->tx_count = 0;
		tt_unlock(&s->tx_lock);
	}
}

void tt_dgram_moved(struct tt_sock *s)
{
	struct tt_dgram_state *d = state_get(s);
	struct tt_tuple t;

	if (!d)
		return;
	/*
	 * Its address changed: nobody's proof holds any longer. Datagrams already in rings stay readable, as the kernel keeps
	 * what it had queued; the words are closed, so that no more come in before a new proof.
	 */
	if (tt_lock_wait(&s->tx_lock)) {
		for (uint32_t i = 0; i < d->tx_count; i++)
			flow_end(&d->tx[i]);
		d->tx_count = 0;
		memset(&d->peer, 0, sizeof(d->peer));
		if (tt_tuple_of(s->fd, &t) == 0)
			d->peer = t;
		tt_unlock(&s->tx_lock);
	}
	for (uint32_t i = 0; i < d->rx_high; i++)
		if (d->rx[i].in_use)
			tt_store_release(&d->rx[i].dir->r_gone, 1);
	for (int i = 0; i < 1000 && !flows_close(s); i++)
		(void)tt_raw0(SYS_sched_yield);
}

void tt_dgram_close(struct tt_sock *s)
{
	struct tt_dgram_state *d = s->dgram;

	if (!s->foreign)
		flows_drop_all(s);
	else if (d->rx_count)
		__atomic_sub_fetch(&tt_attached_count, 1, __ATOMIC_RELAXED);
	s->dgram = NULL;
	(void)tt_raw2(SYS_munmap, d, sizeof(*d));
}
