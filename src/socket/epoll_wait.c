/* SPDX-License-Identifier: BSD-3-Clause */
#include "socket/epoll_set.h"

#include <errno.h>
#include <sched.h>
#include <time.h>

#include "base/raw.h"
#include "socket/cancel.h"
#include "socket/dgram.h"
#include "socket/mask.h"
#include "socket/spin.h"
#include "socket/timeout.h"

/* Waiting for a publisher: so long by yields (by time: on a busy machine each takes as long as the others like), then in naps. */
#define CLOSE_YIELD_NS 200000ull
/* In naps: so many between two looks whether its whole process is gone. */
#define NAPS_LOOK 128u
#define KERNEL_EVENTS_MAX 256
/* Of the kernel's wait: it was the lamp alone. */
#define WOKEN (-ERESTART)

static const struct timespec none;

/* ---- rings ---- */

/* Moves the marks of the groups to the list. Set lock held. */
static void marks_take(struct tt_epset *set)
{
	for (uint32_t i = 0; i < set->links_count; i++) {
		const struct tt_ep_link *el = &set->links[i];
		struct tt_group *g = el->group;

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
					struct tt_sock *s = __atomic_load_n(&el->link->owner[slot],
					    __ATOMIC_ACQUIRE);

					if (!s || tt_load_relaxed(&s->ep) != set || !s->ep_reg)
						continue;
					s->ep_reg->edge = true;
					tt_epset_ready_add(set, s->ep_reg);
				}
			}
		}
	}
}

static bool marks_any(const struct tt_epset *set)
{
	for (uint32_t i = 0; i < set->links_count; i++) {
		const struct tt_group *g = set->links[i].group;

		for (uint32_t w = 0; w < tt_array_len(g->summary); w++)
			if (tt_load_acquire(&g->summary[w]))
				return true;
	}
	return false;
}

/* Set lock held; the link lock, too, when linked. *disarm: the descriptor of a one-shot registration that was told of, or -1. */
static int collect(struct tt_epset *set, struct epoll_event *events, int max, bool linked, int *disarm)
{
	bool join_left = false;
	uint32_t todo;
	int n = 0;

	marks_take(set);
	todo = set->ready_count;
	for (; todo && set->ready && n < max && *disarm < 0; todo--) {
		struct tt_epreg *reg = set->ready;
		struct tt_sock *s = reg->s;
		bool waits = tt_load_relaxed(&set->join_wanted) && tt_ep_waits_to_join(s);
		uint32_t ready;

		if (waits && linked) {
			tt_ep_join(set, s);
			waits = tt_ep_waits_to_join(s);
		}
		join_left = join_left || waits;
		ready = tt_epreg_events(reg);
		if (!ready) {
			if (waits)
				set->ready = reg->next;
			else
				tt_epset_ready_del(set, reg);
			continue;
		}
		events[n].events = ready;
		events[n].data.u64 = reg->data;
		n++;
		if (s->ep == set)
			set->last = s;
		reg->edge = false;
		if (reg->events & EPOLLONESHOT) {
			*disarm = reg->fd;
			reg->events &= TT_EP_NATIVE_EVENTS | EPOLLET;
		}
		if ((reg->events & (EPOLLET | EPOLLONESHOT)) && !waits)
			tt_epset_ready_del(set, reg);
		else
			set->ready = reg->next; /* level: stays, behind the others */
	}
	if (!todo && linked && !join_left)
		tt_store_relaxed(&set->join_wanted, false);
	return n;
}

/* The rings' events, or 0. Takes the locks it needs; the link lock only when a socket waits to join. */
static int rings(struct tt_epset *set, int epfd, struct epoll_event *events, int max)
{
	bool linked = tt_unlikely(tt_load_relaxed(&set->join_wanted)) && tt_link_trylock();
	int disarm = -1;
	int n = 0;

	if (tt_epset_lock(set)) {
		n = collect(set, events, max, linked, &disarm);
		tt_epset_unlock(set);
	}
	if (linked)
		tt_link_unlock();
	if (tt_unlikely(disarm >= 0)) {
		/* As the kernel's own event would have done. */
		struct epoll_event off = {.events = EPOLLONESHOT};

		(void)tt_raw4(SYS_epoll_ctl, epfd, EPOLL_CTL_MOD, disarm, &off);
	}
	return n;
}

/* ---- the kernel ---- */

