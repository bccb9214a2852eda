/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Signals end a wait on a socket as they do on the kernel, whichever call installed the handler;
 * and what is reported as the old handler is the program's own.
 *
 * The signal comes from a child that sends it again and again until it is told to stop: a single
 * one could arrive before the wait has begun.
 */
#include "check.h"

#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <time.h>

/* Deprecated, and declared for old standards only. */
__sighandler_t bsd_signal(int sig, __sighandler_t handler);
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static volatile sig_atomic_t handled;
static volatile int write_fd = -1;
static siginfo_t last_info;

static void on_signal(int sig)
{
	CHECK_EQ(sig, SIGUSR1);
	handled++;
}

static void on_signal_info(int sig, siginfo_t *info, void *context)
{
	CHECK_EQ(sig, SIGUSR1);
	CHECK(context != NULL);
	last_info = *info;
	handled++;
}

static pid_t pester_start(void)
{
	pid_t parent = getpid(), pid;
	struct timespec nap = {0, 2000000};

	fflush(NULL);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		alarm(ALARM_S);
		for (;;) {
			nanosleep(&nap, NULL);
			if (getppid() != parent || kill(parent, SIGUSR1) != 0)
				_exit(0);
		}
	}
	return pid;
}

static void pester_stop(pid_t pid)
{
	while (kill(pid, SIGKILL) != 0 && errno == EINTR)
		;
	while (waitpid(pid, NULL, 0) < 0)
		CHECK_EQ(errno, EINTR);
}

/* A pair whose ends have talked, so that it is accelerated where it can be. */
static void warm_pair(int fd[2])
{
	char buf[4];

	pair_make(fd, AF_INET, SOCK_STREAM);
	for (int i = 0; i < 10; i++) {
		CHECK_EQ(send(fd[0], "mesg", 4, 0), 4);
		recv_all(fd[1], buf, 4);
	}
}

static void interrupted_waits(int fd)
{
	struct epoll_event ev = {.events = EPOLLIN};
	struct pollfd p = {fd, POLLIN, 0};
	int set = epoll_create1(0);
	fd_set in;

	CHECK_EQ(epoll_ctl(set, EPOLL_CTL_ADD, fd, &ev), 0);
	CHECK_ERR(poll(&p, 1, -1), EINTR);
	CHECK_ERR(epoll_wait(set, &ev, 1, -1), EINTR);
	FD_ZERO(&in);
	FD_SET(fd, &in);
	CHECK_ERR(select(fd + 1, &in, NULL, NULL, NULL), EINTR);
	CHECK_EQ(close(set), 0);
}

static void interrupted(int fd)
{
	char byte;

	CHECK_ERR(recv(fd, &byte, 1, 0), EINTR);
	CHECK_ERR(read(fd, &byte, 1), EINTR);
	interrupted_waits(fd);
}

static void echo_peer(int fd)
{
	char buf[4];

	signal(SIGUSR1, SIG_DFL);
	for (int i = 0; i < 10; i++) {
		recv_all(fd, buf, 4);
		CHECK_EQ(send(fd, buf, 4, 0), 4);
	}
	CHECK_EQ(recv(fd, buf, 1, 0), 0);
}

/* One in this process, one with an accelerated process at the other end. */
static void interrupted_both(void)
{
	struct peer peer;
	int fd[2];
	char buf[4];
	pid_t pid;

	warm_pair(fd);
	pid = pester_start();
	interrupted(fd[1]);
	pester_stop(pid);
	pair_close(fd);
	/* Started before the pestering: its connect() would be interrupted too. */
	peer = peer_make(AF_INET, SOCK_STREAM, echo_peer);
	for (int i = 0; i < 10; i++) {
		CHECK_EQ(send(peer.fd, "echo", 4, 0), 4);
		recv_all(peer.fd, buf, 4);
	}
	pid = pester_start();
	interrupted(peer.fd);
	pester_stop(pid);
	peer_wait(&peer);
}

