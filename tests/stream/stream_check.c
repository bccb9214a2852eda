/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stream_check - is every byte of every TCP connection right, whatever calls, flags, sizes, waits
 * and pauses both ends use?
 *
 * Each connection follows a plan that both ends draw from the seed: how many bytes each way, in
 * which pattern, and how it ends. How an end does its part (calls, flags, waits, pauses) is drawn
 * from the end's own generator.
 *
 *   procs    the server is this program executed again; client and server are two processes
 *   threads  both ends are threads of one process (what ThreadSanitizer needs)
 *   single   both ends are driven by one thread, which never sends more than a kernel would buffer
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stream_opt.h"

#define SINGLE_OUTSTANDING_MAX (32u << 10)
#define ROUND_MAX (64u << 10)

struct plan {
	uint64_t conn, seed;
	enum pattern pattern;
	enum ending ending;
	uint64_t up, down;   /* bytes client to server and back */
	uint64_t cut;        /* abrupt: the closer stops after this many bytes in both directions */
	bool linger0, stdio; /* abrupt by SO_LINGER 0; one-way streams end through stdio */
};

struct worker {
	pthread_t thread;
	bool server;
	size_t index;
	int lfd;
	uint16_t port;
	struct tt_watch *watch; /* two: the second for the other thread of P_THREADS */
	unsigned char *buf[2];
	uint64_t conns, tx, rx, calls, waits;
};

static struct tt_watch watches[2 * 2 * TT_SC_WORKERS_MAX];

static void watch_print(const struct tt_watch *w)
{
	uint64_t note = atomic_load_explicit(&w->note[0], memory_order_relaxed);

	if (!atomic_load_explicit(&w->busy, memory_order_relaxed))
		return;
	fprintf(stderr, "  %s conn %llu pattern %s ending %s wait %s tx %llu rx %llu\n",
	    note >> 63 ? "server" : "client",
	    (unsigned long long)atomic_load_explicit(&w->note[1], memory_order_relaxed),
	    tt_sc_pattern_word[note & 0xff], tt_sc_ending_word[note >> 8 & 0xff],
	    tt_wait_word[note >> 16 & 0xff],
	    (unsigned long long)atomic_load_explicit(&w->note[2], memory_order_relaxed),
	    (unsigned long long)atomic_load_explicit(&w->note[3], memory_order_relaxed));
}

/* Short streams and long ones; the long ones carry most of the bytes. */
static uint64_t bytes_draw(struct tt_rng *r)
{
	return tt_rng_pct(r, 50) ? tt_rng_size(r, 1, tt_sc.bytes)
				 : 1 + tt_rng_below(r, tt_sc.bytes);
}

static void plan_draw(struct plan *p, uint64_t conn)
{
	struct tt_rng r = {tt_mix64(tt_sc.seed) ^ tt_mix64(conn + 1)};

	memset(p, 0, sizeof(*p));
	p->conn = conn;
	p->seed = tt_rng_next(&r);
	p->pattern = (enum pattern)tt_rng_below(&r, P_COUNT);
	p->ending = (enum ending)tt_rng_below(&r, END_COUNT);
	if (!tt_rng_pct(&r, 40) || !tt_sc.abrupt)
		p->ending = (enum ending)tt_rng_below(&r, END_SERVER_CLOSES + 1);
	if (tt_sc.pattern >= 0)
		p->pattern = (enum pattern)tt_sc.pattern;
	p->up = bytes_draw(&r);
	p->down = bytes_draw(&r);
	if (p->pattern == P_UP)
		p->down = 0;
	if (p->pattern == P_DOWN)
		p->up = 0;
	p->cut = tt_rng_below(&r, p->up + p->down + 1);
	p->linger0 = tt_rng_pct(&r, 50);
	p->stdio = tt_sc.end.unseen_rx != TT_UNSEEN_RX_NONE && tt_rng_pct(&r, 15);
}

static bool abrupt(const struct plan *p)
{
	return p->ending >= END_CLIENT_ABRUPT;
}

static bool closer(const struct plan *p, bool server)
{
	return p->ending == (server ? END_SERVER_ABRUPT : END_CLIENT_ABRUPT);
}

/* Where the connection may break, the calls that say so are no failure. */
static bool broken(const struct plan *p, ssize_t r)
{
	return abrupt(p) && (r == -EPIPE || r == -ECONNRESET || r == 0);
}

