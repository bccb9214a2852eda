/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * statpage.h - the live counters of one accelerated process, as `taut stat` reads them.
 *
 * Each process keeps one page set in a sealed memfd named "taut-stat", mapped shared and held open on a high
 * descriptor. It vanishes with the process, so nothing is ever stale. A reader of the same user finds it by
 * /proc/PID/fd and maps it read-only. Counters are written by the threads that use the socket, relaxed and without
 * locks: a reader may see one a moment late, never a wrong sum for long.
 *
 * Bytes and messages count what the program gave or got, by the path they took. A message is one
 * successful call for streams, one datagram for UDP.
 */
#ifndef TT_SOCKET_STATPAGE_H
#define TT_SOCKET_STATPAGE_H

#include <netinet/in.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/base.h"

#define TT_STAT_MAGIC 0x3174617473747561ull /* "autstat1", little endian */
#define TT_STAT_VERSION 3u
#define TT_STAT_SOCKS_MAX 16384u /* further sockets are accelerated but only counted in the process totals */

/*
 * Why a socket, or a moment of it, is not accelerated. Row: name, word shown by `taut stat` and --trace, sentence.
 */
#define TT_REASONS(X) \
	X(NONE, "none", "accelerated") \
	X(YOUNG, "young", "too few messages yet to look for the other end") \
	X(PEER_PLAIN, "peer-plain", "the other end is not an accelerated process of this user") \
	X(PEER_REMOTE, "peer-remote", "the other end is on another host or network namespace") \
	X(PEER_USER, "peer-user", "the other end belongs to another user") \
	X(PEER_CHANGED, "peer-changed", "the kernel no longer names the same peer") \
	X(NAT, "nat", "the connection is translated, so its addresses do not name the peer") \
	X(OPTION, "option", "a socket option is set that shared memory does not honour") \
	X(FLAG, "flag", "a call used a flag that only the kernel serves") \
	X(RING_FULL, "ring-full", "the ring was full: bytes went by the kernel") \
	X(CLOSED, "closed", "the receiver was asleep or closed its lease: bytes went by the kernel") \
	X(UNSEEN, "unseen", "the descriptor is used by calls that cannot be intercepted") \
	X(PASSED, "passed", "the descriptor was passed to another process") \
	X(FORKED, "forked", "the socket is shared with another process since fork") \
	X(EXEC, "exec", "the socket survives exec") \
	X(WAIT, "wait", "the program waits for it in a way that cannot be watched") \
	X(RULE, "rule", "a rule of the configuration excludes it") \
	X(API, "api", "the program switched acceleration off") \
	X(MEMORY, "memory", "no shared memory could be had") \
	X(DESCRIPTORS, "descriptors", "no free descriptor for our own use") \
	X(LIMIT, "limit", "a fixed limit of ours was reached") \
	X(PERMISSION, "permission", "the directory of this user's processes can't be used") \
	X(SECCOMP, "seccomp", "the process runs under a seccomp filter") \
	X(HOSTILE, "hostile", "the peer wrote nonsense into shared memory; the connection was ended") \
	X(FAMILY, "family", "not an IPv4 or IPv6 stream or datagram socket") \
	X(MULTICAST, "multicast", "multicast or broadcast: the kernel delivers it") \
	X(STRANDED, "stranded", "bytes were left in a ring that its reader gave up") \
	X(DECLINED, "declined", "the other end has not taken the offer: it says why, as limit or option")

enum tt_reason {
#define X(name, word, text) TT_REASON_##name,
	TT_REASONS(X)
#undef X
	    TT_REASON_COUNT
};

enum tt_transport { TT_TRANSPORT_KERNEL, TT_TRANSPORT_SHM };

/* All counters only grow. Order and types are the format: append, and raise TT_STAT_VERSION. */
#define TT_STAT_COUNTERS(X) \
	X(tx_shm_bytes) \
	X(tx_shm_msgs) \
	X(tx_kernel_bytes) \
	X(tx_kernel_msgs) \
	X(rx_shm_bytes) \
	X(rx_shm_msgs) \
	X(rx_kernel_bytes) \
	X(rx_kernel_msgs) \
	X(spin_hits)	/* waits that ended while spinning */ \
	X(spin_misses)	/* waits that went on to sleep in the kernel after spinning */ \
	X(sleeps)	/* kernel calls entered that may block */ \
	X(doorbells)	/* sends that went by the kernel because the receiver slept */ \
	X(ring_full)	/* sends that found the ring full */ \
	X(lease_opens) \
	X(lease_closes) \
	X(drops)	/* datagrams dropped by us (the kernel's own drops are not here) */ \
	X(attach_tries) \
	X(attaches) \
	/* Parts of tx_kernel_bytes that could not have gone by shared memory. */ \
	X(tx_bell_bytes) /* to a receiver asleep: they woke it, or were sent before it ran */ \
	X(tx_young_bytes) /* before the connection was attached, of its first messages */ \
	X(tx_still_bytes) /* while the receiver, awake, took nothing of a full ring in the time that a sender waits */ \
	X(tx_last_bytes) /* after one end had closed a direction, or asked for what only the kernel can do */ \
	X(tx_shared_bytes) /* while two processes held an end, since a fork */

