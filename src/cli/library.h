/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * library.h - where libtaut.so is, and LD_PRELOAD with and without it.
 */
#ifndef TT_CLI_LIBRARY_H
#define TT_CLI_LIBRARY_H

#include <limits.h>

#include "base/base.h"

/*
 * Finds libtaut.so: `given` when not empty; else beside this executable (a build tree); else in the
 * library folder of the installation that this executable belongs to. out is an absolute path that
 * LD_PRELOAD can hold. 0, or -1 with one line in error: what was looked for and what to do.
 */
tt_must_check int tt_library_find(const char *given, char out[PATH_MAX], char *error, size_t size);

/* LD_PRELOAD's list with path in front (and nowhere else). A malloc'ed string, or NULL without
 * memory. */
char *tt_preload_with(const char *list, const char *path);
/* The list without path and any other libtaut.so. A malloc'ed string, "" when nothing is left, or
 * NULL. */
char *tt_preload_without(const char *list);

#endif