static void note_end(struct tt_end *e)
{
	atomic_store_explicit(&e->w->note[2], e->tx_off, memory_order_relaxed);
	atomic_store_explicit(&e->w->note[3], e->rx_off, memory_order_relaxed);
}

static bool retry(ssize_t r)
{
	return r == -EAGAIN || r == -EINTR;
}

/* The body stops here: the closer has reached its cut, or the connection is broken as planned. */
static bool stop_here(const struct plan *p, struct tt_end *e)
{
	return closer(p, e->who[0] == 's') && e->tx_off + e->rx_off >= p->cut;
}

/* Sends up to position `to`. False: the connection has ended as planned. */
static bool send_to(const struct plan *p, struct tt_end *e, uint64_t to)
{
	while (e->tx_off < to) {
		ssize_t r;

		if (stop_here(p, e))
			return false;
		r = tt_end_send(e, to - e->tx_off, true);
		note_end(e);
		if (broken(p, r))
			return false;
		if (r == -EAGAIN)
			tt_end_wait(e, POLLOUT);
		else if (r < 0 && !retry(r))
			tt_fail("conn %llu %s: send at %llu: %s", (unsigned long long)p->conn,
			    e->who, (unsigned long long)e->tx_off, strerror((int)-r));
	}
	return true;
}

static bool recv_to(const struct plan *p, struct tt_end *e, uint64_t to)
{
	while (e->rx_off < to) {
		ssize_t r;

		if (stop_here(p, e))
			return false;
		r = tt_end_recv(e, to - e->rx_off, !abrupt(p));
		note_end(e);
		if (broken(p, r))
			return false;
		/* A short read has drained the descriptor, unless its end was told of with the bytes. */
		if (r == -EAGAIN ||
		    (r > 0 && e->rx_off < to && e->dry && e->short_is_dry && !e->ended &&
			e->wait == TT_WAIT_EPOLL_ET && e->epfd >= 0))
			tt_end_wait(e, POLLIN);
		else if (r == 0)
			tt_fail("conn %llu %s: end of stream at %llu of %llu bytes",
			    (unsigned long long)p->conn, e->who, (unsigned long long)e->rx_off,
			    (unsigned long long)to);
		else if (r < 0 && !retry(r))
			tt_fail("conn %llu %s: recv at %llu: %s", (unsigned long long)p->conn,
			    e->who, (unsigned long long)e->rx_off, strerror((int)-r));
	}
	return true;
}

/* Nothing may follow: the next receive must find the end of the stream. */
static void recv_end(const struct plan *p, struct tt_end *e)
{
	for (;;) {
		ssize_t r = tt_end_recv(e, 4096, false);

		if (r == 0 || (abrupt(p) && (r == -ECONNRESET || r == -EPIPE)))
			return;
		if (r == -EAGAIN)
			tt_end_wait(e, POLLIN);
		else if (r > 0 && !abrupt(p))
			tt_fail("conn %llu %s: %zd bytes after the last one",
			    (unsigned long long)p->conn, e->who, r);
		else if (r < 0 && !retry(r))
			tt_fail("conn %llu %s: recv at the end of the stream: %s",
			    (unsigned long long)p->conn, e->who, strerror((int)-r));
	}
}

static bool body_reqrep(const struct plan *p, struct tt_end *e, bool server)
{
	struct tt_rng r = {p->seed ^ 0x5eedull};
	uint64_t q = 0, a = 0;

	while (q < p->up || a < p->down) {
		bool ok;

		q += q < p->up ? tt_rng_size(&r, 1, p->up - q < ROUND_MAX ? p->up - q : ROUND_MAX)
			       : 0;
		a += a < p->down
			 ? tt_rng_size(&r, 1, p->down - a < ROUND_MAX ? p->down - a : ROUND_MAX)
			 : 0;
		ok = server ? recv_to(p, e, q) && send_to(p, e, a)
			    : send_to(p, e, q) && recv_to(p, e, a);
		if (!ok)
			return false;
	}
	return true;
}

/* Both directions from one loop. On a blocking descriptor each call carries MSG_DONTWAIT
 * (TT_WAIT_DONTWAIT). */
