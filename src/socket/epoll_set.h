/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * epoll_set.h - private to the epoll files: a set that may hold accelerated sockets.
 *
 * The kernel's set holds every descriptor just as the program registered it, so that whoever waits for it by other means
 * sees what the kernel sees. Beside it we keep, for each link whose connections are in the set, one group: a sleep word
 * for all of them and a bitmap in which the sender marks the connections it has published to. A wait takes the marks, looks
 * at those rings, spins, and before it sleeps in the kernel closes the groups' words: from then on the senders use
 * the kernel, whose message wakes us as the program registered it (same-host.md rules 3, 4, 9, 11).
 *
 *	epoll_set.c	life of sets, and the lamp
 *	epoll_group.c	which sockets obey a set's groups; opening and closing them
 *	epoll_reg.c	registrations: epoll_ctl, sockets that close
 *	epoll_defer.c	changes of registrations that the kernel is told of later
 *	epoll_wait.c	waiting
 *
 * A socket is governed by its set's group only while it has one registration, without ONESHOT or EXCLUSIVE. Else its own
 * word holds, which is closed while it has any. What lies unread in its ring at that moment is still reported, by every
 * registration it has, until it is read. A set that is nested, polled, waited for by two threads at once or shared by fork
 * opens nothing.
 *
 * The lamp. Bytes in a ring are nothing to the kernel, so a thread asleep in the set, or somebody who polls it, would not learn of
 * a socket that enters the set with bytes unread. Then a descriptor of ours that is always ready is put into the kernel's
 * set, and taken out by whoever wakes from it (sleepers) or when the rings are empty (sets that are polled). Its event
 * never reaches the program.
 *
 * Locks, in the order of taking: link lock, registrations' lock, set lock. None is held in a call that can block: what
 * has to wait for a publisher lets go of all, naps, and begins again.
 *
 * Memory of sets is never given back, so a stale pointer can be read. Who uses a set pins it, then looks again whether the
 * descriptor still names it; a set is used anew when it has neither names nor pins.
 */
#ifndef TT_SOCKET_EPOLL_SET_H
#define TT_SOCKET_EPOLL_SET_H

#include "socket/epoll.h"

#define TT_EP_LINKS_MAX 256u

enum tt_ep_pin {
	TT_EP_USE,   /* registers, or changes names */
	TT_EP_WAIT,  /* in a wait */
	TT_EP_SLEEP, /* asleep in the kernel, or about to be: no group is opened */
	TT_EP_PINS,
};

struct tt_ep_link {
	struct tt_link *link;
	struct tt_group *group;
	uint32_t index;	  /* of the group in the link */
	uint32_t members; /* receiving directions that it governs */
};

struct tt_epset {
	uint32_t pins[TT_EP_PINS]; /* outlive each use of this memory */
	struct tt_lock lock;
	/* What follows is zero in a new set. */
	uint32_t names; /* descriptors of this process; 0: closed */
	bool unused;	/* on the free list */
	bool held;	/* by the thread that forks */
	bool native;	/* opens nothing any more */
	bool watched;	/* nested or polled: the lamp tells of unread ring bytes */
	bool open;	/* its groups are open, as far as we know */
	bool dgrams;	  /* a flow of datagrams has joined a group */
	bool join_wanted; /* some socket on the list may join a group */
	bool kernel_turn; /* with room for one event: whose turn it is */
	uint32_t epoch;	  /* waits of the kernel that had an answer */
	uint32_t spin_ns;
	uint32_t spin_skipped;
	uint64_t look;	       /* when the kernel is to be asked again; 0: at once */
	bool kernel_busy;      /* its last answer was not empty: ask first next time */
	struct tt_sock *last;  /* the socket last reported: whose processor its sender runs on */
	struct tt_epreg *ready; /* NULL when empty */
	uint32_t ready_count;
	struct tt_epreg *stale; /* the kernel does not know their last change yet */
	int lamp; /* descriptor + 1; 0: out */
	uint64_t lamp_cookie;
	uint32_t links_count;
	struct tt_ep_link links[TT_EP_LINKS_MAX];
	struct tt_epset *free_next;
};

/* ---- epoll_set.c ---- */

extern struct tt_epset *_Atomic tt_epsets[TT_EP_FD_MAX];

