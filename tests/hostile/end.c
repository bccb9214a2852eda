/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * end.c - one process's end of a case: streams in every way of waiting, a datagram socket, and beside each stream
 * a connection with an honest process, whose bytes must stay right.
 *
 * What comes from the hostile end may be anything. Looked at is what the calls do: no more than was asked for, nothing
 * written behind it, only errors that a lost connection has, no call that doesn't wait takes long, and once the
 * other process is gone every stream ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../stream/patience.h"
#include "hostile.h"

#define BUF 32768
#define FENCE 64
#define FENCE_BYTE 0xa5
#define WAIT_MS 20
#define SLOW_NS 3000000000ull /* for a call that doesn't wait; without the time that the machine kept it waiting */
#define END_MS 8000
#define QUIET_NS 5000000000ull
#define STOP_WORD "taut-stop"

struct honest {
	int fd;
	uint64_t key, sent, got;
	uint64_t rounds;
	uint64_t since; /* when it last moved */
};

struct conn {
	int index, fd, err;
	enum tt_hs_wait wait;
	struct tt_rng rx_rng, tx_rng;
	_Atomic uint64_t rx_bytes, tx_bytes;
	_Atomic bool ended;
	struct honest honest;
	pthread_t rx, tx;
	bool two;
	_Atomic(const char *) doing;
};

static struct {
	struct tt_hs_order o;
	int lfd, ufd;
	uint16_t udp_port;
	struct conn conn[TT_HS_CONNS];
	enum tt_hs_wait udp_wait;
	pthread_t udp, scribbler;
	uint64_t udp_bytes, strokes;
	_Atomic bool over, scribble_stop;
} cs = {.lfd = -1, .ufd = -1};

static const char *const wait_word[TT_HS_WAITS] = {"blocking", "timeouts", "asking", "poll", "select", "epoll", "edges"};

/* ---- calls with fences ---- */

/* What this thread had waited for a processor, at a time not long before the call. */
#define DELAY_EVERY_NS 100000000ull
static _Thread_local struct {
	uint64_t at, delay;
} base;

static uint64_t slow_start(void)
{
	uint64_t now = tt_now_ns();

	if (now - base.at > DELAY_EVERY_NS) {
		base.at = now;
		base.delay = tt_thread_delay_ns();
	}
	return now;
}

static void slow_look(uint64_t start, const char *call)
{
	uint64_t took = tt_now_ns() - start;

	if (took > SLOW_NS && took > SLOW_NS + tt_thread_delay_ns() - base.delay)
		tt_fail("%s did not wait, and took %llu ms", call, (unsigned long long)took / 1000000);
}

/* A receive of up to n bytes; the ones behind it must stay what they were. */
static ssize_t fenced_recv(int fd, struct tt_rng *r, unsigned char *buf, int flags, bool waits)
{
	size_t n = tt_rng_size(r, 1, BUF);
	unsigned int how = (unsigned int)tt_rng_below(r, 8);
	uint64_t start = slow_start();
	ssize_t got;

	memset(buf + n, FENCE_BYTE, FENCE);
	if (how == 0) {
		struct iovec v[3] = {{buf, n / 3}, {buf + n / 3, n / 2 - n / 3}, {buf + n / 2, n - n / 2}};

		got = flags ? recv(fd, buf, n, flags) : readv(fd, v, 3);
	} else if (how == 1) {
		got = recv(fd, buf, n, flags | MSG_PEEK);
	} else if (how == 2 && !waits) {
		got = recv(fd, buf, n, flags | MSG_WAITALL);
	} else {
		got = recv(fd, buf, n, flags);
	}
	if (!waits)
		slow_look(start, "recv");
	if (got > (ssize_t)n)
		tt_fail("recv was asked for %zu bytes and gave %zd", n, got);
	for (size_t i = 0; i < FENCE; i++)
		if (buf[n + i] != FENCE_BYTE)
			tt_fail("recv of %zu bytes (gave %zd) wrote behind them, at %zu", n, got, i);
	return got < 0 ? -errno : got;
}

