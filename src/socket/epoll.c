/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * epoll.c - epoll sets that hold accelerated sockets.
 *
 * The kernel's set holds every descriptor just as the program registered it, so that whoever waits for it by other means
 * sees what the kernel sees. Beside it we keep, for each link whose connections are in the set, one group: a sleep word
 * for all of them and a bitmap in which the sender marks the connections it has published to. A wait takes the marks, looks
 * at those rings, spins, and before it sleeps in the kernel closes the groups' words: from then on the senders use
 * the kernel, whose message wakes us as the program registered it (same-host.md rules 3, 4, 9, 11).
 *
 * A socket is governed by its set's group only when it is in one set, by one descriptor, without ONESHOT or EXCLUSIVE. Else it
 * stays on its own word, closed. A set that is nested, polled, waited for by two threads at once or shared by fork
 * opens nothing.
 *
 * Order of locks: link lock, then set lock.
 */
#include "socket/epoll.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/raw.h"
#include "socket/dgram.h"
#include "socket/lease.h"
#include "socket/spin.h"
#include "socket/timeout.h"

#define EP_LINKS_MAX 256u
#define EVENTS_NATIVE (EPOLLONESHOT | EPOLLEXCLUSIVE)
#define CLOSE_YIELDS 50
#define KERNEL_EVENTS_MAX 256

struct ep_link {
	struct tt_link *link;
	uint32_t group;
	uint32_t members;
};

struct tt_epset {
	struct tt_lock lock;
	uint32_t refs;
	bool native;
	uint32_t waiters;
	uint32_t sleepers;
	uint32_t epoch;
	uint32_t spin_ns;
	uint32_t spin_skipped;
	uint64_t look;	  /* when the kernel is to be asked again */
	bool kernel_busy; /* its last answer was not empty: ask first next time */
	struct tt_sock *last; /* the socket last reported: whose processor its sender runs on */
	struct tt_sock *ready; /* circular, by ep_next and ep_prev; NULL when empty */
	uint32_t ready_count;
	uint32_t links_count;
	struct ep_link links[EP_LINKS_MAX];
	struct tt_epset *free_next;
};

static struct tt_epset *_Atomic sets[TT_EP_FD_MAX];
static struct tt_epset *free_sets;
static struct tt_lock free_lock;

static struct tt_epset *set_of(int epfd)
{
	if ((unsigned int)epfd >= TT_EP_FD_MAX)
		return NULL;
	return __atomic_load_n((struct tt_epset **)(void *)&sets[epfd], __ATOMIC_ACQUIRE);
}

bool tt_epoll_is_set(int fd)
{
	return set_of(fd) != NULL;
}

/* ---- the list of sockets to look at; under the set's lock ---- */

static void ready_add(struct tt_epset *set, struct tt_sock *s)
{
	if (s->ep_ready)
		return;
	s->ep_ready = true;
	set->ready_count++;
	if (!set->ready) {
		s->ep_next = s->ep_prev = s;
		set->ready = s;
		return;
	}
	s->ep_next = set->ready;
	s->ep_prev = set->ready->ep_prev;
	s->ep_prev->ep_next = s;
	set->ready->ep_prev = s;
}

static void ready_del(struct tt_epset *set, struct tt_sock *s)
{
	if (!s->ep_ready)
		return;
	s->ep_ready = false;
	set->ready_count--;
	if (s->ep_next == s) {
		set->ready = NULL;
		return;
	}
	s->ep_prev->ep_next = s->ep_next;
	s->ep_next->ep_prev = s->ep_prev;
	if (set->ready == s)
		set->ready = s->ep_next;
}

static bool set_lock(struct tt_epset *set)
{
	return tt_lock_wait(&set->lock);
}

/* ---- governing ---- */

static struct tt_group *group_of(const struct ep_link *el)
{
	return tt_link_group(el->link, tt_link_rx(el->link), el->group);
}

/*
 * A socket's receiving directions: one for a stream, one for each flow of a datagram socket. False: no such lane.
 */
static uint32_t lanes(const struct tt_sock *s)
{
	return s->type == SOCK_STREAM ? (s->rx.dir ? 1 : 0) : tt_dgram_lanes(s);
}

