/* SPDX-License-Identifier: BSD-3-Clause */
#include "stream_io.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define IOV_MAX_USED 4

const char *const tt_wait_word[TT_WAIT_COUNT] = {"block", "timeo", "dontwait", "poll", "ppoll",
    "select", "epoll-lt", "epoll-et", "epoll-oneshot", "yield"};

static const unsigned char canary[8] = {0xc5, 0x3a, 0x99, 0x01, 0xfe, 0x77, 0x5d, 0xa2};

/* fails with everything that is known about this end */
#define END_FAIL(e, fmt, ...)                                                                      \
	tt_fail("conn %llu %s (%s, fd %d, tx %llu, rx %llu): " fmt, (unsigned long long)(e)->conn, \
	    (e)->who, tt_wait_word[(e)->wait], (e)->fd, (unsigned long long)(e)->tx_off,           \
	    (unsigned long long)(e)->rx_off, __VA_ARGS__)

static void set_nonblock(struct tt_end *e, bool on)
{
	int flags = fcntl(e->fd, F_GETFL);

	if (flags < 0 || fcntl(e->fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK) < 0)
		END_FAIL(e, "fcntl: %s", strerror(errno));
}

void tt_end_start(struct tt_end *e)
{
	e->epfd = -1;
	e->memfd = -1;
	e->short_is_dry = tt_rng_pct(&e->rng, 50);
	if (!e->half)
		set_nonblock(e, e->wait >= TT_WAIT_POLL);
	/* Nagle's algorithm against delayed acknowledgements costs 40 ms a time: seldom is enough.
	 */
	if (!e->half && (e->o->plain || tt_rng_pct(&e->rng, 90))) {
		int on = 1;

		if (setsockopt(e->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) < 0)
			END_FAIL(e, "TCP_NODELAY: %s", strerror(errno));
	}
	if (e->wait == TT_WAIT_TIMEO && !e->half) {
		struct timeval tv = {.tv_usec = (suseconds_t)(1000 + tt_rng_below(&e->rng, 30000))};

		if (setsockopt(e->fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)) < 0 ||
		    setsockopt(e->fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)) < 0)
			END_FAIL(e, "SO_RCVTIMEO: %s", strerror(errno));
	}
}

void tt_end_stop(struct tt_end *e)
{
	if (e->epfd >= 0)
		close(e->epfd);
	if (e->memfd >= 0)
		close(e->memfd);
	e->epfd = e->memfd = -1;
}

void tt_end_close(struct tt_end *e)
{
	if (e->in && e->out && e->in != e->out)
		END_FAIL(e, "%s", "two streams on one descriptor");
	if (e->in || e->out)
		fclose(e->in ? e->in : e->out);
	else if (close(e->fd) < 0)
		END_FAIL(e, "close: %s", strerror(errno));
	e->in = e->out = NULL;
	e->fd = -1;
}

void tt_end_stdio_rx(struct tt_end *e)
{
	e->in = fdopen(e->fd, "r");
	if (!e->in)
		END_FAIL(e, "fdopen: %s", strerror(errno));
}

void tt_end_stdio_tx(struct tt_end *e)
{
	e->out = fdopen(e->fd, "w");
	if (!e->out)
		END_FAIL(e, "fdopen: %s", strerror(errno));
}

static void pause_maybe(struct tt_end *e)
{
	if (e->o->pause_pct && tt_rng_pct(&e->rng, e->o->pause_pct))
		tt_nap_us((unsigned int)tt_rng_size(&e->rng, 1, e->o->pause_us));
}

/* Cuts [base, base + n) into 1 to IOV_MAX_USED pieces, empty ones among them. */
static int cut_iov(struct tt_end *e, struct iovec *iov, void *base, size_t n)
{
	int pieces = 1 + (int)tt_rng_below(&e->rng, IOV_MAX_USED);
	char *p = base;

	for (int i = 0; i < pieces; i++) {
		size_t len = i == pieces - 1 ? n : tt_rng_below(&e->rng, n + 1);

		iov[i] = (struct iovec){.iov_base = p, .iov_len = len};
		p += len;
		n -= len;
	}
	return pieces;
}

