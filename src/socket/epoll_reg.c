/* SPDX-License-Identifier: BSD-3-Clause */
#include "socket/epoll_set.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/raw.h"
#include "socket/dgram.h"
#include "socket/lease.h"

/* Second and further registrations of one socket are rare: a pool of their own, never given back. */
#define REGS_A_TIME 64u

struct tt_lock tt_ep_regs_lock;
static struct tt_epreg *free_regs; /* by of_sock */

/* ---- the list of a socket; registrations' lock held ---- */

static struct tt_epreg *reg_memory(struct tt_sock *s)
{
	struct tt_epreg *reg;
	long p;

	if (!s->ep_first.set)
		return &s->ep_first;
	if (!free_regs) {
		p = tt_raw6(SYS_mmap, 0, REGS_A_TIME * sizeof(*reg), PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (p < 0 && p > -4096)
			return NULL;
		reg = (struct tt_epreg *)p;
		for (uint32_t i = 0; i < REGS_A_TIME; i++) {
			reg[i].of_sock = free_regs;
			free_regs = &reg[i];
		}
	}
	reg = free_regs;
	free_regs = reg->of_sock;
	return reg;
}

static struct tt_epreg *reg_find(const struct tt_sock *s, const struct tt_epset *set, int fd)
{
	for (struct tt_epreg *reg = s->ep_regs; reg; reg = reg->of_sock)
		if (reg->set == set && reg->fd == fd)
			return reg;
	return NULL;
}

static struct tt_epreg *reg_new(struct tt_sock *s, struct tt_epset *set, int fd)
{
	struct tt_epreg *reg = reg_memory(s);

