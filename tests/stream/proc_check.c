/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * proc_check - the transcript of sockets that meet processes, threads and signals: fork, exec,
 * spawn, descriptor passing, stdio, handlers that use the socket they interrupted, cancellation,
 * exit.
 *
 * "--helper FD KEY RX N TX M" is what scenes execute: it reads N bytes of the keyed stream from
 * position RX, sends M bytes from position TX, and answers by its status: 0 all right, 1 wrong
 * bytes, 2 the end came early.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scene.h"

static void wait_say(const char *what, pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFSIGNALED(status))
		tt_say("%s: ended by %s", what, strsignal(WTERMSIG(status)));
	else
		tt_say("%s: status %d", what, WEXITSTATUS(status));
}

/* In a child: everything it says must go out before it leaves. */
static _Noreturn void leave(int status)
{
	fflush(NULL);
	_exit(status);
}

static int recv_right(struct tt_conn *c, size_t n)
{
	return tt_near_recv(c, NULL, n, MSG_WAITALL) == (long)n ? 0 : 2;
}

static void fork_shared(void)
{
	struct tt_conn c;
	pid_t pid;

	tt_conn_open(&c);
	for (int i = 0; i < 3; i++) {
		tt_near_send(&c, NULL, 100, 0);
		pid = fork();
		if (pid == 0) {
			tt_near_send(&c, NULL, 100, 0);
			leave(recv_right(&c, 50));
		}
		tt_far_send(&c, 50, 10);
		wait_say("child", pid);
		c.tx += 100;
		c.rx += 50;
		tt_near_send(&c, NULL, 100, 0);
		tt_far_recv(&c, 300);
		tt_far_send(&c, 70, i ? 10 : 0);
		tt_near_recv(&c, "parent", 70, MSG_WAITALL);
	}
	tt_far_close(&c, 0);
	tt_near_recv(&c, "end", 10, 0);
}

static void fork_unread(void)
{
	struct tt_conn c;
	pid_t pid;

	tt_conn_open(&c);
	for (int i = 0; i < 3; i++) {
		tt_far_send(&c, 100, 0);
		tt_until(c.fd, POLLIN);
		pid = fork();
		if (pid == 0)
			leave(recv_right(&c, 40));
		wait_say("child reads part", pid);
		c.rx += 40;
		tt_near_recv(&c, "parent reads the rest", 60, MSG_WAITALL);
		tt_far_send(&c, 10, 0);
		tt_near_recv(&c, "parent goes on", 10, 0);
	}
}

static void fork_taken_over(void)
{
	struct tt_conn c;
	pid_t pid;

	tt_conn_open(&c);
	pid = fork();
	if (pid == 0) {
		for (int i = 0; i < 50; i++) {
			tt_near_send(&c, NULL, 100, 0);
			if (recv_right(&c, 100))
				leave(2);
		}
		tt_near_send(&c, NULL, 100000, 0);
		leave(0);
	}
	close(c.fd);
	for (int i = 0; i < 50; i++) {
		tt_far_recv(&c, 100);
		tt_far_send(&c, 100, 0);
	}
	wait_say("child", pid);
	tt_say("peer got %ld", tt_far_recv_eof(&c));
}

static void fork_child_leaves(void)
{
	struct tt_conn c;
	pid_t pid;

	tt_conn_accepted(&c);
	for (int i = 0; i < 5; i++) {
		pid = fork();
		if (pid == 0)
			exit(0); /* handlers run, what the parent still uses must survive them */
		wait_say("child", pid);
		tt_near_send(&c, "send", 100, 0);
		tt_far_recv(&c, 100);
		tt_far_send(&c, 100, i % 2 ? 10 : 0);
		tt_near_recv(&c, "recv", 100, MSG_WAITALL);
	}
}

static void fork_set(void)
{
	struct tt_conn c;
	int ep = epoll_create1(0);
	pid_t pid;

	tt_conn_open(&c);
	tt_ep_ctl(ep, EPOLL_CTL_ADD, c.fd, EPOLLIN, 1);
	for (int i = 0; i < 3; i++) {
		pid = fork();
		if (pid == 0) {
			tt_ep_say("child", ep, 4, -1);
			leave(recv_right(&c, 10));
		}
		tt_far_send(&c, 10, 20);
		wait_say("child", pid);
		c.rx += 10;
		tt_ep_say("drained", ep, 4, TT_QUIET_MS);
		tt_far_send(&c, 10, 20);
		tt_ep_say("parent", ep, 4, -1);
		tt_near_recv(&c, "parent", 10, 0);
	}
}

