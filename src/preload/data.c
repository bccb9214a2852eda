/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * data.c - one message or piece of a stream: read, write, recv, send and their forms.
 */
#include "preload/preload.h"

#include <limits.h>

#include "base/copy.h"

#include "preload/rights.h"

/*
 * What the kernel does with read() and a length of 0 is not what it does with recv(): it returns 0
 * and takes nothing; readv() and writev() of nothing do nothing either. So these go there. Only
 * write() of nothing is a send.
 */
ssize_t read(int fd, void *buf, size_t len)
{
	struct tt_sock *s = tt_preload_sock(fd);
	int saved;

	if (tt_likely(!s) || len == 0)
		return tt_sys.read(fd, buf, len);
	saved = errno;
	return tt_preload_result(tt_sock_recv(s, fd, buf, len, TT_CALL_READ), saved);
}

ssize_t __read_chk(int fd, void *buf, size_t len, size_t buf_len)
{
	if (len > buf_len)
		__chk_fail();
	return read(fd, buf, len);
}

/*
 * Sum of the entries, cut at the most that one call moves, or -1 where the kernel refuses them
 * before it looks at the socket.
 */
static ssize_t iov_sum(const struct iovec *iov, int n)
{
	size_t sum = 0;

	if (n < 0 || n > IOV_MAX || !tt_copy_readable(iov, (size_t)n * sizeof(*iov)))
		return -1;
	for (int i = 0; i < n; i++) {
		if (iov[i].iov_len > SSIZE_MAX)
			return -1;
		sum = tt_min(sum + iov[i].iov_len, (size_t)INT_MAX);
	}
	return (ssize_t)sum;
}

static ssize_t recv_iov(struct tt_sock *s, int fd, const struct iovec *iov, int n, int flags)
{
	struct msghdr msg = {.msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)n};
	int saved = errno;

	if (n == 1)
		return tt_preload_result(
		    tt_sock_recv(s, fd, iov->iov_base, iov->iov_len, flags), saved);
	return tt_preload_result(tt_sock_recvmsg(s, fd, &msg, flags), saved);
}

static ssize_t send_iov(struct tt_sock *s, int fd, const struct iovec *iov, int n, int flags)
{
	struct msghdr msg = {.msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)n};
	int saved = errno;

	return tt_preload_result(tt_sock_sendmsg(s, fd, &msg, flags), saved);
}

ssize_t readv(int fd, const struct iovec *iov, int n)
{
	struct tt_sock *s = tt_preload_sock(fd);

	if (tt_likely(!s) || iov_sum(iov, n) <= 0)
		return tt_sys.readv(fd, iov, n);
	return recv_iov(s, fd, iov, n, TT_CALL_READV);
}

ssize_t writev(int fd, const struct iovec *iov, int n)
{
	struct tt_sock *s = tt_preload_sock(fd);

	if (tt_likely(!s) || iov_sum(iov, n) <= 0)
		return tt_sys.writev(fd, iov, n);
	return send_iov(s, fd, iov, n, TT_CALL_READV);
}

/*
 * An offset of -1 is readv() with flags; any other is ESPIPE on a socket. Of the flags only
 * RWF_NOWAIT means something here. (Kernels before 6.5 refuse it on sockets; it is honoured on
 * those as well.)
 */
ssize_t preadv2(int fd, const struct iovec *iov, int n, off_t offset, int flags)
{
	struct tt_sock *s = tt_preload_sock(fd);

	if (tt_likely(!s) || offset != -1 || (flags & ~RWF_NOWAIT) || iov_sum(iov, n) <= 0)
		return tt_sys.preadv2(fd, iov, n, offset, flags);
	return recv_iov(s, fd, iov, n, flags & RWF_NOWAIT ? MSG_DONTWAIT : 0);
}

ssize_t pwritev2(int fd, const struct iovec *iov, int n, off_t offset, int flags)
{
	struct tt_sock *s = tt_preload_sock(fd);

	if (tt_likely(!s) || offset != -1 || (flags & ~RWF_NOWAIT) || iov_sum(iov, n) <= 0)
		return tt_sys.pwritev2(fd, iov, n, offset, flags);
	return send_iov(s, fd, iov, n, flags & RWF_NOWAIT ? MSG_DONTWAIT : 0);
}

ssize_t recv(int fd, void *buf, size_t len, int flags)
{
	struct tt_sock *s = tt_preload_sock(fd);
	int saved;

	if (tt_likely(!s))
		return tt_sys.recv(fd, buf, len, flags);
	saved = errno;
	return tt_preload_result(tt_sock_recv(s, fd, buf, len, flags), saved);
}

ssize_t __recv_chk(int fd, void *buf, size_t len, size_t buf_len, int flags)
{
	if (len > buf_len)
		__chk_fail();
	return recv(fd, buf, len, flags);
}

