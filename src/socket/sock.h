/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sock.h - private to the socket room: one accelerated socket as this process sees it.
 *
 * How a stream keeps its order over two paths is told in stream.h, how the ends find each other in attach.c, how waits
 * open and close leases in lease.h.
 *
 * Locks. tx_lock and rx_lock guard the private views tx and rx, and the memory behind them: whoever holds
 * one may touch that direction of the slot, and detaching takes both. They are never held while spinning, asleep or in a
 * kernel call that can block. A signal handler may interrupt their holder: the same thread then finds its own id in the
 * lock and takes the kernel's path (send) or waits its turn outside (receive answers EAGAIN or EINTR).
 */
#ifndef TT_SOCKET_SOCK_H
#define TT_SOCKET_SOCK_H

#include "base/base.h"
#include "base/tid.h"
#include "shm/ident.h"
#include "shm/link.h"
#include "shm/word.h"
#include "socket/socket.h"
#include "socket/statpage.h"
#include "socket/sys.h"
#include "socket/tunables.h"

struct tt_epset;

enum tt_attach {
	TT_ATTACH_NONE,	   /* kernel only so far */
	TT_ATTACH_OFFERED, /* our offer is out; what we send may already go by the ring when R opens */
	TT_ATTACH_DONE,	   /* both directions live */
	TT_ATTACH_NEVER,   /* kernel for good; stat->reason says why */
};

enum tt_role { TT_ROLE_NONE, TT_ROLE_CLIENT, TT_ROLE_SERVER, TT_ROLE_LISTENER };

struct tt_lock {
	int tid; /* 0 free */
};

/* The sender's private view of a direction. */
struct tt_tx {
	struct tt_dir *dir; /* NULL: not attached */
	uint8_t *ring;
	uint64_t size;
	uint64_t tail;	    /* ours: dir->tail is a copy for R */
	uint64_t head_seen; /* R's head when last looked */
	uint64_t look_tsc;  /* time of the last look at the lifeline */
	uint32_t cpu;	    /* as last told to R */
	uint64_t stuck;	     /* R's position when it was waited for in vain */
	uint32_t waits_vain; /* in a row: R was waited for, and took too little, or nothing */
	uint32_t bells_lost; /* in a row: R, woken by a first piece, did not open its lease */
	/*
	 * kernel_gen counts kernel sends that have begun; ring_gen is its value at the last time the ring was found usable. While
	 * they differ the last bytes went by the kernel, and the ring may be used again only when it is empty.
	 */
	uint32_t kernel_gen;
	uint32_t ring_gen;
	bool gate_lost;	    /* R was in the midst of taking bytes back for too long: not waited for again */
	bool kernel_only;   /* shut down, peer's FIN seen, MSG_OOB, fork: no ring for good */
	bool last;	    /* by what the program or the peer did: shut down, FIN, MSG_OOB */
};

struct tt_rx {
	struct tt_dir *dir;
	uint8_t *ring;
	uint64_t size;
	uint64_t head;
	uint64_t kcons;	    /* kernel bytes taken by this process */
	bool kernel_counted; /* FIONREAD has shown the program bytes of the kernel */
	bool kernel_event;  /* a wait reported something of the kernel that no call has taken yet */
	bool open;	    /* the own word is open, as far as we know: S's line need not be read to see it */
	bool counted;	    /* kcons was taken from the kernel */
	bool peeked;	    /* the last call was a peek */
	bool polled;	    /* the program waits for it by poll or select */
	bool kernel_only;   /* never open again */
	uint64_t busy_tsc;  /* since when a publisher has been inside, at each try to close; 0: none */
	uint64_t behind_tsc; /* since when kernel bytes that come before the ring's have not come; 0: they have */
	uint32_t eagain_run; /* EAGAIN answers in a row */
};

/* One registration of a socket's descriptor in an epoll set of ours. */
struct tt_epreg {
	struct tt_epset *set; /* NULL: unused */
	struct tt_sock *s;
	struct tt_epreg *of_sock; /* the next one of the same socket */
	/* Under the set's lock. */
	struct tt_epreg *next; /* the set's list of what to look at, circular */
	struct tt_epreg *prev;
	uint64_t data;
	uint32_t events;
	int fd;
	struct tt_epreg *stale_next;
	bool stale; /* the kernel has yet to be told of the last change (epoll_defer.c) */
	bool gone;  /* that change is EPOLL_CTL_DEL; events is 0 */
	bool ready; /* on that list */
	bool edge;  /* something arrived since it was last reported */
};

