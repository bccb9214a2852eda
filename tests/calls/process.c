/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes that begin and end while sockets are open: both sides go on using them, a child that
 * borrows its parent's memory harms nothing, and programs started by the C library get the
 * descriptors they should.
 */
#include "check.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pty.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <utmp.h>

extern char **environ;

static void talk(int a, int b)
{
	char buf[8];

	for (int i = 0; i < 20; i++) {
		CHECK_EQ(send(a, "ping", 4, 0), 4);
		recv_all(b, buf, 4);
		CHECK_EQ(memcmp(buf, "ping", 4), 0);
		CHECK_EQ(send(b, "pong!", 5, 0), 5);
		recv_all(a, buf, 5);
		CHECK_EQ(memcmp(buf, "pong!", 5), 0);
	}
}

static void reap(pid_t pid)
{
	int status;

	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
}

/* What the child does with the connection that it shares: serves one end of it, as a worker of a
 * pre-fork server. */
static _Noreturn void child_serves(const int fd[2])
{
	char buf[8];

	alarm(ALARM_S);
	CHECK_EQ(close(fd[0]), 0);
	for (int i = 0; i < 20; i++) {
		recv_all(fd[1], buf, 4);
		CHECK_EQ(memcmp(buf, "ping", 4), 0);
		CHECK_EQ(send(fd[1], "pong!", 5, 0), 5);
	}
	CHECK_EQ(recv(fd[1], buf, 1, 0), 0);
	_exit(0);
}

static void parent_asks(int fd[2])
{
	char buf[8];

	CHECK_EQ(close(fd[1]), 0);
	for (int i = 0; i < 20; i++) {
		CHECK_EQ(send(fd[0], "ping", 4, 0), 4);
		recv_all(fd[0], buf, 5);
		CHECK_EQ(memcmp(buf, "pong!", 5), 0);
	}
	CHECK_EQ(close(fd[0]), 0);
}

static int clone_stack_child(void *arg)
{
	child_serves(arg);
}

#define STACK 262144

static char stack[STACK] __attribute__((aligned(16)));

typedef int (*clone_fn)(int (*fn)(void *), void *sp, int flags, void *arg, ...);

static pid_t start_by(int form, int fd[2])
{
	__typeof__(&fork) hidden = LIBC("__fork", fork);
	__typeof__(&fork) bare = (__typeof__(&fork))(uintptr_t)libc_function("_Fork", false);
	clone_fn clone2 = (clone_fn)(uintptr_t)libc_function("__clone", true);

	switch (form) {
	case 0:
		return fork();
	case 1:
		return hidden();
	case 2:
		return bare ? bare() : fork();
	case 3:
		return clone(clone_stack_child, stack + STACK, SIGCHLD, fd);
	default:
		return clone2(clone_stack_child, stack + STACK, SIGCHLD, fd);
	}
}

static void forks(void)
{
	for (int form = 0; form < 5; form++) {
		int fd[2];
		pid_t pid;

		pair_make(fd, AF_INET, SOCK_STREAM);
		talk(fd[0], fd[1]);
		/* Bytes that are on their way at the fork are still read once. */
		CHECK_EQ(send(fd[0], "ping", 4, 0), 4);
		fflush(NULL);
		pid = start_by(form, fd);
		CHECK(pid >= 0);
		if (pid == 0)
			child_serves(fd);
		recv_all(fd[0], (char[8]){0}, 5);
		CHECK_EQ(send(fd[0], "ping", 4, 0), 4);
		recv_all(fd[0], (char[8]){0}, 5);
		CHECK_EQ(close(fd[1]), 0);
		for (int i = 2; i < 20; i++) {
			CHECK_EQ(send(fd[0], "ping", 4, 0), 4);
			recv_all(fd[0], (char[8]){0}, 5);
		}
		CHECK_EQ(close(fd[0]), 0);
		reap(pid);
	}
	CHECK_ERR(clone(NULL, stack + STACK, SIGCHLD, NULL), EINVAL);
	CHECK_ERR(clone(clone_stack_child, NULL, SIGCHLD, NULL), EINVAL);
}

