/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * faults_check - a machine, or a program, that takes away what a library needs.
 *
 * Two processes exchange checked bytes by a stream and by datagrams, then by a second stream. One of them, or both, has
 * been started, or brings itself in the midst of it, into some trouble: no memory, no descriptors, files that may
 * not grow, a directory that can't be used, descriptors closed by every way there is and their numbers taken for files of
 * its own. Every byte must arrive, the files must stay empty, and no process may end by a signal.
 *
 * faults_check NAME client|server|both [--hold]; --list prints the names. Which reason the trouble left in the statistics
 * is the caller's business (tests/hostile/faults). With --hold the second stream stays open for two seconds.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../stream/check.h"

#define ROUNDS 300
#define MSG_MOST 6000
#define TAKE_UP_TO 1100 /* numbers of closed descriptors that files of the program get */

static bool hold;       /* stays open for two seconds, to be looked at */
static int own_low = 64; /* the program's own sockets are from here on, one by one */

/* ---- troubles before the start ---- */

static void limit(int what, rlim_t n)
{
	struct rlimit lim = {n, n};

	if (setrlimit((__rlimit_resource_t)what, &lim) < 0)
		tt_env_fail("setrlimit: %s", strerror(errno));
}

static void fsize_none(void)
{
	limit(RLIMIT_FSIZE, 0);
}

static void fsize_small(void)
{
	limit(RLIMIT_FSIZE, 65536);
}

static void nofile_low(void)
{
	limit(RLIMIT_NOFILE, 80);
}

static void as_low(void)
{
	limit(RLIMIT_AS, 64u << 20);
}

static void memlock_none(void)
{
	limit(RLIMIT_MEMLOCK, 0);
}

static void filter(struct sock_filter *code, size_t n)
{
	struct sock_fprog prog = {(unsigned short)n, code};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) < 0)
		tt_env_fail("seccomp: %s", strerror(errno));
}

/* A filter that refuses one call, as a container's may. */
static void refuse(unsigned int nr)
{
	struct sock_filter code[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	filter(code, TT_CK_ARRAY(code));
}

static void no_memfd(void)
{
	refuse(SYS_memfd_create);
	setenv("TAUT_FILTERED", "yes", 1);
}

/* As systemd's RestrictAddressFamilies= does. */
static void no_netlink(void)
{
	struct sock_filter code[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0, 1),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAFNOSUPPORT),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	filter(code, TT_CK_ARRAY(code));
	setenv("TAUT_FILTERED", "yes", 1);
}

static void filter_plain(void)
{
	refuse(SYS_memfd_create);
}

/* ---- troubles on the way ---- */

static int own[TAKE_UP_TO + 1];
static int owns;

/* Every number that is free now becomes an empty file of the program's. */
static void take_numbers(void)
{
	char name[] = "/tmp/taut-own-XXXXXX";
	int fd;

	while ((fd = mkstemp(name)) >= 0 && owns < TAKE_UP_TO) {
		unlink(name);
		own[owns++] = fd;
		memcpy(name + sizeof(name) - 7, "XXXXXX", 6);
		if (fd > TAKE_UP_TO)
			break;
	}
	if (owns == 0)
		tt_env_fail("no file could be made: %s", strerror(errno));
}

static void own_look(void)
{
	struct stat st;

	for (int i = 0; i < owns; i++) {
		if (fstat(own[i], &st) < 0)
			tt_fail("descriptor %d, a file of the program's, was closed: %s", own[i], strerror(errno));
		if (!S_ISREG(st.st_mode) || st.st_size != 0)
			tt_fail("descriptor %d, an empty file of the program's, is now of kind %o and has %lld bytes", own[i],
			    st.st_mode & S_IFMT, (long long)st.st_size);
	}
}

static void close_each(void)
{
	for (int fd = 2; fd < 4096; fd++)
		if (fd < own_low || fd > own_low + 2)
			close(fd);
	take_numbers();
}