static ssize_t any_send(int fd, struct tt_rng *r, const unsigned char *buf, int flags, bool waits)
{
	size_t n = tt_rng_pct(r, 80) ? tt_rng_size(r, 1, 4096) : tt_rng_size(r, 1, BUF);
	uint64_t start = slow_start();
	ssize_t got = send(fd, buf, n, flags | MSG_NOSIGNAL);

	if (!waits)
		slow_look(start, "send");
	if (got > (ssize_t)n)
		tt_fail("send was given %zu bytes and took %zd", n, got);
	return got < 0 ? -errno : got;
}

static bool again(ssize_t n)
{
	return n == -EAGAIN || n == -EINTR;
}

static void conn_over(struct conn *c, ssize_t n)
{
	int err = n == 0 ? EPIPE : (int)-n;

	if (err != EPIPE && err != ECONNRESET)
		tt_fail("stream %d (%s) ended with: %s", c->index, wait_word[c->wait], strerror(err));
	if (!atomic_exchange(&c->ended, true))
		c->err = err;
}

/* ---- the honest connection ---- */

static void honest_say(struct honest *h, struct tt_rng *r)
{
	unsigned char msg[2048];
	size_t n = tt_rng_size(r, 1, sizeof(msg));

	tt_stream_fill(h->key, h->sent, msg, n);
	if (send(h->fd, msg, n, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)n)
		tt_fail("the honest end takes no %zu bytes: %s", n, strerror(errno));
	h->sent += n;
	h->since = tt_now_ns();
}

/* Whatever its echo has sent by now. */
static void honest_hear(struct honest *h, struct tt_rng *r)
{
	unsigned char msg[2048];
	ssize_t n, bad;

	if (h->fd < 0)
		return;
	while ((n = recv(h->fd, msg, sizeof(msg), MSG_DONTWAIT)) > 0) {
		bad = tt_stream_check(h->key, h->got, msg, (size_t)n);
		if (bad >= 0)
			tt_fail("the honest connection: wrong byte at %llu", (unsigned long long)h->got + (uint64_t)bad);
		h->got += (uint64_t)n;
		if (h->got == h->sent) {
			h->rounds++;
			honest_say(h, r);
		}
	}
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		tt_fail("the honest connection ended: %s", n ? strerror(errno) : "end of stream");
	if (tt_now_ns() - h->since > QUIET_NS)
		tt_fail("the honest connection stands still (%llu of %llu bytes)", (unsigned long long)h->got,
		    (unsigned long long)h->sent);
}

static void *echo_main(void *arg)
{
	int fd = (int)(intptr_t)arg;
	unsigned char buf[4096];
	ssize_t n;

	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0 && send(fd, buf, (size_t)n, MSG_NOSIGNAL) == n)
		;
	close(fd);
	return NULL;
}

void tt_hs_honest(int listener)
{
	for (;;) {
		int fd = tt_accept_one(listener);
		pthread_t t;

		if (pthread_create(&t, NULL, echo_main, (void *)(intptr_t)fd) || pthread_detach(t))
			tt_env_fail("no thread");
	}
}

/* ---- threads of a stream ---- */

struct bufs {
	unsigned char *rx, *tx;
};

static struct bufs bufs_new(void)
{
	struct bufs b = {malloc(BUF + FENCE), malloc(BUF)};

	if (!b.rx || !b.tx)
		tt_env_fail("no memory");
	tt_stream_fill(7, 0, b.tx, BUF);
	return b;
}

static void bufs_free(struct bufs *b)
{
	free(b->rx);
	free(b->tx);
}