/* The child ends at once; the parent's connections must not notice. */
static void fork_and_leave(void)
{
	int fd[2];

	pair_make(fd, AF_INET, SOCK_STREAM);
	for (int i = 0; i < 10; i++) {
		pid_t pid;

		talk(fd[0], fd[1]);
		fflush(NULL);
		pid = fork();
		CHECK(pid >= 0);
		if (pid == 0)
			_exit(0);
		talk(fd[0], fd[1]);
		reap(pid);
	}
	talk(fd[0], fd[1]);
	pair_close(fd);
}

/* Pre-fork: children accept on the parent's listener. */
static void accept_in_children(void)
{
	struct sockaddr_storage addr;
	socklen_t len;
	int listener = listener_make(AF_INET, &addr, &len);
	pid_t pids[2];

	fflush(NULL);
	for (size_t i = 0; i < array_len(pids); i++) {
		pids[i] = fork();
		CHECK(pids[i] >= 0);
		if (pids[i] > 0)
			continue;
		alarm(ALARM_S);
		for (;;) {
			char buf[4];
			int fd = accept(listener, NULL, NULL);

			CHECK(fd >= 0);
			recv_all(fd, buf, 4);
			if (memcmp(buf, "stop", 4) == 0)
				_exit(0);
			while (memcmp(buf, "done", 4) != 0) {
				send_all(fd, buf, 4);
				recv_all(fd, buf, 4);
			}
			CHECK_EQ(close(fd), 0);
		}
	}
	for (int i = 0; i < 12; i++) {
		char buf[4];
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		CHECK_EQ(connect(fd, (struct sockaddr *)&addr, len), 0);
		for (int k = 0; i < 10 && k < 10; k++) {
			send_all(fd, "work", 4);
			recv_all(fd, buf, 4);
			CHECK_EQ(memcmp(buf, "work", 4), 0);
		}
		send_all(fd, i < 10 ? "done" : "stop", 4);
		CHECK_EQ(recv(fd, buf, 1, 0), 0);
		CHECK_EQ(close(fd), 0);
	}
	for (size_t i = 0; i < array_len(pids); i++)
		reap(pids[i]);
	CHECK_EQ(close(listener), 0);
}

/*
 * The child of a vfork() does to its descriptors what a launcher does, and fails to exec. Its
 * descriptors are copies; its memory is the parent's.
 */
static void vforks(void)
{
	__typeof__(&vfork) volatile forms[] = {vfork, LIBC("__vfork", vfork)};
	static int fd[2];
	static int file;
	static char *const no_args[] = {NULL};

	file = open("/dev/null", O_RDWR);
	CHECK(file >= 0);
	for (volatile size_t i = 0; i < 2 * array_len(forms); i++) {
		pid_t pid;

		pair_make(fd, AF_INET, SOCK_STREAM);
		talk(fd[0], fd[1]);
		CHECK_EQ(send(fd[0], "kept", 4, 0), 4);
		errno = 4095;
		pid = forms[i / 2]();
		if (pid == 0) {
			if (dup2(file, fd[0]) != fd[0] || close(fd[1]) != 0 || dup(file) < 0 ||
			    fcntl(fd[0], F_SETFD, FD_CLOEXEC) != 0 || write(fd[0], "child", 5) != 5)
				_exit(1);
			signal(SIGUSR1, SIG_IGN);
			execve("/nonexistent/program", no_args, no_args);
			if (errno != ENOENT)
				_exit(2);
			if (i & 1)
				_exit(0);
			LIBC("_Exit", _exit)(0);
			_exit(3);
		}
		CHECK(pid > 0);
		reap(pid);
		recv_all(fd[1], (char[8]){0}, 4);
		talk(fd[0], fd[1]);
		pair_close(fd);
	}
	CHECK_EQ(close(file), 0);
}

static int vm_child(void *arg)
{
	const int *fd = arg;

	if (close(fd[0]) != 0 || close(fd[1]) != 0)
		_exit(1);
	_exit(0);
}

/* clone() as vfork() does it, on a stack of its own. */
static void clone_like_vfork(void)
{
	int fd[2];
	pid_t pid;

	pair_make(fd, AF_INET, SOCK_STREAM);
	talk(fd[0], fd[1]);
	pid = clone(vm_child, stack + STACK, CLONE_VM | CLONE_VFORK | SIGCHLD, fd);
	CHECK(pid > 0);
	reap(pid);
	talk(fd[0], fd[1]);
	pair_close(fd);
}