	if (!reg)
		return NULL;
	memset(reg, 0, sizeof(*reg));
	reg->set = set;
	reg->s = s;
	reg->fd = fd;
	reg->of_sock = s->ep_regs;
	tt_store_relaxed(&s->ep_regs, reg);
	__atomic_add_fetch(&s->ep_sets, 1, __ATOMIC_SEQ_CST);
	return reg;
}

static void reg_free(struct tt_epreg *reg)
{
	struct tt_sock *s = reg->s;
	struct tt_epreg **at = &s->ep_regs;

	while (*at != reg)
		at = &(*at)->of_sock;
	tt_store_relaxed(at, reg->of_sock);
	__atomic_sub_fetch(&s->ep_sets, 1, __ATOMIC_SEQ_CST);
	reg->set = NULL;
	if (reg == &s->ep_first)
		return;
	reg->of_sock = free_regs;
	free_regs = reg;
}

/* ---- what there is to look at ---- */

/* After a registration was made or changed: what is ready now is told, also to edge-triggered users and to threads asleep. */
static void reg_touch(struct tt_epreg *reg, int epfd, bool ask_kernel)
{
	struct tt_epset *set = reg->set;

	if (!tt_epset_lock(set))
		return;
	reg->edge = true;
	if (reg->s->ep == set)
		tt_store_relaxed(&set->join_wanted, true);
	if (tt_load_acquire(&reg->s->rx.dir) || reg->s->dgram)
		tt_epset_ready_add(set, reg);
	if (ask_kernel)
		set->look = 0;
	tt_epset_lamp_update(set, epfd, true);
	tt_epset_unlock(set);
}

/* The one registration's set may govern from now on, unless an earlier set still does. False: it does. */
static bool govern_begin(struct tt_epreg *reg)
{
	struct tt_epset *set = reg->set;
	struct tt_sock *s = reg->s;

	if (s->ep && s->ep != set)
		return false;
	if (!tt_epset_lock(set))
		return true;
	__atomic_store_n(&s->ep, set, __ATOMIC_SEQ_CST);
	s->ep_reg = reg;
	tt_epset_unlock(set);
	return true;
}

/* The own word, closed: beside a registration nobody opens it. */
static void own_close(struct tt_sock *s)
{
	uint64_t begin = 0;

	if (s->foreign)
		return;
	for (;;) {
		bool closed = s->type != SOCK_STREAM ? !s->dgram || tt_dgram_close_try(s)
						     : !tt_load_acquire(&s->rx.dir) || !tt_lease_close(s);

		if (closed || tt_lease_ended(s, tt_load_relaxed(&s->fd)) || !tt_ep_wait_turn(&begin))
			return;
	}
}

/* ---- epoll_ctl, after the kernel's ---- */

static void reg_write(struct tt_epreg *reg, const struct epoll_event *event)
{
	if (!tt_epset_lock(reg->set))
		return;
	reg->events = event->events;
	reg->data = event->data.u64;
	tt_epset_unlock(reg->set);
}

static void add(struct tt_epset *set, int epfd, struct tt_sock *s, int fd,
    const struct epoll_event *event)
{
	struct tt_epreg *reg = NULL;
	bool governs = false;

	if (tt_lock_wait(&tt_ep_regs_lock)) {
		reg = reg_find(s, set, fd); /* of a descriptor that was closed unseen */
		if (!reg)
			reg = reg_new(s, set, fd);
		if (reg) {
			reg_write(reg, event);
			governs = s->ep_sets == 1 && govern_begin(reg);
		}
		tt_unlock(&tt_ep_regs_lock);
	}
	if (!reg) { /* no memory, or in a handler that interrupted this very place */
		tt_sock_rx_stop(s, TT_REASON_LIMIT);
		return;
	}
	if (!governs || (event->events & TT_EP_NATIVE_EVENTS)) {
		tt_ep_ungovern(s, false);
		if (tt_lock_wait(&tt_ep_regs_lock)) {
			if (s->ep_sets == 1 && s->ep_regs == reg)
				(void)govern_begin(reg);
			tt_unlock(&tt_ep_regs_lock);
		}
	}
	if (!tt_load_acquire(&s->rx.dir) || !tt_load_relaxed(&s->ref.gov))
		own_close(s);
	reg_touch(reg, epfd, true);
}

static void modify(struct tt_epset *set, int epfd, struct tt_sock *s, int fd,
    const struct epoll_event *event)
{
	struct tt_epreg *reg = NULL;
	uint64_t begin = 0;
	uint32_t had = 0;

	if (tt_lock_wait(&tt_ep_regs_lock)) {
		reg = reg_find(s, set, fd);
		if (reg) {
			had = reg->events;
			reg_write(reg, event);
		}
		tt_unlock(&tt_ep_regs_lock);
	}
	if (!reg) {
		add(set, epfd, s, fd, event);
		return;
	}
	if (event->events & TT_EP_NATIVE_EVENTS) /* a group can't serve it; its set takes it in again when that ends */
		while (!tt_epoll_unjoin(s) && !tt_lease_ended(s, fd) && tt_ep_wait_turn(&begin))
			;
	/*
	 * Only the kernel knows about EPOLLOUT, and what it holds is told again to an edge-triggered user. To give something up,
	 * as most programs do after each message, is no reason to ask.
	 */
	reg_touch(reg, epfd, (event->events & EPOLLET) || (event->events & ~had));
}

void tt_ep_reg_end(struct tt_epreg *reg)
{
	struct tt_epset *set = reg->set;
	struct tt_sock *s = reg->s;

	if (tt_epset_lock(set)) {
		tt_epset_ready_del(set, reg);
		tt_epset_stale_del(set, reg);
		if (s->ep_reg == reg)
			s->ep_reg = NULL;
		tt_epset_unlock(set);
	}
	reg_free(reg);
	if (s->ep_sets == 1 && govern_begin(s->ep_regs) && tt_epset_lock(s->ep_regs->set)) {
		tt_store_relaxed(&s->ep_regs->set->join_wanted, true);
		tt_epset_ready_add(s->ep_regs->set, s->ep_regs);
		tt_epset_unlock(s->ep_regs->set);
	}
}

/*
 * After EPOLL_CTL_DEL the socket stays in its group until something else wants it: programs that take a descriptor out and put
 * it back for each message would else close the lease each time.
 */
static void drop(const struct tt_epset *set, const struct tt_sock *s, int fd)
{
	struct tt_epreg *reg;

	if (!tt_lock_wait(&tt_ep_regs_lock))
		return;
	reg = reg_find(s, set, fd);
	if (reg)
		tt_ep_reg_end(reg);
	tt_unlock(&tt_ep_regs_lock);
}

int tt_epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	struct tt_epset *set;
	struct tt_sock *s;

