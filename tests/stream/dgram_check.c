/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dgram_check - UDP: no datagram changed, doubled, out of its flow's order or from a wrong address;
 * none lost while what is under way fits the receive buffer.
 *
 * A round has one receiving socket and several sending ones in this and other processes, one of
 * which always runs without any preloaded library. Each datagram says its flow, number and length;
 * its bytes are keyed. The receiver acknowledges by a datagram to the source address, so replies
 * are under test too. Rounds are lossless (the sender keeps a window) or floods, where what is lost
 * is only counted.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define MAGIC 0x7474u
#define FLOWS_MAX 12
#define HELPERS 2 /* sender processes: one as we are, one plain */
#define LEN_MAX 60000u
#define WINDOW_BYTES                                                                               \
	(64u << 10) /* of all flows together: with the kernel's overhead below its 208 KiB buffer  \
		     */
#define OVERHEAD 1280u /* what the kernel charges a small datagram */
#define ACK_WAIT_MS 10000

struct head {
	uint16_t magic, flow;
	uint32_t seq, zeros, len; /* zeros: empty datagrams this flow has sent before */
	uint16_t port;            /* the sender's own, to check the source address by */
	uint8_t last, flood;
	uint32_t pad;
	uint64_t hash;
};

struct ack {
	uint32_t magic, flow;
	uint64_t count; /* datagrams of this flow so far, empty ones too */
};

struct round {
	uint64_t seed;
	uint32_t msgs, flood, index;
	uint16_t port, first, flows, flows_all;
	uint16_t stop;
};

struct result {
	uint64_t sent, zeros;
};

static struct {
	uint64_t seed, rounds, msgs;
	enum tt_family family;
	bool threads, no_plain, no_peek;
	unsigned int limit_s;
	int child_in, child_out;
	int flood;
} opt = {.rounds = 10, .msgs = 2000, .limit_s = 30, .child_in = -1, .child_out = -1, .flood = -1};

static struct tt_watch watches[1 + FLOWS_MAX];

static void watch_print(const struct tt_watch *w)
{
	if (atomic_load(&w->busy))
		fprintf(stderr, "  slot %td: note %llu %llu %llu\n", w - watches,
		    (unsigned long long)atomic_load(&w->note[0]),
		    (unsigned long long)atomic_load(&w->note[1]),
		    (unsigned long long)atomic_load(&w->note[2]));
}

static uint64_t flow_key(uint64_t seed, uint32_t flow, uint32_t seq)
{
	return tt_mix64(seed ^ ((uint64_t)flow << 32 | seq));
}

static uint64_t head_hash(const struct head *h, uint64_t seed)
{
	uint64_t a = (uint64_t)h->magic << 48 | (uint64_t)h->flow << 32 | h->seq;
	uint64_t b = (uint64_t)h->zeros << 32 | h->len;
	uint64_t c = (uint64_t)h->port << 16 | (uint64_t)h->last << 8 | h->flood;

	return tt_mix64(seed ^ tt_mix64(a) ^ tt_mix64(b + 1) ^ tt_mix64(c + 2));
}

/* ---- sender ---- */

struct flow {
	struct round r;
	uint16_t id;
	pthread_t thread;
	struct tt_rng rng;
	int fd;
	bool connected, nonblock;
	bool heard; /* a reply has come: in a flood the receiver has seen the last one */
	struct tt_addr to;
	uint16_t port;
	uint32_t seq, zeros;
	uint64_t acked;
	size_t in_flight;
	size_t *cost; /* of each datagram sent, to give back when acknowledged */
	struct result res;
	struct tt_watch *w;
};

