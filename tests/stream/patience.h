/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * patience.h - does a process hang, or does the machine not let it run?
 *
 * Where many groups of processes compete, a kernel may keep one from running for half a minute, and with it whoever waits for a lock
 * that it holds: an exec or an exit then stands still in the kernel (D), and nothing of ours is wrong. So a hang is judged by
 * the time in which every process of the test had its chance: none was waiting for a processor nearly all of it, none stood in an
 * uninterruptible sleep, and the kernel's threads that deliver packets ran. What is slept away otherwise, or spun away,
 * counts. TT_PATIENCE_S bounds all of it.
 *
 * For one judge, of one thread.
 */
#ifndef TT_TESTS_PATIENCE_H
#define TT_TESTS_PATIENCE_H

#include "check.h"

#define TT_PATIENCE_S 60
struct tt_patience {
	uint64_t left_ns, last_ns, begin_ns;
};

/* The processes that belong to the test; not more than a few. */
void tt_procs_add(pid_t pid);
void tt_procs_del(pid_t pid);
void tt_patience_start(struct tt_patience *p, unsigned int ms);
/* Cheap when called often. False: it is at its end. */
bool tt_patience_left(struct tt_patience *p);
/* True when there is something to read, or it has been closed. */
bool tt_patience_poll(int fd, unsigned int ms);
/* As waitpid(); false: it has not ended. */
bool tt_patience_reap(pid_t pid, int *status, unsigned int ms);
/*
 * How long the first thread of a process has waited for a processor since it began, and the kernel's packet threads with it. The
 * difference of two is what a measured time owes to the machine.
 */
uint64_t tt_run_delay_ns(pid_t pid);
uint64_t tt_thread_delay_ns(void); /* of the calling thread, alone */

/*
 * Says on stderr where the threads of another process are: in the kernel, by /proc, and in the program where gdb is there. For
 * one that should have moved by now. With TT_STAY set it then waits to be killed, so that somebody can look at what hangs.
 */
void tt_proc_show(pid_t pid);

#endif