static bool body_loop(const struct plan *p, struct tt_end *e, uint64_t tx, uint64_t rx)
{
	while (e->tx_off < tx || e->rx_off < rx) {
		short want = 0;
		ssize_t r;

		if (stop_here(p, e))
			return false;
		if (e->tx_off < tx) {
			r = tt_end_send(e, tx - e->tx_off, true);
			if (broken(p, r))
				return false;
			if (r == -EAGAIN)
				want |= POLLOUT;
			else if (r < 0 && !retry(r))
				tt_fail("conn %llu %s: send: %s", (unsigned long long)p->conn,
				    e->who, strerror((int)-r));
		}
		if (e->rx_off < rx) {
			r = tt_end_recv(e, rx - e->rx_off, false);
			if (broken(p, r))
				return false;
			if (r == -EAGAIN)
				want |= POLLIN;
			else if (r == 0 || (r < 0 && !retry(r)))
				tt_fail("conn %llu %s: recv at %llu: %s",
				    (unsigned long long)p->conn, e->who,
				    (unsigned long long)e->rx_off,
				    r ? strerror((int)-r) : "end of stream");
		}
		note_end(e);
		if (want == ((e->tx_off < tx ? POLLOUT : 0) | (e->rx_off < rx ? POLLIN : 0)) &&
		    want)
			tt_end_wait(e, want);
	}
	return true;
}

struct half_arg {
	const struct plan *p;
	struct tt_end *e;
	uint64_t to;
};

static void *half_main(void *arg)
{
	struct half_arg *h = arg;

	atomic_store_explicit(&h->e->w->busy, true, memory_order_relaxed);
	(void)send_to(h->p, h->e, h->to);
	atomic_store_explicit(&h->e->w->busy, false, memory_order_relaxed);
	return NULL;
}

static bool body_threads(
    const struct plan *p, struct tt_end *e, struct worker *w, uint64_t tx, uint64_t rx)
{
	struct tt_end h = *e;
	struct half_arg arg = {p, &h, tx};
	pthread_t t;
	bool ok;

	for (int i = 0; i < 4; i++)
		atomic_store_explicit(&w->watch[1].note[i],
		    atomic_load_explicit(&w->watch[0].note[i], memory_order_relaxed),
		    memory_order_relaxed);
	h.half = true;
	h.buf = w->buf[1];
	h.w = &w->watch[1];
	h.rng.s = tt_mix64(e->rng.s);
	tt_end_start(&h);
	if (pthread_create(&t, NULL, half_main, &arg) != 0)
		tt_env_fail("pthread_create failed");
	ok = recv_to(p, e, rx);
	/* The closer's other thread may sleep in a send that nobody will read: end it as a program
	 * would. */
	if (!ok && abrupt(p))
		shutdown(e->fd, SHUT_RDWR);
	pthread_join(t, NULL);
	e->tx_off = h.tx_off;
	e->calls_tx += h.calls_tx;
	e->waits += h.waits;
	tt_end_stop(&h);
	return ok && e->tx_off == tx;
}

static bool body(const struct plan *p, struct tt_end *e, struct worker *w)
{
	uint64_t tx = w->server ? p->down : p->up;
	uint64_t rx = w->server ? p->up : p->down;

	switch (p->pattern) {
	case P_REQREP:
		return body_reqrep(p, e, w->server);
	case P_LOOP:
		return body_loop(p, e, tx, rx);
	case P_THREADS:
		return body_threads(p, e, w, tx, rx);
	default:
		break;
	}
	/* One way. The stdio variant goes over to unseen calls at a random point. */
	if (p->stdio && e->wait == TT_WAIT_BLOCK) {
		uint64_t at = tt_rng_below(&e->rng, tx + rx);

		if (!(tx ? send_to(p, e, at) : recv_to(p, e, at)))
			return false;
		if (tx)
			tt_end_stdio_tx(e);
		else
			tt_end_stdio_rx(e);
	}
	return tx ? send_to(p, e, tx) : recv_to(p, e, rx);
}

