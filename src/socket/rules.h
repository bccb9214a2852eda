/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rules.h - the file of TAUT_CONFIG: which programs, addresses, ports and directions are
 * accelerated.
 *
 *   # a comment
 *   kernel      tcp-server  *:22                  what listens on port 22 stays with the kernel
 *   accelerate  tcp         10.0.0.0/8:6379-6380
 *   kernel      udp-sender  *:53
 *   kernel      any         [fd00::]/8            all ports
 *   kernel      tcp-client  127.0.0.1:5432 *:40000-41000
 *   program     nginx*                            the rules below hold for these programs only,
 *   program     *                                 ... and from here on for all again
 *
 * A rule is an action, a kind, the server's address (our own for tcp-server and udp-receiver, the
 * other end's for tcp-client and udp-sender) and, if wanted, the client's. The first rule that fits
 * decides; where none fits the socket is accelerated. A program's name is that of its file or its
 * comm, with * and ? in the pattern.
 *
 * tt_rules_load() is called once, at the start; after it the rules are only read, by any thread.
 * Nothing here allocates or touches errno.
 */
#ifndef TT_SOCKET_RULES_H
#define TT_SOCKET_RULES_H

#include <stdint.h>

#include "base/base.h"
#include "base/opt.h"
#include "shm/ident.h"

#define TT_RULES_MAX 256u         /* rules of one program */
#define TT_RULES_BYTES_MAX 32768u /* of the file */

/* Rules that hold for this process. */
extern unsigned int tt_rules_count;

/*
 * Reads the file. Each mistake is one line for fn ("FILE:LINE: ..."), and its line is left out; so
 * is what is beyond a limit. Returns the number of mistakes. An empty path: no rules.
 */
int tt_rules_load(const char *path, tt_opt_error_fn *fn, void *arg);

/*
 * May this flow be accelerated? server: we accepted the connection, or receive the datagrams.
 * protocol: IPPROTO_TCP or IPPROTO_UDP. family: AF_INET (v4-mapped too; the first 4 bytes of the
 * addresses count) or AF_INET6. Ports in network order.
 */
bool tt_rules_match(bool server, int protocol, int family, const uint8_t local[16],
    uint16_t local_port, const uint8_t remote[16], uint16_t remote_port);

static inline bool tt_rules_allow(bool server, int protocol, const struct tt_tuple *t)
{
	return tt_likely(tt_rules_count == 0) ||
	       tt_rules_match(
		   server, protocol, t->family, t->local, t->local_port, t->remote, t->remote_port);
}

#endif