/* A pre-fork server: two workers accept from one listener, and the peer talks to whoever took it.
 */
static void prefork(void)
{
	struct tt_conn c[6];
	pid_t pid[2];
	uint16_t port;
	int lfd = tt_listen_any(TT_FAMILY_4, 16, &port);

	for (int w = 0; w < 2; w++) {
		pid[w] = fork();
		if (pid[w] == 0) {
			for (;;) {
				int fd = tt_accept_one(lfd);
				char b[1000];
				ssize_t r;

				/* One byte first that says "go away". */
				while ((r = recv(fd, b, sizeof(b), 0)) > 0)
					if (send(fd, "k", 1, MSG_NOSIGNAL) != 1)
						leave(1);
				close(fd);
				if (r < 0)
					leave(3);
			}
		}
	}
	for (int i = 0; i < 6; i++) {
		c[i] = (struct tt_conn){.key = 500 + 2 * (uint64_t)i};
		tt_far_connect(&c[i], port);
		for (int k = 0; k < 30; k++) {
			tt_far_send(&c[i], 64, 0);
			if (tt_far_recv_once(&c[i], 10) < 1)
				tt_say("no answer");
		}
		tt_far_close(&c[i], 0);
	}
	for (int w = 0; w < 2; w++) {
		kill(pid[w], SIGTERM);
		wait_say("worker", pid[w]);
	}
	close(lfd);
}

/* ---- exec ---- */

static int helper_main(char **a)
{
	struct tt_conn c = {.fd = atoi(a[0]),
	    .key = strtoull(a[1], NULL, 0),
	    .rx = strtoull(a[2], NULL, 0),
	    .tx = strtoull(a[4], NULL, 0)};
	size_t n = strtoull(a[3], NULL, 0), m = strtoull(a[5], NULL, 0), have = 0;
	unsigned char *b = malloc(n + m + 1);

	while (have < n) {
		ssize_t r = read(c.fd, b + have, n - have);

		if (r <= 0)
			return 2;
		have += (size_t)r;
	}
	if (tt_stream_check(c.key, c.rx, b, n) >= 0)
		return 1;
	tt_near_fill(&c, b, m);
	for (size_t sent = 0; sent < m;) {
		ssize_t r = write(c.fd, b + sent, m - sent);

		if (r <= 0)
			return 3;
		sent += (size_t)r;
	}
	return 0;
}

struct helper_args {
	char text[6][24];
	char *argv[9];
};

static void helper_args(struct helper_args *h, const struct tt_conn *c, int fd, size_t n, size_t m)
{
	unsigned long long v[6] = {(unsigned long long)fd, c->key, c->rx, n, c->tx, m};

	h->argv[0] = (char *)"proc_check";
	h->argv[1] = (char *)"--helper";
	for (int i = 0; i < 6; i++) {
		snprintf(h->text[i], sizeof(h->text[i]), "%llu", v[i]);
		h->argv[2 + i] = h->text[i];
	}
	h->argv[8] = NULL;
}

static void inheritable(int fd)
{
	(void)fcntl(fd, F_SETFD, 0);
}

/* Bytes that nobody has read wait in the socket when the program is replaced: the next one must
 * find them. */
static void exec_unread(bool plain, bool by_vfork)
{
	struct helper_args h;
	struct tt_conn c;
	pid_t pid;

	tt_conn_open(&c);
	inheritable(c.fd);
	for (int i = 0; i < 3; i++) {
		tt_far_send(&c, 100, 0);
		tt_until(c.fd, POLLIN);
		helper_args(&h, &c, c.fd, 100, 200);
		pid = by_vfork ? vfork() : fork();
		if (pid == 0) {
			if (plain)
				unsetenv("LD_PRELOAD");
			execv("/proc/self/exe", h.argv);
			_exit(99);
		}
		wait_say("helper", pid);
		c.rx += 100;
		c.tx += 200;
		tt_far_recv(&c, 200);
		tt_far_send(&c, 50, 0);
		tt_near_recv(&c, "we go on", 50, MSG_WAITALL);
		tt_near_send(&c, "we go on", 50, 0);
		tt_far_recv(&c, 50);
	}
}

static void exec_fork(void)
{
	exec_unread(false, false);
}

static void exec_plain(void)
{
	exec_unread(true, false);
}

static void exec_vfork(void)
{
	exec_unread(false, true);
}

