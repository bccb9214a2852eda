/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fault.h - SIGSEGV and SIGBUS belong to the program; we stand in front of them for a few of our own.
 *
 * A buffer that the program named may not exist, and the kernel's answer to that is EFAULT (base/copy.h). So the handler
 * of these two signals is ours, installed with the program's own mask and flags. A fault inside a guarded
 * copy ends there. Every other one goes on as if we were not there: to the program's handler, or, where it has none, to
 * the default action, raised again with the same siginfo, so that the process ends by that signal and its core
 * shows the faulting instruction.
 *
 * What sigaction() and its kin report is the program's disposition, never ours. A disposition of SIG_IGN is left alone,
 * because another program inherits it through exec; such a process, and a thread that blocks the signal, has
 * no guard. Neither has one whose handler was installed by a raw system call.
 */
#ifndef TT_PRELOAD_FAULT_H
#define TT_PRELOAD_FAULT_H

#include "preload/preload.h"

#include <signal.h>

/* Once, at the start; until then the signals below are as the program left them. */
void tt_fault_start(void);
/* True when sigaction() and its kin must come here. */
bool tt_fault_is_ours(int sig);
/* sigaction(2) for such a signal. */
int tt_fault_sigaction(int sig, const struct sigaction *act, struct sigaction *old);
/* After an older call changed it: what it reported, as the program should see it. */
__sighandler_t tt_fault_changed(int sig, __sighandler_t before, __sighandler_t reported);
/* The program's handler now. */
__sighandler_t tt_fault_handler(int sig);

#endif
