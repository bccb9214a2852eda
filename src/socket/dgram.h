/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dgram.h - UDP over shared memory: one ring per sender process and receiving socket. Design note in dgram.c.
 */
#ifndef TT_SOCKET_DGRAM_H
#define TT_SOCKET_DGRAM_H

#include "socket/sock.h"

/* Limits of one socket; more flows go by the kernel. */
#define TT_DGRAM_RX_MAX 64u
#define TT_DGRAM_TX_MAX 256u

tt_must_check ssize_t tt_dgram_recv(struct tt_sock *s, int fd, struct msghdr *msg, int flags);
tt_must_check ssize_t tt_dgram_send(struct tt_sock *s, int fd, const struct msghdr *msg, int flags);
/* An offer for one of our sockets has come. Under the link lock. */
void tt_dgram_offered(struct tt_sock *s, const struct tt_offer *offer, int pid);
/* Addresses or options changed: flows end, and are proved anew. What lies in the rings can still be read. */
void tt_dgram_moved(struct tt_sock *s);
/* fork: before it, and after it on either side. From then on the kernel receives (same-host.md rule 20). */
void tt_dgram_fork_before(struct tt_sock *s);
void tt_dgram_forked(struct tt_sock *s, bool child);
/* The other holders have gone: flows may be offered again. */
void tt_dgram_alone(struct tt_sock *s);

/* Receiving flows, for epoll: i below lanes; false: that place is empty. */
uint32_t tt_dgram_lanes(const struct tt_sock *s);
bool tt_dgram_lane(struct tt_sock *s, uint32_t i, struct tt_dir **dir, struct tt_slot_ref **ref);

/* The receiver's side of waits, as lease.h has it for streams. */
bool tt_dgram_readable(const struct tt_sock *s);
int64_t tt_dgram_spin_budget(struct tt_sock *s);
void tt_dgram_open(struct tt_sock *s);
/* One try at all flows; false: a publisher is inside somewhere. */
tt_must_check bool tt_dgram_close_try(struct tt_sock *s);
tt_must_check bool tt_dgram_close_wait(struct tt_sock *s, int fd);
/*
 * Before a sleep: what went into the ring of a receiver that is gone would, by the kernel, have raised an error here by
 * now. Also for a socket that has never received.
 */
void tt_dgram_sleep_check(struct tt_sock *s, int fd);
/* The same in a call that doesn't sleep, every 10 ms at most. */
void tt_dgram_look_check(struct tt_sock *s, int fd);
/* The same for all that have sent of late, before a wait in a set. */
void tt_dgram_noted_check(bool sleeps);
/* Sends by calls that are not counted are to follow: from now on all goes by the kernel, behind what the rings hold. */
void tt_dgram_tx_stop(struct tt_sock *s, enum tt_reason reason);
/* Length of the datagram that the next call gets, for FIONREAD; -1: it is the kernel's, or there is none. */
ssize_t tt_dgram_next_bytes(struct tt_sock *s, int fd);

#endif