/* The whole process is replaced; the scene goes on in the helper. */
static void exec_self(void)
{
	struct helper_args h;
	struct tt_conn c;
	pid_t pid;

	tt_conn_open(&c);
	inheritable(c.fd);
	tt_far_send(&c, 1000, 0);
	tt_near_recv(&c, "read part", 300, MSG_WAITALL);
	pid = fork();
	if (pid == 0) {
		close(c.fd);
		pause();
	}
	helper_args(&h, &c, c.fd, 700, 500);
	tt_far_recv(&c, 0);
	kill(pid, SIGKILL);
	wait_say("child", pid);
	execv("/proc/self/exe", h.argv);
}

extern char **environ;

static void spawned(void)
{
	posix_spawn_file_actions_t fa;
	struct helper_args h;
	struct tt_conn c;
	pid_t pid = 0;

	tt_conn_open(&c);
	for (int i = 0; i < 3; i++) {
		tt_far_send(&c, 100, 0);
		tt_until(c.fd, POLLIN);
		/* As inetd does: the socket is the program's standard input. */
		posix_spawn_file_actions_init(&fa);
		posix_spawn_file_actions_adddup2(&fa, c.fd, 0);
		helper_args(&h, &c, 0, 100, 100);
		errno = posix_spawn(&pid, "/proc/self/exe", &fa, NULL, h.argv, environ);
		tt_say_ret("posix_spawn", errno ? -1 : 0);
		posix_spawn_file_actions_destroy(&fa);
		wait_say("helper", pid);
		c.rx += 100;
		c.tx += 100;
		tt_far_recv(&c, 100);
		tt_near_send(&c, "we go on", 50, 0);
		tt_far_recv(&c, 50);
		tt_far_send(&c, 20, 10);
		tt_near_recv(&c, "we go on", 50, 0);
	}
}

static void shell(void)
{
	struct tt_conn c;
	char cmd[200], line[64] = "";
	FILE *p;

	tt_conn_open(&c);
	inheritable(c.fd);
	tt_far_send(&c, 100, 0);
	tt_until(c.fd, POLLIN);
	snprintf(cmd, sizeof(cmd), "dd bs=1 count=100 status=none <&%d | wc -c", c.fd);
	p = popen(cmd, "r");
	if (p && fgets(line, sizeof(line), p))
		line[strcspn(line, "\n")] = '\0';
	tt_say("popen read %s", line);
	tt_say_ret("pclose", pclose(p));
	c.rx += 100;
	snprintf(cmd, sizeof(cmd), "printf 12345 >&%d", c.fd);
	tt_say_ret("system", system(cmd));
	tt_say("peer got %ld", tt_far_recv_once(&c, 100));
}

/* ---- passing ---- */

static int fd_pass(int via, int fd)
{
	char b = 'x', ctl[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec iov = {&b, 1};
	struct msghdr m = {
	    .msg_iov = &iov, .msg_iovlen = 1, .msg_control = ctl, .msg_controllen = sizeof(ctl)};
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);

	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(h), &fd, sizeof(int));
	return sendmsg(via, &m, 0) == 1 ? 0 : -1;
}

static int fd_take(int via)
{
	char b, ctl[CMSG_SPACE(sizeof(int))];
	struct iovec iov = {&b, 1};
	struct msghdr m = {
	    .msg_iov = &iov, .msg_iovlen = 1, .msg_control = ctl, .msg_controllen = sizeof(ctl)};
	int fd = -1;

	if (recvmsg(via, &m, MSG_CMSG_CLOEXEC) == 1 && CMSG_FIRSTHDR(&m))
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(int));
	return fd;
}

static void passed(void)
{
	struct tt_conn c;
	int sp[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sp) < 0)
		tt_env_fail("socketpair");
	pid = fork();
	if (pid == 0) {
		struct tt_conn n;

		close(sp[0]);
		if (!tt_io_get(sp[1], &n, sizeof(n)))
			leave(9);
		n.fd = fd_take(sp[1]);
		if (recv_right(&n, 60))
			leave(2);
		for (int i = 0; i < 20; i++) {
			tt_near_send(&n, NULL, 100, 0);
			if (recv_right(&n, 100))
				leave(3);
		}
		leave(0);
	}
	tt_conn_open(&c);
	tt_far_send(&c, 100, 0);
	tt_near_recv(&c, "read part", 40, MSG_WAITALL);
	tt_io_put(sp[0], &c, sizeof(c));
	tt_say_ret("pass", fd_pass(sp[0], c.fd));
	close(c.fd);
	for (int i = 0; i < 20; i++) {
		tt_far_recv(&c, 100);
		tt_far_send(&c, 100, 0);
	}
	wait_say("receiver", pid);
	tt_say("peer: %ld", tt_far_recv_eof(&c));
	/* To ourselves: a second descriptor of the same socket. */
	tt_conn_open(&c);
	tt_far_send(&c, 100, 0);
	tt_until(c.fd, POLLIN);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sp) < 0)
		tt_env_fail("socketpair");
	tt_say_ret("pass to ourselves", fd_pass(sp[0], c.fd));
	close(c.fd);
	c.fd = fd_take(sp[1]);
	tt_near_recv(&c, "read from the copy", 100, MSG_WAITALL);
	tt_near_send(&c, "send on the copy", 100, 0);
	tt_far_recv(&c, 100);
}