static bool lane(struct tt_sock *s, uint32_t i, struct tt_dir **dir, struct tt_slot_ref **ref)
{
	if (s->type != SOCK_STREAM)
		return tt_dgram_lane(s, i, dir, ref);
	*dir = s->rx.dir;
	*ref = &s->ref;
	return true;
}

static bool eligible(const struct tt_sock *s)
{
	return s->ep && s->ep_sets == 1 && !s->ep->native && !(s->ep_events & EVENTS_NATIVE) &&
	    s->attach == TT_ATTACH_DONE && s->rx_seen && !s->rx.kernel_only && !s->foreign;
}

static bool waits_to_join(struct tt_sock *s)
{
	struct tt_slot_ref *ref;
	struct tt_dir *dir;

	if (!eligible(s))
		return false;
	for (uint32_t i = 0; i < lanes(s); i++)
		if (lane(s, i, &dir, &ref) && !tt_load_relaxed(&dir->gov))
			return true;
	return false;
}

static struct ep_link *link_entry(struct tt_epset *set, struct tt_link *link)
{
	for (uint32_t i = 0; i < set->links_count; i++)
		if (set->links[i].link == link)
			return &set->links[i];
	return NULL;
}

static void lane_join(struct tt_epset *set, struct tt_sock *s, struct tt_dir *dir,
    const struct tt_slot_ref *ref)
{
	struct ep_link *el = link_entry(set, ref->link);
	uint32_t group;

	/* Already; or somebody sleeps on the socket itself; or a publisher is inside: next time. */
	if (tt_load_relaxed(&dir->gov) || __atomic_load_n(&s->sleepers, __ATOMIC_SEQ_CST) ||
	    (s->type == SOCK_STREAM && !tt_lease_grantable(s)) || !tt_word_try_close(&dir->word))
		return;
	if (!el) {
		if (set->links_count == EP_LINKS_MAX || tt_link_group_get(ref->link, set, &group)) {
			tt_stat_reason(s->stat, TT_REASON_LIMIT);
			return;
		}
		el = &set->links[set->links_count++];
		*el = (struct ep_link){.link = ref->link, .group = group};
	}
	el->members++;
	__atomic_store_n(&dir->gov, el->group + 1, __ATOMIC_SEQ_CST);
}

/* Both locks held. The socket obeys the set's group from now on. */
static void join(struct tt_epset *set, struct tt_sock *s)
{
	struct tt_slot_ref *ref;
	struct tt_dir *dir;

	for (uint32_t i = 0; i < lanes(s); i++)
		if (lane(s, i, &dir, &ref))
			lane_join(set, s, dir, ref);
}

/* After gov changed: a publisher that entered the group's word before may still be inside, about to publish. */
static void publishers_wait(const struct tt_group *g)
{
	for (int i = 0; i < 1000; i++) {
		if (!(__atomic_load_n(&g->word.v, __ATOMIC_SEQ_CST) & TT_WORD_PUBLISHERS))
			return;
		if (i < 100)
			tt_pause();
		else
			(void)tt_raw0(SYS_sched_yield);
	}
}

static void lane_leave(struct tt_epset *set, struct tt_dir *dir, const struct tt_slot_ref *ref)
{
	struct ep_link *el = link_entry(set, ref->link);
	struct tt_group *g;

	if (!el || !tt_load_relaxed(&dir->gov))
		return;
	g = group_of(el);
	__atomic_store_n(&dir->gov, 0, __ATOMIC_SEQ_CST);
	publishers_wait(g);
	if (--el->members == 0) {
		tt_word_force_close(&g->word);
		tt_link_group_put(el->link, el->group);
		*el = set->links[--set->links_count];
	}
}

/* Both locks held. Back to the own word, closed. */
static void leave(struct tt_epset *set, struct tt_sock *s)
{
	struct tt_slot_ref *ref;
	struct tt_dir *dir;

	if (set->last == s)
		set->last = NULL;
	if (s->foreign)
		return;
	for (uint32_t i = 0; i < lanes(s); i++)
		if (lane(s, i, &dir, &ref))
			lane_leave(set, dir, ref);
}

