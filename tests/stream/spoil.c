/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * spoil.so - a preload library that does what a broken transport would do, so that the checkers can
 * be seen to notice.
 *
 * TT_SPOIL=flip turns one bit of every 500th received block, drop leaves out a byte, twice gives a
 * byte again, short cuts the stream (an end of stream too early), hang loses a block that was sent.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

ssize_t read(int fd, void *buf, size_t n);
ssize_t write(int fd, const void *buf, size_t n);

static bool hit(const char *kind)
{
	static _Atomic unsigned int count;
	const char *want = getenv("TT_SPOIL");

	return want && strcmp(want, kind) == 0 && atomic_fetch_add(&count, 1) % 500 == 499;
}

static bool is_stream(int fd)
{
	int type = 0;
	socklen_t len = sizeof(type);

	return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_STREAM;
}

ssize_t read(int fd, void *buf, size_t n)
{
	static ssize_t (*next)(int, void *, size_t);
	ssize_t r;

	if (!next)
		next = (ssize_t(*)(int, void *, size_t))dlsym(RTLD_NEXT, "read");
	if (!is_stream(fd))
		return next(fd, buf, n);
	if (hit("short"))
		return 0;
	r = next(fd, buf, n);
	if (r < 2)
		return r;
	if (hit("flip"))
		((char *)buf)[r / 2] ^= 1;
	if (hit("drop")) {
		memmove((char *)buf + r / 2, (char *)buf + r / 2 + 1, (size_t)(r - r / 2 - 1));
		return r - 1;
	}
	if (hit("twice"))
		memmove((char *)buf + 1, buf, (size_t)r - 1);
	return r;
}

ssize_t write(int fd, const void *buf, size_t n)
{
	static ssize_t (*next)(int, const void *, size_t);

	if (!next)
		next = (ssize_t(*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
	return is_stream(fd) && hit("hang") ? (ssize_t)n : next(fd, buf, n);
}