static void streams(void)
{
	struct tt_conn c;
	unsigned char b[300];
	FILE *f;

	tt_conn_open(&c);
	tt_far_send(&c, 200, 0);
	tt_until(c.fd, POLLIN);
	tt_near_recv(&c, "recv part", 50, MSG_WAITALL);
	f = fdopen(c.fd, "r+");
	setvbuf(f, NULL, _IONBF, 0);
	tt_say_ret("fread of the rest", (long)fread(b, 1, 150, f));
	tt_near_check(&c, b, 150);
	for (int i = 0; i < 20; i++) {
		tt_near_fill(&c, b, 100);
		if (fwrite(b, 1, 100, f) != 100)
			tt_say("short fwrite");
		fflush(f);
		tt_far_recv(&c, 100);
		tt_far_send(&c, 100, i % 5 ? 0 : 10);
		if (fread(b, 1, 100, f) != 100)
			tt_say("short fread");
		tt_near_check(&c, b, 100);
	}
	tt_near_fill(&c, b, 100);
	tt_say_ret("send beside the stream", send(c.fd, b, 100, 0));
	tt_far_recv(&c, 100);
	tt_far_close(&c, 0);
	tt_say_ret("fread at the end", (long)fread(b, 1, 100, f));
	tt_say("feof %d", feof(f) != 0);
	tt_say_ret("fclose", fclose(f));
	tt_conn_open(&c);
	dprintf(c.fd, "%s", "hello");
	tt_say("peer got %ld by dprintf", tt_far_recv_once(&c, 100));
}

/* ---- signals ---- */

static struct tt_conn sig_conn;
static sigjmp_buf sig_back;

static void on_send(int sig)
{
	(void)sig;
	tt_handled++;
	(void)!write(sig_conn.fd, "hhhhhhhhhh", 10);
}

static void on_recv(int sig)
{
	char b[10];

	(void)sig;
	tt_handled++;
	(void)!recv(sig_conn.fd, b, sizeof(b), MSG_DONTWAIT);
}

static void on_jump(int sig)
{
	(void)sig;
	siglongjmp(sig_back, 1);
}