static void set_forget(struct tt_epset *set, struct tt_sock *s)
{
	bool linked = tt_link_lock();

	if (set_lock(set)) {
		leave(set, s);
		ready_del(set, s);
		s->ep = NULL;
		tt_unlock(&set->lock);
	}
	if (linked)
		tt_link_unlock();
}

void tt_epoll_unjoin(struct tt_sock *s)
{
	struct tt_epset *set = s->ep;
	bool linked;

	if (!set)
		return;
	linked = tt_link_lock();
	if (set_lock(set)) {
		if (s->ep == set) {
			leave(set, s);
			s->ep_edge = true; /* a mark set in the old group may never be looked at */
			if (s->ep_sets)
				ready_add(set, s);
		}
		tt_unlock(&set->lock);
	}
	if (linked)
		tt_link_unlock();
}

struct tt_epset *tt_epoll_hold(struct tt_sock *s, bool *busy)
{
	struct tt_epset *set = s->ep;
	uint32_t gov;

	*busy = false;
	if (!set || !s->rx.dir || !tt_load_relaxed(&s->rx.dir->gov) || !set_lock(set))
		return NULL;
	gov = tt_load_relaxed(&s->rx.dir->gov);
	if (s->ep == set && gov && gov <= TT_LINK_GROUPS) {
		struct tt_group *g = tt_link_group(s->ref.link, tt_link_rx(s->ref.link), gov - 1);

		if (tt_word_try_close(&g->word))
			return set;
		*busy = true;
	}
	tt_unlock(&set->lock);
	return NULL;
}

void tt_epoll_release(struct tt_epset *set)
{
	tt_unlock(&set->lock);
}

void tt_epoll_attached(struct tt_sock *s)
{
	struct tt_epset *set = s->ep;

	if (!set || !set_lock(set))
		return;
	if (s->ep == set) {
		s->ep_edge = true;
		ready_add(set, s);
	}
	tt_unlock(&set->lock);
}

bool tt_epoll_may_open(const struct tt_sock *s, const struct tt_dir *dir)
{
	const struct tt_epset *set = s->ep;

	/* In a set, but not governed by it: the set's sleeper would not be woken. */
	return set && tt_load_relaxed(&dir->gov) && !__atomic_load_n(&set->sleepers, __ATOMIC_SEQ_CST) && !set->native;
}

uint32_t tt_epoll_epoch(const struct tt_sock *s)
{
	return s->ep ? __atomic_load_n(&s->ep->epoch, __ATOMIC_RELAXED) : 0;
}

void tt_epoll_fd_gone(struct tt_sock *s, int fd)
{
	(void)fd;
	/* The kernel drops a registration with the last descriptor of the socket: see tt_epoll_sock_gone(). */
	if (__atomic_load_n(&s->refs, __ATOMIC_ACQUIRE) == 1)
		tt_epoll_sock_gone(s);
}

void tt_epoll_sock_gone(struct tt_sock *s)
{
	struct tt_epset *set = s->ep;

	if (set)
		set_forget(set, s);
	s->ep_sets = 0;
}

/* ---- life of a set ---- */

static struct tt_epset *set_alloc(void)
{
	struct tt_epset *set;
	long p;

