/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * std.c - parts of the C library that use a descriptor where we cannot see it: stdio, dprintf,
 * asynchronous I/O. Such a socket is the kernel's for good before the first byte goes that way.
 * fclose() and freopen() close inside the C library.
 */
#include "preload/preload.h"

#include <stdbool.h>
#include <string.h>
#include <stdlib.h>

/*
 * What lies unread in shared memory when a stream is made of a socket: stdio reads by calls that we don't see, so these bytes
 * go into its buffer, pushed back from the last to the first. glibc keeps any number of them.
 */
static bool unread_take(int fd, char **bytes, size_t *len)
{
	struct tt_sock *s = tt_fd_sock(fd);
	size_t most = s ? tt_sock_stranded(s) : 0; /* the lease is closed: more of it would be nonsense */
	size_t room = 0;

	*bytes = NULL;
	*len = 0;
	while (*len < most && tt_sock_stranded(s)) {
		ssize_t n;

		if (*len == room) {
			char *more = realloc(*bytes, room += tt_sock_stranded(s) + 4096);

			if (!more)
				return false;
			*bytes = more;
		}
		n = tt_sock_recv(s, fd, *bytes + *len, room - *len, MSG_DONTWAIT);
		if (n <= 0)
			break;
		*len += (size_t)n;
	}
	return true;
}

static bool mode_reads(const char *mode)
{
	return mode && (*mode == 'r' || strchr(mode, '+'));
}

FILE *fdopen(int fd, const char *mode)
{
	FILE *stream;
	char *bytes;
	size_t len;

	tt_sys_init();
	tt_preload_unseen(fd);
	stream = tt_sys.fdopen(fd, mode);
	if (!stream || !mode_reads(mode) || tt_vfork_active)
		return stream;
	(void)unread_take(fd, &bytes, &len); /* without memory for it: what was taken is kept, the rest is counted stranded */
	while (len)
		(void)ungetc((unsigned char)bytes[--len], stream);
	free(bytes);
	return stream;
}

static void stream_closes(FILE *stream)
{
	int saved = errno;
	int fd = fileno(stream);

	/* What is still buffered is written by fclose() to the kernel, where fdopen() has led all
	 * else before. */
	if (fd >= 0)
		tt_preload_vanish((unsigned int)fd, (unsigned int)fd);
	errno = saved;
}

int fclose(FILE *stream)
{
	tt_sys_init();
	stream_closes(stream);
	return tt_sys.fclose(stream);
}

FILE *freopen(const char *path, const char *mode, FILE *stream)
{
	tt_sys_init();
	stream_closes(stream);
	return tt_sys.freopen(path, mode, stream);
}

int vdprintf(int fd, const char *format, va_list ap)
{
	tt_sys_init();
	tt_preload_unseen(fd);
	return tt_sys.vdprintf(fd, format, ap);
}

int dprintf(int fd, const char *format, ...)
{
	va_list ap;
	int ret;

	va_start(ap, format);
	ret = vdprintf(fd, format, ap);
	va_end(ap);
	return ret;
}

int __vdprintf_chk(int fd, int flag, const char *format, va_list ap)
{
	tt_sys_init();
	tt_preload_unseen(fd);
	return tt_sys.__vdprintf_chk(fd, flag, format, ap);
}

int __dprintf_chk(int fd, int flag, const char *format, ...)
{
	va_list ap;
	int ret;

	va_start(ap, format);
	ret = __vdprintf_chk(fd, flag, format, ap);
	va_end(ap);
	return ret;
}

int aio_read(struct aiocb *cb)
{
	tt_sys_init();
	tt_preload_unseen(cb->aio_fildes);
	return tt_sys.aio_read(cb);
}

int aio_write(struct aiocb *cb)
{
	tt_sys_init();
	tt_preload_unseen(cb->aio_fildes);
	return tt_sys.aio_write(cb);
}

int lio_listio(int mode, struct aiocb *const list[], int n, struct sigevent *event)
{
	tt_sys_init();
	for (int i = 0; i < n; i++)
		if (list[i])
			tt_preload_unseen(list[i]->aio_fildes);
	return tt_sys.lio_listio(mode, list, n, event);
}

/* Where off_t has 64 bits, as on all that we build for, struct aiocb64 is struct aiocb by another
 * name. */
_Static_assert(sizeof(off_t) == 8 && sizeof(struct aiocb64) == sizeof(struct aiocb),
    "the 64-bit twins are the same calls");

int aio_read64(struct aiocb64 *cb)
{
	return aio_read((struct aiocb *)(void *)cb);
}

int aio_write64(struct aiocb64 *cb)
{
	return aio_write((struct aiocb *)(void *)cb);
}

int lio_listio64(int mode, struct aiocb64 *const list[], int n, struct sigevent *event)
{
	return lio_listio(mode, (struct aiocb *const *)(const void *)list, n, event);
}

#define TT_ALIAS_std TT_ALIAS_DEFINE
#include "preload/aliases.h"