static void by_sigaction(void)
{
	__typeof__(&sigaction) fns[] = {
	    (__typeof__(&sigaction))sigaction, LIBC("__sigaction", sigaction)};

	for (size_t i = 0; i < array_len(fns); i++) {
		struct sigaction act = {.sa_handler = on_signal}, old;

		CHECK_CALM(fns[i](SIGUSR1, &act, NULL), 0);
		CHECK_CALM(fns[i](SIGUSR1, NULL, &old), 0);
		CHECK(old.sa_handler == on_signal);
		handled = 0;
		interrupted_both();
		CHECK(handled >= 10);
		act.sa_sigaction = on_signal_info;
		act.sa_flags = SA_SIGINFO;
		sigaddset(&act.sa_mask, SIGUSR2);
		CHECK_CALM(fns[i](SIGUSR1, &act, &old), 0);
		CHECK(old.sa_handler == on_signal);
		CHECK_EQ(old.sa_flags & SA_SIGINFO, 0);
		handled = 0;
		CHECK_EQ(raise(SIGUSR1), 0);
		CHECK_EQ(handled, 1);
		CHECK_EQ(last_info.si_signo, SIGUSR1);
		CHECK_EQ(last_info.si_pid, getpid());
		act.sa_handler = SIG_DFL;
		CHECK_CALM(fns[i](SIGUSR1, &act, &old), 0);
		CHECK(old.sa_sigaction == on_signal_info);
		CHECK_EQ(sigismember(&old.sa_mask, SIGUSR2), 1);
		CHECK_CALM(fns[i](SIGUSR1, NULL, &old), 0);
		CHECK(old.sa_handler == SIG_DFL);
		CHECK_ERR(fns[i](SIGKILL, &act, NULL), EINVAL);
		CHECK_ERR(fns[i](0, &act, NULL), EINVAL);
		CHECK_ERR(fns[i](9999, NULL, &old), EINVAL);
	}
}

/* A byte that comes in a while, so that the receive before it is interrupted. */
static void recv_while_pestered(const int fd[2])
{
	pid_t writer = fork();
	char byte = 0;

	if (writer < 0)
		check_failed(__FILE__, __LINE__, "fork", errno, 0);
	if (writer == 0) {
		struct timespec left = {0, 30000000};

		while (nanosleep(&left, &left) != 0)
			;
		_exit(send(fd[0], "!", 1, 0) != 1);
	}
	CHECK_EQ(recv(fd[1], &byte, 1, 0), 1);
	CHECK_EQ(byte, '!');
	CHECK_EQ(waitpid(writer, NULL, 0), writer);
}

/* With SA_RESTART a receive goes on, a poll does not. */
static void goes_on(int sig_ok)
{
	int fd[2];
	pid_t pid;

	CHECK_EQ(sig_ok, 1);
	warm_pair(fd);
	fflush(NULL);
	pid = pester_start();
	interrupted_waits(fd[1]);
	handled = 0;
	/* On a busy machine a whole receive may pass before the pesterer gets the processor. */
	for (int i = 0; i < 100 && !handled; i++)
		recv_while_pestered(fd);
	pester_stop(pid);
	CHECK(handled > 0);
	pair_close(fd);
}

static void by_signal(void)
{
	__typeof__(&signal) fns[] = {
	    (__typeof__(&signal))signal, LIBC("bsd_signal", signal), LIBC("ssignal", signal)};

	for (size_t i = 0; i < array_len(fns); i++) {
		CHECK(fns[i](SIGUSR1, on_signal) == SIG_DFL);
		CHECK(fns[i](SIGUSR1, on_signal) == on_signal);
		goes_on(1); /* BSD semantics: restart */
		CHECK(fns[i](SIGUSR1, SIG_IGN) == on_signal);
		CHECK(fns[i](SIGUSR1, SIG_DFL) == SIG_IGN);
		errno = 0;
		CHECK(fns[i](SIGKILL, on_signal) == SIG_ERR);
		CHECK_EQ(errno, EINVAL);
		CHECK(fns[i](-1, on_signal) == SIG_ERR);
	}
}

static void by_sysv_signal(void)
{
	__typeof__(&signal) fns[] = {LIBC("sysv_signal", signal), LIBC("__sysv_signal", signal)};

	for (size_t i = 0; i < array_len(fns); i++) {
		char byte;
		int fd[2];
		pid_t pid;

		warm_pair(fd);
		/* Once only: the handler is reset when it runs. Nobody but ourselves sends here. */
		CHECK(fns[i](SIGUSR1, on_signal) == SIG_DFL);
		handled = 0;
		CHECK_EQ(raise(SIGUSR1), 0);
		CHECK_EQ(handled, 1);
		CHECK(fns[i](SIGUSR1, on_signal) == SIG_DFL);
		pid = fork();
		CHECK(pid >= 0);
		if (pid == 0) { /* interrupted, and the second one is deadly */
			CHECK(fns[i](SIGUSR1, on_signal) == on_signal);
			pester_start();
			CHECK_ERR(recv(fd[1], &byte, 1, 0), EINTR);
			recv(fd[1], &byte, 1, 0);
			_exit(0);
		}
		int status;

		CHECK_EQ(waitpid(pid, &status, 0), pid);
		CHECK(WIFSIGNALED(status));
		CHECK_EQ(WTERMSIG(status), SIGUSR1);
		CHECK(fns[i](SIGUSR1, SIG_DFL) == on_signal);
		pair_close(fd);
	}
}