	if (!tt_lock_wait(&free_lock))
		return NULL;
	set = free_sets;
	if (set)
		free_sets = set->free_next;
	tt_unlock(&free_lock);
	if (!set) {
		p = tt_raw6(SYS_mmap, 0, sizeof(*set), PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (p < 0 && p > -4096)
			return NULL;
		set = (struct tt_epset *)p;
	}
	memset(set, 0, sizeof(*set));
	set->refs = 1;
	return set;
}

static void set_put(int fd, struct tt_epset *set)
{
	tt_fd_note(fd);
	__atomic_store_n((struct tt_epset **)(void *)&sets[fd], set, __ATOMIC_RELEASE);
}

void tt_epoll_created(int epfd)
{
	struct tt_epset *set;

	tt_fd_vanish((unsigned int)epfd, (unsigned int)epfd);
	if ((unsigned int)epfd >= TT_EP_FD_MAX)
		return;
	set = set_alloc();
	if (set)
		set_put(epfd, set);
}

void tt_epoll_dup(int from, int to)
{
	struct tt_epset *set = set_of(from);

	if (!set || (unsigned int)to >= TT_EP_FD_MAX)
		return;
	__atomic_add_fetch(&set->refs, 1, __ATOMIC_ACQ_REL);
	set_put(to, set);
}

static void member_drop(struct tt_sock *s, void *arg)
{
	struct tt_epset *set = arg;

	if (s->ep != set)
		return;
	set_forget(set, s);
	if (s->ep_sets)
		s->ep_sets--;
}

void tt_epoll_vanish(int fd)
{
	struct tt_epset *set = set_of(fd);

	if (!set)
		return;
	set_put(fd, NULL);
	if (__atomic_sub_fetch(&set->refs, 1, __ATOMIC_ACQ_REL) != 0)
		return;
	tt_sock_for_each(member_drop, set);
	if (!tt_lock_wait(&free_lock))
		return;
	set->free_next = free_sets;
	free_sets = set;
	tt_unlock(&free_lock);
}

static void member_leave(struct tt_sock *s, void *arg)
{
	struct tt_epset *set = arg;

	if (s->ep == set)
		leave(set, s);
}

void tt_epoll_make_native(int epfd)
{
	struct tt_epset *set = set_of(epfd);

	if (!set || set->native || !tt_link_lock())
		return;
	if (set_lock(set)) {
		set->native = true;
		tt_sock_for_each(member_leave, set);
		tt_unlock(&set->lock);
	}
	tt_link_unlock();
}

void tt_epoll_fork_child(void)
{
	for (int fd = 0; fd < TT_EP_FD_MAX; fd++) {
		struct tt_epset *set = set_of(fd);

		if (set) {
			set->native = true;
			set->lock.tid = 0;
			set->links_count = 0;
		}
	}
}

/* ---- registration ---- */

/* To the kernel for as long as the registration is one that a group can't serve. */
static void register_native(struct tt_epset *set, struct tt_sock *s)
{
	bool linked = tt_link_lock();

	if (set_lock(set)) {
		if (s->ep == set) {
			leave(set, s);
			ready_del(set, s);
		}
		tt_unlock(&set->lock);
	}
	if (linked)
		tt_link_unlock();
}

/*
 * After EPOLL_CTL_DEL the socket stays in its group until something else wants it: programs that take a descriptor out and put
 * it back for each message would else close the lease each time.
 */
static void unregister_sock(struct tt_epset *set, struct tt_sock *s)
{
	if (!set_lock(set))
		return;
	if (s->ep == set) {
		s->ep_events = 0;
		ready_del(set, s);
	}
	if (s->ep_sets)
		s->ep_sets--;
	tt_unlock(&set->lock);
}

static void register_sock(struct tt_epset *set, struct tt_sock *s, int fd, int op,
    const struct epoll_event *event)
{
	bool native = false;

	if (op == EPOLL_CTL_DEL) {
		unregister_sock(set, s);
		return;
	}
	if (!set_lock(set))
		return;
	if (op == EPOLL_CTL_ADD && ++s->ep_sets == 1 && !s->ep)
		s->ep = set;
	if (s->ep == set) {
		s->ep_events = event->events;
		s->ep_data = event->data.u64;
		s->ep_fd = fd;
		native = (event->events & EVENTS_NATIVE) || s->ep_sets > 1; /* a second set, or twice by dup */
		/* ADD and MOD report what is ready now, also to edge-triggered users. */
		s->ep_edge = true;
		if (lanes(s))
			ready_add(set, s);
	}
	/* What was just registered may be ready already, and only the kernel knows about EPOLLOUT. */
	set->look = 0;
	tt_unlock(&set->lock);
	if (native)
		register_native(set, s);
}

/* A socket with unread ring bytes that enters a second set: the kernel's sets do not show them. */
static void leave_other_set(struct tt_sock *s, const struct tt_epset *set)
{
	struct tt_epset *other = s->ep;

	if (other && other != set)
		set_forget(other, s);
}

int tt_epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	struct tt_epset *set;
	struct tt_sock *s;
	int r = tt_sys.epoll_ctl(epfd, op, fd, event);

	if (r < 0)
		return -errno;
	set = set_of(epfd);
	if (tt_epoll_is_set(fd))
		tt_epoll_make_native(fd);
	s = tt_fd_sock(fd);
	if (!set || !s)
		return 0;
	if (op == EPOLL_CTL_ADD)
		leave_other_set(s, set);
	register_sock(set, s, fd, op, event);
	return 0;
}

