/* SPDX-License-Identifier: BSD-3-Clause */
#include "scene.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define FAR_MAX 512 /* connections a peer keeps track of */
#define BLOCK (256u << 10)

enum far_op {
	FAR_CONNECT,
	FAR_LISTEN,
	FAR_ACCEPT,
	FAR_SEND,
	FAR_SEND_RAW,
	FAR_SEND_OOB,
	FAR_RECV,
	FAR_RECV_ONCE,
	FAR_RECV_EOF,
	FAR_SHUTDOWN,
	FAR_CLOSE,
	FAR_RESET,
	FAR_RESET_RAW
};

struct request {
	enum far_op op;
	int fd, how;
	unsigned int delay_ms;
	uint64_t key;
	size_t n;
	uint16_t port;
};

struct reply {
	long ret;
	int wrong; /* bytes that were not right */
	uint16_t port;
};

static struct {
	enum { PEER_PROC, PEER_SELF, PEER_PLAIN } peer;
	unsigned int warm, limit_s;
	const char *only, *scene;
	int peer_fd;
} opt = {.warm = 40, .limit_s = 20, .peer_fd = -1};

static char **self_argv;
static int peer_rpc = -1;

/* ---- saying ---- */

void tt_say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	fflush(stdout);
}

const char *tt_errno_word(int err)
{
	const char *w = strerrorname_np(err);

	return w ? w : "?";
}

void tt_say_ret(const char *what, long ret)
{
	if (ret < 0)
		tt_say("%s: -1 %s", what, tt_errno_word(errno));
	else
		tt_say("%s: %ld", what, ret);
}

const char *tt_events_word(uint32_t events)
{
	static const struct {
		uint32_t bit;
		const char *word;
	} rows[] = {{EPOLLIN, "IN"}, {EPOLLOUT, "OUT"}, {EPOLLPRI, "PRI"}, {EPOLLERR, "ERR"},
	    {EPOLLHUP, "HUP"}, {EPOLLRDHUP, "RDHUP"}, {POLLNVAL, "NVAL"}};
	static __thread char text[4][64];
	static __thread unsigned int turn;
	char *t = text[turn++ % 4];

	*t = '\0';
	for (size_t i = 0; i < TT_CK_ARRAY(rows); i++)
		if (events & rows[i].bit) {
			if (*t)
				strcat(t, "|");
			strcat(t, rows[i].word);
		}
	return *t ? t : "none";
}

/* ---- the peer ---- */

static struct {
	int fd;
	uint64_t key, tx, rx;
} far_state[FAR_MAX];

static size_t far_count;
static int far_lfd = -1;
static pthread_mutex_t far_lock = PTHREAD_MUTEX_INITIALIZER;

static size_t far_find(int fd)
{
	for (size_t i = far_count; i-- > 0;)
		if (far_state[i].fd == fd)
			return i;
	tt_fail("the peer knows no descriptor %d", fd);
}

static void far_new(int fd, uint64_t key)
{
	int on = 1;

	if (far_count == FAR_MAX)
		tt_fail("a scene has more than %d connections", FAR_MAX);
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	far_state[far_count].fd = fd;
	far_state[far_count].key = key;
	far_state[far_count].tx = far_state[far_count].rx = 0;
	far_count++;
}

static long far_send(const struct request *q)
{
	unsigned char *buf = malloc(BLOCK);
	size_t i, left = q->n;
	long ret = (long)q->n;

	/* A delayed send and the next one are in order, positions and all. */
	pthread_mutex_lock(&far_lock);
	i = far_find(q->fd);
	while (left > 0) {
		size_t n = left < BLOCK ? left : BLOCK;
		long r;

		tt_stream_fill(far_state[i].key, far_state[i].tx, buf, n);
		r = q->op == FAR_SEND_RAW ? tt_raw3(SYS_write, q->fd, (long)buf, (long)n)
					  : send(q->fd, buf, n, MSG_NOSIGNAL);
		if (r < 0 && q->op == FAR_SEND && errno == EINTR)
			continue;
		if (r < 0) {
			ret = q->op == FAR_SEND_RAW ? r : -errno;
			break;
		}
		far_state[i].tx += (uint64_t)r;
		left -= (size_t)r;
	}
	pthread_mutex_unlock(&far_lock);
	free(buf);
	return ret;
}