/* One descriptor shows once: the kernel's events for what the rings reported already are merged into that entry. */
static int merge(struct epoll_event *events, int have, const struct epoll_event *kernel, int count)
{
	int rings_have = have;

	for (int i = 0; i < count; i++) {
		int at;

		for (at = 0; at < rings_have && events[at].data.u64 != kernel[i].data.u64; at++)
			;
		if (at < rings_have)
			events[at].events |= kernel[i].events;
		else
			events[have++] = kernel[i];
	}
	return have;
}

static int lamp_strip(struct tt_epset *set, int epfd, struct epoll_event *events, int n)
{
	int kept = 0;

	for (int i = 0; i < n; i++)
		if (events[i].data.u64 != (uintptr_t)&tt_ep_lamp_word)
			events[kept++] = events[i];
	if (kept == n)
		return n;
	if (tt_epset_lock(set)) {
		tt_epset_lamp_update(set, epfd, false);
		tt_epset_unlock(set);
	}
	return kept ? kept : WOKEN;
}

/* Anything but room to send: bytes that came by the kernel, an end, an error. */
static bool incoming(const struct epoll_event *events, int n)
{
	for (int i = 0; i < n; i++)
		if (events[i].events & ~(uint32_t)(EPOLLOUT | EPOLLWRNORM))
			return true;
	return false;
}

static int kernel_call(int epfd, struct epoll_event *events, int max, const struct timespec *timeout,
    const sigset_t *mask)
{
	int n;

	if (tt_sys.epoll_pwait2 && timeout && timeout->tv_nsec % 1000000) {
		n = tt_sys.epoll_pwait2(epfd, events, max, timeout, mask);
		if (n >= 0 || errno != ENOSYS)
			return n < 0 ? -errno : n;
	}
	n = tt_sys.epoll_pwait(epfd, events, max, tt_timeout_ms(timeout), mask);
	return n < 0 ? -errno : n;
}

static int kernel_wait(struct tt_epset *set, int epfd, struct epoll_event *events, int max,
    const struct timespec *timeout, const sigset_t *mask)
{
	int n;

	if (tt_unlikely(tt_epset_peek(epfd) != set))
		return -EBADF; /* closed by another thread; the number may be another set's now */
	tt_epset_settle(set, epfd);
	n = kernel_call(epfd, events, max, timeout, mask);
	if (n <= 0)
		return n;
	if (tt_unlikely(__atomic_load_n(&tt_ep_lamps, __ATOMIC_RELAXED)))
		n = lamp_strip(set, epfd, events, n);
	if (n > 0 && incoming(events, n)) {
		__atomic_add_fetch(&set->epoch, 1, __ATOMIC_RELAXED);
		set->kernel_busy = true;
	}
	return n;
}

/* Looks at the kernel without waiting and adds what it has. Negative errno only when nothing was there before. */
static int kernel_look(struct tt_epset *set, int epfd, struct epoll_event *events, int have, int max)
{
	struct epoll_event kernel[KERNEL_EVENTS_MAX];
	int room = tt_min(max - have, KERNEL_EVENTS_MAX);
	int n;

	set->look = tt_tsc() + tt_ns_to_tsc((uint64_t)tt_tun.kernel_poll_us * 1000);
	set->kernel_busy = false;
	if (have == 0) {
		n = kernel_wait(set, epfd, events, max, &none, NULL);
		return n == WOKEN ? 0 : n;
	}
	if (room <= 0)
		return have;
	n = kernel_wait(set, epfd, kernel, room, &none, NULL);
	return n <= 0 ? have : merge(events, have, kernel, n);
}

/* ---- spinning ---- */

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
	bool same = false;

	/* Only worth a look for the common small case: one peer. */
	if (set->links_count == 1 && tt_lock_try(&set->lock)) {
		const struct tt_dir *dir = set->last ? tt_load_acquire(&set->last->rx.dir) : NULL;

		same = dir && __atomic_load_n(&dir->s_cpu, __ATOMIC_RELAXED) == (uint32_t)sched_getcpu();
		tt_epset_unlock(set);
	}
	return same;
}

struct wait {
	struct tt_epset *set;
	int epfd;
	struct epoll_event *events;
	int max;
	const sigset_t *mask;
	struct tt_deadline deadline;
	uint32_t signals; /* handlers that had run when the call began */
};