static void signals_recv(void)
{
	struct timeval tv = {.tv_sec = 3};
	struct tt_conn c;
	pthread_t t;

	tt_conn_open(&c);
	t = tt_kick(tt_on_counted, 0);
	tt_near_recv(&c, "recv, no SA_RESTART", 100, 0);
	pthread_join(t, NULL);
	tt_far_send(&c, 10, 60);
	t = tt_kick(tt_on_counted, SA_RESTART);
	tt_near_recv(&c, "recv, SA_RESTART", 100, 0);
	pthread_join(t, NULL);
	tt_say("handled %d", (int)tt_handled);
	setsockopt(c.fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	t = tt_kick(tt_on_counted, SA_RESTART);
	tt_near_recv(&c, "recv, SA_RESTART and a timeout", 100, 0);
	pthread_join(t, NULL);
	tt_far_send(&c, 10, 0);
	tt_near_recv(&c, "recv", 100, 0);
}

static void signals_send(void)
{
	char *block = calloc(1, 8000000);
	struct tt_conn c;
	pthread_t t;

	tt_conn_open(&c);
	while (tt_near_send(&c, NULL, 65536, MSG_DONTWAIT) > 0)
		;
	/* Full. Much more than any buffer takes: it blocks, and is cut by the signal, with nothing
	 * sent or with a part. */
	t = tt_kick(tt_on_counted, 0);
	tt_say(
	    "send was cut: %s", send(c.fd, block, 8000000, MSG_NOSIGNAL) < 8000000 ? "yes" : "no");
	pthread_join(t, NULL);
	tt_say("handled %d", (int)tt_handled);
	free(block);
}

static void signals_accept(void)
{
	uint16_t port;
	struct tt_conn c = {.key = 40};
	int lfd = tt_listen_any(TT_FAMILY_4, 4, &port);
	pthread_t t = tt_kick(tt_on_counted, 0);

	tt_say_ret("accept, no SA_RESTART", accept(lfd, NULL, NULL));
	pthread_join(t, NULL);
	tt_far_connect(&c, port);
	tt_say("accept %s", accept(lfd, NULL, NULL) >= 0 ? "yes" : "no");
}

/* The handler uses the very socket whose call it interrupted. */
static void handler_uses(void)
{
	char b[10];
	pthread_t t;

	tt_conn_open(&sig_conn);
	for (int i = 0; i < 3; i++) {
		tt_far_send(&sig_conn, 10, 80);
		t = tt_kick(on_send, SA_RESTART);
		tt_near_recv(&sig_conn, "recv while the handler sends", 10, 0);
		pthread_join(t, NULL);
		tt_say("peer got %ld", tt_far_recv_once(&sig_conn, 100));
	}
	for (int i = 0; i < 3; i++) {
		tt_far_send(&sig_conn, 10, 0);
		tt_far_send(&sig_conn, 10, 80);
		tt_near_recv(&sig_conn, "recv", 10, MSG_WAITALL);
		t = tt_kick(on_recv, SA_RESTART);
		tt_near_recv(&sig_conn, "recv while the handler receives", 10, 0);
		pthread_join(t, NULL);
	}
	tt_say_ret("nothing left", recv(sig_conn.fd, b, 10, MSG_DONTWAIT));
	tt_say("handled %d", (int)tt_handled);
}

/* A timer's handler writes whole records between the main program's: none may be torn or lost. */
static void handler_storm(void)
{
	struct sigaction sa = {.sa_handler = on_send, .sa_flags = SA_RESTART};
	struct itimerval it = {{0, 500}, {0, 500}};
	long sent = 0, got = 0;

	tt_conn_open(&sig_conn);
	sigaction(SIGALRM, &sa, NULL);
	tt_handled = 0;
	setitimer(ITIMER_REAL, &it, NULL);
	/* At least so many, and until the handler has run between them a few times. */
	for (int i = 0; i < 3000 || (tt_handled < 5 && i < 3000000); i++) {
		ssize_t r = write(sig_conn.fd, "mmmmmmmmmmmmmmmmmmmm", 20);

		sent += r > 0 ? r : 0;
		if (i % 50 == 0)
			while (got < sent) {
				long n = tt_far_recv_once(&sig_conn, 1000);

				if (n <= 0)
					break;
				got += n;
			}
	}
	memset(&it, 0, sizeof(it));
	setitimer(ITIMER_REAL, &it, NULL);
	shutdown(sig_conn.fd, SHUT_WR);
	for (;;) {
		long n = tt_far_recv_once(&sig_conn, 100000);

		if (n <= 0)
			break;
		got += n;
	}
	tt_say("handler ran: %s, sent at least 60000: %d, lost %ld", tt_handled > 0 ? "yes" : "no",
	    sent >= 60000,
	    sent + 10 * (long)tt_handled - got);
}

static void jump_out(void)
{
	struct tt_conn c;
	pthread_t t;

	tt_conn_open(&c);
	for (int i = 0; i < 3; i++) {
		t = tt_kick(on_jump, 0);
		if (sigsetjmp(sig_back, 1) == 0)
			tt_near_recv(&c, "not reached", 100, 0);
		else
			tt_say("jumped out of recv");
		pthread_join(t, NULL);
		tt_far_send(&c, 100, i ? 10 : 0);
		tt_near_recv(&c, "recv after it", 100, MSG_WAITALL);
		tt_near_send(&c, "send after it", 100, 0);
		tt_far_recv(&c, 100);
	}
}

/* ---- threads ---- */

static void *recv_main(void *arg)
{
	struct tt_conn *c = arg;
	char b[100];

	(void)!recv(c->fd, b, sizeof(b), 0);
	return NULL;
}

static void cancel(void)
{
	struct tt_conn c;
	void *how = NULL;
	pthread_t t;

	tt_conn_open(&c);
	for (int i = 0; i < 3; i++) {
		pthread_create(&t, NULL, recv_main, &c);
		tt_nap_us(20000);
		pthread_cancel(t);
		pthread_join(t, &how);
		tt_say("cancelled: %s", how == PTHREAD_CANCELED ? "yes" : "no");
		tt_far_send(&c, 100, i ? 10 : 0);
		tt_near_recv(&c, "recv after it", 100, MSG_WAITALL);
		tt_near_send(&c, "send after it", 100, 0);
		tt_far_recv(&c, 100);
	}
}

static _Atomic long thread_total;

static void *reader_main(void *arg)
{
	struct tt_conn *c = arg;
	char b[500];
	ssize_t r;

	while ((r = recv(c->fd, b, sizeof(b), 0)) > 0)
		thread_total += r;
	return NULL;
}

static void *writer_main(void *arg)
{
	struct tt_conn *c = arg;
	char b[500] = {0};

	for (int i = 0; i < 200; i++) {
		ssize_t r = send(c->fd, b, sizeof(b), MSG_NOSIGNAL);

		thread_total += r > 0 ? r : 0;
	}
	return NULL;
}

static void threads_share(void)
{
	struct tt_conn c;
	pthread_t t[4];
	long got = 0;

	tt_conn_open(&c);
	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, reader_main, &c);
	for (int i = 0; i < 100; i++)
		tt_far_send(&c, 1000, 0);
	tt_far_close(&c, 0);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	tt_say("four readers got %ld", (long)thread_total);
	thread_total = 0;
	tt_conn_open(&c);
	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, writer_main, &c);
	while (got < 4 * 200 * 500) {
		long n = tt_far_recv_once(&c, 10000);

		if (n <= 0)
			break;
		got += n;
	}
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	tt_say("four writers sent %ld, peer got %ld", (long)thread_total, got);
}

