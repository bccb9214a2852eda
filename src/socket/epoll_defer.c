/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * epoll_defer.c - epoll_ctl without the kernel.
 *
 * Many programs change what they wait for two to five times for each message: wait for room to send, take that back, wait for
 * the answer. For a connection that obeys an open group most of these changes are over before the kernel is asked anything, so they
 * are kept in our registration, and the kernel learns the sum of them (settle) before it is next asked about the set. The
 * kernel's registration stays there all the time, with what was last told.
 *
 * Only where nobody else can see the difference: one level-triggered registration, a set that only this process waits in, by calls
 * that we see, and in which no thread sleeps. What isn't sure to succeed goes to the kernel, which answers with its own errors.
 */
#include "socket/epoll_set.h"

#include <errno.h>

#include "base/copy.h"
#include "base/raw.h"

#define LEVEL_EVENTS                                                                                         \
	(EPOLLIN | EPOLLRDNORM | EPOLLOUT | EPOLLWRNORM | EPOLLRDHUP | EPOLLPRI | EPOLLERR | EPOLLHUP)

bool tt_ep_writable(const struct tt_sock *s)
{
	const struct tt_dir *dir = tt_load_acquire(&s->tx.dir);

	/* All that the kernel was given has been read, so its queue is empty. The ring never stands in a sender's way (rule 8). */
	return dir && tt_attach_state(s) == TT_ATTACH_DONE && !s->tx.kernel_only && !tt_load_acquire(&dir->kpend) &&
	    tt_load_acquire(&dir->kcons) >= tt_load_relaxed(&dir->kpub);
}

/* Bytes or an end that S has told of, by the kernel: its answer then shows them beside room to send. */
static bool kernel_may_bring(const struct tt_sock *s)
{
	const struct tt_dir *dir = tt_load_acquire(&s->rx.dir);

	return !dir || tt_load_acquire(&dir->kpend) || tt_load_acquire(&dir->kpub) > s->rx.kcons ||
	    tt_load_relaxed(&dir->fin);
}

uint32_t tt_epreg_events(const struct tt_epreg *reg)
{
	uint32_t events = tt_epreg_due(reg) ? reg->events & (EPOLLIN | EPOLLRDNORM) : 0;
	uint32_t out = reg->events & (EPOLLOUT | EPOLLWRNORM);

	/* Kept by recvmmsg(): the kernel no longer knows of it. */
	if (tt_unlikely(tt_load_relaxed(&reg->s->pending_err) != 0) && (!(reg->events & EPOLLET) || reg->edge))
		events |= EPOLLERR;
	if (out && !(reg->events & ~(uint32_t)LEVEL_EVENTS) && reg->s->ep == reg->set &&
	    tt_ep_writable(reg->s) && !kernel_may_bring(reg->s))
		events |= out;
	return events;
}

/* ---- the list of what the kernel has to be told; set lock held ---- */

static void stale_add(struct tt_epset *set, struct tt_epreg *reg)
{
	if (reg->stale)
		return;
	reg->stale = true;
	reg->stale_next = set->stale;
	tt_store_relaxed(&set->stale, reg);
}

void tt_epset_stale_del(struct tt_epset *set, struct tt_epreg *reg)
{
	struct tt_epreg **at = &set->stale;

	if (!reg->stale)
		return;
	while (*at != reg)
		at = &(*at)->stale_next;
	tt_store_relaxed(at, reg->stale_next);
	reg->stale = false;
}

/* ---- epoll_ctl ---- */

static bool deferrable(struct tt_epset *set, const struct tt_sock *s, int op, int fd, uint32_t events)
{
	const struct tt_epreg *reg = s->ep_reg;
	const struct tt_dir *dir = s->rx.dir;

	if (!reg || s->ep != set || reg->fd != fd || reg->gone != (op == EPOLL_CTL_ADD))
		return false;
	return !((reg->events | events) & ~(uint32_t)LEVEL_EVENTS) && set->open && !set->native &&
	    !set->watched && dir && tt_load_relaxed(&dir->gov) && !s->foreign && !tt_share_held(s) &&
	    !__atomic_load_n(&set->pins[TT_EP_SLEEP], __ATOMIC_SEQ_CST);
}