static void finish(const struct plan *p, struct tt_end *e, bool server, bool whole)
{
	bool closes = p->ending == (server ? END_SERVER_CLOSES : END_CLIENT_CLOSES);
	struct linger lg = {.l_onoff = 1, .l_linger = 0};

	if (closer(p, server)) {
		if (p->linger0)
			(void)setsockopt(e->fd, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg));
	} else if (!whole) {
		/* Broken under us: what is still readable must be a true prefix. */
		recv_end(p, e);
	} else if (!closes) {
		if (!e->in && !e->out && !e->shut && shutdown(e->fd, SHUT_WR) < 0 && !abrupt(p))
			tt_fail("conn %llu %s: shutdown: %s", (unsigned long long)p->conn, e->who,
			    strerror(errno));
		if (!e->out)
			recv_end(p, e);
	}
	tt_end_stop(e);
	tt_end_close(e);
}

static enum tt_wait wait_draw(const struct plan *p, struct tt_rng *r)
{
	enum tt_wait wait = (enum tt_wait)tt_rng_below(r, TT_WAIT_COUNT);

	/* Half of all ends simply block, as most programs do. */
	if (tt_rng_pct(r, 40))
		wait = TT_WAIT_BLOCK;
	if (tt_sc.wait >= 0)
		wait = (enum tt_wait)tt_sc.wait;
	if (p->pattern == P_LOOP && wait < TT_WAIT_DONTWAIT)
		wait = TT_WAIT_DONTWAIT;
	return wait;
}

static void end_init(struct tt_end *e, const struct plan *p, struct worker *w, int fd, bool server,
    struct tt_end_opts *o)
{
	memset(e, 0, sizeof(*e));
	e->fd = fd;
	e->who = server ? "server" : "client";
	e->conn = p->conn;
	e->rng.s = tt_mix64(p->seed ^ (server ? 0x5e7e7ull : 0xc11e47ull));
	e->o = o;
	e->wait = wait_draw(p, &e->rng);
	e->strict = !abrupt(p);
	e->tx_key = p->seed + (server ? 1 : 2);
	e->rx_key = p->seed + (server ? 2 : 1);
	e->buf = w->buf[0];
	e->w = &w->watch[0];
	if (o->unseen_rx == TT_UNSEEN_RX_FIRST && tt_rng_pct(&e->rng, 20))
		e->raw_until = tt_rng_size(&e->rng, 1, server ? p->up + 1 : p->down + 1);
	/* Bare reads know no timeouts of ours to retry on: they are mixed into every wait all the
	 * same. */
	o->pause_pct = tt_sc.end.pause_pct;
	if (o->pause_pct == 0 && tt_sc.end.pause_us && !o->plain)
		o->pause_pct = (unsigned int[]){0, 0, 2, 10}[tt_rng_below(&e->rng, 4)];
	tt_end_start(e);
}

static void end_count(struct worker *w, const struct tt_end *e)
{
	w->conns++;
	w->tx += e->tx_off;
	w->rx += e->rx_off;
	w->calls += e->calls_tx + e->calls_rx;
	w->waits += e->waits;
}

static void conn_run(struct worker *w, uint64_t conn)
{
	struct tt_end_opts o = tt_sc.end;
	struct plan p;
	struct tt_end e;
	bool whole;
	int fd;

	plan_draw(&p, conn);
	if (p.pattern == P_LOOP || p.pattern == P_THREADS)
		o.more = false;
	atomic_store_explicit(&w->watch[0].note[1], conn, memory_order_relaxed);
	atomic_store_explicit(
	    &w->watch[0].note[0], w->server ? 1ull << 63 : 0, memory_order_relaxed);
	fd = w->server ? tt_accept_one(w->lfd) : tt_connect_to(tt_sc.family, w->port);
	end_init(&e, &p, w, fd, w->server, &o);
	atomic_store_explicit(&w->watch[0].note[0],
	    (w->server ? 1ull << 63 : 0) | (uint64_t)p.pattern | (uint64_t)p.ending << 8 |
		(uint64_t)e.wait << 16,
	    memory_order_relaxed);
	note_end(&e);
	whole = body(&p, &e, w);
	finish(&p, &e, w->server, whole);
	end_count(w, &e);
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;

	atomic_store_explicit(&w->watch[0].busy, true, memory_order_relaxed);
	for (uint64_t c = w->index; c < tt_sc.conns; c += tt_sc.workers)
		if (!tt_sc.has_only || c == tt_sc.only)
			conn_run(w, c);
	atomic_store_explicit(&w->watch[0].busy, false, memory_order_relaxed);
	return NULL;
}

