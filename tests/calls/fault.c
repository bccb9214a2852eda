/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bad pointers are EFAULT, whichever call has them, and SIGSEGV and SIGBUS stay the program's own:
 * its handler is called for its own faults and reported as the old one, the default action ends it
 * by that signal, and a fault of a socket call is no signal at all.
 */
#include "check.h"

#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/uio.h>
#include <sys/wait.h>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static volatile sig_atomic_t faults, last_code;
static void *volatile last_addr;
static sigjmp_buf jump;

static void *bad(void)
{
	static char *page;

	if (!page)
		page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(page != MAP_FAILED);
	return page;
}

static void on_fault(int sig, siginfo_t *info, void *context)
{
	CHECK(sig == SIGSEGV || sig == SIGBUS);
	CHECK(context != NULL);
	faults++;
	last_code = info->si_code;
	last_addr = info->si_addr;
	siglongjmp(jump, 1);
}

static void on_plain(int sig)
{
	CHECK_EQ(sig, SIGSEGV);
	faults++;
	siglongjmp(jump, 1);
}

static void on_other(int sig)
{
	(void)sig;
	faults += 100;
}

static void touch(void *p)
{
	*(volatile char *)p = 1;
}

/* Ours, the peer's; what has come is `have` bytes. */
static void warm_pair(int fd[2])
{
	char buf[4];

	pair_make(fd, AF_INET, SOCK_STREAM);
	for (int i = 0; i < 20; i++) {
		CHECK_EQ(send(fd[0], "mesg", 4, 0), 4);
		recv_all(fd[1], buf, 4);
		CHECK_EQ(send(fd[1], "mesg", 4, 0), 4);
		recv_all(fd[0], buf, 4);
	}
}

static void bad_buffers(void)
{
	char *two = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct sigaction act = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
	struct iovec iov[2] = {{two, 100}, {bad(), 100}};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};
	struct epoll_event event = {.events = EPOLLIN};
	struct timespec none = {0};
	char buf[64];
	int fd[2], ep;
	ssize_t n;

	CHECK(two != MAP_FAILED);
	CHECK_EQ(mprotect(two + 4096, 4096, PROT_NONE), 0);
	CHECK_EQ(sigaction(SIGSEGV, &act, NULL), 0);
	CHECK_EQ(sigaction(SIGBUS, &act, NULL), 0);
	warm_pair(fd);
	for (int i = 0; i < 2; i++) { /* once with the program's handler, once without */
		CHECK_EQ(send(fd[0], "0123456789", 10, 0), 10);
		CHECK_ERR(recv(fd[1], bad(), 10, 0), EFAULT);
		CHECK_ERR(read(fd[1], bad(), 10), EFAULT);
		CHECK_ERR(readv(fd[1], bad(), 1), EFAULT);
		CHECK_ERR(recvmsg(fd[1], bad(), 0), EFAULT);
		recv_all(fd[1], buf, 10);
		CHECK_EQ(memcmp(buf, "0123456789", 10), 0);
		CHECK_ERR(send(fd[0], bad(), 10, MSG_NOSIGNAL), EFAULT);
		CHECK_ERR(write(fd[0], bad(), 10), EFAULT);
		CHECK_ERR(writev(fd[0], bad(), 1), EFAULT);
		CHECK_ERR(sendmsg(fd[0], bad(), MSG_NOSIGNAL), EFAULT);
		CHECK_ERR(setsockopt(fd[0], SOL_SOCKET, SO_RCVTIMEO, bad(), 16), EFAULT);
		/* What comes before the bad part of a list is sent. */
		n = sendmsg(fd[0], &msg, MSG_NOSIGNAL);
		if (n < 0)
			CHECK_EQ(errno, EFAULT);
		else
			CHECK_EQ(n, 100);
		if (n > 0)
			recv_all(fd[1], two, 100);
		CHECK_ERR(poll(bad(), 2, 0), EFAULT);
		CHECK_ERR(ppoll(bad(), 2, &none, NULL), EFAULT);
		CHECK_ERR(select(fd[1] + 1, bad(), NULL, NULL, &(struct timeval){0}), EFAULT);
		CHECK_ERR(pselect(fd[1] + 1, bad(), NULL, NULL, &none, NULL), EFAULT);
		ep = epoll_create1(0);
		CHECK_ERR(epoll_ctl(ep, EPOLL_CTL_ADD, fd[1], bad()), EFAULT);
		CHECK_EQ(epoll_ctl(ep, EPOLL_CTL_ADD, fd[1], &event), 0);
		CHECK_EQ(send(fd[0], "x", 1, 0), 1);
		CHECK_EQ(poll(&(struct pollfd){fd[1], POLLIN, 0}, 1, 10000), 1);
		CHECK_ERR(epoll_wait(ep, bad(), 4, 1000), EFAULT);
		recv_all(fd[1], buf, 1);
		close(ep);
		CHECK_EQ(signal(SIGSEGV, SIG_DFL) == (void (*)(int))(uintptr_t)on_fault, i == 0);
		CHECK_EQ(signal(SIGBUS, SIG_DFL) == (void (*)(int))(uintptr_t)on_fault, i == 0);
	}
	CHECK_EQ(faults, 0);
	pair_close(fd);
	munmap(two, 8192);
}