static void close_raw(void)
{
	for (int fd = 2; fd < 4096; fd++)
		if (fd < own_low || fd > own_low + 2)
			(void)tt_raw3(SYS_close, fd, 0, 0);
	take_numbers();
}

static void close_by_range(void)
{
	(void)close_range(2, (unsigned int)own_low - 1, 0);
	(void)close_range((unsigned int)own_low + 3, ~0u, 0);
	take_numbers();
}

static void close_by_raw_range(void)
{
	(void)tt_raw3(SYS_close_range, 2, own_low - 1, 0);
	(void)tt_raw3(SYS_close_range, own_low + 3, (long)~0u, 0);
	take_numbers();
}

static void close_from(void)
{
	close_range(2, (unsigned int)own_low - 1, 0);
	closefrom(own_low + 3);
	take_numbers();
}

/* Files put over whatever is there. */
static void dup_over(void)
{
	char name[] = "/tmp/taut-own-XXXXXX";
	int file = mkstemp(name);

	if (file < 0)
		tt_env_fail("no file could be made: %s", strerror(errno));
	unlink(name);
	for (int fd = 2; fd < TAKE_UP_TO; fd++) {
		if ((fd >= own_low && fd <= own_low + 2) || fd == file)
			continue;
		if (fd % 2 ? dup2(file, fd) < 0 : dup3(file, fd, O_CLOEXEC) < 0)
			tt_fail("dup2 to %d: %s", fd, strerror(errno));
		own[owns++] = fd;
	}
}

/* Each with its own number, so that the last free one is soon gone. */
static void fill_descriptors(void)
{
	struct rlimit lim;
	int fd;

	getrlimit(RLIMIT_NOFILE, &lim);
	lim.rlim_cur = 128;
	setrlimit(RLIMIT_NOFILE, &lim);
	while ((fd = open("/dev/null", O_RDWR | O_CLOEXEC)) >= 0)
		;
}

static void limits_fall(void)
{
	struct rlimit lim;

	getrlimit(RLIMIT_NOFILE, &lim);
	lim.rlim_cur = (rlim_t)own_low + 8;
	setrlimit(RLIMIT_NOFILE, &lim);
	limit(RLIMIT_FSIZE, 0);
}

static const struct fault {
	const char *name;
	void (*start)(void);
	void (*midway)(void);
} faults[] = {
    {"none", NULL, NULL},
    {"fsize-none", fsize_none, NULL},
    {"fsize-small", fsize_small, NULL},
    {"nofile-low", nofile_low, NULL},
    {"as-low", as_low, NULL},
    {"memlock-none", memlock_none, NULL},
    {"no-memfd", no_memfd, NULL},
    {"no-netlink", no_netlink, NULL},
    {"filter", filter_plain, NULL},
    {"close", NULL, close_each},
    {"close-raw", NULL, close_raw},
    {"close-range", NULL, close_by_range},
    {"close-range-raw", NULL, close_by_raw_range},
    {"closefrom", NULL, close_from},
    {"dup2", NULL, dup_over},
    {"fill", NULL, fill_descriptors},
    {"limits-fall", NULL, limits_fall},
};

/* ---- the exchange ---- */

static int to_own(int fd, int slot)
{
	int at = fcntl(fd, F_DUPFD_CLOEXEC, own_low + slot);

	if (at != own_low + slot)
		tt_env_fail("descriptor %d: got %d: %s", own_low + slot, at, strerror(errno));
	close(fd);
	return at;
}

static void say(int fd, uint64_t key, uint64_t *at, size_t n)
{
	unsigned char buf[MSG_MOST];

	tt_stream_fill(key, *at, buf, n);
	for (size_t done = 0; done < n;) {
		ssize_t r = send(fd, buf + done, n - done, MSG_NOSIGNAL);

		if (r <= 0)
			tt_fail("send: %s", strerror(errno));
		done += (size_t)r;
	}
	*at += n;
}