struct tt_sock {
	int fd;		/* one descriptor that refers to it */
	uint32_t refs;	/* descriptors of this process; stays where it is: what lies behind is cleared for each use */
	struct tt_share_cell *share; /* processes that hold it since a fork (share.c); NULL: this one alone */
	uint64_t heir_nonce; /* came through exec, and the family before it is not known to have let go (heir.c); 0: it has */
	uint32_t fork_epoch; /* the last fork that it was counted for */
	uint16_t domain;
	uint16_t type;
	uint8_t role;	/* enum tt_role */
	uint8_t attach; /* enum tt_attach */
	bool nonblock;
	bool foreign;	/* fork: the slot belongs to the parent; leftovers may be read, nothing else */
	bool shared;	/* attached, and another process held, or holds, the descriptor (fork, passing) */
	uint8_t forked;	/* TT_FORKED_*: directions that wait for the other holders to go */
	bool exec_keeps; /* during exec: a descriptor without close-on-exec */
	bool given;	/* a process that is in no count may hold it: passed, or inherited by a spawned program */
	bool barred;	/* kernel only by what the program did with it: the next program would not know */
	bool standard;	/* is, or was, at descriptor 1 or 2 */
	bool recount;	/* others have read it or written to it: the counts at the attach are the kernel's */
	uint64_t heir_wrote; /* during exec: the testament that was written for it */
	bool published;
	bool searching; /* a thread looks for the other end */
	bool tuple_known;
	bool rx_seen;	/* the program reads it by calls that we see: a lease may be granted */
	bool want_bulk;
	int pending_err; /* SO_ERROR, raised by us */
	bool hostile;	/* the peer wrote nonsense: ECONNRESET from now on */
	/* The program's values, answered from here since the first attach: at the lifeline nothing is ever held back (rule 10). */
	bool nodelay;
	bool cork;
	bool push_own;
	struct tt_lock tx_lock;
	struct tt_lock rx_lock;
	struct tt_tx tx;
	struct tt_rx rx;
	struct tt_slot_ref ref;
	struct tt_stat_sock *stat;
	/* Threads asleep in the kernel on this descriptor: while any is, no lease is open. */
	uint32_t sleepers;
	/* Threads inside a kernel send that they have told R of: the slot stays until they are back. */
	uint32_t inside;
	/* Kernel sends under way that began before the attach, so R has not been told. Under tx_lock. */
	uint32_t native_sends;
	int64_t rcvtimeo_ns; /* 0: none */
	uint32_t spin_ns;    /* adapted budget of the profile "balanced" */
	uint32_t spin_skipped;
	/* Finding the other end. */
	uint32_t msgs;	     /* messages by the kernel before attaching */
	uint32_t probe_at;   /* look for the peer when msgs reaches this, */
	uint64_t probe_bytes; /* or kernel_bytes this */
	uint64_t kernel_bytes;
	uint64_t cookie;
	uint64_t netns;
	uint64_t peer_cookie;
	struct tt_tuple tuple;
	struct tt_sock *hash_next;
	/* epoll; see epoll_set.h. */
	struct tt_epset *ep;	 /* the one set that may govern its lease; written under the registrations' and the set's lock */
	struct tt_epreg *ep_reg; /* its registration there, NULL after EPOLL_CTL_DEL; written under the same locks */
	struct tt_epreg *ep_regs; /* all registrations. Under the registrations' lock */
	struct tt_epreg ep_first; /* memory of the common, single one */
	uint32_t ep_sets;	 /* how many; while not 0, only a set's wait opens the lease */
	uint32_t ep_epoch;	 /* the set's epoch when the kernel was last asked */
	struct tt_dgram_state *dgram;
	uint32_t dgram_sent; /* datagrams sent before there was a state */
	struct tt_sock *free_next;
};

/* Sockets of this process that are attached: waits go straight to the kernel while it is 0. */
extern uint32_t tt_attached_count;
/* Sockets that a peer may send an offer for. */
extern uint32_t tt_published_count;

/* How far the attach has come; what it has set up before is seen with it. */
static inline enum tt_attach tt_attach_state(const struct tt_sock *s)
{
	return (enum tt_attach)tt_load_acquire(&s->attach);
}

static inline void tt_attach_set(struct tt_sock *s, enum tt_attach state)
{
	tt_store_release(&s->attach, (uint8_t)state);
}

