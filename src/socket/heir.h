/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * heir.h - private to the socket room: sockets that cross exec. The design note is at the head of heir.c.
 */
#ifndef TT_SOCKET_HEIR_H
#define TT_SOCKET_HEIR_H

#include "socket/sock.h"

/* While it is true a thread of this process is about to execute another program, and what it has written can be revoked. */
extern bool tt_heir_leaving;
void tt_heir_revoke(void);
void tt_heir_fork_child(void); /* what the parent has written is not ours */

#endif
