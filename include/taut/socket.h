/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * taut/socket.h - what a program may ask of, and tell, the library that accelerates its sockets.
 *
 * Everything works with and without the library. A program that uses this header links against
 * nothing of taut: each function looks for libtaut.so in the running process, once, by dlsym().
 * Without it taut_present() is 0 and the others say so in their results. (Chosen over weak
 * references, which the linker resolves to "absent" for good in programs that are not
 * position-independent, and over a stub archive, which would have to be installed, versioned and
 * linked.) With a C library older than glibc 2.34, link with -ldl.
 *
 *	struct taut_fd_info info;
 *
 *	if (taut_fd_info(fd, &info, sizeof(info)) == 0 && !info.accelerated)
 *		fprintf(stderr, "socket %d uses the kernel: %s\n", fd, info.text);
 *
 * The same functions are exported by libtaut.so (symbol version TAUT_1) for callers in other
 * languages. Threads: any. All are async-signal-safe after their first call.
 */
#ifndef TAUT_SOCKET_H
#define TAUT_SOCKET_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A flag of send(), sendto(), sendmsg() and sendmmsg(): run the path of this send, to keep its code
 * and data in the cache, and send nothing. The result is the length. VMA (VMA_SND_FLAGS_DUMMY) and
 * Onload (ONLOAD_MSG_WARM) use the same value.
 *
 * Never pass it to a socket without knowing that libtaut.so is there: the kernel has no such flag
 * and SENDS the data. taut_send_warm() below checks.
 */
#define TAUT_MSG_WARM 0x400

enum taut_transport {
	TAUT_TRANSPORT_KERNEL = 0,
	TAUT_TRANSPORT_SHM = 1, /* shared memory between two processes of this host */
};

/*
 * Why a socket is not accelerated. Later versions may add values; taut_fd_info.text says every one
 * in words.
 */
enum taut_reason {
	TAUT_REASON_NONE = 0,
	TAUT_REASON_OTHER = 1,     /* see the text */
	TAUT_REASON_ABSENT = 2,    /* the library is not loaded */
	TAUT_REASON_NO_SOCKET = 3, /* not an IPv4 or IPv6 stream or datagram socket */
	TAUT_REASON_YOUNG = 4,     /* too few messages yet */
	TAUT_REASON_PEER = 5,      /* the other end is plain, remote, another user's, or unknown */
	TAUT_REASON_OPTION = 6,    /* an option or flag that only the kernel serves */
	TAUT_REASON_SHARED = 7,   /* used where the library can't see: fork, exec, fdopen, passed */
	TAUT_REASON_RULE = 8,     /* a rule of the configuration, or taut_fd_accelerate(fd, 0) */
	TAUT_REASON_RESOURCE = 9, /* no memory, descriptors or permission */
	TAUT_REASON_MOMENT = 10,  /* for now: the receiver sleeps, or the ring is full */
};

struct taut_fd_info {
	int accelerated; /* 1: at least one direction does not use the kernel now */
	int tx;          /* enum taut_transport */
	int rx;
	int reason; /* enum taut_reason: why a direction is the kernel's, or NONE */
	char text[96];
};

#ifndef TAUT_SOCKET_EXPORTS
#include <dlfcn.h>
#include <string.h>

/* Not for use: one look for one function. RTLD_DEFAULT is a null pointer on every ELF system. */
static inline void *taut_look(void **cache, int *looked, const char *name)
{
	if (!__atomic_load_n(looked, __ATOMIC_ACQUIRE)) {
		__atomic_store_n(cache, dlsym(NULL, name), __ATOMIC_RELAXED);
		__atomic_store_n(looked, 1, __ATOMIC_RELEASE);
	}
	return __atomic_load_n(cache, __ATOMIC_RELAXED);
}

/* The version of the loaded library, such as "0.1.0", or NULL when there is none. */
static inline const char *taut_version(void)
{
	static void *cache;
	static int looked;
	void *found = taut_look(&cache, &looked, "taut_version");
	const char *(*fn)(void);

	memcpy(&fn, &found, sizeof(fn));
	return found ? fn() : NULL;
}

/* 1 when the library is loaded, else 0. */
static inline int taut_present(void)
{
	return taut_version() != NULL;
}

/* Fills *info, of size bytes. 0, or -1 with errno: EBADF, EINVAL (a size that no version had). */
static inline int taut_fd_info(int fd, struct taut_fd_info *info, size_t size)
{
	static void *cache;
	static int looked;
	void *found = taut_look(&cache, &looked, "taut_fd_info");
	int (*fn)(int, struct taut_fd_info *, size_t);

	memcpy(&fn, &found, sizeof(fn));
	if (found)
		return fn(fd, info, size);
	if (size < sizeof(*info)) {
		errno = EINVAL;
		return -1;
	}
	memset(info, 0, sizeof(*info));
	info->reason = TAUT_REASON_ABSENT;
	memcpy(info->text, "libtaut.so is not loaded", sizeof("libtaut.so is not loaded"));
	return 0;
}

/*
 * on = 0: the socket uses the kernel from the next call on; nothing is lost. on = 1: it may be
 * accelerated, unless it already was when it was switched off: then it stays with the kernel.
 * 0, or -1 with errno: EBADF, ENOTSUP (not a socket that can be accelerated), ENOSYS (the library
 * is not loaded).
 */
static inline int taut_fd_accelerate(int fd, int on)
{
	static void *cache;
	static int looked;
	void *found = taut_look(&cache, &looked, "taut_fd_accelerate");
	int (*fn)(int, int);

	memcpy(&fn, &found, sizeof(fn));
	if (found)
		return fn(fd, on);
	errno = ENOSYS;
	return -1;
}

/*
 * Warms the path of send(fd, buf, len, 0). Nothing is sent, whether the library is there or not.
 * Returns len where the path was run and 0 where there was nothing to warm.
 */
static inline ssize_t taut_send_warm(int fd, const void *buf, size_t len)
{
	struct taut_fd_info info;

	if (!taut_present() || taut_fd_info(fd, &info, sizeof(info)) != 0 || !info.accelerated)
		return 0;
	return send(fd, buf, len, TAUT_MSG_WARM);
}

#else
const char *taut_version(void);
int taut_fd_info(int fd, struct taut_fd_info *info, size_t size);
int taut_fd_accelerate(int fd, int on);
#endif

#ifdef __cplusplus
}
#endif

#endif