/* False: held by another thread or by the frame that this one interrupted. */
static inline bool tt_lock_try(struct tt_lock *l)
{
	int expected = 0;

	return __atomic_compare_exchange_n(&l->tid, &expected, tt_tid(), false, __ATOMIC_ACQUIRE,
	    __ATOMIC_RELAXED);
}

static inline void tt_unlock(struct tt_lock *l)
{
	__atomic_store_n(&l->tid, 0, __ATOMIC_RELEASE);
}

static inline bool tt_lock_is_mine(const struct tt_lock *l)
{
	return __atomic_load_n(&l->tid, __ATOMIC_RELAXED) == tt_tid();
}

/* Waits for another thread; false when this thread's interrupted frame holds it. */
tt_must_check bool tt_lock_wait(struct tt_lock *l);

/* fd.c */
void tt_fd_fork_child(void);
struct tt_sock *tt_sock_alloc(int fd, int domain, int type);
void tt_sock_put(struct tt_sock *s);
void tt_fd_note(int fd);
int tt_fd_high(void); /* no descriptor above it was ever known; -1: none at all */ /* fd may now have an entry in a table of ours */
void tt_sock_for_each(void (*fn)(struct tt_sock *s, void *arg), void *arg);

/* attach.c */
void tt_attach_sent(struct tt_sock *s, int fd, size_t bytes);	 /* after a kernel send */
void tt_attach_received(struct tt_sock *s, int fd, size_t bytes); /* after a kernel receive */
/* The test setting TAUT_ATTACH_AFTER=0: waits a moment for the other end, after accept and before the first byte is sent. */
void tt_attach_first(struct tt_sock *s, int fd);
void tt_attach_publish_dgram(struct tt_sock *s);
void tt_attach_poll(void); /* takes offers, at most once in a while; cheap */
void tt_attach_check(struct tt_sock *s); /* offerer: has the acceptor answered? */
void tt_attach_push_back(struct tt_sock *s, int fd); /* the program's own TCP_NODELAY and TCP_CORK are the kernel's again */
void tt_attach_unoffer(struct tt_sock *s); /* an offer that is out: taken by now, or withdrawn */
void tt_detach(struct tt_sock *s);
void tt_attach_never(struct tt_sock *s, enum tt_reason reason);
enum tt_reason tt_attach_reason(int err); /* of a negative errno value on the way */
void tt_peer_hostile(struct tt_sock *s);
void tt_attach_fork_child(void);

/*
 * stream_tx.c. A kernel call that sends on a stream stands between these two: R is told before and after. Also for one that is not
 * attached yet, or no stream: it may become one meanwhile.
 */
struct tt_told {
	struct tt_sock *s; /* NULL: settled */
	struct tt_dir *dir; /* told to; NULL: not attached at the beginning */
	bool counted;	    /* in native_sends */
	uint64_t *excuse;   /* counter of bytes that had to go by the kernel; NULL: there was no need */
};
void tt_told_begin(struct tt_sock *s, struct tt_told *told);
void tt_told_end(struct tt_sock *s, int fd, struct tt_told *told, ssize_t n);
void tt_told_lost(struct tt_told *told); /* the thread was cancelled in between (cancel.h) */

/* stream_rx.c, stream_tx.c */
tt_must_check ssize_t tt_stream_recv(struct tt_sock *s, int fd, struct iovec *iov, size_t count,
    int flags);
/* The program reads it by calls that we see. False: the kernel alone can serve it. */
bool tt_stream_recv_seen(struct tt_sock *s);
bool tt_stream_send_seen(struct tt_sock *s, int fd); /* likewise, for sending */
tt_must_check ssize_t tt_stream_send(struct tt_sock *s, int fd, const struct iovec *iov,
    size_t count, int flags);

/* Before the last descriptor of this process closes: what the kernel would do about unread bytes, we do. */
void tt_stream_last_close(struct tt_sock *s, int fd);

/* unread.c */
/* S: what it is asked to send once more, before it closes or shuts down. */
void tt_unread_give(struct tt_sock *s);
/* S, between telling of a kernel send and doing it, when dir->back is not 0. */
void tt_unread_gate(struct tt_sock *s, struct tt_dir *dir);
/* R: closes its lease and has what lies unread sent by the kernel. leaving: it will not read by seen calls any more. */
void tt_unread_return(struct tt_sock *s, int fd, bool leaving);