static void *tx_main(void *arg)
{
	struct conn *c = arg;
	struct bufs b = bufs_new();

	while (!atomic_load(&c->ended)) {
		ssize_t n = any_send(c->fd, &c->tx_rng, b.tx, 0, true);

		if (n <= 0 && !again(n)) {
			conn_over(c, n);
			break;
		}
		atomic_fetch_add(&c->tx_bytes, n > 0 ? (uint64_t)n : 0);
		if (tt_rng_pct(&c->tx_rng, 20))
			tt_nap_us((unsigned int)tt_rng_below(&c->tx_rng, 500));
	}
	bufs_free(&b);
	return NULL;
}

static void *rx_blocking(void *arg)
{
	struct conn *c = arg;
	struct bufs b = bufs_new();

	for (;;) {
		ssize_t n;

		atomic_store(&c->doing, "recv");
		n = fenced_recv(c->fd, &c->rx_rng, b.rx, 0, true);
		atomic_store(&c->doing, "-");
		honest_hear(&c->honest, &c->rx_rng);
		if (n > 0 || again(n)) {
			atomic_fetch_add(&c->rx_bytes, n > 0 ? (uint64_t)n : 0);
			continue;
		}
		conn_over(c, n);
		break;
	}
	bufs_free(&b);
	return NULL;
}

/* Up to so many calls each way, none of which waits. False: over. */
static bool both_ways(struct conn *c, struct bufs *b, bool in, bool out, int calls)
{
	ssize_t n = 1;

	atomic_store(&c->doing, "recv");
	for (int i = 0; in && i < calls && n > 0; i++) {
		n = fenced_recv(c->fd, &c->rx_rng, b->rx, MSG_DONTWAIT, false);
		if (n > 0)
			atomic_fetch_add(&c->rx_bytes, (uint64_t)n);
	}
	if (n <= 0 && !again(n)) {
		conn_over(c, n);
		return false;
	}
	n = 1;
	atomic_store(&c->doing, "send");
	for (int i = 0; out && i < calls / 4 + 1 && n > 0; i++) {
		n = any_send(c->fd, &c->tx_rng, b->tx, MSG_DONTWAIT, false);
		if (n > 0)
			atomic_fetch_add(&c->tx_bytes, (uint64_t)n);
	}
	if (n <= 0 && !again(n)) {
		conn_over(c, n);
		return false;
	}
	atomic_store(&c->doing, "wait");
	return true;
}

struct ready {
	bool in, out, err;
};

static struct ready wait_poll(struct conn *c, bool want_out)
{
	struct pollfd p[2] = {{.fd = atomic_load(&c->ended) ? -1 : c->fd, .events = POLLIN}, {.fd = c->honest.fd, .events = POLLIN}};

	if (want_out)
		p[0].events |= POLLOUT;
	if (poll(p, 2, WAIT_MS) < 0 && errno != EINTR)
		tt_fail("poll: %s", strerror(errno));
	return (struct ready){p[0].revents & ~POLLOUT, p[0].revents & POLLOUT, false};
}

static struct ready wait_select(struct conn *c, bool want_out)
{
	struct timeval tv = {.tv_usec = WAIT_MS * 1000};
	fd_set in, out;

	FD_ZERO(&in);
	FD_ZERO(&out);
	if (!atomic_load(&c->ended)) {
		FD_SET(c->fd, &in);
		if (want_out)
			FD_SET(c->fd, &out);
	}
	if (c->honest.fd >= 0)
		FD_SET(c->honest.fd, &in);
	if (select((c->fd > c->honest.fd ? c->fd : c->honest.fd) + 1, &in, &out, NULL, &tv) < 0) {
		if (errno != EINTR)
			tt_fail("select: %s", strerror(errno));
		return (struct ready){0};
	}
	return (struct ready){FD_ISSET(c->fd, &in), FD_ISSET(c->fd, &out), false};
}

static struct ready wait_epoll(struct conn *c, int epfd)
{
	struct epoll_event ev[2];
	struct ready r = {0};
	int n = epoll_wait(epfd, ev, 2, WAIT_MS);

