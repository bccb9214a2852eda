/* SPDX-License-Identifier: BSD-3-Clause */
#include "socket/sock.h"

#include <errno.h>
#include <limits.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>

#include "base/copy.h"
#include "base/raw.h"
#include "socket/cancel.h"
#include "socket/dgram.h"
#include "socket/epoll.h"
#include "socket/lease.h"

/* ---- data ---- */

/* What the socket fails with before anything else: nonsense of the peer for ever, an error of our own once. */
static tt_noinline ssize_t trouble_take(struct tt_sock *s)
{
	if (s->hostile)
		return -ECONNRESET;
	return -__atomic_exchange_n(&s->pending_err, 0, __ATOMIC_RELAXED);
}

static inline ssize_t trouble(struct tt_sock *s)
{
	if (tt_likely(!s->hostile && !__atomic_load_n(&s->pending_err, __ATOMIC_RELAXED)))
		return 0;
	return trouble_take(s);
}

/* Under a filter a socket is ours only as long as something lies in its ring. */
static ssize_t recv_done(struct tt_sock *s, int fd, ssize_t n)
{
	const struct tt_dir *dir = tt_load_acquire(&s->rx.dir);

	if (tt_unlikely(tt_process_confined) && dir && tt_load_acquire(&dir->tail) == s->rx.head)
		tt_fd_forget(fd);
	return n;
}

/* MSG_TRUNC on a stream: bytes are taken and thrown away (tcp(7)). */
static ssize_t recv_away(struct tt_sock *s, int fd, size_t len, int flags)
{
	uint8_t away[8192];
	size_t done = 0;

	flags &= ~MSG_TRUNC;
	while (done < len) {
		struct iovec iov = {away, tt_min(len - done, sizeof(away))};
		ssize_t n = tt_stream_recv(s, fd, &iov, 1, flags);

		if (n <= 0 && !done)
			return n;
		if (n <= 0)
			break;
		done += (size_t)n;
		if (flags & MSG_PEEK) /* no further than this buffer */
			break;
		if (!(flags & MSG_WAITALL))
			flags |= MSG_DONTWAIT;
	}
	return (ssize_t)done;
}

ssize_t tt_sock_recv(struct tt_sock *s, int fd, void *buf, size_t len, int flags)
{
	ssize_t err;
	struct iovec iov = {.iov_base = buf, .iov_len = len};

	if (tt_unlikely((err = trouble(s)) != 0))
		return err;
	if (tt_unlikely(flags & MSG_TRUNC) && s->type == SOCK_STREAM && s->rx.dir)
		return recv_done(s, fd, recv_away(s, fd, len, flags));
	if (s->type == SOCK_STREAM)
		return recv_done(s, fd, tt_stream_recv(s, fd, &iov, 1, flags));
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	return tt_dgram_recv(s, fd, &msg, flags & ~TT_CALLS);
}

/* What a message header points to, except the data: for the kernel to refuse otherwise. */
static bool msg_readable(const struct msghdr *msg)
{
	return tt_copy_readable(msg, sizeof(*msg)) &&
	    (msg->msg_iovlen > 1024 || tt_copy_readable(msg->msg_iov, msg->msg_iovlen * sizeof(*msg->msg_iov))) &&
	    (!msg->msg_name ||
		tt_copy_readable(msg->msg_name, tt_min(msg->msg_namelen, (socklen_t)sizeof(struct sockaddr_storage))));
}

static bool is_from(int flags)
{
	return (flags & TT_CALLS) == TT_CALL_FROM;
}

static ssize_t recvmsg_call(int fd, struct msghdr *msg, int flags)
{
	if (is_from(flags) && msg->msg_iovlen == 1)
		return tt_sys.recvfrom(fd, msg->msg_iov->iov_base, msg->msg_iov->iov_len, flags & ~TT_CALLS, msg->msg_name,
		    &msg->msg_namelen);
	return tt_sys.recvmsg(fd, msg, flags & ~TT_CALLS);
}