static long far_recv(const struct request *q, struct reply *a)
{
	unsigned char *buf = malloc(BLOCK);
	size_t i = far_find(q->fd), have = 0;
	bool all = q->op == FAR_RECV, eof = q->op == FAR_RECV_EOF;
	long ret = 0;

	while (eof || have < q->n) {
		size_t n = eof || q->n - have > BLOCK ? BLOCK : q->n - have;
		ssize_t r = recv(q->fd, buf, n, 0);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			ret = -errno;
		if (r <= 0)
			break;
		if (tt_stream_check(far_state[i].key + 1, far_state[i].rx, buf, (size_t)r) >= 0)
			a->wrong++;
		far_state[i].rx += (uint64_t)r;
		have += (size_t)r;
		if (!all && !eof)
			break;
	}
	free(buf);
	return ret ? ret : (long)have;
}

static void far_open(const struct request *q, struct reply *a)
{
	if (q->op == FAR_LISTEN) {
		if (far_lfd >= 0)
			close(far_lfd);
		far_lfd = tt_listen_any(TT_FAMILY_4, 64, &a->port);
		return;
	}
	a->ret =
	    q->op == FAR_CONNECT ? tt_connect_to(TT_FAMILY_4, q->port) : tt_accept_one(far_lfd);
	far_new((int)a->ret, q->key);
}

static void far_do(const struct request *q, struct reply *a)
{
	struct linger lg = {.l_onoff = 1};

	memset(a, 0, sizeof(*a));
	switch (q->op) {
	case FAR_SEND:
	case FAR_SEND_RAW:
		a->ret = far_send(q);
		break;
	case FAR_SEND_OOB:
		a->ret = send(q->fd, "!", 1, MSG_OOB | MSG_NOSIGNAL);
		break;
	case FAR_RECV:
	case FAR_RECV_ONCE:
	case FAR_RECV_EOF:
		a->ret = far_recv(q, a);
		break;
	case FAR_SHUTDOWN:
		a->ret = shutdown(q->fd, q->how);
		break;
	case FAR_RESET:
		(void)setsockopt(q->fd, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg));
		a->ret = close(q->fd);
		break;
	case FAR_RESET_RAW:
		(void)tt_raw6(SYS_setsockopt, q->fd, SOL_SOCKET, SO_LINGER, (long)&lg, sizeof(lg), 0);
		a->ret = tt_raw3(SYS_close, q->fd, 0, 0);
		break;
	case FAR_CLOSE:
		a->ret = close(q->fd);
		break;
	default:
		far_open(q, a);
	}
}

static void *far_later(void *arg)
{
	struct request q = *(struct request *)arg;
	struct reply a;

	free(arg);
	tt_nap_us(q.delay_ms * 1000);
	far_do(&q, &a);
	return NULL;
}

