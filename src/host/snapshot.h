/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * snapshot.h - the state of a host that a measurement depends on, as facts of
 * include/taut/result.h.
 *
 * Everything is read from files below a root directory, so a recorded tree can stand for a host.
 * What can't be read becomes an unknown fact with its reason; a snapshot never fails because
 * something is missing. Only the words of the kernel command line that matter here are kept, never
 * the whole line.
 *
 * Keys (a stable part of the result format): kernel.*, os.name, cpu.*, idle.*, freq.*, clock.*,
 * memory.*, irq.*, limit.*, net.*, nic.NAME.*, mitigation.NAME, vm.*, load.1m.
 *
 * Reads a few hundred small files, takes about a millisecond, allocates. Any thread.
 */
#ifndef TT_HOST_SNAPSHOT_H
#define TT_HOST_SNAPSHOT_H

#include "base/base.h"
#include "taut/result.h"

#define TT_SNAPSHOT_NICS_MAX 64u /* further interfaces are counted in nic.left_out */
#define TT_SNAPSHOT_IRQS_MAX 8192u

/* root: "" is this machine (then the processor is asked too), else the top of a recorded tree. 0 or
 * -ENOMEM. */
tt_must_check int tt_host_snapshot(const char *root, struct taut_host *out);

#endif
