/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fmt.h - a small printf into a buffer, for places where the C library's is not allowed: signal
 * handlers, the start of the preload library, code that runs inside the program's allocator.
 *
 * Conversions: %s %c %d %i %u %x %p %% with the lengths l, ll, z, the flags 0 and -, a width
 * (digits or *) and, for %s, a precision (digits or *). Nothing else: at a conversion that is not
 * served the rest of the format is copied as it stands. No floating point, no locale, no
 * allocation, no errno. Async-signal-safe, any thread.
 *
 * Both return the length the whole text would have had, as snprintf() does; the buffer always ends
 * in NUL when size is not 0. A NULL string prints as "(null)".
 */
#ifndef TT_BASE_FMT_H
#define TT_BASE_FMT_H

#include <stdarg.h>
#include <stddef.h>

#include "base/base.h"

size_t tt_vfmt(char *buf, size_t size, const char *fmt, va_list ap) tt_printf(3, 0);
size_t tt_fmt(char *buf, size_t size, const char *fmt, ...) tt_printf(3, 4);

#endif