static void hear(int fd, uint64_t key, uint64_t *at, size_t n)
{
	unsigned char buf[MSG_MOST];

	while (n) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		ssize_t r, bad;

		if (*at % 3 == 0 && poll(&p, 1, 20000) != 1)
			tt_fail("nothing came for 20 s, at %llu", (unsigned long long)*at);
		r = recv(fd, buf, n, 0);
		if (r <= 0)
			tt_fail("recv at %llu: %s", (unsigned long long)*at, r ? strerror(errno) : "end of stream");
		bad = tt_stream_check(key, *at, buf, (size_t)r);
		if (bad >= 0)
			tt_fail("wrong byte at %llu", (unsigned long long)*at + (unsigned long long)bad);
		*at += (uint64_t)r;
		n -= (size_t)r;
	}
}

static void stream_run(int fd, bool client, uint64_t seed, void (*midway)(void))
{
	struct tt_rng r = {seed}; /* the same at both ends */
	uint64_t sent = 0, got = 0;

	for (int i = 0; i < ROUNDS; i++) {
		size_t a = tt_rng_size(&r, 1, MSG_MOST), b = tt_rng_size(&r, 1, MSG_MOST);

		if (client) {
			say(fd, seed, &sent, a);
			hear(fd, seed + 1, &got, b);
		} else {
			hear(fd, seed, &got, a);
			if (i == ROUNDS / 2 && midway)
				midway();
			say(fd, seed + 1, &sent, b);
		}
		if (client && i == ROUNDS / 2 && midway)
			midway();
	}
}

/* One question, one answer; loopback loses none while nobody floods. */
static void dgram_run(int fd, bool client, uint64_t seed)
{
	struct timeval tv = {.tv_sec = 20};
	unsigned char buf[2048];

	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)) < 0)
		tt_fail("SO_RCVTIMEO: %s", strerror(errno));
	for (uint64_t i = 0; i < ROUNDS; i++) {
		size_t n = 1 + (size_t)(tt_mix64(seed + i) % sizeof(buf));

		for (int turn = 0; turn < 2; turn++) {
			uint64_t key = seed + i * 2 + (uint64_t)turn;
			ssize_t got;

			if ((turn == 0) == client) {
				tt_stream_fill(key, 0, buf, n);
				if (send(fd, buf, n, 0) != (ssize_t)n)
					tt_fail("send (UDP): %s", strerror(errno));
				continue;
			}
			got = recv(fd, buf, sizeof(buf), 0);
			if (got != (ssize_t)n || tt_stream_check(key, 0, buf, n) >= 0)
				tt_fail("datagram %llu: %zd bytes, %zu were sent: %s", (unsigned long long)i, got, n,
				    got < 0 ? strerror(errno) : "wrong");
		}
	}
}

struct ports {
	uint16_t tcp, udp;
};

static void end_main(bool client, struct ports mine, struct ports other, int lfd, int ufd, const struct fault *f)
{
	struct tt_addr to;
	int fd;

	(void)mine;
	tt_addr_loopback(&to, TT_FAMILY_4, other.udp);
	if (connect(ufd, (void *)&to.ss, to.len) < 0)
		tt_fail("connect (UDP): %s", strerror(errno));
	fd = to_own(client ? tt_connect_to(TT_FAMILY_4, other.tcp) : tt_accept_one(lfd), 2);
	stream_run(fd, client, 11, f ? f->midway : NULL);
	dgram_run(ufd, client, 77);
	close(fd);
	/* And another, with what is left of our means. */
	fd = client ? tt_connect_to(TT_FAMILY_4, other.tcp) : tt_accept_one(lfd);
	stream_run(fd, client, 1234, NULL);
	if (hold)
		tt_nap_us(2000000);
	close(fd);
	own_look();
}