static ssize_t send_one(struct flow *f, void *buf, size_t n)
{
	struct iovec iov[2] = {{buf, n / 2}, {(char *)buf + n / 2, n - n / 2}};
	struct mmsghdr mm = {.msg_hdr = {.msg_iov = iov, .msg_iovlen = 2}};
	int flags = tt_rng_pct(&f->rng, 20) ? MSG_DONTWAIT : 0;

	if (!f->connected) {
		mm.msg_hdr.msg_name = &f->to.ss;
		mm.msg_hdr.msg_namelen = f->to.len;
	}
	switch (tt_rng_below(&f->rng, 6)) {
	case 0:
		return sendmsg(f->fd, &mm.msg_hdr, flags);
	case 1:
		return sendmmsg(f->fd, &mm, 1, flags) == 1 ? (ssize_t)mm.msg_len : -1;
	case 2:
		if (f->connected)
			return write(f->fd, buf, n);
		break;
	case 3:
		if (f->connected && n > 0) /* the kernel sends nothing for a writev() of 0 bytes */
			return writev(f->fd, iov, 2);
		break;
	default:
		break;
	}
	if (f->connected)
		return send(f->fd, buf, n, flags);
	return sendto(f->fd, buf, n, flags, (void *)&f->to.ss, f->to.len);
}

static void send_sure(struct flow *f, void *buf, size_t n)
{
	for (;;) {
		ssize_t r = send_one(f, buf, n);
		struct pollfd p = {.fd = f->fd, .events = POLLOUT};

		if (r == (ssize_t)n)
			return;
		if (r >= 0)
			tt_fail("flow %u: a datagram of %zu bytes was sent as %zd", f->id, n, r);
		if (errno == EAGAIN || errno == ENOBUFS)
			(void)poll(&p, 1, 100);
		else if (errno != EINTR)
			tt_fail("flow %u: send of %zu bytes: %s", f->id, n, strerror(errno));
	}
}

static void take_ack(struct flow *f, const struct ack *a, ssize_t n)
{
	if (n != (ssize_t)sizeof(*a) || a->magic != MAGIC || a->flow != f->id)
		tt_fail("flow %u got a reply of %zd bytes for flow %u", f->id, n, a->flow);
	if (a->count < f->acked || a->count > f->res.sent)
		tt_fail("flow %u: acknowledged %llu after %llu of %llu", f->id,
		    (unsigned long long)a->count, (unsigned long long)f->acked,
		    (unsigned long long)f->res.sent);
	f->heard = true;
	for (; f->acked < a->count; f->acked++)
		f->in_flight -= f->cost[f->acked];
}

/* Takes one acknowledgement; waits for it if asked to. False: none came (only without waiting, or
 * in a flood). */
static bool ack_take(struct flow *f, bool wait, int timeout_ms)
{
	struct ack a;
	struct tt_addr from = {.len = sizeof(from.ss)};
	struct pollfd p = {.fd = f->fd, .events = POLLIN};
	bool polled = false;
	ssize_t n;

	if (wait && (f->nonblock || timeout_ms < ACK_WAIT_MS || tt_rng_pct(&f->rng, 30))) {
		int ready = poll(&p, 1, timeout_ms);

		if (ready == 0)
			return false;
		polled = true;
	}
	n = recvfrom(f->fd, &a, sizeof(a), wait ? 0 : MSG_DONTWAIT, (void *)&from.ss, &from.len);
	if (n < 0) {
		if (errno == EAGAIN && wait)
			tt_fail("flow %u: recvfrom of a reply answered EAGAIN %s", f->id,
			    polled ? "after poll had told POLLIN" : "on a blocking socket");
		if (errno == EAGAIN || errno == EINTR)
			return false;
		tt_fail("flow %u: recvfrom of a reply: %s", f->id, strerror(errno));
	}
	if (tt_addr_port(&from) != f->r.port)
		tt_fail("flow %u: a reply came from port %u, not %u", f->id, tt_addr_port(&from),
		    f->r.port);
	take_ack(f, &a, n);
	return true;
}