	if (n < 0 && errno != EINTR)
		tt_fail("epoll_wait: %s", strerror(errno));
	for (int i = 0; i < n; i++) {
		if (ev[i].data.fd != c->fd)
			continue;
		r.in = r.in || (ev[i].events & ~(uint32_t)EPOLLOUT);
		r.out = r.out || (ev[i].events & EPOLLOUT);
	}
	return r;
}

static int epoll_for(struct conn *c)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.fd = c->honest.fd};
	int epfd = epoll_create1(EPOLL_CLOEXEC);

	if (epfd < 0 || (c->honest.fd >= 0 && epoll_ctl(epfd, EPOLL_CTL_ADD, c->honest.fd, &ev) < 0))
		tt_fail("epoll: %s", strerror(errno));
	/* Level: room to send would show all the time. */
	ev.events = c->wait == TT_HS_EDGE ? EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET : EPOLLIN;
	ev.data.fd = c->fd;
	if (epoll_ctl(epfd, EPOLL_CTL_ADD, c->fd, &ev) < 0)
		tt_fail("epoll: %s", strerror(errno));
	return epfd;
}

/* An event loop over the stream and its honest neighbour, to the end of the case. */
static void *loop_main(void *arg)
{
	struct conn *c = arg;
	struct bufs b = bufs_new();
	int epfd = c->wait == TT_HS_LEVEL || c->wait == TT_HS_EDGE ? epoll_for(c) : -1;

	while (!atomic_load(&cs.over) || !atomic_load(&c->ended)) {
		bool want_out = tt_rng_pct(&c->rx_rng, 30);
		struct ready r = {true, want_out, false};
		/* With edges everything must be taken before the next wait. */
		int calls = c->wait == TT_HS_EDGE ? 1 << 20 : 8;

		atomic_store(&c->doing, "wait");
		if (c->wait == TT_HS_POLL)
			r = wait_poll(c, want_out);
		else if (c->wait == TT_HS_SELECT)
			r = wait_select(c, want_out);
		else if (epfd >= 0)
			r = wait_epoll(c, epfd);
		else
			tt_nap_us(20);
		if (c->wait == TT_HS_LEVEL)
			r.out = want_out;
		if (c->wait == TT_HS_EDGE && want_out)
			r.out = true;
		atomic_store(&c->doing, "honest");
		honest_hear(&c->honest, &c->rx_rng);
		if (atomic_load(&c->ended) || (!r.in && !r.out))
			continue;
		if (!both_ways(c, &b, r.in, r.out, calls) && epfd >= 0 &&
		    epoll_ctl(epfd, EPOLL_CTL_DEL, c->fd, NULL) < 0)
			tt_fail("EPOLL_CTL_DEL: %s", strerror(errno));
	}
	if (epfd >= 0)
		close(epfd);
	bufs_free(&b);
	return NULL;
}

/* ---- datagrams ---- */

static void udp_send(struct tt_rng *r, const unsigned char *buf, bool waits)
{
	uint64_t start = slow_start();
	ssize_t n = send(cs.ufd, buf, tt_rng_pct(r, 90) ? tt_rng_size(r, 0, 1500) : tt_rng_size(r, 0, BUF),
	    waits ? 0 : MSG_DONTWAIT);

	if (!waits)
		slow_look(start, "send (UDP)");
	if (n < 0 && errno != EAGAIN && errno != ECONNREFUSED && errno != EINTR && errno != ENOBUFS)
		tt_fail("send (UDP): %s", strerror(errno));
}

