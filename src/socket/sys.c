/* SPDX-License-Identifier: BSD-3-Clause */
#include "socket/sys.h"

#include <dlfcn.h>

struct tt_sys tt_sys;

void tt_sys_init(void)
{
	/*
	 * dlsym() may call back into the program's allocator, which may call an intercepted function: those find a NULL
	 * pointer here and resolve it themselves, so the order of these lines does not matter.
	 */
#define X(name) \
	if (!tt_sys.name) \
		tt_sys.name = (__typeof__(tt_sys.name))dlsym(RTLD_NEXT, #name);
	TT_SYS_CALLS(X)
#undef X
}
