/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * copy.h - copies between memory of ours and memory that a program named, where the program may have named nothing.
 *
 * The kernel answers a bad pointer with EFAULT. What is done here instead of in the kernel has to do the same, and asking
 * before each copy would cost a system call. So the copy itself may fault: its instructions lie between two labels, and the handler
 * of SIGSEGV and SIGBUS (preload/fault.c) sends a thread that faulted between them to a third one, which
 * answers false. There is no state to set up, so a copy costs what memcpy() costs.
 *
 * Without that handler (a program that ignores SIGSEGV, or blocks it in this thread) a bad pointer ends the process.
 */
#ifndef TT_BASE_COPY_H
#define TT_BASE_COPY_H

#include "base/base.h"

/* Learns how this processor copies best. Before it, or without it, everything works. */
void tt_copy_init(void);

/* False: one of the two ends can't be reached; some bytes may have been copied. The two must not overlap. */
tt_must_check bool tt_copy(void *to, const void *from, size_t n);

/* True when all of p[0..n) can be read. It may be gone a moment later: for headers, not for data. */
tt_must_check bool tt_copy_readable(const void *p, size_t n);

/* For the signal handler: true when *pc lies in one of the above; then *pc is where the thread must go on. */
bool tt_copy_recover(uintptr_t *pc);

#endif