/* Spins until something shows. > 0 events, 0 nothing came, negative errno. */
static int spin(struct wait *w, int64_t budget)
{
	struct tt_epset *set = w->set;
	struct tt_spin spin;

	tt_spin_start(&spin, budget, &tt_signals.all, w->signals);
	if (set->look > spin.look)
		set->look = spin.look;
	spin.look = set->look;
	for (;;) {
		int n;

		for (int i = 0; i < TT_SPIN_BATCH; i++) {
			if (marks_any(set)) {
				n = rings(set, w->epfd, w->events, w->max);
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
			n = kernel_look(set, w->epfd, w->events, 0, w->max);
			if (!n)
				n = rings(set, w->epfd, w->events, w->max); /* ADDed meanwhile, or joined */
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

static int spin_wait(struct wait *w)
{
	int64_t limit_ns = tt_deadline_left_ns(&w->deadline);
	int64_t budget = set_budget(w->set);
	sigset_t old;
	int n;

	if (limit_ns >= 0 && (budget < 0 || budget > limit_ns))
		budget = limit_ns;
	/* Closed: a second thread waits here, or somebody else watches the set. Only the kernel can bring anything. */
	if (budget == 0 || !w->set->open || same_core(w->set))
		return 0;
	tt_mask_begin(w->mask, &old);
	n = spin(w, budget);
	tt_mask_end(w->mask, &old);
	return n;
}

/* ---- sleeping ---- */

static bool groups_close(struct tt_epset *set)
{
	bool closed;

	if (!tt_epset_lock(set))
		return false;
	closed = tt_epset_close(set);
	for (uint32_t i = 0; i < set->links_count; i++) /* until tt_epset_open(); for the senders' statistics alone */
		__atomic_store_n(&set->links[i].group->word.asleep, TT_ASLEEP, __ATOMIC_RELAXED);
	tt_epset_unlock(set);
	return closed;
}

/* Who died inside a group's word is not inside. Their connections may be such as the program does not read. */
static void dead_groups_close(struct tt_epset *set)
{
	if (tt_process_confined || !tt_epset_lock(set))
		return;
	for (uint32_t i = 0; i < set->links_count; i++) /* in use by this set, so they stay */
		if (!tt_inbox_alive(set->links[i].link->peer))
			tt_word_bury(&set->links[i].group->word);
	tt_epset_unlock(set);
}

/* Counted as asleep: closes the groups, looks once more, sleeps. */
static int sleep_counted(struct wait *w)
{
	static const struct timespec nap = {.tv_nsec = 1000000};
	struct tt_epset *set = w->set;
	struct timespec left;
	uint64_t begin = tt_tsc();
	uint32_t naps = 0;
	int n;

	tt_dgram_noted_check(true);
	/*
	 * Datagrams: before a lease is closed the kernel must have nothing, so that what comes by it later can't be taken for what
	 * came before (dgram.c).
	 */
	if (set->dgrams && set->open) {
		n = kernel_look(set, w->epfd, w->events, 0, w->max);
		if (n)
			return n;
	}
	for (;;) {
		bool closed = groups_close(set);

		n = rings(set, w->epfd, w->events, w->max);
		if (n)
			return kernel_look(set, w->epfd, w->events, n, w->max);
		if (tt_unlikely(tt_signals.all != w->signals))
			return -EINTR; /* as if we had slept already */
		if (closed) {
			n = kernel_wait(set, w->epfd, w->events, w->max,
			    tt_deadline_left(&w->deadline, &left), w->mask);
			if (n != WOKEN)
				return n;
			continue;
		}
		if (tt_tsc() - begin < tt_ns_to_tsc(CLOSE_YIELD_NS)) {
			(void)tt_raw0(SYS_sched_yield);
			continue;
		}
		if (++naps % NAPS_LOOK == 0)
			dead_groups_close(set);
		/* A publisher that was stopped or killed inside: its own connections tell by the kernel. */
		n = kernel_wait(set, w->epfd, w->events, w->max, &nap, w->mask);
		if (n && n != WOKEN)
			return n;
		if (tt_deadline_left_ns(&w->deadline) == 0)
			return 0;
	}
}

/* A pin that ends with its block, also when the thread is cancelled in it (cancel.h). */
struct pinned {
	struct tt_epset *set;
	enum tt_ep_pin pin;
};

static void unpin(const struct pinned *pin)
{
	tt_epset_put(pin->set, pin->pin);
}

static int sleep_wait(struct wait *w)
{
	struct pinned pin TT_CLEANUP(unpin) = {w->set, TT_EP_SLEEP};

	__atomic_add_fetch(&w->set->pins[TT_EP_SLEEP], 1, __ATOMIC_SEQ_CST);
	return sleep_counted(w);
}

/* ---- the call ---- */

/* How many events the rings may take: the rest is for the kernel when its turn has come, so that neither starves the other. */
static int rings_share(struct tt_epset *set, int max, bool due)
{
	if (!due)
		return max;
	if (max > 1)
		return max - max / 2;
	set->kernel_turn = !set->kernel_turn;
	return set->kernel_turn ? 0 : max;
}

static int rings_and_kernel(struct wait *w)
{
	struct tt_epset *set = w->set;
	bool due = tt_tsc() >= set->look;
	int share = rings_share(set, w->max, due);
	int n = rings(set, w->epfd, w->events, share);

	if (n || share == 0) {
		if (due)
			n = kernel_look(set, w->epfd, w->events, n, w->max);
		if (n == 0)
			n = rings(set, w->epfd, w->events, w->max);
		return n;
	}
	if (tt_deadline_now(&w->deadline)) {
		tt_dgram_noted_check(false);
		return kernel_look(set, w->epfd, w->events, 0, w->max);
	}
	if (set->look == 0 || set->kernel_busy)
		return kernel_look(set, w->epfd, w->events, 0, w->max);
	return 0;
}

static int ring_wait(struct wait *w)
{
	int n;

	/* Open while the program works, too: it will come back here, and look. */
	if (tt_tun.spin_ns && !w->set->open)
		tt_epset_open(w->set);
	n = rings_and_kernel(w);
	if (!n && !tt_deadline_now(&w->deadline)) {
		n = spin_wait(w);
		if (!n)
			n = sleep_wait(w);
	}
	/* The rest of the burst that woke us can go by the rings. */
	if (n > 0 && !w->set->open)
		tt_epset_open(w->set);
	return n;
}

static int native_sleep(struct tt_epset *set, struct wait *w, const struct timespec *timeout)
{
	struct pinned pin TT_CLEANUP(unpin) = {set, TT_EP_SLEEP};

	__atomic_add_fetch(&set->pins[TT_EP_SLEEP], 1, __ATOMIC_SEQ_CST);
	/* Counted first: who puts something on the list after this look wakes us. */
	if (__atomic_load_n(&set->links_count, __ATOMIC_SEQ_CST) ||
	    __atomic_load_n(&set->ready_count, __ATOMIC_SEQ_CST))
		return WOKEN;
	tt_dgram_noted_check(!tt_deadline_now(&w->deadline));
	return kernel_wait(set, w->epfd, w->events, w->max, timeout, w->mask);
}

/* Nothing of the set is accelerated. WOKEN: something is by now. */
static int native_wait(struct wait *w, const struct timespec *timeout)
{
	struct tt_epset *set = tt_epset_get(w->epfd, TT_EP_WAIT);
	int n;

	if (!set)
		return kernel_call(w->epfd, w->events, w->max, timeout, w->mask);

	struct pinned pin TT_CLEANUP(unpin) = {set, TT_EP_WAIT};

	n = native_sleep(set, w, timeout);
	if (n > 0 && !set->open) /* the first socket that joins has been waited for already */
		tt_epset_open(set);
	return n;
}

/* Where a write would fault, the kernel answers EFAULT, and only when there is something to write. */
static bool events_writable(const struct epoll_event *events)
{
	return (uintptr_t)events >= TT_PAGE && (uintptr_t)events <= (uintptr_t)INTPTR_MAX;
}

int tt_epoll_wait(int epfd, struct epoll_event *events, int max, const struct timespec *timeout,
    const sigset_t *mask)
{
	struct wait w = {
	    .epfd = epfd,
	    .events = events,
	    .max = max,
	    .mask = mask,
	    .signals = tt_signals.all,
	};
	const struct tt_epset *set = tt_epset_peek(epfd);
	int n;

	tt_attach_poll();
	if (!set || max <= 0 || !events_writable(events))
		return kernel_call(epfd, events, max, timeout, mask);
	tt_epoll_lamps_look();
	tt_deadline_set(&w.deadline, timeout);
	if (!tt_load_relaxed(&set->links_count) && !tt_load_relaxed(&set->ready_count)) {
		n = native_wait(&w, timeout);
		if (n != WOKEN)
			return n;
	}
	w.set = tt_epset_get(epfd, TT_EP_WAIT);
	if (!w.set)
		return -EBADF;

	struct pinned pin TT_CLEANUP(unpin) = {w.set, TT_EP_WAIT};

	return ring_wait(&w);
}