/* share.c */
#define TT_FORKED_TX 1u
#define TT_FORKED_RX 2u
/* Who holds a socket, in memory that all processes since the first fork share. */
struct tt_share_cell {
	uint32_t holders; /* their number; and TT_SHARE_HEIR, TT_SHARE_TOLD. 0: the cell is free */
	uint32_t told_s;  /* when TOLD was set */
	uint64_t nonce;	  /* under which the heir is told */
};
#define TT_SHARE_COUNT 0xffffffu
#define TT_SHARE_HEIR (1u << 30) /* one of the holders executed another program, which waits to hear that it is alone */
#define TT_SHARE_TOLD (1u << 31) /* it has heard, or knew: nobody looks at the cell any more */
void tt_share_fork_before(void);
void tt_share_forked(struct tt_sock *s, bool child);
void tt_share_look(struct tt_sock *s, int fd); /* alone again? */
void tt_share_leave(struct tt_sock *s);	       /* this process holds it no more */
void tt_share_lost(struct tt_sock *s);	       /* it leaves the tables, and the process holds it until it ends */
void tt_share_exit(void);
void tt_share_given(struct tt_sock *s); /* a process outside the count may hold it from now on */
/* The socket goes over to another program. True: nobody else holds it; else the heir is told under nonce. -EBUSY: it can't be. */
tt_must_check int tt_share_bequeath(struct tt_sock *s, uint64_t nonce, bool *alone);
void tt_share_take_back(struct tt_sock *s); /* it did not go over */
static inline bool tt_share_held(const struct tt_sock *s)
{
	return s->heir_nonce || (s->share && (tt_load_acquire(&s->share->holders) & TT_SHARE_COUNT) > 1);
}

/* heir.c */
void tt_heir_adopt(struct tt_sock *s, int fd); /* a stream of unknown history: whose is it? */
bool tt_heir_look(struct tt_sock *s);	       /* alone now? */
void tt_heir_tell(uint64_t nonce);	       /* the last other holder has gone */

/* stdio.c */
void tt_stdio_look(void);
bool tt_stdio_writes(const struct tt_sock *s); /* standard output or error lies there, and has been used */
bool tt_stdio_may_read(const struct tt_sock *s); /* standard input lies there, and the program knows it */

/* again.c: the slot is left, and the connection may be attached anew. False: not now. */
bool tt_again(struct tt_sock *s, int fd);
/* The other end has left; or, of a slot that belongs to the process that forked us, this one. */
static inline bool tt_again_due(const struct tt_sock *s)
{
	const struct tt_dir *rx = tt_load_acquire(&s->rx.dir);
	const struct tt_dir *tx = tt_load_acquire(&s->tx.dir);

	if (!rx || !tx)
		return false;
	if (tt_unlikely(s->foreign))
		return tt_load_relaxed(&tx->fin) && tt_load_relaxed(&rx->r_gone);
	return tt_load_relaxed(&rx->fin) && tt_load_relaxed(&tx->r_gone);
}

/* fd.c: the number stays open, but nothing of it is ours any more. */
void tt_fd_forget(int fd);

/* ops.c */
void tt_sock_stop(struct tt_sock *s, enum tt_reason reason); /* both directions by the kernel for good */
void tt_sock_rx_stop(struct tt_sock *s, enum tt_reason reason); /* receive by the kernel for good */

/* dgram.c */
void tt_dgram_close(struct tt_sock *s);

/* This end sends by the kernel for good, and R knows that it has to ask the kernel. */
static inline void tt_tx_stop(struct tt_sock *s)
{
	struct tt_dir *dir = tt_load_acquire(&s->tx.dir);

	s->tx.kernel_only = true;
	s->forked &= (uint8_t)~TT_FORKED_TX;
	if (dir)
		__atomic_store_n(&dir->fin, 1, __ATOMIC_RELEASE);
}

/*
 * Something of the ring, or of the kernel that S has told of, is there to be read now. Once either end has left the ring for
 * good, the kernel itself answers for what is the kernel's: a low-water mark or an urgent byte decides what is readable.
 */
static inline bool tt_stream_readable(const struct tt_sock *s)
{
	const struct tt_dir *dir = tt_load_acquire(&s->rx.dir);
	uint64_t kpub;

	if (tt_unlikely(!dir)) /* closed by another thread: let the call find out */
		return true;
	if (tt_load_acquire(&dir->tail) != s->rx.head)
		return true;
	kpub = tt_load_acquire(&dir->kpub);
	return kpub > s->rx.kcons && kpub != TT_KPUB_UNKNOWN && !s->rx.kernel_only &&
	    !__atomic_load_n(&dir->fin, __ATOMIC_RELAXED);
}

#endif