/* ---- waiting ---- */

/* Moves the marks of the groups to the list. Set lock held. */
static void marks_take(struct tt_epset *set)
{
	for (uint32_t i = 0; i < set->links_count; i++) {
		const struct ep_link *el = &set->links[i];
		struct tt_group *g = group_of(el);

		for (uint32_t w = 0; w < tt_array_len(g->summary); w++) {
			uint64_t sum = tt_load_relaxed(&g->summary[w]);

			if (!sum)
				continue;
			sum = __atomic_exchange_n(&g->summary[w], 0, __ATOMIC_SEQ_CST);
			for (; sum; sum &= sum - 1) {
				uint32_t word = w * 64 + (uint32_t)__builtin_ctzll(sum);
				uint64_t bits = __atomic_exchange_n(&g->ready[word], 0, __ATOMIC_SEQ_CST);

				for (; bits; bits &= bits - 1) {
					uint32_t slot = word * 64 + (uint32_t)__builtin_ctzll(bits);
					struct tt_sock *s = el->link->owner[slot];

					if (!s || s->ep != set)
						continue;
					s->ep_edge = true;
					ready_add(set, s);
				}
			}
		}
	}
}

static bool marks_any(const struct tt_epset *set)
{
	for (uint32_t i = 0; i < set->links_count; i++) {
		const struct tt_group *g = group_of(&set->links[i]);

		for (uint32_t w = 0; w < tt_array_len(g->summary); w++)
			if (tt_load_acquire(&g->summary[w]))
				return true;
	}
	return false;
}

static bool ring_readable(const struct tt_sock *s)
{
	if (s->dgram)
		return tt_dgram_readable(s);
	return s->rx.dir && tt_load_acquire(&s->rx.dir->tail) != s->rx.head;
}

/* Set lock held. Fills events from rings; link lock held when linked. */
static int collect(struct tt_epset *set, struct epoll_event *events, int max, bool linked)
{
	uint32_t todo;
	int n = 0;

	marks_take(set);
	todo = set->ready_count;
	while (todo-- && set->ready && n < max) {
		struct tt_sock *s = set->ready;
		uint32_t wanted = s->ep_events & (EPOLLIN | EPOLLRDNORM);
		bool waiting_to_join = waits_to_join(s);

		if (waiting_to_join && linked) {
			join(set, s);
			waiting_to_join = waits_to_join(s);
		}
		if (!ring_readable(s) || !wanted || ((s->ep_events & EPOLLET) && !s->ep_edge) ||
		    s->ep_sets > 1) {
			if (waiting_to_join)
				set->ready = s->ep_next;
			else
				ready_del(set, s);
			continue;
		}
		events[n].events = wanted;
		events[n].data.u64 = s->ep_data;
		n++;
		set->last = s;
		s->ep_edge = false;
		if (s->ep_events & (EPOLLET | EPOLLONESHOT))
			ready_del(set, s);
		else
			set->ready = s->ep_next; /* level: stays, behind the others */
	}
	return n;
}

/* The rings' events, or 0. Takes the locks it needs; the link lock only when a socket waits to join. */
static int collect_locked(struct tt_epset *set, struct epoll_event *events, int max)
{
	bool linked = set->ready_count && tt_link_trylock();
	int n = 0;

	if (set_lock(set)) {
		n = collect(set, events, max, linked);
		tt_unlock(&set->lock);
	}
	if (linked)
		tt_link_unlock();
	return n;
}

/* One fd shows once: events of the kernel for something the rings reported already are merged into that entry. */
static int merge(struct epoll_event *events, int have, int max, const struct epoll_event *kernel,
    int count)
{
	for (int i = 0; i < count; i++) {
		int at;

		for (at = 0; at < have && events[at].data.u64 != kernel[i].data.u64; at++)
			;
		if (at < have)
			events[at].events |= kernel[i].events;
		else if (have < max)
			events[have++] = kernel[i];
	}
	return have;
}

