/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait.h - what the waiting calls by name (wait.c) and by number (raw.c) share.
 */
#ifndef TT_PRELOAD_WAIT_H
#define TT_PRELOAD_WAIT_H

#include "preload/preload.h"

/*
 * Takes the time since *start (CLOCK_MONOTONIC) off *timeout, down to zero. False, and nothing
 * written, for a timeout that is zero already: Linux leaves those alone.
 */
bool tt_wait_left(const struct timespec *start, struct timespec *timeout);

#endif
