/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kill_check - kill -9 at random times: what does the other end see, and what is left behind?
 *
 * A keeper process lives through many connections, each with a new victim process that is killed at
 * a random moment. The keeper checks by position that what it read is a true prefix, and must see
 * the end of the stream or a reset within --limit-ms of the victim's death, in its own time
 * (patience.h), whatever it is doing: receiving, sending, asking and answering, idle, or both ways
 * at once. In every fifth case both processes are killed, and the next case gets a new
 * keeper. In the end the keeper's descriptors and mappings must not have grown, and /dev/shm must
 * hold nothing new.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "patience.h"

#define BUF_MAX (256u << 10)
#define FDS_SLACK 8
/* What was shared with a victim is kept for two seconds more; so much for the victims of that time. */
#define MAPS_SLACK 200
#define ANSWER_MS 20000
#define SETTLE_CASES 10 /* cases before the keeper's descriptors are first counted */

enum job { JOB_RECV, JOB_SEND, JOB_PINGPONG, JOB_IDLE, JOB_DUPLEX, JOB_COUNT };
static const char *const job_word[JOB_COUNT] = {"recv", "send", "ping-pong", "idle", "duplex"};
enum keeper_wait { KEEPER_BLOCK, KEEPER_POLL, KEEPER_EPOLL, KEEPER_TIMEO, KEEPER_WAITS };

struct order {
	uint64_t seed;
	uint32_t job, wait;
	uint16_t port; /* 0: listen; else connect there */
	uint16_t stop;
};

struct answer {
	enum { SAY_PORT = 1, SAY_CONNECTED, SAY_END, SAY_COUNTS } what;
	int err;
	uint64_t rx, tx, end_ns;
	uint32_t fds, maps;
	uint16_t port;
};

static const char *const say_word[] = {[SAY_PORT] = "its port", [SAY_CONNECTED] = "its connection", [SAY_END] = "the end"};

static struct {
	uint64_t kills, seed;
	unsigned int limit_ms, delay_us;
	enum tt_family family;
	int child_in, child_out;
} opt = {.kills = 60, .limit_ms = 1000, .delay_us = 20000, .child_in = -1, .child_out = -1};

struct proc {
	pid_t pid;
	int in, out;
};

static unsigned char buf[BUF_MAX];

/* ---- the two processes of a connection ---- */

