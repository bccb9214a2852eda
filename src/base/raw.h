/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * raw.h - system calls without the C library.
 *
 * In libtaut.so the names write(), syscall() and their kin are our own wrappers, and the C
 * library's are cancellation points that write errno. What must be neither (log lines, the start of
 * the preload library) calls the kernel here.
 *
 * Results: as the kernel gives them, a negative errno value on failure. errno is never touched, so
 * these are async-signal-safe and errno-preserving. Never a cancellation point. Any thread.
 */
#ifndef TT_BASE_RAW_H
#define TT_BASE_RAW_H

#include <fcntl.h>
#include <stddef.h>
#include <sys/syscall.h>

#include "base/base.h"

static inline long tt_raw_call(long n, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
	long ret;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = n;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc #0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory", "cc");
	return x0;
#else
#error "raw system calls: this processor is not supported yet"
#endif
}

/* By number of arguments; each may be an integer or a pointer. */
#define TT_RAW_ARG(x) ((long)(x))
#define tt_raw0(n) tt_raw_call((n), 0, 0, 0, 0, 0, 0)
#define tt_raw1(n, a) tt_raw_call((n), TT_RAW_ARG(a), 0, 0, 0, 0, 0)
#define tt_raw2(n, a, b) tt_raw_call((n), TT_RAW_ARG(a), TT_RAW_ARG(b), 0, 0, 0, 0)
#define tt_raw3(n, a, b, c) tt_raw_call((n), TT_RAW_ARG(a), TT_RAW_ARG(b), TT_RAW_ARG(c), 0, 0, 0)
#define tt_raw4(n, a, b, c, d)                                                                     \
	tt_raw_call((n), TT_RAW_ARG(a), TT_RAW_ARG(b), TT_RAW_ARG(c), TT_RAW_ARG(d), 0, 0)
#define tt_raw5(n, a, b, c, d, e)                                                                  \
	tt_raw_call(                                                                               \
	    (n), TT_RAW_ARG(a), TT_RAW_ARG(b), TT_RAW_ARG(c), TT_RAW_ARG(d), TT_RAW_ARG(e), 0)
#define tt_raw6(n, a, b, c, d, e, f)                                                               \
	tt_raw_call((n), TT_RAW_ARG(a), TT_RAW_ARG(b), TT_RAW_ARG(c), TT_RAW_ARG(d),               \
	    TT_RAW_ARG(e), TT_RAW_ARG(f))

static inline long tt_raw_write(int fd, const void *buf, size_t len)
{
	return tt_raw3(SYS_write, fd, (long)buf, (long)len);
}

static inline long tt_raw_read(int fd, void *buf, size_t len)
{
	return tt_raw3(SYS_read, fd, (long)buf, (long)len);
}

static inline int tt_raw_open(const char *path, int flags, unsigned int mode)
{
	return (int)tt_raw4(SYS_openat, AT_FDCWD, (long)path, flags, (long)mode);
}

static inline int tt_raw_close(int fd)
{
	return (int)tt_raw3(SYS_close, fd, 0, 0);
}

/* The raw calls, not the C library's, so that they tell the truth after a bare clone() or set*id()
 * of one thread. */
static inline int tt_raw_getpid(void)
{
	return (int)tt_raw3(SYS_getpid, 0, 0, 0);
}

static inline unsigned int tt_raw_geteuid(void)
{
	return (unsigned int)tt_raw3(SYS_geteuid, 0, 0, 0);
}

#endif
