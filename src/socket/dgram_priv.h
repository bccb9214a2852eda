/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dgram_priv.h - what dgram.c (life, words), dgram_rx.c (receiving), dgram_flow.c, dgram_gone.c and dgram_tx.c (sending) share. Design note in dgram.c.
 *
 * A state belongs to one socket from its first datagram to its close. Its memory is never given back, so that a thread that
 * still looks at it finds something harmless; s->dgram is read anew under the lock that guards what is used: rx[] and
 * the receiver's fields by rx_lock, tx[] and peer by tx_lock. Without a lock only readiness is looked at.
 */
#ifndef TT_SOCKET_DGRAM_PRIV_H
#define TT_SOCKET_DGRAM_PRIV_H

#include <string.h>

#include "socket/dgram.h"
#include "socket/spin.h"

#define TT_DGRAM_MAX 65507u
/* Bits of addresses that datagrams came from by the kernel: see tt_dgram_heard(). */
#define TT_HEARD_SLOTS 256u
/* The kernel is asked so often whether a receiver is still the one. */
#define TT_VERIFY_NS 10000000
/* tx[] is a table of so many places for each hash value. */
#define TT_TX_WAYS 4u
/*
 * A lease is opened when it is known what the kernel still holds of the flow. Under a flood that is never known: then after
 * so many datagrams.
 */
#define TT_UNSYNCED_MAX 512u

/* ENDED: by the kernel from now on, but R is told of it until it has emptied the ring. */
enum tt_flow_state { TT_FLOW_FREE, TT_FLOW_KERNEL, TT_FLOW_OFFERED, TT_FLOW_ENDED, TT_FLOW_NEVER };

struct tt_tx_flow {
	uint8_t state; /* enum tt_flow_state */
	struct tt_tuple tuple; /* us -> destination */
	struct tt_slot_ref ref;
	struct tt_dir *dir; /* not NULL while OFFERED or ENDED */
	uint8_t *ring;
	uint64_t size;
	uint64_t tail;
	uint64_t head_seen;
	uint64_t last;	/* where the newest record begins */
	uint64_t stuck; /* R's head when waiting for it was in vain; UINT64_MAX: never */
	uint64_t used_tsc;
	uint64_t offered_tsc; /* or ended */
	uint64_t verified_tsc;
	uint64_t receiver; /* cookie */
	uint32_t msgs;
	uint32_t probe_at;
	uint32_t kernel_sent; /* datagrams by the kernel since the offer, and one for all before it */
	uint32_t untold_seen; /* of the state's untold */
};

struct tt_rx_flow {
	bool in_use;
	bool proven;  /* a datagram of this source has come by the kernel */
	bool spoilt;  /* its sender wrote nonsense: never looked at again */
	bool open;    /* its own word is open, as far as we know: S's line need not be read to see it */
	bool synced;  /* kernel_taken means something */
	bool doubt;   /* the kernel has dropped datagrams since, perhaps of this one */
	uint32_t kernel_taken; /* datagrams of this source taken from the kernel, in S's count */
	uint32_t kernel_seen;  /* of dir->kpub, at the last question to the kernel */
	uint32_t drained;      /* taken from the kernel on behalf of the record at head, or before the lease was open */
	struct tt_slot_ref ref;
	struct tt_dir *dir;
	uint8_t *ring;
	uint64_t size;
	uint64_t head;
	uint64_t head_told; /* what dir->head says */
	uint64_t tail_seen;
	uint64_t beside_pos; /* of the record that beside holds */
	uint8_t beside[TT_INLINE_BYTES];
	socklen_t source_len;
	struct sockaddr_in6 source; /* as this socket's family shows it */
};

/* What a peek, or FIONREAD, has shown is what the next call gets. */
#define TT_CHOSEN_NONE 0u
#define TT_CHOSEN_KERNEL UINT32_MAX /* else 1 + index in rx[] */

struct tt_dgram_state {
	/* All before heard is 0 in a fresh state. Receiver: */
	bool counted; /* in tt_attached_count */
	bool heard_any;
	uint32_t rx_high;
	uint32_t rx_count;
	uint32_t chosen;
	uint32_t turn; /* records taken since the kernel was last asked what else it has */
	uint32_t eagain_run;
	uint32_t drops; /* of the kernel's, for this socket, when last asked */
	uint64_t look_tsc;
	uint64_t swept_tsc;
	/* Sender: */
	uint32_t offered; /* flows in state OFFERED or ENDED */
	uint32_t untold;  /* kernel sends that belong to no flow that we know of */
	struct tt_tx_flow *tx_last; /* most recently used, or NULL */
	struct tt_tuple peer; /* connected, or family 0 */
	uint64_t gone_tsc; /* tt_dgram_look_check() */
	uint64_t tx_used[TT_DGRAM_TX_MAX / 64u]; /* places of tx[] that are not FREE */
	struct tt_dgram_state *free_next;
	uint64_t heard[TT_HEARD_SLOTS];
	struct tt_rx_flow rx[TT_DGRAM_RX_MAX];
	struct tt_tx_flow tx[TT_DGRAM_TX_MAX];
};

