/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/copy.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* copy.S */
extern const char tt_copy_begin[] __attribute__((visibility("hidden")));
extern const char tt_copy_end[] __attribute__((visibility("hidden")));
extern const char tt_copy_fault[] __attribute__((visibility("hidden")));

/* Copies of this length and more are left to the string instruction. */
extern size_t tt_copy_rep_min __attribute__((visibility("hidden")));
size_t tt_copy_rep_min = SIZE_MAX;

#define REP_MIN 2048

void tt_copy_init(void)
{
#if defined(__x86_64__)
	unsigned int a, b, c, d;

	/* "Enhanced REP MOVSB": from a few cache lines on it moves whole lines, without reading what it overwrites. */
	if (__get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & (1u << 9)))
		tt_copy_rep_min = REP_MIN;
#endif
}

bool tt_copy_recover(uintptr_t *pc)
{
	if (*pc < (uintptr_t)tt_copy_begin || *pc >= (uintptr_t)tt_copy_end)
		return false;
	*pc = (uintptr_t)tt_copy_fault;
	return true;
}
