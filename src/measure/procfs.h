/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * procfs.h - what /proc tells about the processes that a measurement started.
 *
 * Reading /proc is a snapshot that may be old when it is used; the callers ask again until it says
 * what they wait for. No state, any thread. Needs /proc mounted: else -ENOENT.
 */
#ifndef TT_MEASURE_PROCFS_H
#define TT_MEASURE_PROCFS_H

#include <sys/types.h>

#include "base/base.h"

#define TT_PROCFS_SOCKETS_MAX 4096u /* sockets of one process that are looked at */

/* Is a process of this session alive (a zombie is not)? */
bool tt_procfs_session_alive(pid_t session);

/* Sends the signal to each process of the session, whatever its process group. */
void tt_procfs_session_kill(pid_t session, int signal);

enum tt_proto { TT_PROTO_ANY, TT_PROTO_TCP, TT_PROTO_UDP };

/*
 * Does a process of the session hold a socket that takes connections (TCP, listening) or datagrams
 * (UDP, bound and not connected)? port 0: any port. Each process is looked up in its own network
 * namespace. Returns 1 yes, 0 not (yet), or a negative errno value.
 */
tt_must_check int tt_procfs_listens(pid_t session, enum tt_proto proto, unsigned int port);

#endif