/* A program that gets a socket as its descriptor 7 and speaks to it. */
#define SPEAK "echo heir >&7"

static void heir_heard(int fd)
{
	char buf[5];

	recv_all(fd, buf, 5);
	CHECK_EQ(memcmp(buf, "heir\n", 5), 0);
}

static void launched(void)
{
	char *const argv[] = {
	    (char *)(uintptr_t) "sh", (char *)(uintptr_t) "-c", (char *)(uintptr_t)SPEAK, NULL};
	char *const bare_env[] = {(char *)(uintptr_t) "PATH=/usr/bin:/bin", NULL};
	__typeof__(&popen) hidden = LIBC("_IO_popen", popen);
	posix_spawn_file_actions_t actions;
	int fd[2];
	pid_t pid;
	FILE *out;

	pair_make(fd, AF_INET, SOCK_STREAM);
	pair_raise(fd); /* 7, which the shell is told of, may be one of them */
	talk(fd[0], fd[1]);
	CHECK_EQ(dup2(fd[0], 7), 7);
	CHECK_EQ(close(fd[0]), 0);
	CHECK_EQ(system(SPEAK), 0);
	heir_heard(fd[1]);
	CHECK_EQ(system("exit 3"), 3 << 8);
	CHECK(system(NULL) != 0);
	talk(7, fd[1]);

	out = popen(SPEAK "; echo out", "r");
	CHECK(out);
	CHECK_EQ(fgetc(out), 'o');
	CHECK_EQ(pclose(out), 0);
	heir_heard(fd[1]);
	out = hidden("cat >&7", "w");
	CHECK(out);
	CHECK_EQ(fputs("heir\n", out) >= 0, 1);
	CHECK_EQ(pclose(out), 0);
	heir_heard(fd[1]);
	talk(7, fd[1]);

	CHECK_EQ(posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, environ), 0);
	reap(pid);
	heir_heard(fd[1]);
	CHECK_EQ(posix_spawnp(&pid, "sh", NULL, NULL, argv, bare_env), 0); /* a plain program */
	reap(pid);
	heir_heard(fd[1]);
	CHECK_EQ(posix_spawn(&pid, "/nonexistent", NULL, NULL, argv, environ), ENOENT);
	talk(7, fd[1]);

	/* Moved by the file actions, which are done inside the C library. */
	CHECK_EQ(posix_spawn_file_actions_init(&actions), 0);
	CHECK_EQ(posix_spawn_file_actions_adddup2(&actions, 7, 1), 0);
	CHECK_EQ(posix_spawn_file_actions_addclose(&actions, 7), 0);
	CHECK_EQ(posix_spawnp(&pid, "sh", &actions, NULL,
		     (char *const[]){(char *)(uintptr_t) "sh", (char *)(uintptr_t) "-c",
			 (char *)(uintptr_t) "echo heir", NULL},
		     environ),
	    0);
	reap(pid);
	CHECK_EQ(posix_spawn_file_actions_destroy(&actions), 0);
	heir_heard(fd[1]);
	talk(7, fd[1]);
	CHECK_EQ(close(7), 0);
	CHECK_EQ(recv(fd[1], (char[1]){0}, 1, 0), 0);
	CHECK_EQ(close(fd[1]), 0);
}

static int daemon_fd[2];

static void daemon_begins(void)
{
	int fd[2];

	/* A socket as standard input, as inetd gives it: daemon() closes it inside the C library.
	 */
	pair_make(fd, AF_INET, SOCK_STREAM);
	talk(fd[0], fd[1]);
	CHECK_EQ(dup2(fd[0], 0), 0);
	CHECK_EQ(close(fd[0]), 0);
	talk(0, fd[1]);
	CHECK_CALM(daemon(1, 0), 0);
	alarm(ALARM_S);
	if (recv(fd[1], (char[1]){0}, 1, 0) != 0 || write(0, "x", 1) != 1)
		_exit(1);
	/* The standard descriptors are /dev/null now: only the result tells. */
	child_serves(daemon_fd);
}