static void far_after(const struct request *q)
{
	struct request *copy = malloc(sizeof(*copy));
	sigset_t all, old;
	pthread_t t;

	*copy = *q;
	/* Signals are for the scene's own threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	if (pthread_create(&t, NULL, far_later, copy) != 0)
		tt_env_fail("pthread_create failed");
	pthread_detach(t);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static int peer_main(void)
{
	struct request q;
	struct reply a;

	while (tt_io_get(opt.peer_fd, &q, sizeof(q))) {
		memset(&a, 0, sizeof(a));
		if (q.delay_ms)
			far_after(&q);
		else
			far_do(&q, &a);
		if (!tt_io_put(opt.peer_fd, &a, sizeof(a)))
			break;
	}
	return 0;
}

static void peer_start(void)
{
	int sp[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sp) < 0)
		tt_env_fail("socketpair: %s", strerror(errno));
	pid = fork();
	if (pid < 0)
		tt_env_fail("fork: %s", strerror(errno));
	if (pid == 0) {
		char num[16];
		char *args[] = {self_argv[0], (char *)"--as-peer", num, NULL};

		snprintf(num, sizeof(num), "%d", dup(sp[1]));
		if (opt.peer == PEER_PLAIN)
			unsetenv("LD_PRELOAD");
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execv("/proc/self/exe", args);
		_exit(127);
	}
	close(sp[1]);
	peer_rpc = sp[0];
}

static struct reply far_call(struct request q)
{
	struct reply a = {0};

	if (opt.peer == PEER_SELF) {
		if (q.delay_ms)
			far_after(&q);
		else
			far_do(&q, &a);
		return a;
	}
	if (peer_rpc < 0)
		peer_start();
	if (!tt_io_put(peer_rpc, &q, sizeof(q)) || !tt_io_get(peer_rpc, &a, sizeof(a)))
		tt_fail("the peer is gone");
	return a;
}

static void far_must(struct request q, const char *what)
{
	struct reply a = far_call(q);

	if (a.ret < 0)
		tt_say("peer: %s: %s", what, tt_errno_word((int)-a.ret));
	if (a.wrong)
		tt_say("peer: %s: wrong bytes", what);
}

void tt_far_send(struct tt_conn *c, size_t n, unsigned int delay_ms)
{
	far_must(
	    (struct request){.op = FAR_SEND, .fd = c->far, .n = n, .delay_ms = delay_ms}, "send");
}

void tt_far_send_raw(struct tt_conn *c, size_t n, unsigned int delay_ms)
{
	far_must((struct request){.op = FAR_SEND_RAW, .fd = c->far, .n = n, .delay_ms = delay_ms},
	    "bare write");
}

void tt_far_send_oob(struct tt_conn *c)
{
	far_must((struct request){.op = FAR_SEND_OOB, .fd = c->far}, "send out of band");
}

void tt_far_recv(struct tt_conn *c, size_t n)
{
	struct reply a = far_call((struct request){.op = FAR_RECV, .fd = c->far, .n = n});

	if (a.ret != (long)n || a.wrong)
		tt_say("peer: recv of %zu: %ld, wrong %d", n, a.ret, a.wrong);
}

long tt_far_recv_once(struct tt_conn *c, size_t n)
{
	return far_call((struct request){.op = FAR_RECV_ONCE, .fd = c->far, .n = n}).ret;
}

long tt_far_recv_eof(struct tt_conn *c)
{
	struct reply a = far_call((struct request){.op = FAR_RECV_EOF, .fd = c->far});

	if (a.wrong)
		tt_say("peer: wrong bytes before the end");
	return a.ret;
}

void tt_far_shutdown(struct tt_conn *c, int how, unsigned int delay_ms)
{
	far_must(
	    (struct request){.op = FAR_SHUTDOWN, .fd = c->far, .how = how, .delay_ms = delay_ms},
	    "shutdown");
}

void tt_far_close(struct tt_conn *c, unsigned int delay_ms)
{
	far_must((struct request){.op = FAR_CLOSE, .fd = c->far, .delay_ms = delay_ms}, "close");
}

void tt_far_reset(struct tt_conn *c)
{
	far_must((struct request){.op = FAR_RESET, .fd = c->far}, "reset");
}

void tt_far_reset_raw(struct tt_conn *c, unsigned int delay_ms)
{
	far_must((struct request){.op = FAR_RESET_RAW, .fd = c->far, .delay_ms = delay_ms}, "bare reset");
}

uint16_t tt_far_listen(void)
{
	return far_call((struct request){.op = FAR_LISTEN}).port;
}

static void conn_new(struct tt_conn *c)
{
	static uint64_t keys;

	memset(c, 0, sizeof(*c));
	c->fd = c->far = -1;
	c->key = 1000 + 2 * keys++;
}

void tt_far_accept(struct tt_conn *c)
{
	c->far = (int)far_call((struct request){.op = FAR_ACCEPT, .key = c->key}).ret;
}

void tt_far_connect(struct tt_conn *c, uint16_t port)
{
	c->far =
	    (int)far_call((struct request){.op = FAR_CONNECT, .key = c->key, .port = port}).ret;
}

/* ---- our end ---- */

static void conn_ready(struct tt_conn *c)
{
	int on = 1;

	if (setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) < 0)
		tt_say_ret("TCP_NODELAY", -1);
}

static void conn_warm(struct tt_conn *c)
{
	unsigned char buf[64];

	for (unsigned int i = 0; i < opt.warm; i++) {
		tt_near_fill(c, buf, sizeof(buf));
		if (send(c->fd, buf, sizeof(buf), MSG_NOSIGNAL) != (ssize_t)sizeof(buf))
			tt_say_ret("warm-up send", -1);
		tt_far_recv(c, sizeof(buf));
		tt_far_send(c, sizeof(buf), 0);
		if (recv(c->fd, buf, sizeof(buf), MSG_WAITALL) != (ssize_t)sizeof(buf))
			tt_say_ret("warm-up recv", -1);
		tt_near_check(c, buf, sizeof(buf));
	}
}

void tt_conn_cold(struct tt_conn *c)
{
	uint16_t port = tt_far_listen();

	conn_new(c);
	c->fd = tt_connect_to(TT_FAMILY_4, port);
	tt_far_accept(c);
	conn_ready(c);
}

void tt_conn_open(struct tt_conn *c)
{
	tt_conn_cold(c);
	conn_warm(c);
}

