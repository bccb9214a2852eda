/* SPDX-License-Identifier: BSD-3-Clause */
/* opt_priv.h - what opt.c, opt_read.c and opt_text.c share. */
#ifndef TT_BASE_OPT_PRIV_H
#define TT_BASE_OPT_PRIV_H

#include "base/opt.h"

extern const char *const tt_opt_yes_words[];
extern const char *const tt_opt_no_words[];

/* A duration or size as tt_opt_set() takes it, in the largest unit that divides it. */
size_t tt_opt_scaled_text(enum tt_opt_type type, int64_t v, char *buf, size_t size);

/* Control characters of what a user typed become "?": an error is one line, and no terminal obeys
 * it. */
void tt_opt_one_line(char *error);

#endif