static void daemons(void)
{
	struct sockaddr_storage addr;
	socklen_t len;
	int listener = listener_make(AF_INET, &addr, &len);
	int client = socket(AF_INET, SOCK_STREAM, 0);

	CHECK_EQ(connect(client, (struct sockaddr *)&addr, len), 0);
	daemon_fd[0] = client;
	daemon_fd[1] = accept(listener, NULL, NULL);
	CHECK(daemon_fd[1] >= 0);
	talk(daemon_fd[0], daemon_fd[1]);
	CHECK_EQ(forked_status(daemon_begins), 0); /* the parent of the daemon is gone */
	parent_asks(daemon_fd);
	CHECK_EQ(close(listener), 0);
}

static void terminals(void)
{
	int terminal, other, fd[2];
	char byte = 0;
	pid_t pid;

	pair_make(fd, AF_INET, SOCK_STREAM);
	talk(fd[0], fd[1]);
	fflush(NULL);
	pid = forkpty(&terminal, NULL, NULL, NULL);
	if (pid < 0) {
		CHECK_EQ(errno, ENOENT); /* no pseudo-terminals in this place */
		pair_close(fd);
		return;
	}
	if (pid == 0) {
		if (!isatty(0) || !isatty(1) || !isatty(2) || write(1, "t", 1) != 1)
			_exit(1);
		child_serves(fd);
	}
	CHECK_EQ(read(terminal, &byte, 1), 1);
	CHECK_EQ(byte, 't');
	parent_asks(fd);
	reap(pid);
	CHECK_EQ(close(terminal), 0);

	CHECK_EQ(openpty(&terminal, &other, NULL, NULL, NULL), 0);
	fflush(NULL);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		pair_make(fd, AF_INET, SOCK_STREAM);
		talk(fd[0], fd[1]);
		if (dup2(fd[0], 0) != 0 || close(fd[0]) != 0)
			_exit(1);
		talk(0, fd[1]);
		setsid();
		if (login_tty(other) != 0 || !isatty(0) || write(1, "l", 1) != 1)
			_exit(2);
		if (recv(fd[1], &byte, 1, 0) != 0) /* the socket that was 0 is closed */
			_exit(3);
		_exit(0);
	}
	CHECK_EQ(close(other), 0);
	CHECK_EQ(read(terminal, &byte, 1), 1);
	CHECK_EQ(byte, 'l');
	reap(pid);
	CHECK_EQ(close(terminal), 0);
}

static int exit_fd;

static void leaves_by__exit(void)
{
	CHECK_EQ(send(exit_fd, "last words", 10, 0), 10);
	_exit(0);
}

static void leaves_by__Exit(void)
{
	CHECK_EQ(send(exit_fd, "last words", 10, 0), 10);
	_Exit(0);
}

static void leaves_by_exit(void)
{
	CHECK_EQ(send(exit_fd, "last words", 10, 0), 10);
	exit(0);
}

static void leaves_by_quick_exit(void)
{
	CHECK_EQ(send(exit_fd, "last words", 10, 0), 10);
	quick_exit(0);
}

static void leaves_by_syscall(void)
{
	CHECK_EQ(send(exit_fd, "last words", 10, 0), 10);
	syscall(SYS_exit_group, 0);
}

/* What was sent before the end arrives, and then the end does. */
static void ends(void)
{
	void (*const ways[])(void) = {leaves_by__exit, leaves_by__Exit, leaves_by_exit,
	    leaves_by_quick_exit, leaves_by_syscall};

	for (size_t i = 0; i < array_len(ways); i++) {
		char buf[10];
		int fd[2];

		pair_make(fd, AF_INET, SOCK_STREAM);
		talk(fd[0], fd[1]);
		exit_fd = fd[0];
		CHECK_EQ(forked_status(ways[i]), 0);
		CHECK_EQ(close(fd[0]), 0);
		recv_all(fd[1], buf, 10);
		CHECK_EQ(memcmp(buf, "last words", 10), 0);
		CHECK_EQ(recv(fd[1], buf, 1, 0), 0);
		CHECK_EQ(close(fd[1]), 0);
	}
}

/* ---- filters ---- */

#define ALLOW(nr)                                                                                  \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (nr), 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