/* Something that only the kernel can tell: worth a look in the next wait, and not when its time has come. */
static bool kernel_may_know(const struct tt_sock *s, uint32_t added)
{
	if ((added & (EPOLLOUT | EPOLLWRNORM)) && !tt_ep_writable(s))
		return true;
	return (added & (EPOLLIN | EPOLLRDNORM | EPOLLRDHUP)) && kernel_may_bring(s);
}

static void change(struct tt_epset *set, struct tt_sock *s, int op, const struct epoll_event *event)
{
	struct tt_epreg *reg = s->ep_reg;
	uint32_t had = reg->events;

	stale_add(set, reg);
	reg->gone = op == EPOLL_CTL_DEL;
	if (reg->gone) {
		reg->events = 0;
		tt_epset_ready_del(set, reg);
		return;
	}
	reg->events = event->events;
	reg->data = event->data.u64;
	reg->edge = true;
	if (kernel_may_know(s, event->events & ~had))
		set->look = 0;
	tt_epset_ready_add(set, reg);
}

bool tt_epset_defer(int epfd, int op, int fd, const struct epoll_event *event)
{
	struct tt_sock *s = tt_fd_sock(fd);
	struct epoll_event wanted = {0};
	struct tt_epset *set;
	bool done = false;

	/* Cheap, and looked at again under the lock. */
	if (!s || s->type != SOCK_STREAM || !tt_load_relaxed(&s->ep_reg) || !tt_load_acquire(&s->rx.dir))
		return false;
	if (op != EPOLL_CTL_DEL && !tt_copy(&wanted, event, sizeof(wanted)))
		return false;
	set = tt_epset_get(epfd, TT_EP_USE);
	if (!set)
		return false;
	if (!tt_lock_is_mine(&set->lock) && tt_epset_lock(set)) {
		done = deferrable(set, s, op, fd, wanted.events);
		if (done)
			change(set, s, op, &wanted);
		tt_epset_unlock(set);
	}
	tt_epset_put(set, TT_EP_USE);
	return done;
}

/* ---- telling the kernel ---- */

/* One of the list. Registrations' lock and set lock held. True: the registration is over. */
static bool tell(struct tt_epset *set, int epfd, struct tt_epreg *reg)
{
	struct epoll_event event = {.events = reg->events, .data.u64 = reg->data};

	tt_epset_stale_del(set, reg);
	if (!reg->gone) {
		(void)tt_raw4(SYS_epoll_ctl, epfd, EPOLL_CTL_MOD, reg->fd, &event);
		return false;
	}
	(void)tt_raw4(SYS_epoll_ctl, epfd, EPOLL_CTL_DEL, reg->fd, &event);
	/* No change can be deferred from here on. */
	if (reg->s->ep_reg == reg)
		reg->s->ep_reg = NULL;
	return true;
}

void tt_epset_settle_all(struct tt_epset *set, int epfd)
{
	if (tt_lock_is_mine(&set->lock) || !tt_lock_wait(&tt_ep_regs_lock))
		return;
	for (;;) {
		struct tt_epreg *over = NULL;
		struct tt_epreg *reg;

		if (!tt_epset_lock(set))
			break;
		while ((reg = set->stale) && !over)
			over = tell(set, epfd, reg) ? reg : NULL;
		tt_epset_unlock(set);
		if (!over)
			break;
		tt_ep_reg_end(over);
	}
	tt_unlock(&tt_ep_regs_lock);
}

static int name_of(const struct tt_epset *set)
{
	int high = tt_min(tt_fd_high(), TT_EP_FD_MAX - 1);

	for (int fd = 0; fd <= high; fd++)
		if (tt_epset_peek(fd) == set)
			return fd;
	return -1;
}

void tt_epoll_settle_sock(const struct tt_sock *s)
{
	const struct tt_epreg *reg = __atomic_load_n(&s->ep_reg, __ATOMIC_ACQUIRE);
	struct tt_epset *set = __atomic_load_n(&s->ep, __ATOMIC_ACQUIRE);
	int epfd;

	if (tt_likely(!reg || !set || !reg->stale))
		return;
	epfd = name_of(set);
	if (epfd >= 0)
		tt_epset_settle(set, epfd);
}