static ssize_t send_file(struct tt_end *e, size_t n)
{
	off_t off = 0;
	ssize_t r;

	if (e->memfd < 0)
		e->memfd = memfd_create("stream_check", MFD_CLOEXEC);
	if (e->memfd < 0 || ftruncate(e->memfd, 0) < 0 ||
	    pwrite(e->memfd, e->buf, n, 0) != (ssize_t)n)
		tt_env_fail("memfd for sendfile: %s", strerror(errno));
	if (tt_rng_pct(&e->rng, 50)) {
		r = sendfile(e->fd, e->memfd, &off, n);
		if (r >= 0 && off != r)
			END_FAIL(
			    e, "sendfile sent %zd and moved the offset to %lld", r, (long long)off);
		return r;
	}
	lseek(e->memfd, 0, SEEK_SET);
	r = sendfile(e->fd, e->memfd, NULL, n);
	if (r >= 0 && lseek(e->memfd, 0, SEEK_CUR) != r)
		END_FAIL(e, "sendfile sent %zd and moved the file position to %lld", r,
		    (long long)lseek(e->memfd, 0, SEEK_CUR));
	return r;
}

static ssize_t raw_send(struct tt_end *e, size_t n, int flags)
{
	long r =
	    tt_rng_pct(&e->rng, 50) && !flags
		? tt_raw3(SYS_write, e->fd, (long)e->buf, (long)n)
		: tt_raw6(SYS_sendto, e->fd, (long)e->buf, (long)n, flags | MSG_NOSIGNAL, 0, 0);

	if (r < 0) {
		errno = (int)-r;
		return -1;
	}
	return r;
}

static ssize_t send_call(struct tt_end *e, size_t n, int flags)
{
	struct iovec iov[IOV_MAX_USED];
	struct mmsghdr mm = {.msg_hdr = {.msg_iov = iov}};
	uint64_t pick = tt_rng_below(&e->rng, 8);

	if (e->o->plain)
		return write(e->fd, e->buf, n);
	if (e->o->unseen_tx_pct && tt_rng_pct(&e->rng, e->o->unseen_tx_pct))
		return raw_send(e, n, flags & ~MSG_MORE);
	/* write(), writev() and sendfile() take no flags: MSG_DONTWAIT must not get lost. */
	if ((flags & MSG_DONTWAIT) && pick < 3)
		pick += 3;
	switch (pick) {
	case 0:
		return write(e->fd, e->buf, n);
	case 1:
		return writev(e->fd, iov, cut_iov(e, iov, e->buf, n));
	case 2:
		return send_file(e, n);
	case 3:
		return sendto(e->fd, e->buf, n, flags, NULL, 0);
	case 4:
		mm.msg_hdr.msg_iovlen = (size_t)cut_iov(e, iov, e->buf, n);
		return sendmsg(e->fd, &mm.msg_hdr, flags);
	case 5: {
		mm.msg_hdr.msg_iovlen = (size_t)cut_iov(e, iov, e->buf, n);
		int sent = sendmmsg(e->fd, &mm, 1, flags);

		return sent == 1 ? (ssize_t)mm.msg_len : -1;
	}
	default:
		return send(e->fd, e->buf, n, flags);
	}
}