static inline struct tt_dgram_state *tt_dgram_get(const struct tt_sock *s)
{
	return __atomic_load_n(&s->dgram, __ATOMIC_ACQUIRE);
}

static inline bool tt_rx_live(const struct tt_rx_flow *f)
{
	return tt_load_acquire(&f->in_use) && !f->spoilt;
}

/* So much payload also fits beside tail (layout.h), behind its header. */
#define TT_DGRAM_BESIDE (TT_INLINE_BYTES - (uint32_t)sizeof(struct tt_dgram_head))

static inline uint64_t tt_record_bytes(uint32_t len)
{
	return (sizeof(struct tt_dgram_head) + (uint64_t)len + TT_DGRAM_ALIGN - 1) & ~(uint64_t)(TT_DGRAM_ALIGN - 1);
}

static inline bool tt_same_source(const struct sockaddr_in6 *a, const struct sockaddr_in6 *b)
{
	if (a->sin6_family != b->sin6_family || a->sin6_port != b->sin6_port)
		return false;
	if (a->sin6_family == AF_INET)
		return memcmp(&((const struct sockaddr_in *)(const void *)a)->sin_addr,
			   &((const struct sockaddr_in *)(const void *)b)->sin_addr, 4) == 0;
	return memcmp(&a->sin6_addr, &b->sin6_addr, 16) == 0 && a->sin6_scope_id == b->sin6_scope_id;
}

static inline uint32_t tt_dgram_turn(const struct tt_sock *s)
{
	const struct tt_dgram_state *d = tt_dgram_get(s);

	return d ? tt_load_relaxed(&d->turn) : 0;
}

/* What tt_sock_error_set() left, as a negative errno value; 0: another thread has it. */
static inline int tt_dgram_pending_take(struct tt_sock *s)
{
	return -__atomic_exchange_n(&s->pending_err, 0, __ATOMIC_RELAXED);
}

/* dgram.c */
/* The state, made when there is none; NULL: no memory. */
struct tt_dgram_state *tt_dgram_state(struct tt_sock *s);
void tt_addr_make(struct sockaddr_in6 *out, socklen_t *len, int domain, int family, const uint8_t ip[16],
    uint16_t port, uint32_t scope);
/* A datagram from addr was taken from the kernel. */
void tt_dgram_heard(struct tt_sock *s, const struct sockaddr_in6 *addr, socklen_t len);

/* dgram_rx.c */
void tt_rx_head_tell(struct tt_rx_flow *f);
/*
 * Before an open lease is closed: all that S sent by the kernel before what lies in the ring must have been taken, so that
 * what S sends by the kernel from then on can't be mistaken for it. False: the kernel has something to be taken.
 */
tt_must_check bool tt_rx_settle(struct tt_sock *s, int fd);
/* The word that the flow obeys now. */
static inline struct tt_word *tt_rx_flow_word(const struct tt_rx_flow *f)
{
	uint32_t gov = tt_load_relaxed(&f->ref.gov);

	if (gov == 0)
		return &f->dir->word;
	return &tt_link_group(f->ref.link, tt_link_rx(f->ref.link), gov - 1)->word;
}

/* dgram_flow.c; under tx_lock except for tt_flow_release() */
bool tt_same_target(const struct tt_tuple *a, const struct tt_tuple *b);
/* The flow to where msg goes; NULL: kernel. What is taken away from a flow that was idle, *ended gets. */
struct tt_tx_flow *tt_flow_find(struct tt_sock *s, struct tt_dgram_state *d, const struct msghdr *msg,
    struct tt_slot_ref *ended);
/* The slot goes back. With no lock of the socket held; threads that are still in a kernel send keep it to the end. */
void tt_flow_release(struct tt_sock *s, const struct tt_slot_ref *ref);
/* The flow's next datagrams look anew; the caller releases *ref later. _if: when R has emptied the ring, or long after the end. */
void tt_flow_let_go(struct tt_dgram_state *d, struct tt_tx_flow *f, struct tt_slot_ref *ref);
void tt_flow_let_go_if(struct tt_dgram_state *d, struct tt_tx_flow *f, struct tt_slot_ref *ref);
/* No more by the ring. */
void tt_flow_end(struct tt_dgram_state *d, struct tt_tx_flow *f, struct tt_slot_ref *ref);
/* Looks for the receiver, and makes it an offer. */
void tt_flow_probe(struct tt_sock *s, struct tt_dgram_state *d, int fd, struct tt_tx_flow *f);
/* Ends all flows; at the close they are let go at once. Takes tx_lock, and the link lock. */
void tt_tx_end_all(struct tt_sock *s, bool closing);
/* fork child: the slots are the parent's. */
void tt_tx_forget_all(struct tt_dgram_state *d);

/* dgram_gone.c; under tx_lock */
/* Asks the kernel whether the receiver is still the one. False: the flow has ended, *ended is to be released. */
tt_must_check bool tt_flow_verify(struct tt_sock *s, struct tt_dgram_state *d, int fd, struct tt_tx_flow *f,
    struct tt_slot_ref *ended);
/* A connected socket has sent by a ring: tt_dgram_noted_check() looks at it. */
void tt_flow_note(struct tt_sock *s);

#endif