/* May be read, not changed: not pinned. */
static inline struct tt_epset *tt_epset_peek(int epfd)
{
	if (tt_unlikely((unsigned int)epfd >= TT_EP_FD_MAX))
		return NULL;
	return __atomic_load_n((struct tt_epset **)(void *)&tt_epsets[epfd], __ATOMIC_ACQUIRE);
}

/* The set of a descriptor, pinned; NULL: none. */
struct tt_epset *tt_epset_get(int epfd, enum tt_ep_pin pin);
void tt_epset_put(struct tt_epset *set, enum tt_ep_pin pin);

/* False: this very thread holds it, in the frame that a signal interrupted. */
tt_must_check bool tt_epset_lock(struct tt_epset *set);
static inline void tt_epset_unlock(struct tt_epset *set)
{
	tt_unlock(&set->lock);
}

/* Sets whose lamp is lit; and the word by which its event is known. */
extern uint32_t tt_ep_lamps;
extern const char tt_ep_lamp_word;
/* Set lock held; epfd names the set. Lit while somebody has to be told of ring bytes, else out. */
void tt_epset_lamp_update(struct tt_epset *set, int epfd, bool wake);
void tt_epset_lamp_out(struct tt_epset *set, int epfd);

/* ---- the list of registrations to look at; set lock held ---- */

void tt_epset_ready_add(struct tt_epset *set, struct tt_epreg *reg);
void tt_epset_ready_del(struct tt_epset *set, struct tt_epreg *reg);
bool tt_ep_ring_readable(const struct tt_sock *s);
/* The ring has something that this registration asks for and has not been told of. */
bool tt_epreg_due(const struct tt_epreg *reg);

/* What a wait reports of it without the kernel: what lies in its ring, and room to send where there is sure to be some. */
uint32_t tt_epreg_events(const struct tt_epreg *reg);

/* ---- epoll_defer.c ---- */

/* True: done, for now without the kernel. */
bool tt_epset_defer(int epfd, int op, int fd, const struct epoll_event *event);
/* Registration and set lock held: off the list of what the kernel is to be told. */
void tt_epset_stale_del(struct tt_epset *set, struct tt_epreg *reg);
/* Before the kernel is asked about the set, or somebody else can ask: tells it all. No lock held. */
void tt_epset_settle_all(struct tt_epset *set, int epfd);
static inline void tt_epset_settle(struct tt_epset *set, int epfd)
{
	if (tt_unlikely(tt_load_relaxed(&set->stale) != NULL))
		tt_epset_settle_all(set, epfd);
}
/* A send would not block, whatever the kernel says. */
bool tt_ep_writable(const struct tt_sock *s);

/* ---- epoll_group.c ---- */

/* One registration, of a kind that a group can serve, and everything else speaks for it. Set lock held. */
bool tt_ep_waits_to_join(struct tt_sock *s);
/* Link lock and set lock held. */
void tt_ep_join(struct tt_epset *set, struct tt_sock *s);
/*
 * Out of the groups, back to the own word, which is closed. Link lock and set lock held. False: a publisher is inside; let
 * go of the locks, wait a little, again. force: without waiting for publishers.
 */
tt_must_check bool tt_ep_leave(struct tt_epset *set, struct tt_sock *s, bool force);
/* The same with all locks taken here and as much waiting as it takes; s->ep is NULL afterwards. dying: don't wait. */
void tt_ep_ungovern(struct tt_sock *s, bool dying);
void tt_epset_open(struct tt_epset *set);
/* False: a publisher is inside one of them. */
tt_must_check bool tt_epset_close(struct tt_epset *set);
/* A turn of waiting for a publisher: yields first, then naps. *begin is 0 before the first. False: it has been too long. */
tt_must_check bool tt_ep_wait_turn(uint64_t *begin);
#define TT_EP_NATIVE_EVENTS (EPOLLONESHOT | EPOLLEXCLUSIVE)

/* ---- epoll_reg.c ---- */

extern struct tt_lock tt_ep_regs_lock;
/* Its end; registrations' lock held. */
void tt_ep_reg_end(struct tt_epreg *reg);
/* All registrations of this set are gone; nobody can reach it by a descriptor any more. */
void tt_epset_empty(struct tt_epset *set);

#endif
