/* SPDX-License-Identifier: BSD-3-Clause */
#include "socket/epoll_set.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "base/raw.h"
#include "socket/dgram.h"

struct tt_epset *_Atomic tt_epsets[TT_EP_FD_MAX];
uint32_t tt_ep_lamps;
const char tt_ep_lamp_word = 'l';

static struct tt_epset *free_sets;
static struct tt_lock free_lock;

bool tt_epoll_is_set(int fd)
{
	return tt_epset_peek(fd) != NULL;
}

bool tt_epset_lock(struct tt_epset *set)
{
	return tt_lock_wait(&set->lock);
}

/* ---- pins ---- */

static bool pinned(const struct tt_epset *set)
{
	for (int i = 0; i < TT_EP_PINS; i++)
		if (__atomic_load_n(&set->pins[i], __ATOMIC_SEQ_CST))
			return true;
	return false;
}

/* Closed, and perhaps used by nobody any more: then it may be used anew. */
static void reclaim(struct tt_epset *set)
{
	if (!tt_lock_wait(&free_lock))
		return; /* in a handler that interrupted this very place: a set is lost, no more */
	if (!set->unused && !__atomic_load_n(&set->names, __ATOMIC_SEQ_CST) && !pinned(set)) {
		set->unused = true;
		set->free_next = free_sets;
		free_sets = set;
	}
	tt_unlock(&free_lock);
}

void tt_epset_put(struct tt_epset *set, enum tt_ep_pin pin)
{
	if (__atomic_sub_fetch(&set->pins[pin], 1, __ATOMIC_SEQ_CST) == 0 &&
	    tt_unlikely(!__atomic_load_n(&set->names, __ATOMIC_SEQ_CST)))
		reclaim(set);
}

struct tt_epset *tt_epset_get(int epfd, enum tt_ep_pin pin)
{
	for (;;) {
		struct tt_epset *set = tt_epset_peek(epfd);

		if (!set)
			return NULL;
		__atomic_add_fetch(&set->pins[pin], 1, __ATOMIC_SEQ_CST);
		if (tt_likely(tt_epset_peek(epfd) == set))
			return set;
		/* Closed in between, perhaps in use as another set already: a pin too many for a moment hurts nobody. */
		tt_epset_put(set, pin);
	}
}

/* ---- life ---- */

static struct tt_epset *set_alloc(void)
{
	struct tt_epset *set;
	long p;

	if (!tt_lock_wait(&free_lock))
		return NULL;
	set = free_sets;
	if (set) {
		free_sets = set->free_next;
		memset((char *)set + offsetof(struct tt_epset, names), 0,
		    sizeof(*set) - offsetof(struct tt_epset, names));
		set->names = 1;
	}
	tt_unlock(&free_lock);
	if (set)
		return set;
	p = tt_raw6(SYS_mmap, 0, sizeof(*set), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p < 0 && p > -4096)
		return NULL;
	set = (struct tt_epset *)p;
	set->names = 1;
	return set;
}

static void name_set(int fd, struct tt_epset *set)
{
	if (set)
		tt_fd_note(fd);
	__atomic_store_n((struct tt_epset **)(void *)&tt_epsets[fd], set, __ATOMIC_SEQ_CST);
}

void tt_epoll_created(int epfd)
{
	struct tt_epset *set;

	tt_fd_vanish((unsigned int)epfd, (unsigned int)epfd);
	if ((unsigned int)epfd >= TT_EP_FD_MAX || tt_tun.disable)
		return;
	set = set_alloc();
	if (set)
		name_set(epfd, set);
}