static void flow_send(struct flow *f, unsigned char *buf, bool last)
{
	bool zero = !last && f->seq > 0 && tt_rng_pct(&f->rng, 3);
	size_t cap = f->r.flood ? 9000 : WINDOW_BYTES / f->r.flows_all - OVERHEAD;
	size_t n =
	    zero ? 0 : tt_rng_size(&f->rng, sizeof(struct head), cap < LEN_MAX ? cap : LEN_MAX);
	struct head h = {.magic = MAGIC,
	    .flow = f->id,
	    .seq = f->seq,
	    .zeros = f->zeros,
	    .len = (uint32_t)n,
	    .port = f->port,
	    .last = last,
	    .flood = (uint8_t)f->r.flood};

	while (!f->r.flood && f->in_flight > 0 &&
	       f->in_flight + n + OVERHEAD > WINDOW_BYTES / f->r.flows_all) {
		if (!ack_take(f, true, ACK_WAIT_MS))
			tt_fail("flow %u: no reply for %d ms: datagram %llu of a round without "
				"loss was lost",
			    f->id, ACK_WAIT_MS, (unsigned long long)f->acked);
		tt_watch_beat(f->w);
	}
	if (!zero) {
		h.hash = head_hash(&h, f->r.seed);
		memcpy(buf, &h, sizeof(h));
		tt_stream_fill(
		    flow_key(f->r.seed, f->id, f->seq), 0, buf + sizeof(h), n - sizeof(h));
		f->seq++;
	} else {
		f->zeros++;
	}
	f->cost[f->res.sent++] = n + OVERHEAD;
	f->in_flight += n + OVERHEAD;
	send_sure(f, buf, n);
}

