/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * banner.h - what an accelerated program says at its start: version, command line, profile, and
 * each setting that differs from its default.
 *
 * TAUT_BANNER=auto prints it once for the program that `taut run` started, when standard error is a
 * terminal. `taut run` names that program by its process number in TAUT_BANNER_PID, which its
 * children inherit and don't match; the number is struck out in place when the banner is printed,
 * so that a launcher which execs (numactl, env) leaves one banner. A library that was loaded by
 * hand is silent. "on" prints without a terminal and by hand too, "off" never.
 */
#ifndef TT_SOCKET_BANNER_H
#define TT_SOCKET_BANNER_H

#include "base/base.h"

#define TT_BANNER_PID "TAUT_BANNER_PID"

/* Called once, at the start of the process, after tt_tunables_load() and tt_stat_open(). No malloc,
 * errno untouched. */
void tt_banner(void);

#endif