static void worker_init(struct worker *w, size_t index, bool server)
{
	memset(w, 0, sizeof(*w));
	w->index = index;
	w->server = server;
	w->watch = &watches[2 * index + (server ? 2 * TT_SC_WORKERS_MAX : 0)];
	for (int i = 0; i < 2; i++) {
		w->buf[i] = malloc(TT_END_OP_MAX + 64);
		if (!w->buf[i])
			tt_env_fail("no memory for buffers");
	}
	if (server)
		w->lfd = tt_listen_any(tt_sc.family, 128, &w->port);
}

static void worker_free(struct worker *w)
{
	free(w->buf[0]);
	free(w->buf[1]);
	if (w->server)
		close(w->lfd);
}

static void report(const struct worker *w, size_t n, const char *who)
{
	uint64_t conns = 0, tx = 0, rx = 0, calls = 0, waits = 0;

	for (size_t i = 0; i < n; i++) {
		conns += w[i].conns;
		tx += w[i].tx;
		rx += w[i].rx;
		calls += w[i].calls;
		waits += w[i].waits;
	}
	printf(
	    "%s: %llu connections, sent %llu bytes, received %llu bytes, %llu calls, %llu waits\n",
	    who, (unsigned long long)conns, (unsigned long long)tx, (unsigned long long)rx,
	    (unsigned long long)calls, (unsigned long long)waits);
	fflush(stdout);
	if (conns == 0)
		tt_fail("%s: no connection was checked", who);
}

static void workers_run(struct worker *w, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (pthread_create(&w[i].thread, NULL, worker_main, &w[i]) != 0)
			tt_env_fail("pthread_create failed");
	for (size_t i = 0; i < n; i++)
		pthread_join(w[i].thread, NULL);
}

static void on_alarm(int sig)
{
	(void)sig;
}

static void signals_start(void)
{
	struct sigaction sa = {.sa_handler = on_alarm};
	struct itimerval it = {.it_interval = {.tv_usec = (suseconds_t)tt_sc.signals_ms * 1000},
	    .it_value = {.tv_usec = (suseconds_t)tt_sc.signals_ms * 1000}};

	signal(SIGPIPE, SIG_IGN);
	if (!tt_sc.signals_ms)
		return;
	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &it, NULL);
}

static int server_child(void)
{
	static struct worker w[TT_SC_WORKERS_MAX];
	uint16_t ports[TT_SC_WORKERS_MAX] = {0};

	for (size_t i = 0; i < tt_sc.workers; i++) {
		worker_init(&w[i], i, true);
		ports[i] = w[i].port;
	}
	tt_watch_start(watches, TT_CK_ARRAY(watches), tt_sc.limit_s, watch_print);
	if (!tt_io_put(tt_sc.child_fd, ports, sizeof(ports)))
		tt_env_fail("the client is gone");
	close(tt_sc.child_fd);
	workers_run(w, tt_sc.workers);
	report(w, tt_sc.workers, "server");
	for (size_t i = 0; i < tt_sc.workers; i++)
		worker_free(&w[i]);
	return 0;
}