static uint32_t count_dir(const char *path)
{
	DIR *d = opendir(path);
	uint32_t n = 0;

	if (!d)
		return 0;
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static uint32_t count_maps(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	uint32_t n = 0;
	int c;

	if (!f)
		return 0;
	while ((c = getc(f)) != EOF)
		n += c == '\n';
	fclose(f);
	return n;
}

struct life {
	int fd, epfd;
	bool victim;
	uint32_t wait;
	uint64_t seed, tx, rx;
	struct tt_rng rng;
	int err; /* 0 while alive; EPIPE stands for the end of the stream */
};

static void wait_for(struct life *l, short events)
{
	struct pollfd p = {.fd = l->fd, .events = events};
	struct epoll_event ev = {.events = (uint32_t)events};

	if (l->wait == KEEPER_EPOLL) {
		if (epoll_ctl(l->epfd, EPOLL_CTL_MOD, l->fd, &ev) < 0 && errno == ENOENT)
			(void)epoll_ctl(l->epfd, EPOLL_CTL_ADD, l->fd, &ev);
		(void)epoll_wait(l->epfd, &ev, 1, -1);
	} else if (l->wait == KEEPER_POLL || events == (POLLIN | POLLOUT)) {
		(void)poll(&p, 1, -1);
	}
}

static void do_recv(struct life *l, size_t want, int flags)
{
	ssize_t r, bad;

	if (!flags && (l->wait == KEEPER_POLL || l->wait == KEEPER_EPOLL))
		wait_for(l, POLLIN);
	r = recv(l->fd, buf, want, flags);
	if (r < 0) {
		if (errno != EAGAIN && errno != EINTR)
			l->err = errno;
		return;
	}
	if (r == 0) {
		l->err = EPIPE;
		return;
	}
	bad = tt_stream_check(l->seed + l->victim, l->rx, buf, (size_t)r);
	if (bad >= 0)
		tt_fail("%s: wrong byte at %llu", l->victim ? "victim" : "keeper",
		    (unsigned long long)l->rx + (unsigned long long)bad);
	l->rx += (uint64_t)r;
}

static void do_send(struct life *l, size_t want, int flags)
{
	ssize_t r;

	tt_stream_fill(l->seed + !l->victim, l->tx, buf, want);
	r = send(l->fd, buf, want, flags | MSG_NOSIGNAL);
	if (r >= 0)
		l->tx += (uint64_t)r;
	else if (errno != EAGAIN && errno != EINTR)
		l->err = errno;
}

static void nap_maybe(struct life *l)
{
	if (tt_rng_pct(&l->rng, 5))
		tt_nap_us((unsigned int)tt_rng_below(&l->rng, 3000));
}

static void pingpong(struct life *l, size_t want)
{
	uint64_t to;

	if (l->victim) {
		do_send(l, want, 0);
		to = l->tx;
		while (!l->err && l->rx < to)
			do_recv(l, (size_t)(to - l->rx), 0);
	} else {
		do_recv(l, sizeof(buf), 0);
		while (!l->err && l->tx < l->rx)
			do_send(l, (size_t)(l->rx - l->tx < BUF_MAX ? l->rx - l->tx : BUF_MAX), 0);
	}
}

/* Runs until the other end is gone. */
static void live(struct life *l, enum job job)
{
	/* The victim mirrors the keeper: it sends where that receives. */
	bool sends = (job == JOB_SEND) != l->victim;

	for (unsigned int n = 0; !l->err; n++) {
		size_t want = tt_rng_size(&l->rng, 1, job == JOB_PINGPONG ? 4096 : BUF_MAX);

		nap_maybe(l);
		if (job == JOB_PINGPONG) {
			pingpong(l, want);
		} else if (job == JOB_IDLE) {
			if (l->victim && n >= 30)
				pause();
			pingpong(l, 64);
		} else if (job == JOB_DUPLEX) {
			do_send(l, want, MSG_DONTWAIT);
			if (!l->err)
				do_recv(l, want, MSG_DONTWAIT);
			if (!l->err && tt_rng_pct(&l->rng, 30))
				wait_for(l, POLLIN | POLLOUT);
		} else if (sends) {
			do_send(l, want, 0);
		} else {
			do_recv(l, want, 0);
		}
	}
	/* Whatever a failed send leaves to read is still a prefix. */
	if (l->err != EPIPE && l->err != ECONNRESET)
		tt_fail("keeper: the connection ended with %s", strerror(l->err));
	if (sends || job == JOB_DUPLEX) {
		int first = l->err;

		for (l->err = 0; !l->err;)
			do_recv(l, BUF_MAX, 0);
		l->err = first;
	}
}

static void run_one(const struct order *o, bool victim)
{
	struct answer a = {.what = SAY_PORT};
	struct life l = {.victim = victim,
	    .wait = o->wait,
	    .seed = o->seed,
	    .rng = {tt_mix64(o->seed + victim)}};
	struct timeval tv = {.tv_usec = 20000};
	int lfd = -1;

	if (o->port == 0) {
		lfd = tt_listen_any(opt.family, 8, &a.port);
		if (!tt_io_put(opt.child_out, &a, sizeof(a)))
			exit(1);
		l.fd = tt_accept_one(lfd);
		close(lfd);
	} else {
		l.fd = tt_connect_to(opt.family, o->port);
	}
	l.epfd = epoll_create1(EPOLL_CLOEXEC);
	if (l.wait == KEEPER_TIMEO)
		(void)setsockopt(l.fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	a.what = SAY_CONNECTED;
	if (victim && !tt_io_put(opt.child_out, &a, sizeof(a)))
		exit(1);
	live(&l, (enum job)o->job);
	a = (struct answer){
	    .what = SAY_END, .end_ns = tt_now_ns(), .err = l.err, .rx = l.rx, .tx = l.tx};
	close(l.epfd);
	close(l.fd);
	a.fds = count_dir("/proc/self/fd");
	a.maps = count_maps();
	if (!tt_io_put(opt.child_out, &a, sizeof(a)))
		exit(1);
}

static int child_main(bool victim)
{
	struct order o;

	while (tt_io_get(opt.child_in, &o, sizeof(o)) && !o.stop)
		run_one(&o, victim);
	return 0;
}

/* ---- the judge ---- */

static struct proc spawn(char **argv, bool victim)
{
	int in[2], out[2];
	struct proc p;

	if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
		tt_env_fail("pipe: %s", strerror(errno));
	p.pid = fork();
	if (p.pid < 0)
		tt_env_fail("fork: %s", strerror(errno));
	if (p.pid == 0) {
		char a[16], b[16], *args[40];
		int n = 0;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		snprintf(a, sizeof(a), "%d", dup(in[0]));
		snprintf(b, sizeof(b), "%d", dup(out[1]));
		for (; argv[n] && n < 34; n++)
			args[n] = argv[n];
		args[n++] = (char *)(victim ? "--victim" : "--keeper");
		args[n++] = (char *)"--child-in";
		args[n++] = a;
		args[n++] = (char *)"--child-out";
		args[n++] = b;
		args[n] = NULL;
		execv("/proc/self/exe", args);
		_exit(127);
	}
	tt_procs_add(p.pid);
	close(in[0]);
	close(out[1]);
	p.in = in[1];
	p.out = out[0];
	return p;
}

static void reap(struct proc *p, int want_signal)
{
	int status;

	if (!tt_patience_reap(p->pid, &status, ANSWER_MS)) {
		tt_proc_show(p->pid);
		tt_fail("process %d does not end", p->pid);
	}
	tt_procs_del(p->pid);
	close(p->in);
	close(p->out);
	p->pid = 0;
	if (want_signal ? !WIFSIGNALED(status) || WTERMSIG(status) != want_signal
			: !WIFEXITED(status) || WEXITSTATUS(status) != 0)
		tt_fail("a process ended with status %x", (unsigned int)status);
}

static void expect(struct proc *p, struct answer *a, int what, const char *doing)
{
	if (!tt_patience_poll(p->out, ANSWER_MS)) {
		tt_proc_show(p->pid);
		tt_fail("%s, waiting for %s: nothing heard from %d for %d ms", doing, say_word[what], p->pid, ANSWER_MS);
	}
	if (!tt_io_get(p->out, a, sizeof(*a)) || (int)a->what != what)
		tt_fail("%s: the process has failed", doing);
}

static void order(struct proc *p, const struct order *o)
{
	if (!tt_io_put(p->in, o, sizeof(*o)))
		tt_fail("a process is gone before its time");
}

struct tally {
	uint64_t kept, both, eof, reset, worst_ns;
	uint32_t fds, maps, cases;
};

/* delay: what the machine kept the keeper waiting since then. */
static void judge(const struct order *o, uint64_t gone_ns, uint64_t delay, const struct answer *a, struct tally *t)
{
	uint64_t took = a->end_ns > gone_ns ? a->end_ns - gone_ns : 0;

	took = took > delay ? took - delay : 0;

	if (took > (uint64_t)opt.limit_ms * 1000000ull)
		tt_fail("job %s, wait %u, case seed %llu: the end was seen %llu ms after the death",
		    job_word[o->job], o->wait, (unsigned long long)o->seed,
		    (unsigned long long)took / 1000000);
	if (took > t->worst_ns)
		t->worst_ns = took;
	t->kept++;
	t->cases++;
	if (a->err == EPIPE)
		t->eof++;
	else
		t->reset++;
	if (t->cases == SETTLE_CASES) {
		t->fds = a->fds;
		t->maps = a->maps;
	}
	if (t->cases > SETTLE_CASES &&
	    (a->fds > t->fds + FDS_SLACK || a->maps > t->maps + MAPS_SLACK))
		tt_fail("after %u victims the keeper has %u descriptors and %u mappings; after %d "
			"it had %u and %u",
		    t->cases, a->fds, a->maps, SETTLE_CASES, t->fds, t->maps);
}

static void case_run(char **argv, struct proc *keeper, uint64_t index, struct tally *t)
{
	struct tt_rng r = {tt_mix64(opt.seed + index)};
	struct order o = {.seed = tt_rng_next(&r)}, other;
	struct answer a;
	struct proc victim = spawn(argv, true);
	/* The last keeper lives through a third of the cases: what it counted is told at its end. */
	bool keeper_listens = tt_rng_pct(&r, 50),
	     both = tt_rng_pct(&r, 20) && index < opt.kills - opt.kills / 3;
	struct proc *listener = keeper_listens ? keeper : &victim;
	struct proc *connector = keeper_listens ? &victim : keeper;
	char doing[64];
	uint64_t gone_ns, delay;

	o.job = (uint32_t)tt_rng_below(&r, JOB_COUNT);
	o.wait = (uint32_t)tt_rng_below(&r, KEEPER_WAITS);
	snprintf(
	    doing, sizeof(doing), "case %llu (%s)", (unsigned long long)index, job_word[o.job]);
	order(listener, &o);
	expect(listener, &a, SAY_PORT, doing);
	other = o;
	other.port = a.port;
	order(connector, &other);
	expect(&victim, &a, SAY_CONNECTED, doing);
	/* Half of them while the ends still look for each other, half at any time. */
	tt_nap_us((unsigned int)(tt_rng_pct(&r, 50) ? tt_rng_size(&r, 0, opt.delay_us)
						     : tt_rng_below(&r, opt.delay_us + 1)));
	kill(victim.pid, SIGKILL);
	if (both) {
		if (tt_rng_pct(&r, 50))
			tt_nap_us((unsigned int)tt_rng_below(&r, 2000));
		kill(keeper->pid, SIGKILL);
		reap(&victim, SIGKILL);
		reap(keeper, SIGKILL);
		*keeper = spawn(argv, false);
		t->both++;
		t->cases = 0;
		return;
	}
	reap(&victim, SIGKILL);
	gone_ns = tt_now_ns();
	delay = tt_run_delay_ns(keeper->pid);
	expect(keeper, &a, SAY_END, doing);
	judge(&o, gone_ns, tt_run_delay_ns(keeper->pid) - delay, &a, t);
}

static uint32_t dev_shm(void)
{
	DIR *d = opendir("/dev/shm");
	struct dirent *e;
	uint32_t n = 0;

	while (d && (e = readdir(d)))
		n += strstr(e->d_name, "taut") != NULL;
	if (d)
		closedir(d);
	return n;
}

static void parse(int argc, char **argv, bool *victim)
{
	static const struct option longs[] = {{"kills", 1, NULL, 'k'}, {"seed", 1, NULL, 's'},
	    {"limit-ms", 1, NULL, 'l'}, {"delay-us", 1, NULL, 'd'}, {"family", 1, NULL, 'f'},
	    {"victim", 0, NULL, 'v'}, {"keeper", 0, NULL, 'K'}, {"child-in", 1, NULL, 'I'},
	    {"child-out", 1, NULL, 'O'}, {NULL, 0, NULL, 0}};
	int c;

	opt.seed = tt_now_ns();
	while ((c = getopt_long(argc, argv, "", longs, NULL)) >= 0) {
		uint64_t v = optarg ? strtoull(optarg, NULL, 0) : 0;

		if (c == 'k')
			opt.kills = v;
		else if (c == 's')
			opt.seed = v;
		else if (c == 'l')
			opt.limit_ms = (unsigned int)v;
		else if (c == 'd')
			opt.delay_us = (unsigned int)v;
		else if (c == 'v' || c == 'K')
			*victim = c == 'v';
		else if (c == 'I')
			opt.child_in = (int)v;
		else if (c == 'O')
			opt.child_out = (int)v;
		else if (c != 'f' || !tt_family_parse(optarg, &opt.family)) {
			fputs("usage: kill_check [--kills N] [--seed N] [--limit-ms N] [--delay-us "
			      "N] "
			      "[--family 4|6|mapped]\n",
			    stderr);
			exit(2);
		}
	}
	tt_rerun_set(argc, argv, opt.seed);
}

int main(int argc, char **argv)
{
	struct order stop = {.stop = 1};
	struct tally t = {0};
	struct proc keeper;
	bool victim = false;
	uint32_t before;

	parse(argc, argv, &victim);
	signal(SIGPIPE, SIG_IGN);
	if (opt.child_in >= 0)
		return child_main(victim);
	printf("kill_check: seed %llu\n", (unsigned long long)opt.seed);
	fflush(stdout);
	before = dev_shm();
	keeper = spawn(argv, false);
	for (uint64_t i = 0; i < opt.kills; i++)
		case_run(argv, &keeper, i, &t);
	order(&keeper, &stop);
	reap(&keeper, 0);
	if (dev_shm() > before)
		tt_fail("%u files of taut are left in /dev/shm, %u before", dev_shm(), before);
	printf("kill_check: %llu kept (%llu end of stream, %llu reset), %llu both killed, worst "
	       "%llu us\n",
	    (unsigned long long)t.kept, (unsigned long long)t.eof, (unsigned long long)t.reset,
	    (unsigned long long)t.both, (unsigned long long)t.worst_ns / 1000);
	return 0;
}