/* After it whatever is not in the list ends the process. */
static struct sock_filter narrow[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    ALLOW(SYS_read),
    ALLOW(SYS_write),
    ALLOW(SYS_close),
    ALLOW(SYS_dup),
#ifdef SYS_poll
    ALLOW(SYS_poll),
#endif
#ifdef SYS_epoll_wait
    ALLOW(SYS_epoll_wait),
#endif
    ALLOW(SYS_exit_group),
    ALLOW(SYS_rt_sigreturn),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
};
static const struct sock_fprog narrow_prog = {array_len(narrow), narrow};

static void confine_by_prctl(void)
{
	CHECK_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	CHECK_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &narrow_prog), 0);
}

static void confine_by_number(void)
{
	CHECK_EQ(syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	CHECK_EQ(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &narrow_prog), 0);
}

static void confined_talk(void (*confine)(void), size_t unread)
{
	char buf[600];
	int fd[2], ep = epoll_create1(0), copy;
	struct epoll_event event = {.events = EPOLLIN, .data.fd = 1};

	pair_make(fd, AF_INET, SOCK_STREAM);
	if (!unread)
		CHECK_EQ(epoll_ctl(ep, EPOLL_CTL_ADD, fd[1], &event), 0);
	for (int i = 0; i < 30; i++) {
		pattern_fill(buf, 300, 0, (unsigned int)i);
		/* Asked so often, a receiver is believed to come back. */
		for (int k = 0; k < 200; k++)
			CHECK_ERR(recv(fd[1 - i % 2], buf + 300, 1, MSG_DONTWAIT), EAGAIN);
		CHECK_EQ(write(fd[i % 2], buf, 300), 300);
		recv_all(fd[1 - i % 2], buf, 300);
	}
	pattern_fill(buf, unread, 0, 77);
	if (unread)
		send_all(fd[0], buf, unread);
	confine();
	if (unread) {
		memset(buf, 0, unread);
		for (size_t have = 0; have < unread;) {
			ssize_t r = read(fd[1], buf + have, unread - have);

			if (r <= 0)
				_exit(3);
			have += (size_t)r;
		}
		pattern_check(buf, unread, 0, 77);
	}
	for (int i = 0; i < 30; i++) {
		pattern_fill(buf, 500, 0, (unsigned int)i);
		if (write(fd[i % 2], buf, 500) != 500)
			_exit(4);
#ifdef SYS_poll
		if (poll(&(struct pollfd){fd[1 - i % 2], POLLIN, 0}, 1, -1) != 1)
			_exit(5);
#endif
#ifdef SYS_epoll_wait
		if (!unread && i % 2 == 0 && (epoll_wait(ep, &event, 1, -1) != 1 || event.data.fd != 1))
			_exit(6);
#endif
		for (size_t have = 0; have < 500;) {
			ssize_t r = read(fd[1 - i % 2], buf + have, 500 - have);

			if (r <= 0)
				_exit(7);
			have += (size_t)r;
		}
		pattern_check(buf, 500, 0, (unsigned int)i);
	}
	copy = dup(fd[0]);
	close(fd[0]);
	close(copy);
	_exit(read(fd[1], buf, 1) == 0 ? 0 : 8);
}

static void confined_prctl(void)
{
	confined_talk(confine_by_prctl, 0);
}

static void confined_number(void)
{
	confined_talk(confine_by_number, 0);
}

static void confined_unread(void)
{
	confined_talk(confine_by_prctl, 400);
}

static void filters(void)
{
	CHECK_EQ(forked_status(confined_prctl), 0);
	CHECK_EQ(forked_status(confined_number), 0);
	CHECK_EQ(forked_status(confined_unread), 0);
	CHECK_ERR(prctl(PR_SET_SECCOMP, 99, 0, 0, 0), EINVAL);
	CHECK_EQ(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) >= 0, 1);
}

static const struct test_case cases[] = {
    {"forks", "fork __fork _Fork clone __clone", forks},
    {"fork-and-leave", "fork _exit", fork_and_leave},
    {"accept-in-children", "fork", accept_in_children},
    {"vforks", "vfork __vfork _exit _Exit", vforks},
    {"clone-like-vfork", "clone", clone_like_vfork},
    {"launched", "system popen _IO_popen posix_spawn posix_spawnp", launched},
    {"daemons", "daemon", daemons},
    {"terminals", "forkpty login_tty", terminals},
    {"ends", "_exit _Exit", ends},
    {"filters", "prctl syscall", filters},
};

TESTS_MAIN(cases)
