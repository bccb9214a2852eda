/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * aliases.h - the aliases of one topic of calls.def. Included once, at the end of the source that
 * defines the wrappers (an alias must stand beside its target), after
 *
 *	#define TT_ALIAS_<topic> TT_ALIAS_DEFINE
 */
#ifndef TT_PRELOAD_ALIASES_H
#define TT_PRELOAD_ALIASES_H

#include "preload/calls.h"

/* gcc asks that an alias carries the attributes of its target; clang neither asks nor knows how. */
#if defined(__has_attribute) && __has_attribute(copy)
#define TT_ALIAS_COPY(name) , copy(name)
#else
#define TT_ALIAS_COPY(name)
#endif
#define TT_ALIAS_DEFINE(alias_name, name)                                                          \
	extern __typeof__(name) alias_name                                                         \
	    __attribute__((alias(#name), visibility("default") TT_ALIAS_COPY(name)));

#ifndef TT_ALIAS_data
#define TT_ALIAS_data(alias, name)
#endif
#ifndef TT_ALIAS_many
#define TT_ALIAS_many(alias, name)
#endif
#ifndef TT_ALIAS_life
#define TT_ALIAS_life(alias, name)
#endif
#ifndef TT_ALIAS_control
#define TT_ALIAS_control(alias, name)
#endif
#ifndef TT_ALIAS_wait
#define TT_ALIAS_wait(alias, name)
#endif
#ifndef TT_ALIAS_process
#define TT_ALIAS_process(alias, name)
#endif
#define TT_ALIAS_process_asm(alias, name) /* vfork.S */
#ifndef TT_ALIAS_signal
#define TT_ALIAS_signal(alias, name)
#endif
#ifndef TT_ALIAS_std
#define TT_ALIAS_std(alias, name)
#endif

#define TT_CALL(topic, name, libc)
#define TT_ALIAS(topic, alias, name, libc) TT_ALIAS_##topic(alias, name)
#define TT_HANDLER(topic, name, libc)
#define TT_API(name)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include "preload/calls.def"
#pragma GCC diagnostic pop
#undef TT_CALL
#undef TT_ALIAS
#undef TT_HANDLER
#undef TT_API

#endif