static ssize_t sendmsg_call(int fd, const struct msghdr *msg, int flags)
{
	if (is_from(flags) && msg->msg_iovlen == 1)
		return tt_sys.sendto(fd, msg->msg_iov->iov_base, msg->msg_iov->iov_len, flags & ~TT_CALLS, msg->msg_name,
		    msg->msg_namelen);
	return tt_sys.sendmsg(fd, msg, flags & ~TT_CALLS);
}

/* By read() or write() and their like, which the stream's own way makes. */
static bool is_plain(int flags)
{
	return (flags & TT_CALLS) && !is_from(flags);
}

static ssize_t recvmsg_kernel(struct tt_sock *s, int fd, struct msghdr *msg, int flags)
{
	TT_SLEEPER(sleeper);
	ssize_t n;

	tt_sleeper_begin(&sleeper, s);
	n = recvmsg_call(fd, msg, flags);
	n = n < 0 ? -errno : n;
	if (n > 0 && !(flags & (MSG_PEEK | MSG_OOB | MSG_ERRQUEUE)))
		__atomic_fetch_add(&s->rx.kcons, (uint64_t)n, __ATOMIC_RELAXED);
	tt_sleeper_end(&sleeper);
	if (n < 0) {
		tt_attach_poll();
		return n;
	}
	s->stat->n.rx_kernel_bytes += (uint64_t)n;
	s->stat->n.rx_kernel_msgs++;
	tt_attach_received(s, fd, (flags & MSG_PEEK) ? 0 : (size_t)n);
	return n;
}

ssize_t tt_sock_recvmsg(struct tt_sock *s, int fd, struct msghdr *msg, int flags)
{
	ssize_t err;
	ssize_t n;

	if (tt_unlikely((err = trouble(s)) != 0))
		return err;
	if (tt_unlikely(!msg_readable(msg)))
		return tt_sys.recvmsg(fd, msg, (flags & ~TT_CALLS) | MSG_DONTWAIT) < 0 ? -errno : -EFAULT;
	if (s->type != SOCK_STREAM)
		return tt_dgram_recv(s, fd, msg, flags & ~TT_CALLS);
	/* Not by the ring: the kernel fills everything in. */
	if ((!tt_stream_recv_seen(s) && !is_plain(flags)) || (flags & (MSG_OOB | MSG_ERRQUEUE)) ||
	    msg->msg_iovlen > 1024)
		return recvmsg_kernel(s, fd, msg, flags);
	n = recv_done(s, fd, tt_stream_recv(s, fd, msg->msg_iov, msg->msg_iovlen, flags));
	if (n >= 0) {
		/* TCP gives no address and, without options that keep a socket with the kernel, no control data. */
		msg->msg_namelen = 0;
		msg->msg_controllen = 0;
		msg->msg_flags = 0;
	}
	return n;
}

ssize_t tt_sock_send(struct tt_sock *s, int fd, const void *buf, size_t len, int flags)
{
	ssize_t err;
	struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};

	if (tt_unlikely((err = trouble(s)) != 0))
		return err;
	if (s->type == SOCK_STREAM)
		return tt_stream_send(s, fd, &iov, 1, flags);
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	return tt_dgram_send(s, fd, &msg, flags & ~TT_CALLS);
}

static ssize_t sendmsg_kernel(struct tt_sock *s, int fd, const struct msghdr *msg, int flags)
{
	TT_TOLD(told);
	ssize_t n;

	tt_told_begin(s, &told);
	n = sendmsg_call(fd, msg, flags);
	n = n < 0 ? -errno : n;
	tt_told_end(s, fd, &told, n);
	return n;
}

/* sendmsg() takes an address without length for none, and cuts one that is too long, as from here on sendto() would not. */
static ssize_t dgram_sendmsg(struct tt_sock *s, int fd, const struct msghdr *msg, int flags)
{
	struct msghdr cut = *msg;

	if (is_from(flags) || (msg->msg_namelen - 1 < sizeof(struct sockaddr_storage) || !msg->msg_name))
		return tt_dgram_send(s, fd, msg, flags & ~TT_CALLS);
	if (msg->msg_namelen == 0)
		cut.msg_name = NULL;
	else if (msg->msg_namelen <= INT_MAX)
		cut.msg_namelen = sizeof(struct sockaddr_storage);
	return tt_dgram_send(s, fd, &cut, flags & ~TT_CALLS);
}