static int kernel_wait(struct tt_epset *set, int epfd, struct epoll_event *events, int max,
    const struct timespec *timeout, const sigset_t *mask)
{
	int n;

	if (tt_sys.epoll_pwait2 && timeout && timeout->tv_nsec % 1000000) {
		n = tt_sys.epoll_pwait2(epfd, events, max, timeout, mask);
		if (n >= 0 || errno != ENOSYS)
			goto out;
	}
	n = tt_sys.epoll_pwait(epfd, events, max, tt_timeout_ms(timeout), mask);
out:
	if (n > 0) {
		__atomic_add_fetch(&set->epoch, 1, __ATOMIC_RELAXED);
		set->kernel_busy = true;
	}
	return n < 0 ? -errno : n;
}

/* Looks at the kernel without waiting and adds what it has. Negative errno only when nothing was there before. */
static int kernel_look(struct tt_epset *set, int epfd, struct epoll_event *events, int have, int max,
    const sigset_t *mask)
{
	struct epoll_event kernel[KERNEL_EVENTS_MAX];
	static const struct timespec none;
	int room = tt_min(max - have, KERNEL_EVENTS_MAX);
	int n;

	set->look = tt_tsc() + tt_ns_to_tsc((uint64_t)tt_tun.kernel_poll_us * 1000);
	set->kernel_busy = false;
	if (have == 0)
		return kernel_wait(set, epfd, events, max, &none, mask);
	if (room <= 0)
		return have;
	n = kernel_wait(set, epfd, kernel, room, &none, mask);
	return n <= 0 ? have : merge(events, have, max, kernel, n);
}

static void groups_open(struct tt_epset *set)
{
	if (!tt_lock_try(&set->lock))
		return;
	if (!__atomic_load_n(&set->sleepers, __ATOMIC_SEQ_CST) && !set->native &&
	    __atomic_load_n(&set->waiters, __ATOMIC_SEQ_CST) == 1) {
		for (uint32_t i = 0; i < set->links_count; i++) {
			struct tt_word *word = &group_of(&set->links[i])->word;

			if (tt_word_is_closed(word))
				tt_word_open(word);
		}
	}
	tt_unlock(&set->lock);
}

/* False: a publisher is inside one of them. */
static bool groups_close(struct tt_epset *set)
{
	bool all = true;

	if (!set_lock(set))
		return false;
	for (uint32_t i = 0; i < set->links_count; i++)
		all = tt_word_try_close(&group_of(&set->links[i])->word) && all;
	tt_unlock(&set->lock);
	return all;
}

static int64_t set_budget(struct tt_epset *set)
{
	int64_t most = tt_tun.spin_ns;

	if (!tt_tun.spin_adapt || most <= 0)
		return most;
	if (set->spin_ns == 0)
		set->spin_ns = (uint32_t)most;
	if (set->spin_ns > 1000)
		return set->spin_ns;
	if (++set->spin_skipped < 32)
		return 0;
	set->spin_skipped = 0;
	return most;
}

static bool same_core(struct tt_epset *set)
{
	uint32_t cpu = (uint32_t)sched_getcpu();
	bool same = false;

	/* Only worth a look for the common small case: one peer. */
	if (set->links_count == 1 && tt_lock_try(&set->lock)) {
		if (set->links_count == 1 && set->last)
			same = set->last->rx.dir &&
			    __atomic_load_n(&set->last->rx.dir->s_cpu, __ATOMIC_RELAXED) == cpu;
		tt_unlock(&set->lock);
	}
	return same;
}