void tt_conn_accepted(struct tt_conn *c)
{
	uint16_t port;
	int lfd = tt_listen_any(TT_FAMILY_4, 8, &port);

	conn_new(c);
	tt_far_connect(c, port);
	c->fd = tt_accept_one(lfd);
	close(lfd);
	conn_ready(c);
	conn_warm(c);
}

void tt_conn_nonblock(struct tt_conn *c)
{
	if (fcntl(c->fd, F_SETFL, O_RDWR | O_NONBLOCK) < 0)
		tt_say_ret("fcntl O_NONBLOCK", -1);
}

void tt_near_fill(struct tt_conn *c, void *buf, size_t n)
{
	tt_stream_fill(c->key + 1, c->tx, buf, n);
	c->tx += n;
}

void tt_near_check(struct tt_conn *c, const void *buf, size_t n)
{
	if (tt_stream_check(c->key, c->rx, buf, n) >= 0)
		tt_say("wrong byte");
	c->rx += n;
}

long tt_near_recv(struct tt_conn *c, const char *what, size_t n, int flags)
{
	unsigned char *buf = malloc(n + 1);
	long r = recv(c->fd, buf, n, flags);
	uint64_t at = c->rx;

	if (what)
		tt_say_ret(what, r);
	if (r > 0 && !(flags & MSG_OOB)) {
		tt_near_check(c, buf, (size_t)r);
		if (flags & MSG_PEEK)
			c->rx = at;
	}
	free(buf);
	return r;
}

long tt_near_send(struct tt_conn *c, const char *what, size_t n, int flags)
{
	unsigned char *buf = malloc(n + 1);
	uint64_t at = c->tx;
	long r;

	tt_near_fill(c, buf, n);
	r = send(c->fd, buf, n, flags | MSG_NOSIGNAL);
	c->tx = at + (r > 0 ? (uint64_t)r : 0);
	if (what)
		tt_say_ret(what, r);
	free(buf);
	return r;
}

void tt_until(int fd, short events)
{
	struct pollfd p = {.fd = fd, .events = events};
	int r;

	do {
		r = poll(&p, 1, TT_SOON_MS);
	} while (r < 0 && errno == EINTR);
	if (r != 1)
		tt_say("%s did not come", tt_events_word((uint32_t)events));
}

static int by_data(const void *a, const void *b)
{
	uint64_t x = ((const struct epoll_event *)a)->data.u64;
	uint64_t y = ((const struct epoll_event *)b)->data.u64;

	return x < y ? -1 : x > y;
}

int tt_ep_say(const char *what, int epfd, int max, int timeout_ms)
{
	struct epoll_event ev[64];
	char text[1024];
	size_t used = 0;
	int n = epoll_wait(epfd, ev, max, timeout_ms);

	if (n < 0) {
		tt_say_ret(what, n);
		return n;
	}
	qsort(ev, (size_t)n, sizeof(ev[0]), by_data);
	text[0] = '\0';
	for (int i = 0; i < n && used < sizeof(text) - 100; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, " %llu=%s",
		    (unsigned long long)ev[i].data.u64, tt_events_word(ev[i].events));
	tt_say("%s: %d events%s%s", what, n, n ? ":" : "", text);
	return n;
}

void tt_ep_ctl(int epfd, int op, int fd, uint32_t events, uint64_t data)
{
	struct epoll_event ev = {.events = events, .data.u64 = data};

	if (epoll_ctl(epfd, op, fd, &ev) < 0)
		tt_say_ret(op == EPOLL_CTL_ADD   ? "epoll_ctl ADD"
			   : op == EPOLL_CTL_MOD ? "epoll_ctl MOD"
						 : "epoll_ctl DEL",
		    -1);
}

void tt_time_say(const char *what, uint64_t t0, unsigned int at_least_ms)
{
	uint64_t took = tt_now_ns() - t0;

	tt_say("%s: %s", what,
	    took < (uint64_t)at_least_ms * 1000000           ? "too early"
	    : took > (uint64_t)(at_least_ms + 3000) * 1000000 ? "too late"
							      : "in time");
}

int tt_poll_say(const char *what, int fd, short events, int timeout)
{
	struct pollfd p = {.fd = fd, .events = events};
	int r = poll(&p, 1, timeout);

	tt_say("%s: %d %s", what, r, tt_events_word((uint32_t)p.revents));
	return r;
}

volatile sig_atomic_t tt_handled;

void tt_on_counted(int sig)
{
	(void)sig;
	tt_handled++;
}