static void *udp_main(void *arg)
{
	struct tt_rng r = {tt_mix64(cs.o.seed ^ 0x0d9 ^ cs.o.hostile)};
	struct bufs b = bufs_new();
	bool waits = cs.udp_wait == TT_HS_BLOCK || cs.udp_wait == TT_HS_TIMEO;

	(void)arg;
	for (;;) {
		ssize_t n;

		for (int i = 0; i < 4 && !atomic_load(&cs.over); i++)
			udp_send(&r, b.tx, waits);
		if (cs.udp_wait == TT_HS_POLL) {
			struct pollfd p = {.fd = cs.ufd, .events = POLLIN};

			(void)poll(&p, 1, WAIT_MS);
		} else if (!waits) {
			tt_nap_us(50);
		}
		n = fenced_recv(cs.ufd, &r, b.rx, waits ? 0 : MSG_DONTWAIT, waits);
		if (n >= (ssize_t)strlen(STOP_WORD) && memcmp(b.rx, STOP_WORD, strlen(STOP_WORD)) == 0)
			break;
		if (n < 0 && !again(n) && n != -ECONNREFUSED)
			tt_fail("recv (UDP): %s", strerror((int)-n));
		if (n > 0)
			cs.udp_bytes += (uint64_t)n;
		if (atomic_load(&cs.over) && cs.udp_wait == TT_HS_ASK && n < 0)
			tt_nap_us(1000);
	}
	bufs_free(&b);
	return NULL;
}

/*
 * By the kernel, from a plain socket that ours is connected to instead: a blocked reader must hear it. One datagram may be
 * cut short or find the queue full, so there are many.
 */
static void udp_end(void)
{
	struct tt_addr to;
	int fd = (int)tt_raw3(SYS_socket, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	tt_addr_loopback(&to, TT_FAMILY_4, 0);
	if (fd < 0 || bind(fd, (void *)&to.ss, to.len) < 0 || getsockname(fd, (void *)&to.ss, &to.len) < 0)
		tt_env_fail("UDP socket");
	if (connect(cs.ufd, (void *)&to.ss, to.len) < 0)
		tt_fail("connect (UDP): %s", strerror(errno));
	tt_addr_loopback(&to, TT_FAMILY_4, cs.udp_port);
	for (int i = 0; pthread_tryjoin_np(cs.udp, NULL) == EBUSY; i++) {
		if (i > 400)
			tt_fail("the reader of datagrams (%s) has not ended", wait_word[cs.udp_wait]);
		(void)tt_raw6(SYS_sendto, fd, (long)(uintptr_t)STOP_WORD, (long)strlen(STOP_WORD), 0,
		    (long)(uintptr_t)&to.ss, to.len);
		tt_nap_us(20000);
	}
	close(fd);
	close(cs.ufd);
}

/* ---- the case ---- */

void tt_hs_open(struct tt_hs_answer *a)
{
	struct tt_addr addr;

	cs.lfd = tt_listen_any(TT_FAMILY_4, 8, &a->tcp_port);
	tt_addr_loopback(&addr, TT_FAMILY_4, 0);
	cs.ufd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (cs.ufd < 0 || bind(cs.ufd, (void *)&addr.ss, addr.len) < 0 ||
	    getsockname(cs.ufd, (void *)&addr.ss, &addr.len) < 0)
		tt_env_fail("UDP socket: %s", strerror(errno));
	a->udp_port = cs.udp_port = tt_addr_port(&addr);
}

static void timeout_set(int fd)
{
	struct timeval tv = {.tv_usec = WAIT_MS * 1000};

	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)) < 0)
		tt_fail("SO_RCVTIMEO: %s", strerror(errno));
}