ssize_t tt_end_send(struct tt_end *e, size_t max, bool last)
{
	size_t n = tt_rng_size(&e->rng, 1, max < TT_END_OP_MAX ? max : TT_END_OP_MAX);
	int flags = tt_rng_pct(&e->rng, 50) ? MSG_NOSIGNAL : 0;
	ssize_t r;

	pause_maybe(e);
	tt_watch_beat(e->w);
	tt_stream_fill(e->tx_key, e->tx_off, e->buf, n);
	if (e->out) {
		if (fwrite(e->buf, 1, n, e->out) != n || fflush(e->out) != 0)
			return -errno;
		e->tx_off += n;
		return (ssize_t)n;
	}
	if (e->wait == TT_WAIT_DONTWAIT || (e->wait == TT_WAIT_BLOCK && tt_rng_pct(&e->rng, 10)))
		flags |= MSG_DONTWAIT;
	if (e->o->more && (!last || n < max) && tt_rng_below(&e->rng, 200) == 0)
		flags |= MSG_MORE;
	r = send_call(e, n, flags);
	e->calls_tx++;
	if (r < 0) {
		int err = errno;

		if (err == EINTR && !e->o->signals)
			END_FAIL(e, "%s", "send: EINTR without a signal");
		return -err;
	}
	if (r == 0 || (size_t)r > n)
		END_FAIL(e, "send of %zu bytes answered %zd", n, r);
	if ((size_t)r < n && e->strict && e->wait == TT_WAIT_BLOCK && !(flags & MSG_DONTWAIT) &&
	    !e->o->signals)
		END_FAIL(e, "blocking send of %zu bytes answered %zd", n, r);
	e->tx_off += (uint64_t)r;
	return r;
}

static void rx_check(struct tt_end *e, const void *data, size_t n, const char *call)
{
	ssize_t bad = tt_stream_check(e->rx_key, e->rx_off, data, n);

	if (bad >= 0) {
		uint64_t want = 0, got = 0;
		size_t left = n - (size_t)bad < 8 ? n - (size_t)bad : 8;

		tt_stream_fill(e->rx_key, e->rx_off + (uint64_t)bad, &want, left);
		memcpy(&got, (const char *)data + bad, left);
		END_FAIL(e, "%s of %zu bytes: wrong byte at position %llu: %016llx, not %016llx",
		    call, n, (unsigned long long)e->rx_off + (unsigned long long)bad,
		    (unsigned long long)got, (unsigned long long)want);
	}
}

static ssize_t recv_call(struct tt_end *e, size_t n, int flags)
{
	struct iovec iov[IOV_MAX_USED];
	struct mmsghdr mm = {.msg_hdr = {.msg_iov = iov}};
	uint64_t pick = tt_rng_below(&e->rng, 7);
	struct sockaddr_storage from;
	socklen_t from_len = sizeof(from);

	if (e->o->plain)
		return read(e->fd, e->buf, n);
	if (flags && pick < 2)
		pick += 2;
	switch (pick) {
	case 0:
		return read(e->fd, e->buf, n);
	case 1:
		return readv(e->fd, iov, cut_iov(e, iov, e->buf, n));
	case 2:
		return recvfrom(e->fd, e->buf, n, flags, (void *)&from, &from_len);
	case 3:
		mm.msg_hdr.msg_iovlen = (size_t)cut_iov(e, iov, e->buf, n);
		return recvmsg(e->fd, &mm.msg_hdr, flags);
	case 4: {
		mm.msg_hdr.msg_iovlen = (size_t)cut_iov(e, iov, e->buf, n);
		int got = recvmmsg(e->fd, &mm, 1, flags, NULL);

		return got == 1 ? (ssize_t)mm.msg_len : -1;
	}
	default:
		return recv(e->fd, e->buf, n, flags);
	}
}

/* After a peek of n bytes the same n bytes must come, in one call, without waiting. */
static ssize_t recv_peeked(struct tt_end *e, size_t n)
{
	ssize_t r;

	rx_check(e, e->buf, n, "peek");
	memset(e->buf, 0, n);
	do {
		r = recv(e->fd, e->buf, n, MSG_DONTWAIT);
	} while (r < 0 && errno == EINTR);
	if (r != (ssize_t)n)
		END_FAIL(e, "peek showed %zu bytes, the next recv answered %zd (%s)", n, r,
		    r < 0 ? strerror(errno) : "no error");
	return r;
}