static void flow_open(struct flow *f)
{
	struct tt_addr me = {.len = sizeof(me.ss)};

	tt_addr_loopback(&f->to, opt.family, f->r.port);
	f->fd = socket(tt_family_domain(opt.family), SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (f->fd < 0)
		tt_env_fail("socket: %s", strerror(errno));
	f->connected = tt_rng_pct(&f->rng, 50);
	f->nonblock = tt_rng_pct(&f->rng, 30);
	if (f->connected) {
		if (connect(f->fd, (void *)&f->to.ss, f->to.len) < 0)
			tt_fail("flow %u: connect: %s", f->id, strerror(errno));
	} else {
		struct tt_addr any;

		tt_addr_loopback(&any, opt.family, 0);
		if (bind(f->fd, (void *)&any.ss, any.len) < 0)
			tt_env_fail("bind: %s", strerror(errno));
	}
	if (getsockname(f->fd, (void *)&me.ss, &me.len) < 0)
		tt_fail("flow %u: getsockname: %s", f->id, strerror(errno));
	f->port = tt_addr_port(&me);
	if (f->nonblock && fcntl(f->fd, F_SETFL, O_RDWR | O_NONBLOCK) < 0)
		tt_fail("flow %u: fcntl: %s", f->id, strerror(errno));
}

static void *flow_main(void *arg)
{
	struct flow *f = arg;
	unsigned char *buf = malloc(LEN_MAX);

	f->rng.s = tt_mix64(f->r.seed + f->id);
	f->cost = calloc((size_t)f->r.msgs + 1000, sizeof(*f->cost));
	if (!buf || !f->cost)
		tt_env_fail("no memory for a flow");
	atomic_store(&f->w->busy, true);
	atomic_store(&f->w->note[0], f->id);
	flow_open(f);
	for (uint32_t i = 0; i < f->r.msgs; i++) {
		flow_send(f, buf, i + 1 == f->r.msgs);
		atomic_store(&f->w->note[1], i);
		tt_watch_beat(f->w);
		while (ack_take(f, false, 0))
			;
		if (tt_rng_below(&f->rng, 100) == 0)
			tt_nap_us((unsigned int)tt_rng_below(&f->rng, 2000));
	}
	/* All acknowledged: without loss by waiting, in a flood by sending the last one again (a
	 * new number). */
	for (int tries = 0; f->r.flood ? !f->heard : f->acked < f->res.sent; tries++) {
		if (ack_take(f, true, f->r.flood ? 20 : ACK_WAIT_MS)) {
			tt_watch_beat(f->w);
			continue;
		}
		if (!f->r.flood || tries > 900)
			tt_fail("flow %u: %llu of %llu datagrams acknowledged", f->id,
			    (unsigned long long)f->acked, (unsigned long long)f->res.sent);
		flow_send(f, buf, true);
	}
	f->res.zeros = f->zeros;
	atomic_store(&f->w->busy, false);
	close(f->fd);
	free(f->cost);
	free(buf);
	return NULL;
}

static void flows_start(struct flow *f, const struct round *r)
{
	for (uint16_t i = 0; i < r->flows; i++) {
		memset(&f[i], 0, sizeof(f[i]));
		f[i].r = *r;
		f[i].id = (uint16_t)(r->first + i);
		f[i].w = &watches[1 + f[i].id];
		if (pthread_create(&f[i].thread, NULL, flow_main, &f[i]) != 0)
			tt_env_fail("pthread_create failed");
	}
}

static void flows_join(struct flow *f, const struct round *r, struct result *out)
{
	for (uint16_t i = 0; i < r->flows; i++) {
		pthread_join(f[i].thread, NULL);
		out[r->first + i] = f[i].res;
	}
}

/* ---- receiver ---- */

enum wait {
	WAIT_BLOCK,
	WAIT_POLL,
	WAIT_SELECT,
	WAIT_EPOLL,
	WAIT_EPOLL_ET,
	WAIT_DONTWAIT,
	WAIT_COUNT
};

struct rx_flow {
	uint64_t got, zeros;
	uint32_t next;
	uint16_t port;
	bool known, last;
};

struct receiver {
	int fd, epfd;
	struct round r;
	enum wait wait;
	struct tt_rng rng;
	unsigned char *buf;
	struct rx_flow flow[FLOWS_MAX];
	struct tt_addr from;
	uint64_t lost, got;
};

static void rx_wait(struct receiver *x)
{
	struct pollfd p = {.fd = x->fd, .events = POLLIN};
	struct epoll_event ev = {.events = EPOLLIN, .data.fd = x->fd};
	struct timeval tv = {.tv_usec = 50000};
	bool finite = tt_rng_pct(&x->rng, 30);
	fd_set in;

	switch (x->wait) {
	case WAIT_SELECT:
		FD_ZERO(&in);
		FD_SET(x->fd, &in);
		(void)select(x->fd + 1, &in, NULL, NULL, finite ? &tv : NULL);
		break;
	case WAIT_EPOLL:
	case WAIT_EPOLL_ET:
		if (x->epfd < 0) {
			x->epfd = epoll_create1(EPOLL_CLOEXEC);
			if (x->wait == WAIT_EPOLL_ET)
				ev.events |= EPOLLET;
			if (epoll_ctl(x->epfd, EPOLL_CTL_ADD, x->fd, &ev) < 0)
				tt_fail("epoll_ctl of a UDP socket: %s", strerror(errno));
		}
		(void)epoll_wait(x->epfd, &ev, 1, finite ? 50 : -1);
		break;
	default:
		(void)poll(&p, 1, finite ? 50 : -1);
	}
}

/* One receive call into a buffer of `room` bytes. The real length comes back where the call can
 * tell it. */
static ssize_t rx_call(struct receiver *x, size_t room, int flags, bool *truncated)
{
	struct iovec iov[2] = {{x->buf, 16}, {x->buf + 16, room - 16}};
	struct mmsghdr mm = {.msg_hdr = {.msg_name = &x->from.ss, .msg_iov = iov, .msg_iovlen = 2}};
	ssize_t r;

	x->from.len = mm.msg_hdr.msg_namelen = sizeof(x->from.ss);
	*truncated = false;
	switch (tt_rng_below(&x->rng, 3)) {
	case 0:
		r = recvmsg(x->fd, &mm.msg_hdr, flags);
		break;
	case 1:
		r = recvmmsg(x->fd, &mm, 1, flags, NULL) == 1 ? (ssize_t)mm.msg_len : -1;
		break;
	default:
		return recvfrom(x->fd, x->buf, room, flags, (void *)&x->from.ss, &x->from.len);
	}
	x->from.len = mm.msg_hdr.msg_namelen;
	if (r >= 0) {
		*truncated = (mm.msg_hdr.msg_flags & MSG_TRUNC) != 0;
		if ((flags & MSG_TRUNC) && *truncated != ((size_t)r > room))
			tt_fail("recvmsg: %zd bytes into %zu, MSG_TRUNC %d", r, room, *truncated);
	}
	return r;
}

static struct rx_flow *rx_source(struct receiver *x)
{
	for (size_t i = 0; i < x->r.flows_all; i++)
		if (x->flow[i].known && x->flow[i].port == tt_addr_port(&x->from))
			return &x->flow[i];
	return NULL;
}

static void rx_count(struct receiver *x, struct rx_flow *f, uint16_t id)
{
	struct ack a = {.magic = MAGIC, .flow = id};

	x->got++;
	f->got++;
	a.count = f->got;
	/* In a flood only the end is answered: replies would be lost in the sender's full buffer.
	 */
	if (x->r.flood && !f->last)
		return;
	if (sendto(x->fd, &a, sizeof(a), 0, (void *)&x->from.ss, x->from.len) !=
		(ssize_t)sizeof(a) &&
	    errno != ECONNREFUSED)
		tt_fail("flow %u: reply: %s", id, strerror(errno));
}

static void rx_zero(struct receiver *x)
{
	struct rx_flow *f = rx_source(x);

	if (!f) {
		if (!x->r.flood)
			tt_fail("an empty datagram from port %u, which no flow uses",
			    tt_addr_port(&x->from));
		return;
	}
	f->zeros++;
	rx_count(x, f, (uint16_t)(f - x->flow));
}

/* n: real length of the datagram or, where the call could not tell, what fitted; have: bytes in buf
 */
static void rx_datagram(struct receiver *x, size_t have, bool cut)
{
	struct head h;
	struct rx_flow *f;
	ssize_t bad;

	memcpy(&h, x->buf, sizeof(h));
	if (have < sizeof(h) || h.magic != MAGIC || h.hash != head_hash(&h, x->r.seed) ||
	    h.flow >= x->r.flows_all)
		tt_fail("round %u: a datagram of %zu bytes has a wrong head", x->r.index, have);
	if (cut ? h.len <= have : h.len != have)
		tt_fail("flow %u seq %u: %zu bytes came, %u were sent", h.flow, h.seq, have, h.len);
	if (tt_addr_port(&x->from) != h.port)
		tt_fail("flow %u seq %u: source port %u, not %u", h.flow, h.seq,
		    tt_addr_port(&x->from), h.port);
	bad = tt_stream_check(
	    flow_key(x->r.seed, h.flow, h.seq), 0, x->buf + sizeof(h), have - sizeof(h));
	if (bad >= 0)
		tt_fail("flow %u seq %u: wrong byte at %zd of %u", h.flow, h.seq,
		    bad + (ssize_t)sizeof(h), h.len);
	f = &x->flow[h.flow];
	if (h.seq < f->next || (!x->r.flood && h.seq > f->next))
		tt_fail("flow %u: datagram %u came where %u was due", h.flow, h.seq, f->next);
	if (f->zeros > h.zeros || (!x->r.flood && f->zeros != h.zeros))
		tt_fail("flow %u seq %u: %llu empty datagrams came before it, %u were sent", h.flow,
		    h.seq, (unsigned long long)f->zeros, h.zeros);
	x->lost += h.seq - f->next + h.zeros - f->zeros;
	f->zeros = h.zeros;
	f->next = h.seq + 1;
	f->port = h.port;
	f->known = true;
	f->last |= h.last != 0;
	rx_count(x, f, h.flow);
}

static void rx_peek_check(struct receiver *x, size_t room)
{
	unsigned char first[128];
	struct tt_addr from;
	bool cut;
	ssize_t n = rx_call(x, room, MSG_PEEK | MSG_DONTWAIT | MSG_TRUNC, &cut), again;
	int next = -1;

	if (n < 0)
		return;
	memcpy(first, x->buf, sizeof(first));
	from = x->from;
	if (ioctl(x->fd, FIONREAD, &next) < 0 || next != (int)n)
		tt_fail("FIONREAD says %d where a peek saw %zd bytes", next, n);
	memset(x->buf, 0, sizeof(first));
	again = rx_call(x, room, MSG_PEEK | MSG_DONTWAIT | MSG_TRUNC, &cut);
	if (again != n ||
	    memcmp(first, x->buf, (size_t)n < sizeof(first) ? (size_t)n : sizeof(first)) ||
	    tt_addr_port(&from) != tt_addr_port(&x->from))
		tt_fail("two peeks differ: %zd and %zd bytes (%s)", n, again,
		    again < 0 ? strerror(errno) : "no error");
}

static bool rx_done(const struct receiver *x)
{
	for (size_t i = 0; i < x->r.flows_all; i++)
		if (!x->flow[i].last)
			return false;
	return true;
}

/* True when a datagram was taken. */
static bool rx_one(struct receiver *x)
{
	/* A buffer that is now and then too small: the rest is cut off, the head always fits. */
	size_t room = tt_rng_pct(&x->rng, 10) ? 256 : LEN_MAX;
	int flags = (x->wait == WAIT_DONTWAIT || x->wait == WAIT_BLOCK) && tt_rng_pct(&x->rng, 30)
			? MSG_DONTWAIT
			: 0;
	bool cut;
	ssize_t n;

	if (x->wait == WAIT_DONTWAIT)
		flags = MSG_DONTWAIT;
	if (!opt.no_peek && tt_rng_pct(&x->rng, 5))
		rx_peek_check(x, room);
	if (room == 256)
		flags |= MSG_TRUNC;
	n = rx_call(x, room, flags, &cut);
	if (n < 0) {
		if (errno == EAGAIN) {
			if (x->wait != WAIT_BLOCK)
				rx_wait(x);
			return false;
		}
		if (errno == EINTR || errno == ECONNREFUSED)
			return false;
		tt_fail("round %u: receive: %s", x->r.index, strerror(errno));
	}
	if (n == 0)
		rx_zero(x);
	else
		rx_datagram(x, (size_t)n > room ? room : (size_t)n, (size_t)n > room);
	return true;
}

static void rx_run(struct receiver *x)
{
	bool connected = false;

	while (!rx_done(x)) {
		tt_watch_beat(&watches[0]);
		atomic_store(&watches[0].note[1], x->got);
		if (rx_one(x) && !connected && x->r.flows_all == 1 && tt_rng_pct(&x->rng, 1)) {
			/* One sender: go on as a connected socket. */
			if (connect(x->fd, (void *)&x->from.ss, x->from.len) < 0)
				tt_fail("connect of the receiver: %s", strerror(errno));
			connected = true;
		}
		if (!x->r.flood && tt_rng_below(&x->rng, 200) == 0)
			tt_nap_us((unsigned int)tt_rng_below(&x->rng, 3000));
	}
}

/* ---- rounds ---- */

static int helper_in[HELPERS], helper_out[HELPERS];
static pid_t helper_pid[HELPERS];

static void helper_spawn(int i, char **argv, bool plain)
{
	int in[2], out[2];

	if (pipe(in) < 0 || pipe(out) < 0)
		tt_env_fail("pipe: %s", strerror(errno));
	helper_pid[i] = fork();
	if (helper_pid[i] < 0)
		tt_env_fail("fork: %s", strerror(errno));
	if (helper_pid[i] == 0) {
		char a[16], b[16], *args[40];
		int n = 0;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (plain)
			unsetenv("LD_PRELOAD");
		close(in[1]);
		close(out[0]);
		snprintf(a, sizeof(a), "%d", in[0]);
		snprintf(b, sizeof(b), "%d", out[1]);
		for (; argv[n] && n < 34; n++)
			args[n] = argv[n];
		args[n++] = (char *)"--child-in";
		args[n++] = a;
		args[n++] = (char *)"--child-out";
		args[n++] = b;
		args[n] = NULL;
		execv("/proc/self/exe", args);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	helper_in[i] = in[1];
	helper_out[i] = out[0];
	(void)fcntl(in[1], F_SETFD, FD_CLOEXEC);
	(void)fcntl(out[0], F_SETFD, FD_CLOEXEC);
}

static int helper_main(void)
{
	static struct flow f[FLOWS_MAX];
	struct round r;

	tt_watch_start(watches, TT_CK_ARRAY(watches), opt.limit_s, watch_print);
	while (tt_io_get(opt.child_in, &r, sizeof(r)) && !r.stop) {
		struct result res[FLOWS_MAX] = {0};

		flows_start(f, &r);
		flows_join(f, &r, res);
		if (!tt_io_put(opt.child_out, res, sizeof(res)))
			return 1;
	}
	return 0;
}

static void rx_open(struct receiver *x)
{
	struct tt_addr a;
	enum tt_family rf = opt.family == TT_FAMILY_MAPPED ? TT_FAMILY_4 : opt.family;

	tt_addr_loopback(&a, rf, 0);
	x->fd = socket(tt_family_domain(rf), SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (x->fd < 0 || bind(x->fd, (void *)&a.ss, a.len) < 0 ||
	    getsockname(x->fd, (void *)&a.ss, &a.len) < 0)
		tt_env_fail("UDP socket: %s", strerror(errno));
	x->r.port = tt_addr_port(&a);
	if (x->wait != WAIT_BLOCK && x->wait != WAIT_DONTWAIT &&
	    fcntl(x->fd, F_SETFL, O_RDWR | O_NONBLOCK) < 0)
		tt_fail("fcntl: %s", strerror(errno));
	x->epfd = -1;
}

static void round_run(uint32_t index, uint64_t *total, uint64_t *lost)
{
	static struct flow f[FLOWS_MAX];
	static struct receiver x;
	unsigned char *buf = malloc(LEN_MAX + 64);
	struct tt_rng r = {tt_mix64(opt.seed + index)};
	struct result res[FLOWS_MAX] = {0}, part[FLOWS_MAX];
	uint16_t own, help[HELPERS];
	struct round mine;

	memset(&x, 0, sizeof(x));
	x.buf = buf;
	if (!buf)
		tt_env_fail("no memory");
	x.rng.s = tt_rng_next(&r);
	x.wait = (enum wait)tt_rng_below(&r, WAIT_COUNT);
	x.r = (struct round){.seed = tt_rng_next(&r), .msgs = (uint32_t)opt.msgs, .index = index};
	x.r.flood = opt.flood >= 0 ? (uint32_t)opt.flood : tt_rng_pct(&r, 30);
	own = (uint16_t)(opt.threads ? 1 + tt_rng_below(&r, 3) : tt_rng_below(&r, 2));
	help[0] = (uint16_t)(opt.threads ? 0 : 1 + tt_rng_below(&r, 3));
	help[1] = (uint16_t)(opt.threads || opt.no_plain ? 0 : tt_rng_below(&r, 3));
	x.r.flows_all = (uint16_t)(own + help[0] + help[1]);
	rx_open(&x);
	mine = x.r;
	mine.flows = own;
	for (int i = 0, first = own; i < HELPERS && !opt.threads; first += help[i], i++) {
		struct round h = x.r;

		h.first = (uint16_t)first;
		h.flows = help[i];
		if (!tt_io_put(helper_in[i], &h, sizeof(h)))
			tt_fail("a sender process is gone");
	}
	atomic_store(&watches[0].busy, true);
	flows_start(f, &mine);
	rx_run(&x);
	flows_join(f, &mine, res);
	for (int i = 0, first = own; i < HELPERS && !opt.threads; first += help[i], i++) {
		if (!tt_io_get(helper_out[i], part, sizeof(part)))
			tt_fail("a sender process has failed");
		memcpy(&res[first], &part[first], help[i] * sizeof(res[0]));
	}
	atomic_store(&watches[0].busy, false);
	for (int i = 0; i < x.r.flows_all; i++)
		if (!x.r.flood && x.flow[i].got != res[i].sent)
			tt_fail("round %u flow %d: %llu datagrams came, %llu were sent", index, i,
			    (unsigned long long)x.flow[i].got, (unsigned long long)res[i].sent);
	*total += x.got;
	*lost += x.lost;
	if (x.epfd >= 0)
		close(x.epfd);
	close(x.fd);
	free(buf);
}

static const char usage_text[] =
    "usage: dgram_check [--rounds N] [--msgs N] [--seed N] [--family 4|6|mapped]\n"
    "  [--threads] [--no-plain] [--no-peek] [--flood 0|1] [--limit-s N]\n";

static void parse(int argc, char **argv)
{
	static const struct option longs[] = {{"rounds", 1, NULL, 'r'}, {"msgs", 1, NULL, 'm'},
	    {"seed", 1, NULL, 's'}, {"family", 1, NULL, 'f'}, {"threads", 0, NULL, 't'},
	    {"no-plain", 0, NULL, 'p'}, {"no-peek", 0, NULL, 'P'}, {"flood", 1, NULL, 'F'},
	    {"limit-s", 1, NULL, 'l'}, {"child-in", 1, NULL, 'I'}, {"child-out", 1, NULL, 'O'},
	    {NULL, 0, NULL, 0}};
	int c;

	opt.seed = tt_now_ns();
	while ((c = getopt_long(argc, argv, "", longs, NULL)) >= 0) {
		uint64_t v = optarg ? strtoull(optarg, NULL, 0) : 0;

		if (c == 'r')
			opt.rounds = v;
		else if (c == 'm' && v > 0)
			opt.msgs = v;
		else if (c == 's')
			opt.seed = v;
		else if (c == 't')
			opt.threads = true;
		else if (c == 'p')
			opt.no_plain = true;
		else if (c == 'P')
			opt.no_peek = true;
		else if (c == 'F')
			opt.flood = (int)v;
		else if (c == 'l')
			opt.limit_s = (unsigned int)v;
		else if (c == 'I')
			opt.child_in = (int)v;
		else if (c == 'O')
			opt.child_out = (int)v;
		else if (c != 'f' || !tt_family_parse(optarg, &opt.family)) {
			fputs(usage_text, stderr);
			exit(2);
		}
	}
	if (optind < argc) {
		fputs(usage_text, stderr);
		exit(2);
	}
	tt_rerun_set(argc, argv, opt.seed);
}

int main(int argc, char **argv)
{
	uint64_t total = 0, lost = 0;

	parse(argc, argv);
	signal(SIGPIPE, SIG_IGN);
	if (opt.child_in >= 0)
		return helper_main();
	printf("dgram_check: seed %llu\n", (unsigned long long)opt.seed);
	fflush(stdout);
	for (int i = 0; i < HELPERS && !opt.threads; i++)
		helper_spawn(i, argv, i == HELPERS - 1);
	tt_watch_start(watches, TT_CK_ARRAY(watches), opt.limit_s, watch_print);
	for (uint32_t i = 0; i < opt.rounds; i++)
		round_run(i, &total, &lost);
	for (int i = 0; i < HELPERS && !opt.threads; i++) {
		struct round stop = {.stop = 1};
		int status;

		(void)tt_io_put(helper_in[i], &stop, sizeof(stop));
		while (waitpid(helper_pid[i], &status, 0) < 0 && errno == EINTR)
			;
		if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
			tt_fail("sender process %d ended with status %x", i, (unsigned int)status);
	}
	printf("dgram_check: %llu datagrams right, %llu lost in floods\n",
	    (unsigned long long)total, (unsigned long long)lost);
	return 0;
}