ssize_t tt_sock_sendmsg(struct tt_sock *s, int fd, const struct msghdr *msg, int flags)
{
	ssize_t err;

	if (tt_unlikely((err = trouble(s)) != 0))
		return err;
	if (tt_unlikely(!msg_readable(msg)))
		return s->type == SOCK_STREAM ? sendmsg_kernel(s, fd, msg, flags)
		    : sendmsg_call(fd, msg, flags) < 0 ? -errno : -EFAULT;
	if (s->type != SOCK_STREAM)
		return dgram_sendmsg(s, fd, msg, flags);
	/* Control data, or a list that the kernel must judge: its path. An address means nothing on a connected stream. */
	if (msg->msg_controllen || msg->msg_iovlen > 1024 ||
	    (flags & (MSG_OOB | MSG_FASTOPEN | MSG_ZEROCOPY))) {
		if (flags & (MSG_OOB | MSG_ZEROCOPY)) {
			tt_store_relaxed(&s->tx.last, true);
			tt_tx_stop(s);
		}
		return sendmsg_kernel(s, fd, msg, flags);
	}
	if (!tt_stream_send_seen(s, fd) && !is_plain(flags)) {
		ssize_t n = sendmsg_kernel(s, fd, msg, flags);

		if (n >= 0)
			tt_attach_sent(s, fd, (size_t)n);
		return n;
	}
	return tt_stream_send(s, fd, msg->msg_iov, msg->msg_iovlen, flags);
}

#define SENDFILE_PIECE (16u << 10)

ssize_t tt_sock_sendfile(struct tt_sock *out, int out_fd, int in_fd, off_t *offset, size_t count)
{
	uint8_t piece[SENDFILE_PIECE];
	size_t done = 0;
	off_t at = -1; /* the kernel refuses a bad pointer */
	ssize_t n;

	if (!offset)
		at = (off_t)tt_raw3(SYS_lseek, in_fd, 0, SEEK_CUR);
	else if (tt_copy_readable(offset, sizeof(*offset)))
		at = *offset;
	if (out->type != SOCK_STREAM || !tt_load_acquire(&out->tx.dir) || out->tx.kernel_only || at < 0) {
		TT_TOLD(told);

		if (out->type != SOCK_STREAM) /* how many datagrams become of it, nobody knows */
			tt_dgram_tx_stop(out, TT_REASON_FLAG);
		tt_told_begin(out, &told);
		n = tt_sys.sendfile(out_fd, in_fd, offset, count);
		n = n < 0 ? -errno : n;
		tt_told_end(out, out_fd, &told, n);
		if (n > 0)
			tt_attach_sent(out, out_fd, (size_t)n);
		return n;
	}
	while (done < count) {
		ssize_t sent;
		long got = tt_raw4(SYS_pread64, in_fd, piece, tt_min(count - done, sizeof(piece)),
		    at + (off_t)done);

		if (got < 0 && !done)
			return got == -ESPIPE ? -EINVAL : got;
		if (got <= 0)
			break;
		sent = tt_sock_send(out, out_fd, piece, (size_t)got, 0);
		if (sent < 0 && !done)
			return sent;
		if (sent <= 0)
			break;
		done += (size_t)sent;
		if (sent < got)
			break;
	}
	if (offset)
		*offset = at + (off_t)done;
	else
		(void)tt_raw3(SYS_lseek, in_fd, at + (off_t)done, SEEK_SET);
	return (ssize_t)done;
}