ssize_t recvfrom(
    int fd, void *buf, size_t len, int flags, struct sockaddr *addr, socklen_t *addr_len)
{
	struct tt_sock *s = tt_preload_sock(fd);
	struct iovec iov = {buf, len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	bool length_bad;
	int saved;
	ssize_t ret;

	if (tt_likely(!s))
		return tt_sys.recvfrom(fd, buf, len, flags, addr, addr_len);
	saved = errno;
	if (!addr)
		return tt_preload_result(tt_sock_recv(s, fd, buf, len, flags), saved);
	/* A bad length is found by the kernel when it returns the address: the message is gone
	 * then. */
	length_bad = !tt_copy_readable(addr_len, sizeof(*addr_len));
	if (tt_unlikely(length_bad || *addr_len > INT_MAX)) {
		ret = tt_sock_recv(s, fd, buf, len, flags);
		if (ret >= 0)
			ret = length_bad ? -EFAULT : -EINVAL;
		return tt_preload_result(ret, saved);
	}
	msg.msg_name = addr;
	msg.msg_namelen = *addr_len;
	ret = tt_sock_recvmsg(s, fd, &msg, flags | TT_CALL_FROM);
	if (ret >= 0)
		*addr_len = msg.msg_namelen;
	return tt_preload_result(ret, saved);
}

ssize_t __recvfrom_chk(int fd, void *buf, size_t len, size_t buf_len, int flags,
    struct sockaddr *addr, socklen_t *addr_len)
{
	if (len > buf_len)
		__chk_fail();
	return recvfrom(fd, buf, len, flags, addr, addr_len);
}

ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
	struct tt_sock *s = tt_preload_sock(fd);
	ssize_t ret;
	int saved;

	if (tt_likely(s)) {
		saved = errno;
		return tt_preload_result(tt_sock_recvmsg(s, fd, msg, flags), saved);
	}
	ret = tt_sys.recvmsg(fd, msg, flags);
	if (ret >= 0)
		tt_rights_arrived(msg);
	return ret;
}

ssize_t write(int fd, const void *buf, size_t len)
{
	struct tt_sock *s = tt_preload_sock(fd);
	int saved;

	if (tt_likely(!s))
		return tt_sys.write(fd, buf, len);
	saved = errno;
	return tt_preload_result(tt_sock_send(s, fd, buf, len, TT_CALL_READ), saved);
}

/* The warm flag means "send nothing": it must never reach the kernel, which knows no such flag and
 * would send. */
static ssize_t warm(struct tt_sock *s, int fd, size_t len)
{
	int saved = errno;

	tt_sock_warm(s, fd, len);
	return tt_preload_result((ssize_t)len, saved);
}

ssize_t send(int fd, const void *buf, size_t len, int flags)
{
	struct tt_sock *s = tt_preload_sock(fd);
	int saved;

	if (tt_unlikely(!s))
		return tt_sys.send(fd, buf, len, flags);
	if (tt_unlikely(flags & TAUT_MSG_WARM))
		return warm(s, fd, len);
	saved = errno;
	return tt_preload_result(tt_sock_send(s, fd, buf, len, flags), saved);
}

ssize_t sendto(
    int fd, const void *buf, size_t len, int flags, const struct sockaddr *addr, socklen_t addr_len)
{
	struct tt_sock *s = tt_preload_sock(fd);
	struct iovec iov = {(void *)(uintptr_t)buf, len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	int saved;

	if (tt_unlikely(!s))
		return tt_sys.sendto(fd, buf, len, flags, addr, addr_len);
	if (tt_unlikely(flags & TAUT_MSG_WARM))
		return warm(s, fd, len);
	saved = errno;
	if (!addr)
		return tt_preload_result(tt_sock_send(s, fd, buf, len, flags), saved);
	msg.msg_name = (void *)(uintptr_t)addr;
	msg.msg_namelen = addr_len;
	return tt_preload_result(tt_sock_sendmsg(s, fd, &msg, flags | TT_CALL_FROM), saved);
}

ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	struct tt_sock *s = tt_preload_sock(fd);
	int saved;

	if (tt_unlikely(!s)) {
		tt_rights_leaving(msg);
		return tt_sys.sendmsg(fd, msg, flags);
	}
	if (tt_unlikely(flags & TAUT_MSG_WARM) && tt_rights_readable(msg)) {
		size_t len = 0;

		for (size_t i = 0; i < msg->msg_iovlen; i++)
			len += msg->msg_iov[i].iov_len;
		return warm(s, fd, len);
	}
	saved = errno;
	return tt_preload_result(tt_sock_sendmsg(s, fd, msg, flags), saved);
}

#define TT_ALIAS_data TT_ALIAS_DEFINE
#include "preload/aliases.h"
