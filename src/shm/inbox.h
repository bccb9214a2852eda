/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * inbox.h - how one process hands another an offer: a message and, at most, one descriptor.
 *
 * Each process that has published a socket listens on an abstract SEQPACKET socket with a random name. An offer is one
 * connection that carries one message. Both ends check the other's user by SO_PEERCRED before anything else is looked
 * at. The message is copied by the kernel, so what was checked can't change afterwards.
 *
 * The listener is the only descriptor that stays open between calls. It sits on a high number, and because unseen code can
 * close it and get the number again, each use first checks that it still is our socket (SO_COOKIE).
 */
#ifndef TT_SHM_INBOX_H
#define TT_SHM_INBOX_H

#include "shm/hints.h"
#include "shm/ident.h"
#include "shm/segment.h"

#define TT_OFFER_MAGIC 0x74756f66u /* "tuof" */

struct tt_offer {
	uint32_t magic;
	uint32_t version; /* TT_SHM_VERSION: another one is refused */
	uint8_t from[TT_INBOX_ID_BYTES];
	struct tt_seg_geo geo;
	uint32_t slot;	   /* index inside the segment */
	uint32_t ticket;   /* of this offer of the slot */
	uint32_t protocol; /* IPPROTO_TCP or IPPROTO_UDP */
	uint64_t from_cookie;
	uint64_t to_cookie;
	uint64_t netns;
	struct tt_tuple flow; /* UDP: from (local) the sending socket to (remote) the receiving one */
};

/* Opens the inbox of this process if it is not open (again after fork). Not thread-safe: under the link lock. */
tt_must_check int tt_inbox_open(void);
/* The id to publish; valid after a successful open. */
const uint8_t *tt_inbox_id(void);
/* The listener's number, or -1: programs that close everything should spare it. */
int tt_inbox_fd(void);
/* False once somebody has closed it: the number may be another file's. */
bool tt_inbox_is_ours(void);
/* Away from its number, which is about to be given to another file. Under the link lock. */
void tt_inbox_move(void);
/* After fork: the child forgets the parent's inbox. */
void tt_inbox_forget(void);

/*
 * Takes one offer if there is one: 0 and *fd (or -1) which the caller closes; -EAGAIN when there is none. Messages of
 * other users and malformed ones are dropped. *pid is the sender as the kernel knows it.
 */
tt_must_check int tt_inbox_take(struct tt_offer *offer, int *fd, int *pid);

/* Sends an offer to the process whose inbox is named. -EACCES: another user; -ECONNREFUSED: that process is gone. */
tt_must_check int tt_inbox_send(const uint8_t to[TT_INBOX_ID_BYTES], const struct tt_offer *offer,
    int fd, int *pid);
/* True while the inbox exists. */
bool tt_inbox_alive(const uint8_t id[TT_INBOX_ID_BYTES]);

#endif
