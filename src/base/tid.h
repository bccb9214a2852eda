/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tid.h - the kernel's number of this thread, asked once. After fork or clone the child sets tt_tid_cache to 0.
 */
#ifndef TT_BASE_TID_H
#define TT_BASE_TID_H

#include "base/base.h"

extern __thread int tt_tid_cache __attribute__((tls_model("initial-exec")));

int tt_tid_load(void);

static inline int tt_tid(void)
{
	return tt_likely(tt_tid_cache) ? tt_tid_cache : tt_tid_load();
}

#endif