static void conn_start(struct conn *c, struct tt_rng *r)
{
	c->wait = (enum tt_hs_wait)tt_rng_below(r, TT_HS_WAITS);
	c->rx_rng.s = tt_rng_next(r);
	c->tx_rng.s = tt_rng_next(r);
	c->err = 0;
	atomic_store(&c->ended, false);
	atomic_store(&c->rx_bytes, 0);
	atomic_store(&c->tx_bytes, 0);
	c->two = c->wait == TT_HS_BLOCK || c->wait == TT_HS_TIMEO;
	c->honest = (struct honest){.fd = -1, .key = tt_rng_next(r), .since = tt_now_ns()};
	if (c->wait == TT_HS_TIMEO)
		timeout_set(c->fd);
	/* Beside a receive that blocks nobody could look at it. */
	if (cs.o.honest_port && c->wait != TT_HS_BLOCK) {
		c->honest.fd = tt_connect_to(TT_FAMILY_4, cs.o.honest_port);
		honest_say(&c->honest, &c->rx_rng);
	}
	if (c->two && pthread_create(&c->tx, NULL, tx_main, c))
		tt_env_fail("no thread");
	if (pthread_create(&c->rx, NULL, c->two ? rx_blocking : loop_main, c))
		tt_env_fail("no thread");
}

static void *scribble_main(void *arg)
{
	(void)arg;
	cs.strokes = tt_scribble(&cs.o, &cs.scribble_stop);
	return NULL;
}

void tt_hs_run(const struct tt_hs_order *o)
{
	struct tt_rng r = {tt_mix64(o->seed + o->hostile)};
	struct tt_addr to;

	cs.o = *o;
	cs.strokes = cs.udp_bytes = 0;
	atomic_store(&cs.over, false);
	atomic_store(&cs.scribble_stop, false);
	for (int i = 0; i < TT_HS_CONNS; i++) {
		struct conn *c = &cs.conn[i];

		c->index = i;
		c->fd = o->tcp_port ? tt_connect_to(TT_FAMILY_4, o->tcp_port) : tt_accept_one(cs.lfd);
	}
	close(cs.lfd);
	tt_addr_loopback(&to, TT_FAMILY_4, o->udp_port);
	if (connect(cs.ufd, (void *)&to.ss, to.len) < 0)
		tt_env_fail("connect (UDP): %s", strerror(errno));
	cs.udp_wait = (enum tt_hs_wait)tt_rng_below(&r, TT_HS_POLL + 1);
	if (cs.udp_wait == TT_HS_TIMEO)
		timeout_set(cs.ufd);
	for (int i = 0; i < TT_HS_CONNS; i++)
		conn_start(&cs.conn[i], &r);
	if (pthread_create(&cs.udp, NULL, udp_main, NULL) ||
	    (o->hostile && pthread_create(&cs.scribbler, NULL, scribble_main, NULL)))
		tt_env_fail("no thread");
}

static void join_soon(pthread_t t, const char *what, struct conn *c)
{
	struct tt_patience p;

	tt_patience_start(&p, END_MS);
	while (tt_patience_left(&p)) {
		if (pthread_tryjoin_np(t, NULL) == 0)
			return;
		tt_nap_us(500);
	}
	tt_fail("stream %d (%s): %s has not ended, though the other process is gone; it is in %s, %llu bytes received, %llu sent",
		    c->index, wait_word[c->wait], what, atomic_load(&c->doing), (unsigned long long)c->rx_bytes,
	    (unsigned long long)c->tx_bytes);
}

void tt_hs_end(struct tt_hs_answer *a)
{
	if (cs.o.hostile)
		for (int i = 0; i < TT_HS_CONNS; i++)
			(void)shutdown(cs.conn[i].fd, SHUT_RDWR);
	atomic_store(&cs.over, true);
	for (int i = 0; i < TT_HS_CONNS; i++) {
		struct conn *c = &cs.conn[i];

		join_soon(c->rx, "its reader", c);
		if (c->two)
			join_soon(c->tx, "its writer", c);
		close(c->fd);
		if (c->honest.fd >= 0)
			close(c->honest.fd);
		a->ends[i] = c->err;
		a->bytes += c->rx_bytes;
		a->rounds += c->honest.rounds;
	}
	udp_end();
	a->bytes += cs.udp_bytes;
	atomic_store(&cs.scribble_stop, true);
	if (cs.o.hostile)
		pthread_join(cs.scribbler, NULL);
	a->strokes = cs.strokes;
}