static ssize_t raw_recv(struct tt_end *e, size_t n)
{
	long r = tt_rng_pct(&e->rng, 50)
		     ? tt_raw3(SYS_read, e->fd, (long)e->buf, (long)n)
		     : tt_raw6(SYS_recvfrom, e->fd, (long)e->buf, (long)n, 0, 0, 0);

	if (r < 0) {
		errno = (int)-r;
		return -1;
	}
	return r;
}

static int recv_flags(struct tt_end *e, bool exact)
{
	int flags = 0;

	if (e->o->plain)
		return 0;
	if (e->wait == TT_WAIT_DONTWAIT || (e->wait == TT_WAIT_BLOCK && tt_rng_pct(&e->rng, 10)))
		flags |= MSG_DONTWAIT;
	if (e->o->peek && tt_rng_pct(&e->rng, 5))
		flags |= MSG_PEEK;
	else if (exact && tt_rng_pct(&e->rng, 15))
		flags |= MSG_WAITALL;
	return flags;
}

static ssize_t recv_stdio(struct tt_end *e, size_t n)
{
	size_t r;

	errno = 0;
	r = fread(e->buf, 1, n, e->in);
	if (r == 0)
		return -errno; /* the error of an earlier, partly filled fread is reported there
				  alone */
	rx_check(e, e->buf, r, "fread");
	e->rx_off += r;
	return (ssize_t)r;
}

ssize_t tt_end_recv(struct tt_end *e, size_t max, bool exact)
{
	size_t n = tt_rng_size(&e->rng, 1, max < TT_END_OP_MAX ? max : TT_END_OP_MAX);
	bool raw = e->rx_off < e->raw_until ||
		   (e->o->unseen_rx == TT_UNSEEN_RX_ANY && tt_rng_pct(&e->rng, 5));
	int flags = raw ? 0 : recv_flags(e, exact);
	ssize_t r;

	pause_maybe(e);
	tt_watch_beat(e->w);
	if (e->in)
		return recv_stdio(e, n);
	if (e->rx_off < e->raw_until && n > e->raw_until - e->rx_off)
		n = e->raw_until - e->rx_off;
	memcpy(e->buf + n, canary, sizeof(canary));
	r = raw ? raw_recv(e, n) : recv_call(e, n, flags);
	e->calls_rx++;
	if (r < 0) {
		if (errno == EINTR && !e->o->signals)
			END_FAIL(e, "%s", "recv: EINTR without a signal");
		return -errno;
	}
	if ((size_t)r > n || memcmp(e->buf + n, canary, sizeof(canary)) != 0)
		END_FAIL(e, "recv of %zu bytes answered %zd or wrote behind its buffer", n, r);
	if (r == 0)
		return 0;
	if ((flags & MSG_WAITALL) && e->wait == TT_WAIT_BLOCK && !(flags & MSG_DONTWAIT) &&
	    !e->o->signals && (size_t)r != n)
		END_FAIL(e, "MSG_WAITALL for %zu bytes that were sure to come answered %zd", n, r);
	e->dry = (size_t)r < n;
	if (flags & MSG_PEEK)
		r = recv_peeked(e, (size_t)r);
	rx_check(e, e->buf, (size_t)r, raw ? "bare read" : "recv");
	e->rx_off += (uint64_t)r;
	return r;
}

static void wait_poll(struct tt_end *e, short events)
{
	struct pollfd p = {.fd = e->fd, .events = events};
	struct timespec ts = {.tv_nsec = 100000000};

	/* A finite wait now and then: its end must not lose anything either. */
	if (e->wait == TT_WAIT_PPOLL)
		(void)ppoll(&p, 1, tt_rng_pct(&e->rng, 30) ? &ts : NULL, NULL);
	else
		(void)poll(&p, 1, tt_rng_pct(&e->rng, 30) ? 100 : -1);
}

