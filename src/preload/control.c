/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * control.c - flags and options of a descriptor.
 */
#include "preload/preload.h"

#include <sys/ioctl.h>

int fcntl(int fd, int cmd, ...)
{
	struct tt_sock *s;
	va_list ap;
	void *arg;
	int saved = errno;
	int ret;

	/* int, pointer or nothing: each is one register, and the C library reads it the same way.
	 */
	va_start(ap, cmd);
	arg = va_arg(ap, void *);
	va_end(ap);
	switch (cmd) {
	case F_DUPFD:
	case F_DUPFD_CLOEXEC:
		ret = tt_sys.fcntl(fd, cmd, arg);
		if (ret >= 0 && tt_preload_started()) {
			tt_fd_dup(fd, ret);
			errno = saved;
		}
		return ret;
	case F_SETFL:
		ret = tt_sys.fcntl(fd, cmd, arg);
		s = tt_preload_sock(fd);
		if (ret >= 0 && s) {
			tt_sock_set_status(s, (int)(intptr_t)arg);
			errno = saved;
		}
		return ret;
	default:
		return tt_sys.fcntl(fd, cmd, arg);
	}
}

int ioctl(int fd, unsigned long request, ...)
{
	struct tt_sock *s = tt_preload_sock(fd);
	va_list ap;
	void *arg;
	int saved = errno;
	int ret;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (!s)
		return tt_sys.ioctl(fd, request, arg);
	if (request != FIONBIO && request != FIOASYNC)
		return tt_preload_result_int(tt_sock_ioctl(s, fd, request, arg), saved);
	ret = tt_sys.ioctl(fd, request, arg);
	if (ret == 0) {
		int status = tt_sys.fcntl(fd, F_GETFL);

		if (status >= 0)
			tt_sock_set_status(s, status);
		errno = saved;
	}
	return ret;
}

int getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
	struct tt_sock *s = tt_preload_sock(fd);
	int saved = errno;

	if (!s)
		return tt_sys.getsockopt(fd, level, name, value, len);
	return tt_preload_result_int(tt_sock_getsockopt(s, fd, level, name, value, len), saved);
}

int setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
	struct tt_sock *s = tt_preload_sock(fd);
	int saved = errno;

	if (!s)
		return tt_sys.setsockopt(fd, level, name, value, len);
	return tt_preload_result_int(tt_sock_setsockopt(s, fd, level, name, value, len), saved);
}

#define TT_ALIAS_control TT_ALIAS_DEFINE
#include "preload/aliases.h"