/* What lies in the ring goes into the pipe first; the program calls again for the rest. */
static ssize_t splice_ring(struct tt_sock *in, int fd_in, int fd_out, size_t len, unsigned int flags)
{
	uint8_t piece[4096]; /* PIPE_BUF: such a write is all or nothing */
	struct pollfd room = {.fd = fd_out, .events = POLLOUT};
	struct timespec now = {0};
	ssize_t n = tt_sock_recv(in, fd_in, piece, tt_min(len, sizeof(piece)), MSG_PEEK | MSG_DONTWAIT);
	ssize_t put;

	if (n <= 0)
		return n;
	if ((flags & SPLICE_F_NONBLOCK) && tt_raw5(SYS_ppoll, &room, 1, &now, 0, 8) <= 0)
		return -EAGAIN;
	put = tt_sys.write(fd_out, piece, (size_t)n);
	if (put <= 0)
		return put < 0 ? -errno : put;
	return tt_sock_recv(in, fd_in, piece, (size_t)put, MSG_DONTWAIT);
}

ssize_t tt_sock_splice(int fd_in, off_t *off_in, int fd_out, off_t *off_out, size_t len,
    unsigned int flags)
{
	struct tt_sock *in = tt_fd_sock(fd_in);
	struct tt_sock *out = tt_fd_sock(fd_out);
	TT_TOLD(told);
	ssize_t n;

	if (in && in->type == SOCK_STREAM && !in->rx.kernel_only) {
		/* Bytes move from the kernel's queue to a pipe: this direction stays with the kernel. */
		tt_sock_rx_stop(in, TT_REASON_FLAG);
		if (in->rx.dir && tt_load_acquire(&in->rx.dir->tail) != in->rx.head)
			return splice_ring(in, fd_in, fd_out, len, flags);
	}
	if (out) {
		if (out->type != SOCK_STREAM)
			tt_dgram_tx_stop(out, TT_REASON_FLAG);
		tt_told_begin(out, &told);
		told.excuse = &out->stat->n.tx_last_bytes;
	}
	n = tt_sys.splice(fd_in, off_in, fd_out, off_out, len, flags);
	n = n < 0 ? -errno : n;
	if (out)
		tt_told_end(out, fd_out, &told, n);
	if (n > 0 && in)
		__atomic_fetch_add(&in->rx.kcons, (uint64_t)n, __ATOMIC_RELAXED);
	return n;
}

/* ---- life ---- */

/* The receiving side goes back to the kernel for good; what lies in the ring is still read first. */
void tt_sock_rx_stop(struct tt_sock *s, enum tt_reason reason)
{
	struct tt_close_turns t = {0};

	/* Before the look at the word: a thread that opens it at this moment looks at this afterwards. */
	__atomic_store_n(&s->rx.kernel_only, true, __ATOMIC_SEQ_CST);
	s->barred = s->barred || reason != TT_REASON_EXEC;
	s->forked &= (uint8_t)~TT_FORKED_RX;
	if (tt_attach_state(s) == TT_ATTACH_NONE || tt_attach_state(s) == TT_ATTACH_OFFERED) {
		if (tt_attach_state(s) == TT_ATTACH_NONE)
			tt_attach_never(s, reason);
	}
	tt_store_relaxed(&s->stat->rx, (uint16_t)TT_TRANSPORT_KERNEL);
	tt_stat_reason(s->stat, reason);
	if (s->dgram && !s->foreign)
		tt_dgram_moved(s); /* ends its flows; what is in the rings can still be read */
	if (!s->rx.dir || s->foreign)
		return;
	__atomic_store_n(&s->rx.dir->word.asleep, TT_LEFT_OFF, __ATOMIC_RELAXED);
	while (tt_lease_close(s) && !tt_lease_ended(s, tt_load_relaxed(&s->fd)) && tt_close_turn(&t))
		;
}

void tt_sock_stop(struct tt_sock *s, enum tt_reason reason)
{
	tt_tx_stop(s);
	tt_store_relaxed(&s->stat->tx, (uint16_t)TT_TRANSPORT_KERNEL);
	tt_sock_rx_stop(s, reason);
}

void tt_sock_passed(struct tt_sock *s, int fd)
{
	tt_unread_return(s, fd, true);
	s->shared = true;
	tt_share_given(s);
	tt_sock_stop(s, TT_REASON_PASSED);
}

void tt_sock_unseen(struct tt_sock *s, int fd)
{
	tt_unread_return(s, fd, true);
	tt_sock_stop(s, TT_REASON_UNSEEN);
}