static void wait_select(struct tt_end *e, short events)
{
	fd_set in, out;
	struct timeval tv = {.tv_usec = 100000};

	if (e->fd >= FD_SETSIZE) {
		wait_poll(e, events);
		return;
	}
	FD_ZERO(&in);
	FD_ZERO(&out);
	if (events & POLLIN)
		FD_SET(e->fd, &in);
	if (events & POLLOUT)
		FD_SET(e->fd, &out);
	(void)select(e->fd + 1, &in, &out, NULL, tt_rng_pct(&e->rng, 30) ? &tv : NULL);
}

static void wait_epoll(struct tt_end *e, short events)
{
	uint32_t want = (events & POLLIN ? (uint32_t)EPOLLIN | EPOLLRDHUP : 0u) |
			(events & POLLOUT ? (uint32_t)EPOLLOUT : 0u);
	struct epoll_event ev = {.data.u64 = e->conn}, got[4];
	int n;

	if (e->wait == TT_WAIT_EPOLL_ET)
		want = (uint32_t)EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
	if (e->wait == TT_WAIT_EPOLL_ONESHOT)
		want |= EPOLLONESHOT;
	ev.events = want;
	if (e->epfd < 0) {
		e->epfd = tt_rng_pct(&e->rng, 50) ? epoll_create1(EPOLL_CLOEXEC) : epoll_create(1);
		if (e->epfd < 0 || epoll_ctl(e->epfd, EPOLL_CTL_ADD, e->fd, &ev) < 0)
			END_FAIL(e, "epoll_ctl ADD: %s", strerror(errno));
	} else if (e->ep_events != want || e->wait == TT_WAIT_EPOLL_ONESHOT) {
		if (e->wait == TT_WAIT_EPOLL_LT && tt_rng_pct(&e->rng, 20)) {
			if (epoll_ctl(e->epfd, EPOLL_CTL_DEL, e->fd, NULL) < 0 ||
			    epoll_ctl(e->epfd, EPOLL_CTL_ADD, e->fd, &ev) < 0)
				END_FAIL(e, "epoll_ctl DEL, ADD: %s", strerror(errno));
		} else if (epoll_ctl(e->epfd, EPOLL_CTL_MOD, e->fd, &ev) < 0) {
			END_FAIL(e, "epoll_ctl MOD: %s", strerror(errno));
		}
	}
	e->ep_events = want;
	n = epoll_wait(e->epfd, got, 4, tt_rng_pct(&e->rng, 30) ? 100 : -1);
	if (n < 0 && errno != EINTR)
		END_FAIL(e, "epoll_wait: %s", strerror(errno));
	if (n > 1 || (n == 1 && got[0].data.u64 != e->conn))
		END_FAIL(e, "epoll_wait answered %d events for one descriptor, data %llu", n,
		    n > 0 ? (unsigned long long)got[0].data.u64 : 0ull);
	if (n == 1 && (got[0].events & ~(want | EPOLLERR | EPOLLHUP)))
		END_FAIL(
		    e, "epoll_wait answered events %x where %x was asked for", got[0].events, want);
	if (n == 1 && (got[0].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)))
		e->ended = true;
}

void tt_end_wait(struct tt_end *e, short events)
{
	e->waits++;
	switch (e->wait) {
	case TT_WAIT_SELECT:
		wait_select(e, events);
		break;
	case TT_WAIT_EPOLL_LT:
	case TT_WAIT_EPOLL_ET:
	case TT_WAIT_EPOLL_ONESHOT:
		wait_epoll(e, events);
		break;
	case TT_WAIT_YIELD:
		sched_yield();
		break;
	case TT_WAIT_TIMEO:
		break; /* the call itself has waited */
	default:
		wait_poll(e, events);
	}
}