/* Spins until something shows. > 0 events, 0 nothing came, negative errno. */
static int spin_wait(struct tt_epset *set, int epfd, struct epoll_event *events, int max,
    int64_t limit_ns, const sigset_t *mask)
{
	int64_t budget = set_budget(set);
	struct tt_spin spin;

	if (limit_ns >= 0 && (budget < 0 || budget > limit_ns))
		budget = limit_ns;
	if (budget == 0 || same_core(set))
		return 0;
	tt_spin_start(&spin, budget, &tt_signals.all, tt_signals.all);
	if (set->look > spin.look)
		set->look = spin.look;
	spin.look = set->look;
	for (;;) {
		int n;

		for (int i = 0; i < TT_SPIN_BATCH; i++) {
			if (marks_any(set)) {
				n = collect_locked(set, events, max);
				if (n) {
					set->spin_ns = (uint32_t)tt_tun.spin_ns;
					return n;
				}
			}
			tt_pause();
		}
		switch (tt_spin_step(&spin)) {
		case TT_SPIN_GO:
			break;
		case TT_SPIN_LOOK:
			n = kernel_look(set, epfd, events, 0, max, mask);
			if (n)
				return n;
			/* epoll with a timeout of zero delivers no signal that only the mask lets in; ppoll does. */
			if (mask && tt_sys.ppoll(NULL, 0, &(struct timespec){0}, mask) < 0)
				return -errno;
			n = collect_locked(set, events, max); /* ADDed meanwhile, or joined */
			if (n)
				return n;
			break;
		case TT_SPIN_SIGNALLED:
			return -EINTR;
		case TT_SPIN_END:
			if (tt_tun.spin_adapt)
				set->spin_ns = tt_max(set->spin_ns / (spin.preempted ? 16 : 2), 1000u);
			return 0;
		}
	}
}

/* Closes the groups, looks once more, sleeps. */
static int sleep_wait(struct tt_epset *set, int epfd, struct epoll_event *events, int max,
    const struct timespec *timeout, const sigset_t *mask)
{
	static const struct timespec nap = {.tv_nsec = 1000000};
	int n = 0;

	__atomic_add_fetch(&set->sleepers, 1, __ATOMIC_SEQ_CST);
	for (int i = 0;; i++) {
		bool closed = groups_close(set);

		n = collect_locked(set, events, max);
		if (n) {
			n = kernel_look(set, epfd, events, n, max, NULL);
			break;
		}
		if (closed) {
			n = kernel_wait(set, epfd, events, max, timeout, mask);
			break;
		}
		if (i < CLOSE_YIELDS) {
			(void)tt_raw0(SYS_sched_yield);
			continue;
		}
		/* A publisher that was stopped or killed inside: its own connections tell by the kernel. */
		n = kernel_wait(set, epfd, events, max, &nap, mask);
		if (n)
			break;
	}
	__atomic_sub_fetch(&set->sleepers, 1, __ATOMIC_SEQ_CST);
	return n;
}

static int native_wait(struct tt_epset *set, int epfd, struct epoll_event *events, int max,
    const struct timespec *timeout, const sigset_t *mask)
{
	int n;

	__atomic_add_fetch(&set->sleepers, 1, __ATOMIC_SEQ_CST);
	n = kernel_wait(set, epfd, events, max, timeout, mask);
	__atomic_sub_fetch(&set->sleepers, 1, __ATOMIC_SEQ_CST);
	return n;
}

int tt_epoll_wait(int epfd, struct epoll_event *events, int max, const struct timespec *timeout,
    const sigset_t *mask)
{
	struct tt_epset *set = set_of(epfd);
	struct tt_deadline deadline;
	struct timespec left;
	int n;

	tt_attach_poll();
	if (!set || max <= 0) {
		struct tt_epset nothing = {0};

		return kernel_wait(&nothing, epfd, events, max, timeout, mask);
	}
	if (!set->links_count && !set->ready_count)
		return native_wait(set, epfd, events, max, timeout, mask);
	tt_deadline_set(&deadline, timeout);
	__atomic_add_fetch(&set->waiters, 1, __ATOMIC_SEQ_CST);
	/* Open while the program works, too: it will come back here, and look. */
	if (tt_tun.spin_ns)
		groups_open(set);
	n = collect_locked(set, events, max);
	if (n) {
		if (tt_tsc() >= set->look)
			n = kernel_look(set, epfd, events, n, max, mask);
	} else if (timeout && timeout->tv_sec == 0 && timeout->tv_nsec == 0) {
		n = kernel_look(set, epfd, events, 0, max, mask);
	} else {
		if (set->look == 0 || set->kernel_busy)
			n = kernel_look(set, epfd, events, 0, max, mask);
		if (n == 0)
			n = spin_wait(set, epfd, events, max, tt_deadline_left_ns(&deadline), mask);
		if (n == 0)
			n = sleep_wait(set, epfd, events, max, tt_deadline_left(&deadline, &left), mask);
	}
	__atomic_sub_fetch(&set->waiters, 1, __ATOMIC_SEQ_CST);
	return n;
}