bool tt_sock_unseen_part(struct tt_sock *s, bool reads, bool writes)
{
	if (s->type != SOCK_STREAM || tt_attach_state(s) == TT_ATTACH_NONE)
		reads = writes = true;
	if (writes) {
		tt_tx_stop(s);
		s->barred = true;
		tt_store_relaxed(&s->stat->tx, (uint16_t)TT_TRANSPORT_KERNEL);
		tt_stat_reason(s->stat, TT_REASON_UNSEEN);
	}
	if (!reads)
		return false;
	tt_sock_rx_stop(s, TT_REASON_UNSEEN);
	return tt_sock_stranded(s) || (s->type == SOCK_STREAM && s->rx.dir && !s->foreign && tt_lease_close(s));
}

int tt_sock_bind(struct tt_sock *s, int fd, const struct sockaddr *addr, socklen_t len)
{
	if (tt_sys.bind(fd, addr, len) < 0)
		return -errno;
	if (s->type == SOCK_DGRAM) {
		tt_stat_addresses(s->stat, fd);
		tt_dgram_moved(s);
	}
	return 0;
}

int tt_sock_listen(struct tt_sock *s, int fd, int backlog)
{
	if (tt_sys.listen(fd, backlog) < 0)
		return -errno;
	s->role = TT_ROLE_LISTENER;
	s->stat->flags |= TT_STAT_LISTEN;
	s->stat->reason = TT_REASON_NONE;
	tt_stat_addresses(s->stat, fd);
	return 0;
}

int tt_sock_connect(struct tt_sock *s, int fd, const struct sockaddr *addr, socklen_t len)
{
	int err = 0;

	if (s->type == SOCK_STREAM && tt_attach_state(s) != TT_ATTACH_NONE && tt_attach_state(s) != TT_ATTACH_NEVER &&
	    addr && len >= sizeof(sa_family_t) && addr->sa_family == AF_UNSPEC)
		tt_detach(s); /* dissolves the connection */
	if (tt_sys.connect(fd, addr, len) < 0)
		err = -errno;
	if (s->type == SOCK_DGRAM) {
		if (!err) {
			tt_stat_addresses(s->stat, fd);
			tt_dgram_moved(s);
		}
		return err;
	}
	if (!err || err == -EINPROGRESS || err == -EINTR)
		s->role = TT_ROLE_CLIENT;
	return err;
}

int tt_sock_shutdown(struct tt_sock *s, int fd, int how)
{
	struct tt_dir *tx;
	int err = 0;

	if (how == SHUT_WR || how == SHUT_RDWR) {
		tt_unread_give(s);
		tt_store_relaxed(&s->tx.last, true);
		tt_tx_stop(s);
	}
	if (how == SHUT_RD || how == SHUT_RDWR)
		if (tt_load_acquire(&s->rx.dir))
			tt_sock_rx_stop(s, TT_REASON_CLOSED);
	/* Nobody is inside the word when R sees the end: it would not wait for him. */
	if (how != SHUT_RD && tt_load_acquire(&s->tx.dir) && tt_lock_wait(&s->tx_lock))
		tt_unlock(&s->tx_lock);
	if (tt_sys.shutdown(fd, how) < 0)
		err = -errno;
	tx = tt_load_acquire(&s->tx.dir);
	if (!err && tx && how != SHUT_RD)
		tt_store_release(&tx->fin, 1);
	return err;
}

size_t tt_sock_stranded(const struct tt_sock *s)
{
	const struct tt_dir *dir = tt_load_acquire(&s->rx.dir);
	uint64_t n;

	if (s->type != SOCK_STREAM || !dir)
		return 0;
	n = tt_load_acquire(&dir->tail) - s->rx.head;
	return n <= s->rx.size ? (size_t)n : 0;
}

/* ---- options ---- */

#define VALUE_LOOK 64u /* bytes of an option's value: all of those that matter here */

