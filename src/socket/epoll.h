/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * epoll.h - what the rest of the room needs to know of epoll sets. The design note is at the head of epoll_set.h.
 */
#ifndef TT_SOCKET_EPOLL_H
#define TT_SOCKET_EPOLL_H

#include "socket/sock.h"

/* Sets on descriptors at or above this number stay with the kernel. */
#define TT_EP_FD_MAX 65536

bool tt_epoll_is_set(int fd);
void tt_epoll_dup(int from, int to);
void tt_epoll_vanish(int fd);

/* The socket can be read by a new path, or is read by calls that we see: the set looks at it in its next wait. */
void tt_epoll_attached(struct tt_sock *s);
/*
 * A receive has taken kernel bytes: the moment to take the socket into its set's group. A program that is never back in its wait
 * before the next message has come would else stay with the kernel for ever.
 */
void tt_epoll_received(struct tt_sock *s);
/* dir, one of the socket's receiving directions: false while only a set's own wait may open its lease. */
bool tt_epoll_may_open(const struct tt_sock *s, const struct tt_slot_ref *ref);
/*
 * Somebody is about to sleep on the socket itself: out of its set's group, back to its own word, which is closed. The set
 * takes it in again in a later wait, when nobody sleeps on it. Takes the link lock and the set's lock. False: a publisher is
 * inside, try again.
 */
tt_must_check bool tt_epoll_unjoin(struct tt_sock *s);
/*
 * For one look at the kernel that does not wait: holds the group of a governed socket closed until tt_epoll_release().
 * NULL: not governed. *busy: a publisher is inside, try again.
 */
struct tt_epset *tt_epoll_hold(struct tt_sock *s, bool *busy);
void tt_epoll_release(struct tt_epset *set, const struct tt_sock *s);
/* It lets go of its rings for good: out of its group. */
void tt_epoll_detaching(struct tt_sock *s);
/* fd, one of the socket's descriptors, closes. */
void tt_epoll_fd_gone(struct tt_sock *s, int fd);
void tt_epoll_sock_gone(struct tt_sock *s);
/* The set is watched by something that we don't control (nested, polled, passed on): no lease in it from now on. */
void tt_epoll_make_native(int epfd);
/* Before the kernel is asked about sets: do those that show unread ring bytes still hold any? */
void tt_epoll_lamps_look(void);
/* How many waits of the kernel have answered in the socket's set: recv asks the kernel once after each. */
uint32_t tt_epoll_epoch(const struct tt_sock *s);
/* A change of its registration that the kernel has not been told of is told now (epoll_defer.c). */
void tt_epoll_settle_sock(const struct tt_sock *s);
void tt_epoll_settle_sets(void); /* the same for every set: before fork and exec */
void tt_epoll_fork_before(void);
void tt_epoll_fork_parent(void);
void tt_epoll_fork_child(void);

#endif
