/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * base.h - what every room may use without asking: compiler words, assertions, small arithmetic.
 *
 * TT_ASSERT stays in release builds. It states what this code did wrong, never what a peer, a user
 * or a resource did.
 */
#ifndef TT_BASE_H
#define TT_BASE_H

#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>

#define TT_CACHE_LINE 64u
#define TT_PAGE 4096u

#define tt_likely(x) __builtin_expect(!!(x), 1)
#define tt_unlikely(x) __builtin_expect(!!(x), 0)
#define tt_must_check __attribute__((warn_unused_result))
#define tt_noinline __attribute__((noinline))
#define tt_cold __attribute__((cold, noinline))
#define tt_printf(fmt, args) __attribute__((format(printf, fmt, args)))
#define tt_aligned(n) __attribute__((aligned(n)))

#define tt_array_len(a) (sizeof(a) / sizeof((a)[0]))
#define tt_container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/* Each argument is evaluated once; the counter keeps the locals of nested uses apart. */
#define TT_GLUE2(a, b) a##b
#define TT_GLUE(a, b) TT_GLUE2(a, b)
#define TT_PICK(op, a, b, x, y)                                                                    \
	({                                                                                         \
		__typeof__(a) x = (a);                                                             \
		__typeof__(b) y = (b);                                                             \
		x op y ? x : y;                                                                    \
	})
#define tt_min(a, b) TT_PICK(<, a, b, TT_GLUE(tt_x, __COUNTER__), TT_GLUE(tt_y, __COUNTER__))
#define tt_max(a, b) TT_PICK(>, a, b, TT_GLUE(tt_x, __COUNTER__), TT_GLUE(tt_y, __COUNTER__))

/* Prints file, line and expression to descriptor 2 with one write and aborts. Async-signal-safe. */
_Noreturn void tt_assert_fail(const char *file, int line, const char *expr);

#define TT_ASSERT(x)                                                                               \
	do {                                                                                       \
		if (tt_unlikely(!(x)))                                                             \
			tt_assert_fail(__FILE__, __LINE__, #x);                                    \
	} while (0)

#endif
