/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * preset.h - comparisons that have a name: the commands, sides and tests of `taut compare --preset
 * NAME`.
 */
#ifndef TT_MEASURE_PRESET_H
#define TT_MEASURE_PRESET_H

#include "measure/compare.h"

struct tt_preset {
	const char *name;
	const char *about;
	const char *program, *package; /* what must be installed */
	const struct tt_compare_side *sides;
	size_t sides_count;
	const struct tt_compare_test *tests;
	size_t tests_count;
};

/* NULL-terminated names, in the order of tt_presets. */
extern const char *const tt_preset_names[];
extern const struct tt_preset tt_presets[];

#endif