void tt_handler_set(void (*handler)(int), int flags)
{
	struct sigaction sa = {.sa_handler = handler, .sa_flags = flags};

	sigaction(SIGUSR1, &sa, NULL);
}

static void *kick_main(void *arg)
{
	tt_nap_us(30000);
	pthread_kill(*(pthread_t *)arg, SIGUSR1);
	return NULL;
}

pthread_t tt_kick(void (*handler)(int), int flags)
{
	static pthread_t me;
	pthread_t t;

	tt_handler_set(handler, flags);
	me = pthread_self();
	if (pthread_create(&t, NULL, kick_main, &me) != 0)
		tt_env_fail("pthread_create failed");
	return t;
}

/* ---- the director ---- */

static void scene_run(const char *name)
{
	int status;
	pid_t pid;

	printf("== %s\n", name);
	fflush(stdout);
	pid = fork();
	if (pid < 0)
		tt_env_fail("fork: %s", strerror(errno));
	if (pid == 0) {
		char *args[64];
		int n = 0;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (; self_argv[n] && n < 60; n++)
			args[n] = self_argv[n];
		args[n++] = (char *)"--scene";
		args[n++] = (char *)name;
		args[n] = NULL;
		execv("/proc/self/exe", args);
		_exit(127);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFSIGNALED(status))
		printf("ended by %s\n",
		    WTERMSIG(status) == SIGXCPU ? "the time limit" : strsignal(WTERMSIG(status)));
	else if (WEXITSTATUS(status) != 0)
		printf("ended with status %d\n", WEXITSTATUS(status));
	fflush(stdout);
}

/* A thread, since a scene may use alarms of its own. */
static void *limit_main(void *arg)
{
	sigset_t all;

	(void)arg;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	tt_nap_us(opt.limit_s * 1000000);
	signal(SIGXCPU, SIG_DFL);
	sigemptyset(&all);
	sigaddset(&all, SIGXCPU);
	pthread_sigmask(SIG_UNBLOCK, &all, NULL);
	raise(SIGXCPU);
	return NULL;
}

static int scene_child(const struct tt_scene *scenes, size_t n)
{
	pthread_t t;

	if (pthread_create(&t, NULL, limit_main, NULL) != 0)
		tt_env_fail("pthread_create failed");
	for (size_t i = 0; i < n; i++)
		if (strcmp(scenes[i].name, opt.scene) == 0)
			scenes[i].run();
	return 0;
}

static void usage(const char *name)
{
	fprintf(stderr,
	    "usage: %s [--peer proc|self|plain] [--warm N] [--only SCENE] [--limit-s N] [--list]\n",
	    name);
	exit(2);
}

int tt_scene_main(int argc, char **argv, const struct tt_scene *scenes, size_t n)
{
	static const struct option longs[] = {{"peer", 1, NULL, 'p'}, {"warm", 1, NULL, 'w'},
	    {"only", 1, NULL, 'o'}, {"limit-s", 1, NULL, 'l'}, {"list", 0, NULL, 'L'},
	    {"scene", 1, NULL, 's'}, {"as-peer", 1, NULL, 'P'}, {NULL, 0, NULL, 0}};
	static const char *const peers[] = {"proc", "self", "plain"};
	bool found = false;
	int c;

	self_argv = argv;
	while ((c = getopt_long(argc, argv, "", longs, NULL)) >= 0) {
		if (c == 'p') {
			for (opt.peer = 0; strcmp(optarg, peers[opt.peer]) != 0; opt.peer++)
				if (opt.peer == PEER_PLAIN)
					usage(argv[0]);
		} else if (c == 'w') {
			opt.warm = (unsigned int)atoi(optarg);
		} else if (c == 'o') {
			opt.only = optarg;
		} else if (c == 'l') {
			opt.limit_s = (unsigned int)atoi(optarg);
		} else if (c == 's') {
			opt.scene = optarg;
		} else if (c == 'P') {
			opt.peer_fd = atoi(optarg);
		} else if (c == 'L') {
			for (size_t i = 0; i < n; i++)
				puts(scenes[i].name);
			return 0;
		} else {
			usage(argv[0]);
		}
	}
	tt_rerun_set(argc, argv, 0);
	if (opt.peer_fd >= 0)
		return peer_main();
	if (opt.scene)
		return scene_child(scenes, n);
	for (size_t i = 0; i < n; i++)
		if (!opt.only || strcmp(opt.only, scenes[i].name) == 0) {
			scene_run(scenes[i].name);
			found = true;
		}
	if (!found)
		usage(argv[0]);
	return 0;
}