/* An error after the first message of a batch is the socket's: it is told once, by what comes next. */
static void late_error(void)
{
	char buf[10];
	struct iovec iov[2] = {{buf, 10}, {bad(), 10}};
	struct mmsghdr msgs[2];
	socklen_t len = sizeof(int);
	int fd[2], err = -1;

	warm_pair(fd);
	memset(msgs, 0, sizeof(msgs));
	for (int i = 0; i < 2; i++) {
		msgs[i].msg_hdr.msg_iov = &iov[i];
		msgs[i].msg_hdr.msg_iovlen = 1;
	}
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(send(fd[0], "0123456789abcdefghij", 20, 0), 20);
		CHECK_EQ(recvmmsg(fd[1], msgs, 2, 0, NULL), 1);
		CHECK_EQ(memcmp(buf, "0123456789", 10), 0);
		if (i == 0) {
			CHECK_EQ(getsockopt(fd[1], SOL_SOCKET, SO_ERROR, &err, &len), 0);
			CHECK_EQ(err, EFAULT);
		} else {
			CHECK_ERR(send(fd[1], "x", 1, MSG_NOSIGNAL), EFAULT);
		}
		CHECK_EQ(getsockopt(fd[1], SOL_SOCKET, SO_ERROR, &err, &len), 0);
		CHECK_EQ(err, 0);
		recv_all(fd[1], buf, 10);
		CHECK_EQ(memcmp(buf, "abcdefghij", 10), 0);
	}
	pair_close(fd);
}

static void own_handler(void)
{
	struct sigaction act = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
	struct sigaction old;

	faults = 0;
	CHECK_EQ(sigaction(SIGSEGV, NULL, &old), 0);
	CHECK(old.sa_handler == SIG_DFL);
	CHECK_EQ(old.sa_flags & (SA_SIGINFO | SA_ONSTACK), 0);
	sigaddset(&act.sa_mask, SIGUSR2);
	CHECK_CALM(sigaction(SIGSEGV, &act, &old), 0);
	CHECK(old.sa_handler == SIG_DFL);
	if (sigsetjmp(jump, 1) == 0)
		touch(bad());
	CHECK_EQ(faults, 1);
	CHECK_EQ(last_code, SEGV_ACCERR);
	CHECK(last_addr == bad());
	CHECK_EQ(sigaction(SIGSEGV, NULL, &old), 0);
	CHECK(old.sa_sigaction == on_fault);
	CHECK_EQ(old.sa_flags & (SA_SIGINFO | SA_NODEFER | SA_RESTART | SA_ONSTACK),
	    SA_SIGINFO | SA_NODEFER);
	CHECK_EQ(sigismember(&old.sa_mask, SIGUSR2), 1);
	/* Sent by a process, not raised by a fault. */
	if (sigsetjmp(jump, 1) == 0)
		raise(SIGSEGV);
	CHECK_EQ(faults, 2);
	CHECK_EQ(last_code, SI_TKILL);
	/* The older calls. */
	CHECK(signal(SIGSEGV, on_plain) == (void (*)(int))(uintptr_t)on_fault);
	if (sigsetjmp(jump, 1) == 0)
		touch(bad());
	CHECK_EQ(faults, 3);
	CHECK_EQ(sigaction(SIGSEGV, NULL, &old), 0);
	CHECK(old.sa_handler == on_plain);
	CHECK_EQ(old.sa_flags & (SA_SIGINFO | SA_RESTART), SA_RESTART);
	CHECK(signal(SIGSEGV, SIG_IGN) == on_plain);
	raise(SIGSEGV);
	CHECK_EQ(sigaction(SIGSEGV, NULL, &old), 0);
	CHECK(old.sa_handler == SIG_IGN);
	CHECK(sysv_signal(SIGSEGV, on_other) == SIG_IGN);
	raise(SIGSEGV); /* once: the default is back then */
	CHECK_EQ(faults, 103);
	CHECK_EQ(sigaction(SIGSEGV, NULL, &old), 0);
	CHECK(old.sa_handler == SIG_DFL);
	CHECK_EQ(sigaction(SIGBUS, NULL, &old), 0);
	CHECK(old.sa_handler == SIG_DFL);
}

static void no_core(void)
{
	const struct rlimit none = {0};

	CHECK_EQ(setrlimit(RLIMIT_CORE, &none), 0);
}

static void dies_touching(void)
{
	no_core();
	touch(bad());
	_exit(7);
}

static void dies_raising(void)
{
	no_core();
	raise(SIGBUS);
	_exit(7);
}

static void dies_sent(void)
{
	no_core();
	kill(getpid(), SIGSEGV);
	for (;;)
		pause();
}

static void dies_ignoring(void)
{
	no_core();
	signal(SIGSEGV, SIG_IGN);
	touch(bad());
	_exit(7);
}

static int deep(int n)
{
	volatile char frame[4096];

	frame[n & 4095] = (char)n;
	return n > 1000000 ? 0 : deep(n + 1) + frame[n & 4095];
}

static void dies_deep(void)
{
	no_core();
	deep(0);
	_exit(7);
}

static void dies_after_return(void)
{
	struct sigaction act = {.sa_handler = on_other, .sa_flags = (int)SA_RESETHAND};

	no_core();
	sigaction(SIGSEGV, &act, NULL);
	touch(bad()); /* the handler returns, and it faults again */
	_exit(7);
}

static void default_action(void)
{
	static void (*const how[])(void) = {
	    dies_touching, dies_raising, dies_sent, dies_ignoring, dies_deep, dies_after_return};

	for (size_t i = 0; i < array_len(how); i++) {
		int status = forked_status(how[i]);

		CHECK(WIFSIGNALED(status));
		CHECK_EQ(WTERMSIG(status), i == 1 ? SIGBUS : SIGSEGV);
	}
}

static const struct test_case cases[] = {
    {"bad-buffers", "recv read readv recvmsg send write writev sendmsg poll select epoll_wait",
	bad_buffers},
    {"late-error", "recvmmsg getsockopt", late_error},
    {"own-handler", "sigaction signal sysv_signal", own_handler},
    {"default-action", "signal", default_action},
};

TESTS_MAIN(cases)