	if (tt_epset_defer(epfd, op, fd, event))
		return 0;
	s = tt_fd_sock(fd);
	if (s)
		tt_epoll_settle_sock(s);
	if (tt_sys.epoll_ctl(epfd, op, fd, event) < 0)
		return -errno;
	if (tt_epoll_is_set(fd))
		tt_epoll_make_native(fd);
	if (!s || s->role == TT_ROLE_LISTENER)
		return 0;
	set = tt_epset_get(epfd, TT_EP_USE);
	if (!set) {
		/* A set that we don't know (a very large number, or it came from another process): nobody closes leases for it. */
		if (op == EPOLL_CTL_ADD && !tt_tun.disable)
			tt_sock_rx_stop(s, TT_REASON_LIMIT);
		return 0;
	}
	if (op == EPOLL_CTL_ADD)
		add(set, epfd, s, fd, event);
	else if (op == EPOLL_CTL_MOD)
		modify(set, epfd, s, fd, event);
	else
		drop(set, s, fd);
	tt_epset_put(set, TT_EP_USE);
	return 0;
}

/* ---- sockets and sets that close ---- */

void tt_epoll_fd_gone(struct tt_sock *s, int fd)
{
	const struct tt_epreg *reg = __atomic_load_n(&s->ep_reg, __ATOMIC_ACQUIRE);
	bool last = __atomic_load_n(&s->refs, __ATOMIC_ACQUIRE) == 1;

	/* By another name or in another process the registration may live on, and only this number changes it. */
	if (reg && reg->fd == fd && (!last || s->shared))
		tt_epoll_settle_sock(s);
	/* The kernel drops a registration with the last descriptor of the socket. */
	if (last)
		tt_epoll_sock_gone(s);
}

void tt_epoll_sock_gone(struct tt_sock *s)
{
	if (!tt_load_relaxed(&s->ep_regs) && !tt_load_relaxed(&s->ep))
		return;
	tt_ep_ungovern(s, true);
	if (!tt_lock_wait(&tt_ep_regs_lock))
		return;
	while (s->ep_regs) {
		struct tt_epreg *reg = s->ep_regs;

		if (tt_epset_lock(reg->set)) {
			tt_epset_ready_del(reg->set, reg);
			tt_epset_stale_del(reg->set, reg);
			tt_epset_unlock(reg->set);
		}
		reg_free(reg);
	}
	tt_unlock(&tt_ep_regs_lock);
}

static void leave_closed_set(struct tt_sock *s, void *arg)
{
	struct tt_epset *set = arg;
	struct tt_epreg *reg;
	struct tt_epreg *next;

	if (!tt_load_relaxed(&s->ep_regs) && tt_load_relaxed(&s->ep) != set)
		return;
	if (tt_load_relaxed(&s->ep) == set)
		tt_ep_ungovern(s, false);
	if (!tt_lock_wait(&tt_ep_regs_lock))
		return;
	for (reg = s->ep_regs; reg; reg = next) {
		next = reg->of_sock;
		if (reg->set == set)
			tt_ep_reg_end(reg);
	}
	tt_unlock(&tt_ep_regs_lock);
}

void tt_epset_empty(struct tt_epset *set)
{
	tt_sock_for_each(leave_closed_set, set);
}
