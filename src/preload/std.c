/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * std.c - parts of the C library that use a descriptor where we cannot see it: stdio, dprintf,
 * asynchronous I/O. What they do, reading or writing, is the kernel's for good before the first byte
 * goes that way. fclose() and freopen() close inside the C library.
 *
 * Bytes that lie unread in shared memory when a stream is made of their socket stay there, in their
 * place: the stream is then one that reads and writes by our calls (fopencookie(3)), so it shares them
 * with every other stream and every call on the descriptor, as it would share the kernel's queue.
 * Such a stream knows no wide characters.
 */
#include "preload/preload.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>

#define MODE_CHARS 5 /* the C library looks at so many of the mode's */

static int cookie_fd(void *cookie)
{
	return (int)(intptr_t)cookie;
}

static ssize_t cookie_read(void *cookie, char *buf, size_t len)
{
	return read(cookie_fd(cookie), buf, len);
}

/* All of it, as the C library's own streams do; less means an error. */
static ssize_t cookie_write(void *cookie, const char *buf, size_t len)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = write(cookie_fd(cookie), buf + done, len - done);

		if (n < 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

static int cookie_seek(void *cookie, off64_t *offset, int whence)
{
	(void)cookie;
	(void)offset;
	(void)whence;
	errno = ESPIPE;
	return -1;
}

static int cookie_close(void *cookie)
{
	return close(cookie_fd(cookie));
}

struct mode {
	bool reads;
	bool writes;
	char text[3];
};

/* False: for the C library to refuse. */
static bool mode_parse(const char *mode, struct mode *m)
{
	bool both = false;

	if (!mode || (*mode != 'r' && *mode != 'w' && *mode != 'a'))
		return false;
	for (int i = 1; i < MODE_CHARS && mode[i]; i++)
		both = both || mode[i] == '+';
	m->reads = both || *mode == 'r';
	m->writes = both || *mode != 'r';
	m->text[0] = *mode;
	m->text[1] = both ? '+' : '\0';
	m->text[2] = '\0';
	return true;
}

static FILE *cookie_open(int fd, const struct mode *m)
{
	static const cookie_io_functions_t calls = {
	    .read = cookie_read,
	    .write = cookie_write,
	    .seek = cookie_seek,
	    .close = cookie_close,
	};
	int flags = tt_sys.fcntl(fd, F_GETFL);
	FILE *stream = fopencookie((void *)(intptr_t)fd, m->text, calls);

	if (!stream)
		return NULL;
	stream->_fileno = fd; /* for fileno() */
	if (m->text[0] == 'a' && flags >= 0 && !(flags & O_APPEND))
		(void)tt_sys.fcntl(fd, F_SETFL, flags | O_APPEND);
	return stream;
}

/* True: what lies unread can only be read by our calls. */
static bool part_unseen(int fd, bool reads, bool writes)
{
	struct tt_sock *s = tt_preload_sock(fd);
	int saved = errno;
	bool left = s && tt_sock_unseen_part(s, reads, writes);

	errno = saved;
	return left;
}

FILE *fdopen(int fd, const char *mode)
{
	struct mode m;

	tt_sys_init();
	if (mode_parse(mode, &m) && part_unseen(fd, m.reads, m.writes))
		return cookie_open(fd, &m);
	return tt_sys.fdopen(fd, mode);
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
	(void)part_unseen(fd, false, true);
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
	(void)part_unseen(fd, false, true);
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
