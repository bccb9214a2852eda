/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * many.c - several messages at once, and bytes that come from or go to another descriptor.
 *
 * recvmmsg() and sendmmsg() follow net/socket.c: an error is returned only when not even the first
 * message came through, the timeout is looked at only after a message, and an error after the first
 * message that recvmmsg() could not return is kept for the next call.
 */
#include "preload/preload.h"

#include <limits.h>
#include <time.h>

#include "base/copy.h"
#include "preload/rights.h"

#define NS_PER_S 1000000000L

static struct timespec timespec_add(struct timespec a, struct timespec b)
{
	struct timespec sum = {a.tv_sec + b.tv_sec, a.tv_nsec + b.tv_nsec};

	if (sum.tv_nsec >= NS_PER_S) {
		sum.tv_nsec -= NS_PER_S;
		sum.tv_sec++;
	}
	if (sum.tv_sec < a.tv_sec) /* b >= 0: it wrapped, for ever is close enough */
		sum.tv_sec = LONG_MAX;
	return sum;
}

/* Writes what is left until end to *left. False when nothing is. */
static bool timespec_left(struct timespec end, struct timespec *left)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	left->tv_sec = end.tv_sec - now.tv_sec;
	left->tv_nsec = end.tv_nsec - now.tv_nsec;
	if (left->tv_nsec < 0) {
		left->tv_nsec += NS_PER_S;
		left->tv_sec--;
	}
	if (left->tv_sec < 0)
		left->tv_sec = left->tv_nsec = 0;
	return left->tv_sec || left->tv_nsec;
}

static int recv_many(struct tt_sock *s, int fd, struct mmsghdr *msgs, unsigned int n, int flags,
    struct timespec *timeout)
{
	struct timespec end = {0};
	unsigned int got = 0;
	ssize_t ret = 0;

	if (timeout) {
		if (!tt_copy_readable(timeout, sizeof(*timeout)))
			return -EFAULT;
		if (timeout->tv_sec < 0 || (unsigned long)timeout->tv_nsec >= NS_PER_S)
			return -EINVAL;
		(void)clock_gettime(CLOCK_MONOTONIC, &end);
		end = timespec_add(end, *timeout);
	}
	while (got < n) {
		if (tt_unlikely(!tt_copy_readable(&msgs[got], sizeof(msgs[got]))))
			return got ? (int)got : -EFAULT;
		ret = tt_sock_recvmsg(s, fd, &msgs[got].msg_hdr, flags & ~MSG_WAITFORONE);
		if (ret < 0)
			break;
		msgs[got].msg_len = (unsigned int)ret;
		got++;
		if (flags & MSG_WAITFORONE)
			flags |= MSG_DONTWAIT;
		if (timeout && !timespec_left(end, timeout))
			break;
		if (msgs[got - 1].msg_hdr.msg_flags & MSG_OOB)
			break;
	}
	if (ret < 0 && got == 0)
		return (int)ret;
	if (ret < 0 && ret != -EAGAIN)
		tt_sock_error_set(s, (int)-ret);
	return (int)got;
}

int recvmmsg(int fd, struct mmsghdr *msgs, unsigned int n, int flags, struct timespec *timeout)
{
	struct tt_sock *s = tt_preload_sock(fd);
	int saved = errno;
	int ret;

	if (tt_likely(s))
		return tt_preload_result_int(recv_many(s, fd, msgs, n, flags, timeout), saved);
	ret = tt_sys.recvmmsg(fd, msgs, n, flags, timeout);
	for (int i = 0; i < ret; i++)
		tt_rights_arrived(&msgs[i].msg_hdr);
	return ret;
}

static size_t msg_bytes(const struct msghdr *msg)
{
	size_t sum = 0;

	for (size_t i = 0; i < msg->msg_iovlen; i++)
		sum += msg->msg_iov[i].iov_len;
	return sum;
}

static int send_many(struct tt_sock *s, int fd, struct mmsghdr *msgs, unsigned int n, int flags)
{
	unsigned int sent = 0;

	n = tt_min(n, (unsigned int)IOV_MAX);
	while (sent < n) {
		size_t len;
		ssize_t ret;

		if (tt_unlikely(!tt_rights_readable(&msgs[sent].msg_hdr)))
			return sent ? (int)sent : -EFAULT;
		len = msg_bytes(&msgs[sent].msg_hdr);

		if (tt_unlikely(flags & TAUT_MSG_WARM)) {
			tt_sock_warm(s, fd, len);
			ret = (ssize_t)len;
		} else {
			ret = tt_sock_sendmsg(s, fd, &msgs[sent].msg_hdr, flags);
		}
		if (ret < 0)
			return sent ? (int)sent : (int)ret;
		msgs[sent].msg_len = (unsigned int)ret;
		sent++;
		if ((size_t)ret < len) /* a stream is full: the rest of this message comes first */
			break;
	}
	return (int)sent;
}

int sendmmsg(int fd, struct mmsghdr *msgs, unsigned int n, int flags)
{
	struct tt_sock *s = tt_preload_sock(fd);
	int saved = errno;

	if (tt_likely(s))
		return tt_preload_result_int(send_many(s, fd, msgs, n, flags), saved);
	for (unsigned int i = 0; i < tt_min(n, (unsigned int)IOV_MAX); i++) {
		if (!tt_rights_readable(&msgs[i].msg_hdr))
			break;
		tt_rights_leaving(&msgs[i].msg_hdr);
	}
	return tt_sys.sendmmsg(fd, msgs, n, flags);
}

ssize_t sendfile(int out_fd, int in_fd, off_t *offset, size_t count)
{
	struct tt_sock *out = tt_preload_sock(out_fd);
	int saved = errno;

	/* From a socket is EINVAL, which the kernel says. */
	if (!out || tt_preload_sock(in_fd)) {
		tt_sys_init();
		return tt_sys.sendfile(out_fd, in_fd, offset, count);
	}
	return tt_preload_result(tt_sock_sendfile(out, out_fd, in_fd, offset, count), saved);
}

ssize_t splice(int fd_in, off_t *off_in, int fd_out, off_t *off_out, size_t len, unsigned int flags)
{
	int saved = errno;

	if (!tt_preload_sock(fd_in) && !tt_preload_sock(fd_out)) {
		tt_sys_init();
		return tt_sys.splice(fd_in, off_in, fd_out, off_out, len, flags);
	}
	return tt_preload_result(tt_sock_splice(fd_in, off_in, fd_out, off_out, len, flags), saved);
}

#define TT_ALIAS_many TT_ALIAS_DEFINE
#include "preload/aliases.h"