static void by_sigset(void)
{
	CHECK(sigset(SIGUSR1, on_signal) == SIG_DFL);
	CHECK(sigset(SIGUSR1, on_signal) == on_signal);
	handled = 0;
	interrupted_both(); /* no restart */
	CHECK(handled > 0);
	CHECK(sigset(SIGUSR1, SIG_HOLD) == on_signal);
	CHECK(sigset(SIGUSR1, SIG_DFL) == SIG_HOLD);
}

static void by_siginterrupt(void)
{
	CHECK(signal(SIGUSR1, on_signal) == SIG_DFL);
	CHECK_EQ(siginterrupt(SIGUSR1, 1), 0);
	interrupted_both();
	CHECK_EQ(siginterrupt(SIGUSR1, 0), 0);
	goes_on(1);
	CHECK_ERR(siginterrupt(-1, 1), EINVAL);
	CHECK(signal(SIGUSR1, SIG_DFL) == on_signal);
}

static void on_signal_talk(int sig)
{
	(void)sig;
	CHECK_EQ(send(write_fd, "h", 1, 0), 1);
	handled++;
}

/* A handler that sends to the very socket that the interrupted call waits for. */
static void handler_uses_socket(void)
{
	struct sigaction act = {.sa_handler = on_signal_talk, .sa_flags = SA_RESTART};
	int fd[2];
	char byte = 0;
	pid_t pid;

	warm_pair(fd);
	write_fd = fd[0];
	CHECK_EQ(sigaction(SIGUSR1, &act, NULL), 0);
	handled = 0;
	pid = pester_start();
	for (int i = 0; i < 5; i++) {
		CHECK_EQ(recv(fd[1], &byte, 1, 0), 1);
		CHECK_EQ(byte, 'h');
	}
	pester_stop(pid);
	CHECK(handled >= 5);
	act.sa_handler = SIG_DFL;
	CHECK_EQ(sigaction(SIGUSR1, &act, NULL), 0);
	pair_close(fd);
}

static sigjmp_buf jump;

static void on_signal_jump(int sig)
{
	(void)sig;
	siglongjmp(jump, 1);
}

/* A handler that leaves the call by a jump: the socket works on. */
static void handler_jumps(void)
{
	struct sigaction act = {.sa_handler = on_signal_jump};
	static pid_t pid;
	volatile int jumps = 0;
	int fd[2];
	char buf[4];

	warm_pair(fd);
	CHECK_EQ(sigaction(SIGUSR1, &act, NULL), 0);
	if (sigsetjmp(jump, 1) == 0)
		pid = pester_start();
	else
		jumps++;
	if (jumps < 5)
		(void)!recv(fd[1], buf, 4, 0);
	act.sa_handler = SIG_IGN;
	CHECK_EQ(sigaction(SIGUSR1, &act, NULL), 0);
	CHECK_EQ(jumps, 5);
	pester_stop(pid);
	act.sa_handler = SIG_DFL;
	CHECK_EQ(sigaction(SIGUSR1, &act, NULL), 0);
	CHECK_EQ(send(fd[0], "live", 4, 0), 4);
	recv_all(fd[1], buf, 4);
	CHECK_EQ(memcmp(buf, "live", 4), 0);
	pair_close(fd);
}

static const struct test_case cases[] = {
    {"sigaction", "sigaction __sigaction", by_sigaction},
    {"signal", "signal bsd_signal ssignal", by_signal},
    {"sysv_signal", "sysv_signal __sysv_signal", by_sysv_signal},
    {"sigset", "sigset", by_sigset},
    {"siginterrupt", "siginterrupt", by_siginterrupt},
    {"handler-uses-socket", "sigaction", handler_uses_socket},
    {"handler-jumps", "sigaction", handler_jumps},
};

TESTS_MAIN(cases)