void tt_epoll_dup(int from, int to)
{
	struct tt_epset *set = tt_epset_get(from, TT_EP_USE);
	uint32_t names;

	if (!set)
		return;
	names = __atomic_load_n(&set->names, __ATOMIC_SEQ_CST);
	while (names && !__atomic_compare_exchange_n(&set->names, &names, names + 1, false,
			    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		;
	if (names && (unsigned int)to < TT_EP_FD_MAX)
		name_set(to, set);
	else if (names)
		/* A name that we can't keep: whoever waits by it is not seen. */
		tt_epoll_make_native(from);
	tt_epset_put(set, TT_EP_USE);
}

void tt_epoll_vanish(int fd)
{
	struct tt_epset *set = tt_epset_get(fd, TT_EP_USE);

	if (!set)
		return;
	if (__atomic_load_n(&set->names, __ATOMIC_SEQ_CST) == 1 && tt_epset_lock(set)) {
		tt_epset_lamp_out(set, fd);
		tt_epset_unlock(set);
	}
	name_set(fd, NULL);
	if (__atomic_sub_fetch(&set->names, 1, __ATOMIC_SEQ_CST) == 0)
		tt_epset_empty(set);
	tt_epset_put(set, TT_EP_USE);
}

/* The set is watched by something that we don't control: no group is opened any more. */
void tt_epoll_make_native(int epfd)
{
	struct tt_epset *set = tt_epset_peek(epfd);
	uint64_t begin = 0;

	if (!set || set->watched)
		return;
	set = tt_epset_get(epfd, TT_EP_USE);
	if (!set)
		return;
	set->native = true; /* no change is deferred any more */
	tt_epset_settle(set, epfd);
	for (;;) {
		bool closed;

		if (!tt_epset_lock(set))
			break;
		closed = tt_epset_close(set);
		if (closed) {
			set->watched = true;
			tt_epset_lamp_update(set, epfd, false);
		}
		tt_epset_unlock(set);
		if (closed || !tt_ep_wait_turn(&begin))
			break;
	}
	tt_epset_put(set, TT_EP_USE);
}

void tt_epoll_passed(int fd)
{
	if (tt_epoll_is_set(fd))
		tt_epoll_make_native(fd);
}

/* ---- fork ---- */

static void sets_each(void (*fn)(struct tt_epset *set, int fd))
{
	int high = tt_min(tt_fd_high(), TT_EP_FD_MAX - 1);

	for (int fd = 0; fd <= high; fd++) {
		struct tt_epset *set = tt_epset_peek(fd);

		if (set)
			fn(set, fd);
	}
}

/* What the thread that forks has taken, and not the frame that it interrupted as a handler. Under the locks themselves. */
static bool held_regs;
static bool held_free;

static void hold(struct tt_epset *set, int fd)
{
	(void)fd;
	if (!set->held && tt_lock_wait(&set->lock)) /* held: a second name of the same set */
		set->held = true;
}

static void release(struct tt_epset *set, int fd)
{
	(void)fd;
	if (!set->held)
		return;
	set->held = false;
	tt_unlock(&set->lock);
}

void tt_epoll_settle_sets(void)
{
	sets_each(tt_epset_settle);
}

/* The child gets a copy of our memory: no other thread may be in the middle of a list. */
void tt_epoll_fork_before(void)
{
	bool regs;
	bool frees;

	tt_epoll_settle_sets();
	regs = tt_lock_wait(&tt_ep_regs_lock);
	frees = tt_lock_wait(&free_lock);
	held_regs = regs;
	held_free = frees;
	sets_each(hold);
}

void tt_epoll_fork_parent(void)
{
	bool regs = held_regs;

	sets_each(release);
	held_regs = false;
	if (held_free)
		tt_unlock(&free_lock);
	if (regs)
		tt_unlock(&tt_ep_regs_lock);
}

static void child_set(struct tt_epset *set, int fd)
{
	(void)fd;
	set->native = true;
	set->open = false;
	set->held = false;
	set->lock.tid = 0;
	set->links_count = 0;
	memset(set->pins, 0, sizeof(set->pins));
	if (set->lamp) { /* the parent takes it out of the set; this is our copy */
		(void)tt_raw_close(set->lamp - 1);
		set->lamp = 0;
	}
}

void tt_epoll_fork_child(void)
{
	tt_ep_lamps = 0;
	tt_ep_regs_lock.tid = 0;
	free_lock.tid = 0;
	sets_each(child_set);
}

/* ---- the lamp ---- */

static uint64_t cookie_of(int fd)
{
	uint64_t cookie = 0;
	socklen_t len = sizeof(cookie);

	if (tt_raw5(SYS_getsockopt, fd, SOL_SOCKET, SO_COOKIE, &cookie, &len) < 0)
		return 0;
	return cookie;
}

/* A socket of the local family can always be written to: ready without a byte having been sent. */
static void lamp_light(struct tt_epset *set, int epfd)
{
	struct epoll_event event = {
	    .events = EPOLLOUT,
	    .data.u64 = (uintptr_t)&tt_ep_lamp_word,
	};
	int fd;

	if (set->lamp)
		return;
	fd = (int)tt_raw3(SYS_socket, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return; /* no descriptor left: the sleeper learns of it with its next event */
	set->lamp_cookie = cookie_of(fd);
	set->lamp = fd + 1;
	__atomic_add_fetch(&tt_ep_lamps, 1, __ATOMIC_SEQ_CST);
	(void)tt_raw4(SYS_epoll_ctl, epfd, EPOLL_CTL_ADD, fd, &event);
}

void tt_epset_lamp_out(struct tt_epset *set, int epfd)
{
	struct epoll_event event = {0};
	int fd = set->lamp - 1;

	if (fd < 0)
		return;
	set->lamp = 0;
	__atomic_sub_fetch(&tt_ep_lamps, 1, __ATOMIC_SEQ_CST);
	/* The program may have closed it by a number it guessed, and the number may be something else now (rule 19). */
	if (!set->lamp_cookie || cookie_of(fd) != set->lamp_cookie)
		return;
	(void)tt_raw4(SYS_epoll_ctl, epfd, EPOLL_CTL_DEL, fd, &event);
	(void)tt_raw_close(fd);
}

static bool any_due(const struct tt_epset *set)
{
	const struct tt_epreg *reg = set->ready;

	for (uint32_t i = 0; i < set->ready_count; i++, reg = reg->next)
		if (tt_epreg_due(reg))
			return true;
	return false;
}

void tt_epset_lamp_update(struct tt_epset *set, int epfd, bool wake)
{
	bool need = (wake && __atomic_load_n(&set->pins[TT_EP_SLEEP], __ATOMIC_SEQ_CST)) || set->watched;

	if (need && any_due(set))
		lamp_light(set, epfd);
	else if (set->lamp && !wake)
		tt_epset_lamp_out(set, epfd);
}

static void lamp_look(struct tt_epset *set, int fd)
{
	if (!set->watched || !set->lamp || !tt_epset_lock(set))
		return;
	tt_epset_lamp_update(set, fd, false);
	tt_epset_unlock(set);
}

void tt_epoll_lamps_look(void)
{
	if (tt_unlikely(__atomic_load_n(&tt_ep_lamps, __ATOMIC_RELAXED)))
		sets_each(lamp_look);
}

/* ---- the list ---- */

void tt_epset_ready_add(struct tt_epset *set, struct tt_epreg *reg)
{
	if (reg->ready)
		return;
	reg->ready = true;
	__atomic_store_n(&set->ready_count, set->ready_count + 1, __ATOMIC_SEQ_CST);
	if (!set->ready) {
		reg->next = reg->prev = reg;
		set->ready = reg;
		return;
	}
	reg->next = set->ready;
	reg->prev = set->ready->prev;
	reg->prev->next = reg;
	set->ready->prev = reg;
}

void tt_epset_ready_del(struct tt_epset *set, struct tt_epreg *reg)
{
	if (!reg->ready)
		return;
	reg->ready = false;
	tt_store_relaxed(&set->ready_count, set->ready_count - 1);
	if (reg->next == reg) {
		set->ready = NULL;
		return;
	}
	reg->prev->next = reg->next;
	reg->next->prev = reg->prev;
	if (set->ready == reg)
		set->ready = reg->next;
}

bool tt_ep_ring_readable(const struct tt_sock *s)
{
	const struct tt_dir *dir;

	if (s->dgram)
		return tt_dgram_readable(s);
	dir = tt_load_acquire(&s->rx.dir);
	return dir && tt_load_acquire(&dir->tail) != s->rx.head;
}

bool tt_epreg_due(const struct tt_epreg *reg)
{
	return (reg->events & (EPOLLIN | EPOLLRDNORM)) && (!(reg->events & EPOLLET) || reg->edge) &&
	    tt_ep_ring_readable(reg->s);
}
