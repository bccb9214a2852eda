/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tree.h - small files below a root directory: /proc and /sys of this machine, or a recorded copy.
 *
 * Paths are relative ("sys/class/net"). Results: 0 or a negative errno value. No state, any thread.
 */
#ifndef TT_HOST_TREE_H
#define TT_HOST_TREE_H

#include <stddef.h>

#include "base/base.h"

#define TT_TREE_PATH_MAX 512u

/* The file's text without trailing white space; NULs become spaces, what does not fit is cut. */
tt_must_check int tt_tree_read(const char *root, const char *path, char *buf, size_t size);
tt_must_check int tt_tree_read_number(const char *root, const char *path, double *out);
/* The last part of what a symbolic link points to. */
tt_must_check int tt_tree_link(const char *root, const char *path, char *buf, size_t size);
/* The whole file, NUL-terminated, at most max bytes; the caller frees it. NULL and *rc on failure.
 */
char *tt_tree_slurp(const char *root, const char *path, size_t max, int *rc);

/* Calls fn for each entry of a directory except . and .., sorted by name (versionsort); stops at
 * the first value that is not 0 and returns it. */
typedef int tt_tree_entry_fn(void *arg, const char *name);
tt_must_check int tt_tree_each(const char *root, const char *path, tt_tree_entry_fn *fn, void *arg);

/* Is cpu in a list such as "0-3,8"? */
bool tt_cpulist_has(const char *list, int cpu);
int tt_cpulist_count(const char *list);

#endif
