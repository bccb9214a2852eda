/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace.h - TAUT_TRACE: one line per socket and event that says what was accelerated and why not.
 *
 *   taut: [1234] fd 7 tcp 127.0.0.1:5001 > 127.0.0.1:40312: attached to process 1240
 *   taut: [1234] fd 8 udp 0.0.0.0:53: kernel path: the other end is not an accelerated process of
 * this user (peer-plain)
 */
#ifndef TT_SOCKET_TRACE_H
#define TT_SOCKET_TRACE_H

#include "base/base.h"
#include "socket/statpage.h"
#include "socket/tunables.h"

/* Bytes of "ADDRESS:PORT" with brackets, NUL included. */
#define TT_ADDR_TEXT_MAX 64u

tt_cold void tt_trace_line(
    int fd, const struct tt_stat_sock *row, const char *event, enum tt_reason reason);

/*
 * Prints a line when tracing is on. event: what happened ("attached", "kernel path"). reason:
 * appended in words, unless TT_REASON_NONE. Async-signal-safe, errno untouched.
 */
static inline void tt_trace_sock(
    int fd, const struct tt_stat_sock *row, const char *event, enum tt_reason reason)
{
	if (tt_unlikely(tt_tun.trace))
		tt_trace_line(fd, row, event, reason);
}

/*
 * The address of a row as text: "127.0.0.1:80", "[::1]:80", "-" where it is not known (port 0).
 * addr may hold anything: it may come from another process.
 */
void tt_addr_text(const struct sockaddr_in6 *addr, char out[TT_ADDR_TEXT_MAX]);

#endif