static void both_ways_threads(void)
{
	struct tt_conn c;
	pthread_t t;

	tt_conn_open(&c);
	thread_total = 0;
	pthread_create(&t, NULL, reader_main, &c);
	for (int i = 0; i < 200; i++) {
		tt_near_send(&c, NULL, 300, 0);
		tt_far_recv(&c, 300);
		tt_far_send(&c, 200, 0);
	}
	tt_far_shutdown(&c, SHUT_WR, 0);
	pthread_join(t, NULL);
	tt_say("reader got %ld", (long)thread_total);
	tt_near_send(&c, "send after the peer's end", 10, 0);
	tt_far_recv(&c, 10);
}

/* ---- the end of a process ---- */

static void leaving(void)
{
	struct tt_conn c;
	pid_t pid;

	for (int how = 0; how < 3; how++) {
		tt_conn_open(&c);
		pid = fork();
		if (pid == 0) {
			tt_near_send(&c, NULL, 150000, 0);
			if (how == 0)
				_exit(0);
			if (how == 1)
				exit(0);
			quick_exit(0);
		}
		close(c.fd);
		wait_say("child", pid);
		tt_say("peer got %ld", tt_far_recv_eof(&c));
	}
}

static void killed(void)
{
	struct tt_conn c;
	pid_t pid;

	tt_conn_open(&c);
	pid = fork();
	if (pid == 0) {
		tt_near_send(&c, NULL, 1000, 0);
		pause();
	}
	close(c.fd);
	tt_far_recv(&c, 1000);
	kill(pid, SIGKILL);
	wait_say("child", pid);
	tt_say("peer got %ld", tt_far_recv_eof(&c));
}

static const struct tt_scene scenes[] = {{"fork-shared", fork_shared}, {"fork-unread", fork_unread},
    {"fork-taken-over", fork_taken_over}, {"fork-child-leaves", fork_child_leaves},
    {"fork-set", fork_set}, {"prefork", prefork}, {"exec", exec_fork}, {"exec-plain", exec_plain},
    {"exec-vfork", exec_vfork}, {"exec-self", exec_self}, {"spawn", spawned}, {"shell", shell},
    {"passed", passed}, {"streams", streams}, {"signals-recv", signals_recv},
    {"signals-send", signals_send}, {"signals-accept", signals_accept},
    {"handler-uses", handler_uses}, {"handler-storm", handler_storm}, {"jump-out", jump_out},
    {"cancel", cancel}, {"threads-share", threads_share}, {"both-ways-threads", both_ways_threads},
    {"leaving", leaving}, {"killed", killed}};

int main(int argc, char **argv)
{
	if (argc == 8 && strcmp(argv[1], "--helper") == 0)
		return helper_main(argv + 2);
	return tt_scene_main(argc, argv, scenes, TT_CK_ARRAY(scenes));
}
