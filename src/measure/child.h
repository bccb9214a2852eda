/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * child.h - a program that is run for a measurement: started pinned in a session of its own, its
 * output kept, waited for with a limit, stopped for certain.
 *
 * Output and errors go to two memory files, so a program never blocks on a reader and there is
 * nothing to clean up. A child dies with us (PR_SET_PDEATHSIG); when tt_child_stop() or
 * tt_child_end() is done, nothing that it started is left either, unless that made a session of its
 * own (a daemon).
 *
 * Call from one thread only (the one that started the child must outlive it).
 */
#ifndef TT_MEASURE_CHILD_H
#define TT_MEASURE_CHILD_H

#include <signal.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/base.h"

#define TT_CHILD_OUTPUT_MAX (16u << 20) /* bytes of output that are looked at */
#define TT_CHILD_INT_MS 2000            /* after SIGINT, and again after SIGTERM; then SIGKILL */
#define TT_CHILD_LINE_MAX 1024u

struct tt_child_spec {
	char *const *argv; /* argv[0] is looked up in PATH */
	char *const
	    *env; /* NAME=VALUE, NULL-terminated: over what we have ourselves; may be NULL */
	int cpu;  /* -1: not pinned */
};

struct tt_child {
	pid_t pid; /* also the session */
	int pidfd;
	int out, err; /* memory files */
	int status;   /* as waitpid(); valid when ended */
	bool running; /* started, and its end not seen yet */
	bool ended;
};

/*
 * Returns 0, or a negative errno value with one line in error (TT_CHILD_LINE_MAX bytes): -ENOENT,
 * -EACCES, ... when the program can't be executed.
 */
tt_must_check int tt_child_start(
    struct tt_child *c, const struct tt_child_spec *spec, char error[TT_CHILD_LINE_MAX]);

/* 0 when it has ended, -ETIMEDOUT, or -EINTR (a signal came to us). timeout_ms < 0: no limit. */
tt_must_check int tt_child_wait(struct tt_child *c, int timeout_ms);

/*
 * Asks all of the session to end by SIGINT, then SIGTERM, then kills it, waiting TT_CHILD_INT_MS in
 * between; returns once nothing of it is left. *signal is the one that did it, 0 when it had ended
 * by itself.
 */
void tt_child_stop(struct tt_child *c, int *signal);

/* Kills what is left and frees. Safe on a zeroed struct. */
void tt_child_end(struct tt_child *c);

/* What it printed so far on 1 (err false) or 2, NUL-terminated (NULs inside become spaces); the
 * caller frees. NULL: no memory. */
char *tt_child_output(const struct tt_child *c, bool err, size_t *len);

/* "exit status 3", "killed by signal 9 (Killed)" */
void tt_child_how(const struct tt_child *c, char *buf, size_t size);
/* The last lines it printed, in one line, lines joined by " | "; "(it printed nothing)". */
void tt_child_tail(const struct tt_child *c, char *buf, size_t size);

#endif