static int run_procs(char **argv)
{
	static struct worker w[TT_SC_WORKERS_MAX];
	uint16_t ports[TT_SC_WORKERS_MAX];
	int p[2], status;
	pid_t pid;

	if (pipe(p) < 0)
		tt_env_fail("pipe: %s", strerror(errno));
	pid = fork();
	if (pid < 0)
		tt_env_fail("fork: %s", strerror(errno));
	if (pid == 0) {
		char num[16], seed[24], *args[64];
		int n = 0;

		/* A client that fails takes its server with it. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(p[0]);
		snprintf(num, sizeof(num), "%d", p[1]);
		snprintf(seed, sizeof(seed), "%llu", (unsigned long long)tt_sc.seed);
		for (; argv[n] && n < 58; n++)
			args[n] = argv[n];
		args[n++] = (char *)"--seed";
		args[n++] = seed;
		args[n++] = (char *)"--server-child";
		args[n++] = num;
		args[n] = NULL;
		execv("/proc/self/exe", args);
		_exit(127);
	}
	close(p[1]);
	if (!tt_io_get(p[0], ports, sizeof(ports)))
		tt_env_fail("the server did not start");
	close(p[0]);
	tt_watch_start(watches, TT_CK_ARRAY(watches), tt_sc.limit_s, watch_print);
	for (size_t i = 0; i < tt_sc.workers; i++) {
		worker_init(&w[i], i, false);
		w[i].port = ports[i];
	}
	workers_run(w, tt_sc.workers);
	report(w, tt_sc.workers, "client");
	for (size_t i = 0; i < tt_sc.workers; i++)
		worker_free(&w[i]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		tt_fail("the server ended with status %x", (unsigned int)status);
	return 0;
}

static int run_threads(void)
{
	static struct worker w[2 * TT_SC_WORKERS_MAX];

	for (size_t i = 0; i < tt_sc.workers; i++) {
		worker_init(&w[i], i, true);
		worker_init(&w[tt_sc.workers + i], i, false);
		w[tt_sc.workers + i].port = w[i].port;
	}
	tt_watch_start(watches, TT_CK_ARRAY(watches), tt_sc.limit_s, watch_print);
	workers_run(w, 2 * tt_sc.workers);
	report(w, tt_sc.workers, "server");
	report(w + tt_sc.workers, tt_sc.workers, "client");
	for (size_t i = 0; i < 2 * tt_sc.workers; i++)
		worker_free(&w[i]);
	return 0;
}

/* One direction of a single-threaded run: sends some, then receives some of what is under way. */
static void single_step(
    const struct plan *p, struct tt_end *from, struct tt_end *to, uint64_t total, struct tt_rng *r)
{
	uint64_t out = from->tx_off - to->rx_off;
	uint64_t room = SINGLE_OUTSTANDING_MAX - out;

	if (room > total - from->tx_off)
		room = total - from->tx_off;
	if (room > 0 && tt_rng_pct(r, 70))
		(void)send_to(p, from, from->tx_off + tt_rng_size(r, 1, room));
	out = from->tx_off - to->rx_off;
	if (out > 0 && tt_rng_pct(r, 70))
		(void)recv_to(p, to, to->rx_off + tt_rng_size(r, 1, out));
}

static int run_single(void)
{
	static struct worker w[2];

	worker_init(&w[0], 0, true);
	worker_init(&w[1], 0, false);
	tt_watch_start(watches, TT_CK_ARRAY(watches), tt_sc.limit_s, watch_print);
	atomic_store(&w[0].watch[0].busy, true);
	w[1].watch = w[0].watch;
	for (uint64_t c = 0; c < tt_sc.conns; c++) {
		struct tt_end_opts so = tt_sc.end, co = tt_sc.end;
		struct tt_rng r = {tt_mix64(tt_sc.seed + c)};
		struct tt_end s, k;
		struct plan p;

		if (tt_sc.has_only && c != tt_sc.only)
			continue;
		plan_draw(&p, c);
		p.ending = END_SHUTDOWN;
		so.more = co.more = false;
		atomic_store_explicit(&w[0].watch[0].note[1], c, memory_order_relaxed);
		int fd = tt_connect_to(tt_sc.family, w[0].port);

		end_init(&k, &p, &w[1], fd, false, &co);
		end_init(&s, &p, &w[0], tt_accept_one(w[0].lfd), true, &so);
		while (k.rx_off < p.down || s.rx_off < p.up) {
			single_step(&p, &k, &s, p.up, &r);
			single_step(&p, &s, &k, p.down, &r);
		}
		if (shutdown(k.fd, SHUT_WR) < 0 || shutdown(s.fd, SHUT_WR) < 0)
			tt_fail("conn %llu: shutdown: %s", (unsigned long long)c, strerror(errno));
		s.shut = k.shut = true;
		finish(&p, &s, true, true);
		finish(&p, &k, false, true);
		end_count(&w[0], &s);
		end_count(&w[1], &k);
	}
	report(&w[0], 1, "server");
	report(&w[1], 1, "client");
	worker_free(&w[0]);
	worker_free(&w[1]);
	return 0;
}

int main(int argc, char **argv)
{
	tt_sc_parse(argc, argv);
	signals_start();
	if (tt_sc.child_fd >= 0)
		return server_child();
	printf("stream_check: seed %llu\n", (unsigned long long)tt_sc.seed);
	fflush(stdout);
	if (tt_sc.mode == MODE_PROCS)
		return run_procs(argv);
	return tt_sc.mode == MODE_THREADS ? run_threads() : run_single();
}
