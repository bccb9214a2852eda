/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ident.h - who is at the other end, proved by the kernel (same-host.md rules 7, 14, 15, 24).
 *
 * Nothing a peer says about itself counts. The kernel's socket diagnostics (sock_diag(7), NETLINK_SOCK_DIAG) name
 * the socket that owns an address pair; SO_COOKIE is that socket's number for the life of the kernel. All functions
 * enter the kernel directly (base/raw.h), allocate nothing and may be called from any thread.
 */
#ifndef TT_SHM_IDENT_H
#define TT_SHM_IDENT_H

#include <netinet/in.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/base.h"

/* An address pair as one end sees it. IPv4 is kept as AF_INET, also where the program uses v4-mapped addresses. */
struct tt_tuple {
	int family; /* AF_INET or AF_INET6 */
	uint16_t local_port; /* network byte order */
	uint16_t remote_port;
	uint32_t scope; /* interface index of a link-local address, or 0 */
	uint8_t local[16];
	uint8_t remote[16];
};

/* SO_COOKIE, SO_NETNS_COOKIE: 0 where the kernel does not tell. */
uint64_t tt_ident_cookie(int fd);
uint64_t tt_ident_netns(int fd);

/* Fills one side from a socket address; a v4-mapped address becomes AF_INET. -EAFNOSUPPORT for anything else. */
tt_must_check int tt_tuple_set_local(struct tt_tuple *t, const struct sockaddr *addr);
tt_must_check int tt_tuple_set_remote(struct tt_tuple *t, const struct sockaddr *addr);
/* The connected tuple of fd (getsockname, getpeername). */
tt_must_check int tt_tuple_of(int fd, struct tt_tuple *t);

/*
 * The cookie of the connected TCP socket at the other end of t. -ENOENT: there is none on this host and
 * in this network namespace; -ENOTCONN: the kernel found one that is not established. *uid is the socket creator's.
 */
tt_must_check int tt_ident_tcp_peer(const struct tt_tuple *t, uint64_t *cookie, uint32_t *uid);
/*
 * Does this host itself receive what is sent to t's remote address (the kernel's routes say so; -EHOSTUNREACH: no, or it
 * is a broadcast)? If t's local address is all zeroes it becomes the one that the kernel would send from.
 */
tt_must_check int tt_ident_local_route(struct tt_tuple *t);
/* The cookie of the UDP socket that would get a datagram from t's local to its remote address. */
tt_must_check int tt_ident_udp_receiver(const struct tt_tuple *t, uint64_t *cookie, uint32_t *uid);

/* TCP byte counts as the kernel keeps them; 0 or negative errno. */
tt_must_check int tt_ident_tcp_accepted(int fd, uint64_t *bytes); /* taken from the program */
tt_must_check int tt_ident_tcp_consumed(int fd, uint64_t *bytes); /* given to the program */
/* True while fd is an established TCP connection. */
bool tt_ident_tcp_established(int fd);
/* False when address translation means that the tuple does not name the peer (SO_ORIGINAL_DST differs). */
bool tt_ident_not_translated(int fd, const struct tt_tuple *t);

#endif