static bool value_is_set(const void *value, socklen_t len)
{
	const uint8_t *bytes = value;

	for (socklen_t i = 0; i < len && i < VALUE_LOOK; i++)
		if (bytes[i])
			return true;
	return false;
}

/* Then a datagram longer than the path's MTU is refused with EMSGSIZE. A ring knows no path. An int, or a byte of it (ip(7)). */
static bool forbids_fragments(const void *value, socklen_t len)
{
	int how;

	if (len < sizeof(how))
		how = *(const uint8_t *)value;
	else
		memcpy(&how, value, sizeof(how));
	return how == IP_PMTUDISC_DO || how == IP_PMTUDISC_PROBE || how == IP_PMTUDISC_INTERFACE;
}

/* Options that make the kernel treat bytes in a way that a ring does not. */
static bool option_needs_kernel(const struct tt_sock *s, int level, int name, const void *value,
    socklen_t len)
{
	bool set = value && value_is_set(value, len);

	if (level == SOL_SOCKET) {
		switch (name) {
		case SO_RCVLOWAT:
			return value && len >= sizeof(int) && *(const int *)value > 1;
		case SO_TIMESTAMP_OLD:
		case SO_TIMESTAMP_NEW:
		case SO_TIMESTAMPNS_OLD:
		case SO_TIMESTAMPNS_NEW:
		case SO_TIMESTAMPING_OLD:
		case SO_TIMESTAMPING_NEW:
		case SO_ZEROCOPY:
		case SO_OOBINLINE:
		case SO_RXQ_OVFL:
			return set;
		case SO_ATTACH_FILTER:
		case SO_ATTACH_BPF:
		case SO_BINDTODEVICE:
		case SO_BINDTOIFINDEX:
			return true;
		case SO_PEEK_OFF:
			return value && len >= sizeof(int) && *(const int *)value >= 0;
		default:
			return false;
		}
	}
	if (level == IPPROTO_TCP && s->type == SOCK_STREAM) {
		switch (name) {
		case TCP_ULP:
		case TCP_REPAIR:
		case TCP_MD5SIG:
			return true;
		case TCP_INQ:
		case TCP_ZEROCOPY_RECEIVE:
			return set;
		default:
			return false;
		}
	}
	/* On a datagram socket nearly every IP option adds control data or changes where datagrams go. */
	if (s->type == SOCK_DGRAM && (level == IPPROTO_IP || level == IPPROTO_IPV6 || level == IPPROTO_UDP))
		return set && !(level == IPPROTO_IPV6 && name == IPV6_V6ONLY) &&
		    !(level == IPPROTO_IP && name == IP_BIND_ADDRESS_NO_PORT) &&
		    !(level == IPPROTO_IP && name == IP_MTU_DISCOVER && !forbids_fragments(value, len));
	return false;
}

static void option_note(struct tt_sock *s, int level, int name, const void *value, socklen_t len)
{
	if (level == SOL_SOCKET && (name == SO_RCVTIMEO_OLD || name == SO_RCVTIMEO_NEW) &&
	    len >= sizeof(struct timeval)) {
		struct timeval tv;

		memcpy(&tv, value, sizeof(tv));
		s->rcvtimeo_ns = tv.tv_sec > INT64_MAX / 2000000000
		    ? INT64_MAX / 2
		    : tv.tv_sec * 1000000000 + tv.tv_usec * 1000;
	}
}

/*
 * When what was sent leaves this host. By shared memory it has arrived at once, which a cork never promised not to do; at an attached
 * socket's lifeline nothing may be held back. So the program's value is kept for it, and the kernel's stays. NULL: none of these.
 */
static bool *push_option(struct tt_sock *s, int level, int name)
{
	if (level != IPPROTO_TCP || s->type != SOCK_STREAM || !tt_load_acquire(&s->push_own))
		return NULL;
	return name == TCP_NODELAY ? &s->nodelay : name == TCP_CORK ? &s->cork : NULL;
}

