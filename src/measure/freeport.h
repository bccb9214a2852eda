/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * freeport.h - a port that nobody uses now, for TCP and UDP, IPv4 and IPv6.
 *
 * The kernel gives one, and we give it back at once: another program may take it before the
 * caller's does. That is rare, and shows as a server that does not start.
 */
#ifndef TT_MEASURE_FREEPORT_H
#define TT_MEASURE_FREEPORT_H

#include "base/base.h"

#define TT_FREE_PORT_TRIES 32

/* 0, or a negative errno value (-EADDRINUSE after TT_FREE_PORT_TRIES). */
tt_must_check int tt_free_port(unsigned int *port);

#endif
