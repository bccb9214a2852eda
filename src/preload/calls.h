/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * calls.h - the table calls.def as declarations: every wrapper is visible from outside, nothing
 * else is. A source that defines wrappers includes this first and, after them, aliases.h.
 */
#ifndef TT_PRELOAD_CALLS_H
#define TT_PRELOAD_CALLS_H

#include <errno.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/base.h"
#include "socket/socket.h"
#include "socket/sys.h"
#define TAUT_SOCKET_EXPORTS
#include "taut/socket.h"

/* What the headers do not declare, or only for programs that ask for an old standard. */
ssize_t __read_chk(int fd, void *buf, size_t len, size_t buf_len);
ssize_t __recv_chk(int fd, void *buf, size_t len, size_t buf_len, int flags);
ssize_t __recvfrom_chk(int fd, void *buf, size_t len, size_t buf_len, int flags,
    struct sockaddr *addr, socklen_t *addr_len);
int __poll_chk(struct pollfd *fds, nfds_t n, int timeout_ms, size_t fds_len);
int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask,
    size_t fds_len);
int __dprintf_chk(int fd, int flag, const char *format, ...);
int __vdprintf_chk(int fd, int flag, const char *format, va_list ap);
int pidfd_getfd(int pidfd, int target, unsigned int flags);
_Noreturn void __chk_fail(void);

#define TT_VISIBLE __attribute__((visibility("default")))

#define TT_CALL(topic, name, libc) extern __typeof__(name) name TT_VISIBLE;
#define TT_ALIAS(topic, alias, name, libc)
#define TT_HANDLER(topic, name, libc)
#define TT_API(name) extern __typeof__(name) name TT_VISIBLE;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include "preload/calls.def"
#pragma GCC diagnostic pop
#undef TT_CALL
#undef TT_ALIAS
#undef TT_HANDLER
#undef TT_API

#endif