static int end_start(bool client, const struct fault *f, int in, int out)
{
	struct ports mine, other;
	struct tt_addr addr;
	int lfd = to_own(tt_listen_any(TT_FAMILY_4, 8, &mine.tcp), 0);
	int ufd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	tt_addr_loopback(&addr, TT_FAMILY_4, 0);
	if (ufd < 0 || bind(ufd, (void *)&addr.ss, addr.len) < 0 || getsockname(ufd, (void *)&addr.ss, &addr.len) < 0)
		tt_env_fail("UDP socket: %s", strerror(errno));
	mine.udp = tt_addr_port(&addr);
	ufd = to_own(ufd, 1);
	if (!tt_io_put(out, &mine, sizeof(mine)) || !tt_io_get(in, &other, sizeof(other)))
		return 1;
	close(in);
	close(out);
	end_main(client, mine, other, lfd, ufd, f);
	return 0;
}

/* ---- the judge ---- */

struct proc {
	pid_t pid;
	int in, out;
};

static struct proc spawn(bool client, const struct fault *f)
{
	static char self[4096]; /* by its own name, for `taut stat` */
	int in[2], out[2];
	struct proc p;

	if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0 || (p.pid = fork()) < 0)
		tt_env_fail("pipe, fork: %s", strerror(errno));
	if (p.pid == 0) {
		char a[16], b[16];

		if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
			_exit(127);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		snprintf(a, sizeof(a), "%d", dup(in[0]));
		snprintf(b, sizeof(b), "%d", dup(out[1]));
		if (f && f->start)
			f->start();
		execl(self, "faults_check", f ? f->name : "none", client ? "at-client" : "at-server", a, b,
		    (char *)NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	p.in = in[1];
	p.out = out[0];
	return p;
}

static bool reap(const struct proc *p, const char *who)
{
	int status;

	for (int i = 0; waitpid(p->pid, &status, WNOHANG) == 0; i++) {
		if (i > 60000) {
			fprintf(stderr, "faults_check: the %s hangs\n", who);
			kill(p->pid, SIGKILL);
			return false;
		}
		tt_nap_us(1000);
	}
	if (WIFSIGNALED(status))
		fprintf(stderr, "faults_check: the %s was ended by %s\n", who, strsignal(WTERMSIG(status)));
	else if (WEXITSTATUS(status))
		fprintf(stderr, "faults_check: the %s ended with status %d\n", who, WEXITSTATUS(status));
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static const struct fault *find(const char *name)
{
	for (size_t i = 0; i < TT_CK_ARRAY(faults); i++)
		if (strcmp(faults[i].name, name) == 0)
			return &faults[i];
	return NULL;
}

int main(int argc, char **argv)
{
	const struct fault *f = argc > 2 ? find(argv[1]) : NULL;
	struct proc server, client;
	struct ports s, c;
	bool good;

	if (argc == 2 && strcmp(argv[1], "--list") == 0) {
		for (size_t i = 0; i < TT_CK_ARRAY(faults); i++)
			puts(faults[i].name);
		return 0;
	}
	if (!f) {
		fputs("usage: faults_check --list | NAME client|server|both [--hold]\n", stderr);
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	hold = getenv("FAULTS_HOLD") != NULL;
	if (argc == 4 && strcmp(argv[3], "--hold") == 0)
		setenv("FAULTS_HOLD", "1", 1);
	if (argc == 5)
		return end_start(strcmp(argv[2], "at-client") == 0, f, atoi(argv[3]), atoi(argv[4]));
	server = spawn(false, strcmp(argv[2], "client") ? f : NULL);
	client = spawn(true, strcmp(argv[2], "server") ? f : NULL);
	good = tt_io_get(server.out, &s, sizeof(s)) && tt_io_get(client.out, &c, sizeof(c)) &&
	       tt_io_put(server.in, &c, sizeof(c)) && tt_io_put(client.in, &s, sizeof(s));
	if (!good)
		fputs("faults_check: an end did not start\n", stderr);
	good = reap(&client, "client") && good;
	good = reap(&server, "server") && good;
	return good ? 0 : 1;
}
