/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostile_check - a process whose peer writes nonsense into the memory that they share.
 *
 * A victim lives through many cases. In each a new hostile process joins it by streams and datagrams, both ways, and a
 * thread of it scribbles on the shared memory while traffic flows: on one kind of word, on a few, on all. Then
 * the hostile process closes, exits, or is killed. Beside each stream the victim talks to an honest third process.
 *
 * What must be: no process ends by a signal; every call of the victim does what it may do (end.c); its connections with the
 * hostile process end when that is gone; those with the honest one carry every byte right, all the time. The hostile
 * process itself reads what its own thread has scribbled, and is held to the same.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../stream/patience.h"
#include "hostile.h"

#define ANSWER_MS 30000
#define FDS_SLACK 8
#define SETTLE_CASES 5

static struct {
	uint64_t cases, first, seed;
	unsigned int run_ms, seconds;
	int kind; /* -1: by chance */
	const char *role;
	int in, out;
} opt = {.cases = 40, .run_ms = 200, .kind = -1, .in = -1, .out = -1};

struct proc {
	pid_t pid;
	int in, out;
	const char *name;
};

/* ---- a process of the case ---- */

static uint32_t fds_open(void)
{
	DIR *d = opendir("/proc/self/fd");
	uint32_t n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

static void say(const struct tt_hs_answer *a)
{
	if (!tt_io_put(opt.out, a, sizeof(*a)))
		exit(1);
}

static int end_main(bool hostile)
{
	struct tt_hs_order o;
	uint32_t cases = 0, fds = 0;

	for (;;) {
		struct tt_hs_answer a = {.what = TT_HS_PORTS};

		if (!tt_io_get(opt.in, &o, sizeof(o)) || o.stop)
			return 0;
		tt_hs_open(&a);
		say(&a);
		if (!tt_io_get(opt.in, &o, sizeof(o)))
			return 0;
		tt_hs_run(&o);
		a.what = TT_HS_RUNS;
		say(&a);
		if (!tt_io_get(opt.in, &o, sizeof(o)))
			return 0;
		if (hostile && o.end == 1)
			_exit(0);
		a.what = TT_HS_ENDED;
		tt_hs_end(&a);
		say(&a);
		if (++cases == SETTLE_CASES)
			fds = fds_open();
		else if (cases > SETTLE_CASES && fds_open() > fds + FDS_SLACK)
			tt_fail("after %u cases %u descriptors are open, %u after %d", cases, fds_open(), fds, SETTLE_CASES);
	}
}

static int honest_main(void)
{
	struct tt_hs_answer a = {.what = TT_HS_PORTS};
	int lfd = tt_listen_any(TT_FAMILY_4, 64, &a.tcp_port);

	say(&a);
	tt_hs_honest(lfd);
	return 0;
}

/* ---- the judge ---- */

static struct proc spawn(const char *role)
{
	int in[2], out[2];
	struct proc p = {.name = role};

	if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
		tt_env_fail("pipe: %s", strerror(errno));
	p.pid = fork();
	if (p.pid < 0)
		tt_env_fail("fork: %s", strerror(errno));
	if (p.pid == 0) {
		char a[16], b[16];

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		snprintf(a, sizeof(a), "%d", dup(in[0]));
		snprintf(b, sizeof(b), "%d", dup(out[1]));
		execl("/proc/self/exe", "hostile_check", "--role", role, "--in", a, "--out", b, (char *)NULL);
		_exit(127);
	}
	tt_procs_add(p.pid);
	close(in[0]);
	close(out[1]);
	p.in = in[1];
	p.out = out[0];
	return p;
}

static void told(const struct proc *p, const struct tt_hs_order *o)
{
	if (!tt_io_put(p->in, o, sizeof(*o)))
		tt_fail("the %s process is gone before its time", p->name);
}

static void status_look(const struct proc *p, int status, const char *doing)
{
	if (WIFSIGNALED(status))
		tt_fail("%s: the %s process was ended by %s", doing, p->name, strsignal(WTERMSIG(status)));
	if (WEXITSTATUS(status) != 0)
		tt_fail("%s: the %s process ended with status %d", doing, p->name, WEXITSTATUS(status));
}

static void heard(const struct proc *p, struct tt_hs_answer *a, int what, const char *doing)
{
	int status;

	if (!tt_patience_poll(p->out, ANSWER_MS)) {
		tt_proc_show(p->pid);
		tt_fail("%s: the %s process (%d) hangs", doing, p->name, p->pid);
	}
	if (tt_io_get(p->out, a, sizeof(*a)) && (int)a->what == what)
		return;
	if (waitpid(p->pid, &status, 0) == p->pid)
		status_look(p, status, doing);
	tt_fail("%s: the %s process has failed", doing, p->name);
}

static void reap(struct proc *p, bool killed, const char *doing)
{
	int status;

	if (!tt_patience_reap(p->pid, &status, ANSWER_MS)) {
		tt_proc_show(p->pid);
		tt_fail("%s: the %s process (%d) does not end%s", doing, p->name, p->pid,
		    killed ? ", though it was killed" : "");
	}
	tt_procs_del(p->pid);
	close(p->in);
	close(p->out);
	if (!(killed && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL))
		status_look(p, status, doing);
}

static struct tally {
	uint64_t reset, eof, bytes, rounds, strokes;
} tally;

static void order_make(struct tt_hs_order *o, uint64_t index, struct tt_rng *r, char *doing, size_t size)
{
	static const char *const ends[] = {"closes", "exits", "is killed"};
	unsigned int kinds = 1;

	o->seed = tt_rng_next(r);
	o->run_us = (uint32_t)tt_rng_size(r, 1000, opt.run_ms * 1000);
	o->pause_us = tt_rng_pct(r, 30) ? 0 : (uint32_t)tt_rng_size(r, 1, 3000);
	o->end = (uint8_t)tt_rng_below(r, 3);
	if (tt_rng_pct(r, 20)) {
		o->kinds = (1ull << TT_SPOIL_KINDS) - 1;
		kinds = TT_SPOIL_KINDS;
	} else if (tt_rng_pct(r, 40)) {
		kinds = 3;
	}
	for (unsigned int i = 0; i < kinds && kinds < TT_SPOIL_KINDS; i++)
		o->kinds |= 1ull << tt_rng_below(r, TT_SPOIL_KINDS);
	if (opt.kind >= 0)
		o->kinds = 1ull << opt.kind;
	snprintf(doing, size, "case %llu (", (unsigned long long)index);
	for (int k = 0; k < TT_SPOIL_KINDS && kinds < TT_SPOIL_KINDS; k++)
		if (o->kinds >> k & 1)
			snprintf(doing + strlen(doing), size - strlen(doing), "%s, ", tt_spoil_word[k]);
	snprintf(doing + strlen(doing), size - strlen(doing), "%severy %u us at most; the hostile one %s)",
	    kinds < TT_SPOIL_KINDS ? "" : "everything, ", o->pause_us, ends[o->end]);
}

static void case_run(struct proc *victim, uint16_t honest_port, uint64_t index)
{
	struct tt_rng r = {tt_mix64(opt.seed + index)};
	struct tt_hs_order o = {0}, other;
	struct proc hostile = spawn("hostile");
	struct tt_hs_answer v, h;
	char doing[400];
	bool victim_listens = tt_rng_pct(&r, 50);

	order_make(&o, index, &r, doing, sizeof(doing));
	told(victim, &o);
	told(&hostile, &o);
	heard(victim, &v, TT_HS_PORTS, doing);
	heard(&hostile, &h, TT_HS_PORTS, doing);
	other = o;
	other.hostile = 1;
	o.honest_port = honest_port;
	o.udp_port = h.udp_port;
	other.udp_port = v.udp_port;
	o.tcp_port = victim_listens ? 0 : h.tcp_port;
	other.tcp_port = victim_listens ? v.tcp_port : 0;
	told(victim, &o);
	told(&hostile, &other);
	heard(victim, &v, TT_HS_RUNS, doing);
	heard(&hostile, &h, TT_HS_RUNS, doing);
	tt_nap_us(o.run_us);
	if (o.end == 2)
		kill(hostile.pid, SIGKILL);
	else
		told(&hostile, &other);
	if (o.end == 0) {
		heard(&hostile, &h, TT_HS_ENDED, doing);
		tally.strokes += h.strokes;
		other.stop = 1;
		told(&hostile, &other);
	}
	reap(&hostile, o.end == 2, doing);
	told(victim, &o);
	heard(victim, &v, TT_HS_ENDED, doing);
	for (int i = 0; i < TT_HS_CONNS; i++) {
		tally.reset += v.ends[i] == ECONNRESET;
		tally.eof += v.ends[i] == EPIPE;
	}
	tally.bytes += v.bytes;
	tally.rounds += v.rounds;
}

static int kind_of(const char *word)
{
	for (int k = 0; k < TT_SPOIL_KINDS; k++)
		if (strcmp(word, tt_spoil_word[k]) == 0)
			return k;
	fprintf(stderr, "hostile_check: --kind %s: none of", word);
	for (int k = 0; k < TT_SPOIL_KINDS; k++)
		fprintf(stderr, " \"%s\"", tt_spoil_word[k]);
	fputc('\n', stderr);
	exit(2);
}

static void parse(int argc, char **argv)
{
	static const struct option longs[] = {{"cases", 1, NULL, 'c'}, {"first", 1, NULL, 'f'}, {"seed", 1, NULL, 's'},
	    {"run-ms", 1, NULL, 'm'}, {"seconds", 1, NULL, 't'}, {"kind", 1, NULL, 'k'}, {"role", 1, NULL, 'r'},
	    {"in", 1, NULL, 'I'}, {"out", 1, NULL, 'O'}, {NULL, 0, NULL, 0}};
	int c;

	opt.seed = tt_now_ns();
	while ((c = getopt_long(argc, argv, "", longs, NULL)) >= 0) {
		uint64_t v = optarg ? strtoull(optarg, NULL, 0) : 0;

		if (c == 'c')
			opt.cases = v;
		else if (c == 'f')
			opt.first = v;
		else if (c == 's')
			opt.seed = v;
		else if (c == 'm' && v)
			opt.run_ms = (unsigned int)v;
		else if (c == 't')
			opt.seconds = (unsigned int)v;
		else if (c == 'k')
			opt.kind = kind_of(optarg);
		else if (c == 'r')
			opt.role = optarg;
		else if (c == 'I' || c == 'O')
			*(c == 'I' ? &opt.in : &opt.out) = (int)v;
		else {
			fputs("usage: hostile_check [--cases N] [--first N] [--seconds N] [--seed N] [--run-ms N]\n"
			      "  [--kind WORD]\n",
			    stderr);
			exit(2);
		}
	}
	tt_rerun_set(argc, argv, opt.seed);
}

int main(int argc, char **argv)
{
	struct tt_hs_order stop = {.stop = 1};
	struct proc victim, honest;
	struct tt_hs_answer a;
	uint64_t start, done = 0;

	parse(argc, argv);
	signal(SIGPIPE, SIG_IGN);
	if (opt.role && strcmp(opt.role, "honest") == 0)
		return honest_main();
	if (opt.role)
		return end_main(strcmp(opt.role, "hostile") == 0);
	printf("hostile_check: seed %llu\n", (unsigned long long)opt.seed);
	fflush(stdout);
	honest = spawn("honest");
	heard(&honest, &a, TT_HS_PORTS, "start");
	victim = spawn("victim");
	start = tt_now_ns();
	for (uint64_t i = opt.first; i < opt.first + opt.cases; i++, done++) {
		if (opt.seconds && tt_now_ns() - start > opt.seconds * 1000000000ull)
			break;
		case_run(&victim, a.tcp_port, i);
	}
	told(&victim, &stop);
	reap(&victim, false, "end");
	kill(honest.pid, SIGKILL);
	reap(&honest, true, "end");
	printf("hostile_check: %llu cases, %llu streams reset, %llu ended, %llu bytes received; %llu honest rounds right\n",
	    (unsigned long long)done, (unsigned long long)tally.reset, (unsigned long long)tally.eof,
	    (unsigned long long)tally.bytes, (unsigned long long)tally.rounds);
	if (!tally.rounds)
		tt_fail("the honest connections never moved");
	return 0;
}