int tt_sock_setsockopt(struct tt_sock *s, int fd, int level, int name, const void *value,
    socklen_t len)
{
	bool *push = push_option(s, level, name);

	if (value && !tt_copy_readable(value, tt_min(len, VALUE_LOOK)))
		return tt_sys.setsockopt(fd, level, name, value, len) < 0 ? -errno : 0;
	if (option_needs_kernel(s, level, name, value, len))
		tt_sock_stop(s, TT_REASON_OPTION);
	if (push && value && len >= sizeof(int)) {
		tt_store_relaxed(push, *(const int *)value != 0);
		return 0;
	}
	if (tt_sys.setsockopt(fd, level, name, value, len) < 0)
		return -errno;
	option_note(s, level, name, value, len);
	return 0;
}

int tt_sock_getsockopt(struct tt_sock *s, int fd, int level, int name, void *value, socklen_t *len)
{
	const bool *push = push_option(s, level, name);

	if (level == SOL_SOCKET && name == SO_ERROR && s->dgram)
		tt_dgram_sleep_check(s, fd);
	if (tt_sys.getsockopt(fd, level, name, value, len) < 0)
		return -errno;
	if (level == SOL_SOCKET && name == SO_ERROR && s->pending_err && *len >= sizeof(int)) {
		int own = __atomic_exchange_n(&s->pending_err, 0, __ATOMIC_RELAXED);

		if (own)
			memcpy(value, &own, sizeof(own));
	}
	if (push && *len >= sizeof(int)) {
		int own = tt_load_relaxed(push);

		memcpy(value, &own, sizeof(own));
	}
	return 0;
}

int tt_sock_ioctl(struct tt_sock *s, int fd, unsigned long request, void *arg)
{
	int r = tt_sys.ioctl(fd, request, arg);
	ssize_t ring;

	if (r < 0)
		return -errno;
	if (request == FIONREAD && arg) {
		if (s->rx.dir && s->type == SOCK_STREAM && *(int *)arg)
			s->rx.kernel_counted = true;
		if (s->rx.dir && s->type == SOCK_STREAM)
			*(int *)arg += (int)tt_sock_stranded(s);
		else if (s->dgram && (ring = tt_dgram_next_bytes(s, fd)) >= 0)
			*(int *)arg = (int)ring;
	}
	if (request == FIONBIO && arg)
		s->nonblock = *(int *)arg != 0;
	return r;
}

/* ---- the extension API ---- */

void tt_sock_error_set(struct tt_sock *s, int err)
{
	__atomic_store_n(&s->pending_err, err, __ATOMIC_RELAXED);
	tt_epoll_attached(s); /* its set looks at it, and tells */
}

void tt_sock_info(struct tt_sock *s, int fd, struct tt_sock_info *info)
{
	(void)fd;
	info->tx = (enum tt_transport)s->stat->tx;
	info->rx = (enum tt_transport)s->stat->rx;
	info->reason = (enum tt_reason)s->stat->reason;
}

int tt_sock_accelerate(struct tt_sock *s, int fd, bool on)
{
	(void)fd;
	if (!on) {
		tt_sock_stop(s, TT_REASON_API);
		return 0;
	}
	if (tt_attach_state(s) == TT_ATTACH_NEVER && s->stat->reason == TT_REASON_API) {
		tt_attach_set(s, TT_ATTACH_NONE);
		tt_stat_reason(s->stat, TT_REASON_YOUNG);
	} else if (s->stat->reason != TT_REASON_API) {
		return tt_attach_state(s) == TT_ATTACH_NEVER ? -EOPNOTSUPP : 0;
	}
	s->tx.kernel_only = false;
	s->rx.kernel_only = false;
	s->barred = false;
	return 0;
}

void tt_sock_warm(struct tt_sock *s, int fd, size_t len)
{
	(void)fd;
	/* The lines a send would touch: the word, the head, the place in the ring. */
	if (s->tx.dir) {
		__builtin_prefetch(&s->tx.dir->word, 1);
		__builtin_prefetch(&s->tx.dir->tail, 1);
		for (size_t i = 0; i < len && i < s->tx.size; i += TT_CACHE_LINE)
			__builtin_prefetch(s->tx.ring + ((s->tx.tail + i) & (s->tx.size - 1)), 1);
	}
}