struct tt_stat_counters {
#define X(name) uint64_t name;
	TT_STAT_COUNTERS(X)
#undef X
};

struct tt_stat_sock {
	uint32_t in_use; /* 0 free; odd while being filled in, even and not 0 when it can be read */
	int32_t fd;
	uint16_t domain; /* AF_INET, AF_INET6 */
	uint16_t type;	 /* SOCK_STREAM, SOCK_DGRAM */
	uint16_t tx;	 /* enum tt_transport, now */
	uint16_t rx;
	uint16_t reason; /* enum tt_reason: why not accelerated now, or NONE */
	uint16_t flags;	 /* TT_STAT_LISTEN, ... */
	int32_t peer_pid; /* as the kernel told it at the attach; 0 unknown */
	struct sockaddr_in6 local; /* IPv4 as v4-mapped; port 0 = unknown */
	struct sockaddr_in6 remote;
	struct tt_stat_counters n;
};

#define TT_STAT_LISTEN 1u

struct tt_stat_page {
	uint64_t magic;
	uint32_t version;
	uint32_t page_bytes; /* whole mapping */
	uint32_t sock_size;  /* sizeof(struct tt_stat_sock) as written */
	uint32_t sock_max;
	int32_t pid;
	uint32_t sock_high; /* rows at or above this index were never used */
	uint64_t start_ns;  /* CLOCK_REALTIME */
	char profile[16];
	char comm[16];
	char version_text[16];
	char cmdline[256]; /* arguments joined by spaces, cut */
	uint64_t fallbacks[64]; /* by enum tt_reason: how often that reason was met */
	struct tt_stat_counters closed; /* sums of sockets already closed, and of those without a row */
	uint64_t socks_seen;
	uint64_t socks_attached;
	uint64_t unlisted; /* sockets that found no free row */
	struct tt_stat_sock socks[];
};

_Static_assert(TT_REASON_COUNT <= 64, "fallbacks[] holds every reason");

/* The page of this process; before tt_stat_open(), or where no memory could be had, a private dummy. */
extern struct tt_stat_page *tt_stat;

static inline void tt_stat_add(uint64_t *counter, uint64_t n)
{
	/* Relaxed: each counter stands alone; lost updates between threads of one socket are not acceptable for totals. */
	__atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}

/* Makes the page for this process (again after fork). Returns 0 or a negative errno value; tt_stat is usable either way. */
tt_must_check int tt_stat_open(const char *profile);
/*
 * The descriptor that holds the page, or -1: not the program's, so close_range() and the like leave it alone. After a
 * fork, tt_stat_open() in the child keeps every row where it was, with counters that start at zero.
 */
int tt_stat_fd(void);
/* False once somebody has closed it: the number may be another file's. */
bool tt_stat_fd_is_ours(void);
/* Away from its number, which is about to be given to another file. */
void tt_stat_fd_move(void);
/*
 * A row for a new socket, never NULL (the shared row 0, descriptor -1, when all are taken). Its reason is YOUNG. Any
 * thread.
 */
struct tt_stat_sock *tt_stat_sock_get(int fd, int domain, int type);
/* Adds the row's counters to the closed sums and frees it. Any thread. */
void tt_stat_sock_put(struct tt_stat_sock *row);
/*
 * Asks the kernel for the descriptor's addresses: two system calls, no errno, no cancellation point. What the kernel
 * does not tell stays as it is.
 */
void tt_stat_addresses(struct tt_stat_sock *row, int fd);
void tt_stat_reason(struct tt_stat_sock *row, enum tt_reason reason);
/* Sums over closed and open sockets. The page is our own, not one of another process. */
void tt_stat_sum(const struct tt_stat_page *page, struct tt_stat_counters *out);
/*
 * Appends one JSON line with the sums and reasons to TAUT_STATS_FILE (path), at exit, by one write. Only to a regular file
 * or a character device: a pipe could end the program with SIGPIPE. Async-signal-safe, no malloc.
 */
void tt_stat_dump(const char *path);
/* The word and the sentence of TT_REASONS; "unknown" for a number from a newer version. */
const char *tt_reason_word(unsigned int reason);
const char *tt_reason_text(unsigned int reason);

#endif
