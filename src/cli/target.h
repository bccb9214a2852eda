/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * target.h - can a preload library do anything for this program, and if not, why.
 *
 * The file is read with bounds on everything: it may be any file. Nothing is executed. What can't
 * be told is taken as "can be accelerated": the loader has the last word.
 */
#ifndef TT_CLI_TARGET_H
#define TT_CLI_TARGET_H

#include <limits.h>

#include "base/base.h"

#define TT_TARGET_SCRIPTS_MAX 5 /* "#!" lines followed, as in the kernel */

/* Row: name, what to say after "PROGRAM can't be accelerated: ". */
#define TT_OBSTACLES(X)                                                                            \
	X(NONE, "")                                                                                \
	X(STATIC, "it is statically linked, so no library can be loaded into it")                  \
	X(SETUID, "it is set-user-ID or set-group-ID, so the loader ignores LD_PRELOAD")           \
	X(CAPS, "it has file capabilities, so the loader ignores LD_PRELOAD")                      \
	X(GO, "it is a Go program, which makes its system calls without the C library")            \
	X(BITS, "it is a 32-bit program and libtaut.so is not")                                    \
	X(MACHINE, "it is built for another processor")                                            \
	X(LIBC, "it is linked to another C library than libtaut.so")

enum tt_obstacle {
#define X(name, text) TT_OBSTACLE_##name,
	TT_OBSTACLES(X)
#undef X
};

struct tt_target {
	char path[PATH_MAX];   /* the program as found */
	char binary[PATH_MAX]; /* what the kernel loads in the end: path, or the interpreter of a
				  script */
	char interp[256];      /* loader of the binary, "" static or unknown */
	enum tt_obstacle obstacle;
};

/*
 * Finds name as execvp() does: with a slash as it is, else along `path` (NULL: the system's
 * default). 0, -ENOENT, or -EACCES when the only match can't be executed.
 */
tt_must_check int tt_target_find(const char *name, const char *path, char out[PATH_MAX]);

/* Looks into the file at out->path and fills the rest. 0, or a negative errno value when it can't
 * be read. */
tt_must_check int tt_target_inspect(struct tt_target *out);

/*
 * Looks at one ELF file. loader: base name of the loader that can load libtaut.so, NULL any. 0,
 * -ENOEXEC when the file is not ELF, -EIO when it is cut short or makes no sense.
 */
tt_must_check int tt_target_elf(
    int fd, const char *loader, char interp[256], enum tt_obstacle *obstacle);

const char *tt_obstacle_text(enum tt_obstacle obstacle);

#endif
