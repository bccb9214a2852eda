/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * log.h - one line to the user.
 *
 * A line is "taut: " + text + newline, given to the kernel with one write. It is formatted by
 * base/fmt.h (a small printf of our own: see there for the conversions) into TT_LOG_LINE_MAX bytes
 * on the stack; a longer one is cut and ends in "...". No allocation, no lock, no stdio, no
 * cancellation point, errno untouched: async-signal-safe, any thread.
 *
 * Where it goes: standard error, or the file given to tt_log_open(), which is opened anew for each
 * line. No descriptor is kept: the program may close any number and get it again for a file of its
 * own. For the same reason descriptor 2 is written to only while it still is what it was at
 * tt_log_start(), and never when it is a network socket (inetd). Lines that could not be written
 * are counted in tt_log_lost.
 */
#ifndef TT_BASE_LOG_H
#define TT_BASE_LOG_H

#include <stdarg.h>
#include <stdint.h>

#include "base/base.h"

#define TT_LOG_LINE_MAX 1024u /* bytes of one line, prefix and newline included */
#define TT_LOG_PATH_MAX 256u

enum tt_log_level { TT_LOG_ERROR, TT_LOG_WARN, TT_LOG_NOTE, TT_LOG_TRACE };

/* Lines above this level are not written. TT_LOG_NOTE at start. */
extern enum tt_log_level tt_log_level;
extern uint64_t tt_log_lost;

/* Remembers what descriptor 2 is. Before the first call it is written to as it is. Call it at start
 * and after fork. */
void tt_log_start(void);

/*
 * Lines go to this file from now on; "%d" in the path is the process number at the time of each
 * line. NULL or "": standard error. 0, or a negative errno value when the file can't be opened for
 * append (then nothing changes).
 */
tt_must_check int tt_log_open(const char *path);

void tt_vlog(enum tt_log_level level, const char *fmt, va_list ap) tt_printf(2, 0);
void tt_log_line(enum tt_log_level level, const char *fmt, ...) tt_printf(2, 3);

/* The arguments are not evaluated when the level is off. */
#define tt_log(level, ...)                                                                         \
	do {                                                                                       \
		if ((level) <= tt_log_level)                                                       \
			tt_log_line(level, __VA_ARGS__);                                           \
	} while (0)
#define tt_log_error(...) tt_log(TT_LOG_ERROR, __VA_ARGS__)
#define tt_log_warn(...) tt_log(TT_LOG_WARN, __VA_ARGS__)
#define tt_log_note(...) tt_log(TT_LOG_NOTE, __VA_ARGS__)
#define tt_log_trace(...) tt_log(TT_LOG_TRACE, __VA_ARGS__)

#endif
