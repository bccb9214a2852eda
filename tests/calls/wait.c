/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting by poll, select and epoll: readiness, timeouts and what is written back, signal masks,
 * sets of sockets and other descriptors. The other end is this process or another one.
 */
#include "check.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <time.h>

#define NS_PER_MS 1000000L

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* One way of waiting for one descriptor to be readable: 1 ready, 0 the time is over, -1. */
typedef int (*wait_form)(int fd, int timeout_ms);

static int by_poll(int fd, int ms)
{
	struct pollfd p[2] = {{fd, POLLIN, 0x7f}, {-1, POLLIN, 0x7f}};
	int ret = poll(p, 2, ms);

	if (ret >= 0) {
		CHECK_EQ(p[0].revents, ret ? POLLIN : 0);
		CHECK_EQ(p[1].revents, 0);
	}
	return ret;
}

static int by__poll(int fd, int ms)
{
	struct pollfd p = {fd, POLLIN, 0};

	return LIBC("__poll", poll)(&p, 1, ms);
}

static int by_poll_chk(int fd, int ms)
{
	int (*fn)(struct pollfd *, nfds_t, int, size_t) = (int (*)(
	    struct pollfd *, nfds_t, int, size_t))(uintptr_t)libc_function("__poll_chk", true);
	struct pollfd p = {fd, POLLIN, 0};

	return fn(&p, 1, ms, sizeof(p));
}

static const struct timespec *ts_of(int ms, struct timespec *ts)
{
	*ts = (struct timespec){ms / 1000, ms % 1000 * NS_PER_MS};
	return ms < 0 ? NULL : ts;
}

static int by_ppoll(int fd, int ms)
{
	struct pollfd p = {fd, POLLIN, 0};
	struct timespec ts;
	sigset_t mask;
	int ret;

	sigemptyset(&mask);
	ret = ppoll(&p, 1, ts_of(ms, &ts), &mask);
	if (ms >= 0) /* the C library hides what the kernel wrote back */
		CHECK_EQ(ts.tv_sec * 1000 + ts.tv_nsec / NS_PER_MS, ms);
	return ret;
}

static int by_ppoll_chk(int fd, int ms)
{
	int (*fn)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *, size_t) =
	    (int (*)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *, size_t))(
		uintptr_t)libc_function("__ppoll_chk", true);
	struct pollfd p = {fd, POLLIN, 0};
	struct timespec ts;

	return fn(&p, 1, ts_of(ms, &ts), NULL, sizeof(p));
}

static int select_with(__typeof__(&select) fn, int fd, int ms)
{
	struct timeval tv = {ms / 1000, ms % 1000 * 1000};
	double start = now_s();
	fd_set in, out;
	int ret;

	FD_ZERO(&in);
	FD_SET(fd, &in);
	FD_ZERO(&out);
	ret = fn(fd + 1, &in, &out, NULL, ms < 0 ? NULL : &tv);
	if (ret >= 0)
		CHECK_EQ(FD_ISSET(fd, &in) != 0, ret);
	if (ms > 0) { /* Linux writes back what is left */
		double left = (double)tv.tv_sec + (double)tv.tv_usec * 1e-6;
		double spent = now_s() - start;

		CHECK(left <= ms * 1e-3);
		CHECK(left >= ms * 1e-3 - spent - 0.002 || left == 0);
		if (ret == 0)
			CHECK(left == 0);
	}
	return ret;
}

static int by_select(int fd, int ms)
{
	return select_with(select, fd, ms);
}

static int by__select(int fd, int ms)
{
	return select_with(LIBC("__select", select), fd, ms);
}

static int by_pselect(int fd, int ms)
{
	struct timespec ts;
	fd_set in;
	int ret;

	FD_ZERO(&in);
	FD_SET(fd, &in);
	ret = pselect(fd + 1, &in, NULL, NULL, ts_of(ms, &ts), NULL);
	if (ms >= 0)
		CHECK_EQ(ts.tv_sec * 1000 + ts.tv_nsec / NS_PER_MS, ms);
	return ret;
}

static int epoll_set;

static int epoll_check(int ret, const struct epoll_event *ev, int fd)
{
	if (ret > 0) {
		CHECK_EQ(ret, 1);
		CHECK_EQ(ev->events, EPOLLIN);
		CHECK_EQ(ev->data.fd, fd);
	}
	return ret;
}

static int by_epoll_wait(int fd, int ms)
{
	struct epoll_event ev[4];

	return epoll_check(epoll_wait(epoll_set, ev, 4, ms), ev, fd);
}

static int by_epoll_pwait(int fd, int ms)
{
	struct epoll_event ev[4];
	sigset_t mask;

	sigemptyset(&mask);
	return epoll_check(epoll_pwait(epoll_set, ev, 4, ms, &mask), ev, fd);
}

static int by_epoll_pwait2(int fd, int ms)
{
	__typeof__(&epoll_pwait2) fn =
	    (__typeof__(&epoll_pwait2))(uintptr_t)libc_function("epoll_pwait2", false);
	struct epoll_event ev[4];
	struct timespec ts;

	if (!fn)
		return by_epoll_wait(fd, ms);
	return epoll_check(fn(epoll_set, ev, 4, ts_of(ms, &ts), NULL), ev, fd);
}

static const wait_form forms[] = {by_poll, by__poll, by_poll_chk, by_ppoll, by_ppoll_chk, by_select,
    by__select, by_pselect, by_epoll_wait, by_epoll_pwait, by_epoll_pwait2};

static void set_make(int fd)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};

	epoll_set = epoll_create1(EPOLL_CLOEXEC);
	CHECK(epoll_set >= 0);
	CHECK_CALM(epoll_ctl(epoll_set, EPOLL_CTL_ADD, fd, &ev), 0);
}

static void one_process(int type)
{
	int fd[2];
	char buf[4];

	pair_make(fd, AF_INET, type);
	set_make(fd[1]);
	for (unsigned int i = 0; i < 5 * array_len(forms); i++) {
		wait_form form = forms[i % array_len(forms)];

		CHECK_CALM(form(fd[1], 0), 0);
		CHECK_EQ(send(fd[0], "data", 4, 0), 4);
		CHECK_CALM(form(fd[1], -1), 1);
		CHECK_CALM(form(fd[1], 10000), 1); /* still: it reports levels */
		CHECK_EQ(recv(fd[1], buf, 4, 0), 4);
		CHECK_CALM(form(fd[1], 1), 0);
	}
	CHECK_EQ(close(epoll_set), 0);
	pair_close(fd);
}

static void ready_one_process(void)
{
	one_process(SOCK_STREAM);
	one_process(SOCK_DGRAM);
}

#define TURNS (20 * (unsigned int)array_len(forms))

static void turn_peer(int fd)
{
	char buf[4];

	set_make(fd);
	for (unsigned int i = 0; i < TURNS; i++) {
		CHECK_EQ(forms[i % array_len(forms)](fd, 30000), 1);
		CHECK_EQ(recv(fd, buf, 4, 0), 4);
		CHECK_EQ(send(fd, buf, 4, 0), 4);
	}
	close(epoll_set);
}

static void ready_two_processes(void)
{
	const int types[] = {SOCK_STREAM, SOCK_DGRAM};

	for (size_t t = 0; t < array_len(types); t++) {
		struct peer peer = peer_make(AF_INET, types[t], turn_peer);
		char buf[4];

		set_make(peer.fd);
		for (unsigned int i = 0; i < TURNS; i++) {
			wait_form form = forms[(i + 3) % array_len(forms)];

			pattern_fill(buf, 4, i, 1);
			CHECK_EQ(send(peer.fd, buf, 4, 0), 4);
			CHECK_EQ(form(peer.fd, 30000), 1);
			CHECK_EQ(recv(peer.fd, buf, 4, MSG_DONTWAIT), 4);
			pattern_check(buf, 4, i, 1);
		}
		close(epoll_set);
		peer_wait(&peer);
	}
}

static void timeouts(void)
{
	struct timespec bad = {0, 1000000000};
	struct timeval tv = {0, -1};
	struct epoll_event ev;
	int fd[2];

	pair_make(fd, AF_INET, SOCK_STREAM);
	set_make(fd[1]);
	for (size_t i = 0; i < array_len(forms); i++) {
		double start = now_s();

		CHECK_CALM(forms[i](fd[1], 20), 0);
		CHECK(now_s() - start >= 0.0199 && now_s() - start < 10);
	}
	CHECK_ERR(ppoll(NULL, 0, &bad, NULL), EINVAL);
	CHECK_ERR(pselect(0, NULL, NULL, NULL, &bad, NULL), EINVAL);
	CHECK_ERR(select(0, NULL, NULL, NULL, &tv), EINVAL);
	CHECK_ERR(select(-1, NULL, NULL, NULL, NULL), EINVAL);
	CHECK_ERR(epoll_wait(epoll_set, &ev, 0, 0), EINVAL);
	CHECK_ERR(epoll_wait(-1, &ev, 1, 0), EBADF);
	CHECK_ERR(epoll_wait(fd[0], &ev, 1, 0), EINVAL);
	tv = (struct timeval){0, 2000};
	CHECK_CALM(select(0, NULL, NULL, NULL, &tv), 0); /* a sleep */
	CHECK_EQ(tv.tv_sec + tv.tv_usec, 0);
	CHECK_CALM(poll(NULL, 0, 1), 0);
	CHECK_EQ(close(epoll_set), 0);
	pair_close(fd);
}

/* What poll says in each state of a connection, with a closed number among the descriptors. */
static void states(void)
{
	const short all = POLLIN | POLLOUT | POLLRDHUP | POLLPRI;
	int fd[2], fresh = socket(AF_INET, SOCK_STREAM, 0);
	struct pollfd p[3];
	char buf[4];
	fd_set in, out;

	pair_make(fd, AF_INET, SOCK_STREAM);
	for (int i = 0; i < 10; i++) {
		CHECK_EQ(send(fd[0], "mesg", 4, 0), 4);
		recv_all(fd[1], buf, 4);
	}
	p[0] = (struct pollfd){fd[1], all, 0};
	p[1] = (struct pollfd){fresh, all, 0};
	p[2] = (struct pollfd){999, all, 0};
	CHECK_EQ(poll(p, 3, 0), 3);
	CHECK_EQ(p[0].revents, POLLOUT);
	CHECK_EQ(p[1].revents, POLLOUT | POLLHUP);
	CHECK_EQ(p[2].revents, POLLNVAL);
	CHECK_EQ(send(fd[0], "mesg", 4, 0), 4);
	p[0].events = POLLIN;
	CHECK_EQ(poll(p, 1, -1), 1);
	p[0].events = all;
	CHECK_EQ(poll(p, 1, 0), 1);
	CHECK_EQ(p[0].revents, POLLIN | POLLOUT);
	FD_ZERO(&in);
	FD_ZERO(&out);
	FD_SET(fd[1], &in);
	FD_SET(fd[1], &out);
	FD_SET(fd[0], &in);
	CHECK_EQ(select(fd[1] + 1, &in, &out, NULL, NULL), 2);
	CHECK(FD_ISSET(fd[1], &in) && FD_ISSET(fd[1], &out) && !FD_ISSET(fd[0], &in));
	recv_all(fd[1], buf, 4);
	CHECK_EQ(shutdown(fd[0], SHUT_WR), 0);
	p[0].events = POLLRDHUP;
	CHECK_EQ(poll(p, 1, -1), 1);
	p[0].events = all;
	CHECK_EQ(poll(p, 1, 0), 1);
	CHECK_EQ(p[0].revents, POLLIN | POLLOUT | POLLRDHUP);
	CHECK_EQ(close(fd[0]), 0);
	CHECK_EQ(close(fd[1]), 0);
	FD_ZERO(&in);
	FD_SET(fd[1], &in);
	CHECK_ERR(select(fd[1] + 1, &in, NULL, NULL, NULL), EBADF);
	CHECK_EQ(close(fresh), 0);
}

static void over_poll(void)
{
	struct pollfd p = {0, POLLIN, 0};

	((int (*)(struct pollfd *, nfds_t, int, size_t))(uintptr_t)libc_function(
	    "__poll_chk", true))(&p, 2, 0, sizeof(p));
}

static void over_ppoll(void)
{
	struct pollfd p = {0, POLLIN, 0};

	((int (*)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *, size_t))(
	    uintptr_t)libc_function("__ppoll_chk", true))(&p, 2, NULL, NULL, sizeof(p));
}

static void deadly(void)
{
	void (*const over[])(void) = {over_poll, over_ppoll};

	for (size_t i = 0; i < array_len(over); i++) {
		int err = dup(2), null = open("/dev/null", O_WRONLY), status;

		CHECK_EQ(dup2(null, 2), 2);
		status = forked_status(over[i]);
		CHECK_EQ(dup2(err, 2), 2);
		close(err);
		close(null);
		CHECK(WIFSIGNALED(status));
		CHECK_EQ(WTERMSIG(status), SIGABRT);
	}
}

static int ctl(int set, int op, int fd, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.u64 = (uint64_t)fd << 32 | 7};

	return epoll_ctl(set, op, fd, &ev);
}

static void epoll_sets(void)
{
	int set = epoll_create(1), fd[2];
	struct epoll_event ev[4];
	char buf[8];

	CHECK(set >= 0);
	CHECK_ERR(epoll_create(0), EINVAL);
	CHECK_ERR(epoll_create1(12345), EINVAL);
	pair_make(fd, AF_INET, SOCK_STREAM);
	CHECK_ERR(ctl(set, EPOLL_CTL_MOD, fd[1], EPOLLIN), ENOENT);
	CHECK_ERR(ctl(set, EPOLL_CTL_DEL, fd[1], 0), ENOENT);
	CHECK_ERR(ctl(set, EPOLL_CTL_ADD, set, EPOLLIN), EINVAL);
	CHECK_ERR(ctl(set, 77, fd[1], EPOLLIN), EINVAL);
	CHECK_ERR(ctl(set, EPOLL_CTL_ADD, 999, EPOLLIN), EBADF);
	CHECK_EQ(send(fd[0], "early", 5, 0), 5);
	CHECK_CALM(ctl(set, EPOLL_CTL_ADD, fd[1], EPOLLIN), 0); /* after the data came */
	CHECK_ERR(ctl(set, EPOLL_CTL_ADD, fd[1], EPOLLIN), EEXIST);
	CHECK_EQ(epoll_wait(set, ev, 4, -1), 1);
	CHECK_EQ(ev[0].events, EPOLLIN);
	CHECK_EQ((long)(ev[0].data.u64 >> 32), fd[1]);
	CHECK_EQ((long)(ev[0].data.u64 & 0xffffffff), 7);
	recv_all(fd[1], buf, 5);
	CHECK_EQ(epoll_wait(set, ev, 4, 0), 0);
	CHECK_CALM(ctl(set, EPOLL_CTL_MOD, fd[1], EPOLLOUT), 0);
	CHECK_EQ(epoll_wait(set, ev, 4, 0), 1);
	CHECK_EQ(ev[0].events, EPOLLOUT);
	CHECK_EQ(send(fd[0], "x", 1, 0), 1);
	recv_all(fd[1], buf, 1);

	/* Edge: once per arrival, however much is read. */
	CHECK_CALM(ctl(set, EPOLL_CTL_MOD, fd[1], EPOLLIN | EPOLLET), 0);
	for (int i = 0; i < 30; i++) {
		CHECK_EQ(send(fd[0], "edge", 4, 0), 4);
		CHECK_EQ(epoll_wait(set, ev, 4, 30000), 1);
		CHECK_EQ(ev[0].events, EPOLLIN);
		CHECK_EQ(epoll_wait(set, ev, 4, 0), 0);
		recv_all(fd[1], buf, i & 1 ? 4 : 2);
		CHECK_EQ(epoll_wait(set, ev, 4, 0), 0);
		if (!(i & 1))
			recv_all(fd[1], buf, 2);
	}

	/* Oneshot: off until it is armed again. */
	CHECK_CALM(ctl(set, EPOLL_CTL_MOD, fd[1], EPOLLIN | EPOLLONESHOT), 0);
	CHECK_EQ(send(fd[0], "once", 4, 0), 4);
	CHECK_EQ(epoll_wait(set, ev, 4, 30000), 1);
	CHECK_EQ(epoll_wait(set, ev, 4, 0), 0);
	CHECK_CALM(ctl(set, EPOLL_CTL_MOD, fd[1], EPOLLIN | EPOLLONESHOT), 0);
	CHECK_EQ(epoll_wait(set, ev, 4, 0), 1);
	recv_all(fd[1], buf, 4);

	CHECK_CALM(ctl(set, EPOLL_CTL_DEL, fd[1], 0), 0);
	CHECK_EQ(send(fd[0], "gone", 4, 0), 4);
	CHECK_EQ(epoll_wait(set, ev, 4, 0), 0);
	/* Closed: it leaves the set by itself. */
	CHECK_CALM(ctl(set, EPOLL_CTL_ADD, fd[1], EPOLLIN), 0);
	CHECK_EQ(close(fd[1]), 0);
	CHECK_EQ(epoll_wait(set, ev, 4, 0), 0);
	CHECK_EQ(close(fd[0]), 0);
	CHECK_EQ(close(set), 0);
	CHECK_ERR(epoll_wait(set, ev, 4, 0), EBADF);
}

/* One socket in two sets, a set in a set, a set that is polled, other descriptors in the set. */
static void epoll_mixed(void)
{
	int one = epoll_create1(0), two = epoll_create1(0), outer = epoll_create1(0);
	int fd[2], event = eventfd(0, 0);
	struct epoll_event ev[4];
	struct pollfd p = {one, POLLIN, 0};
	char buf[8];
	uint64_t count = 1;

	pair_make(fd, AF_INET, SOCK_STREAM);
	CHECK_EQ(ctl(one, EPOLL_CTL_ADD, fd[1], EPOLLIN), 0);
	CHECK_EQ(ctl(two, EPOLL_CTL_ADD, fd[1], EPOLLIN), 0);
	CHECK_EQ(ctl(outer, EPOLL_CTL_ADD, one, EPOLLIN), 0);
	CHECK_EQ(ctl(two, EPOLL_CTL_ADD, event, EPOLLIN), 0);
	for (int i = 0; i < 20; i++) {
		CHECK_EQ(epoll_wait(outer, ev, 4, 0), 0);
		CHECK_EQ(poll(&p, 1, 0), 0);
		CHECK_EQ(send(fd[0], "both", 4, 0), 4);
		CHECK_EQ(epoll_wait(one, ev, 4, 30000), 1);
		CHECK_EQ(epoll_wait(two, ev, 4, 30000), 1);
		CHECK_EQ(epoll_wait(outer, ev, 4, 30000), 1);
		CHECK_EQ((long)(ev[0].data.u64 >> 32), one);
		CHECK_EQ(poll(&p, 1, 30000), 1);
		CHECK_EQ(write(event, &count, sizeof(count)), sizeof(count));
		CHECK_EQ(epoll_wait(two, ev, 4, 30000), 2);
		CHECK_EQ(read(event, &count, sizeof(count)), sizeof(count));
		count = 1;
		recv_all(fd[1], buf, 4);
	}
	pair_close(fd);
	CHECK_EQ(close(event), 0);
	CHECK_EQ(close(one), 0);
	CHECK_EQ(close(two), 0);
	CHECK_EQ(close(outer), 0);
}

struct late {
	int set;
	int fd[2];
};

static void *add_late(void *arg)
{
	struct late *late = arg;

	CHECK_EQ(ctl(late->set, EPOLL_CTL_ADD, late->fd[1], EPOLLIN), 0);
	CHECK_EQ(send(late->fd[0], "late", 4, 0), 4);
	return NULL;
}

/* A descriptor that another thread adds while this one waits. */
static void epoll_added_meanwhile(void)
{
	struct late late = {.set = epoll_create1(0)};
	struct epoll_event ev;
	pthread_t thread;

	pair_make(late.fd, AF_INET, SOCK_STREAM);
	CHECK_EQ(pthread_create(&thread, NULL, add_late, &late), 0);
	CHECK_EQ(epoll_wait(late.set, &ev, 1, 30000), 1);
	CHECK_EQ((long)(ev.data.u64 >> 32), late.fd[1]);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	pair_close(late.fd);
	CHECK_EQ(close(late.set), 0);
}

static volatile sig_atomic_t handled;

static void on_signal(int sig)
{
	(void)sig;
	handled++;
}

/* A signal that waits behind the mask comes in with the wait's own mask, and the wait ends with
 * EINTR. */
static void masks_on(int fd)
{
	struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	sigset_t none, blocked;
	struct epoll_event ev;
	fd_set in;

	CHECK_EQ(sigaction(SIGUSR1, &act, NULL), 0);
	sigemptyset(&none);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR1);
	CHECK_EQ(sigprocmask(SIG_BLOCK, &blocked, NULL), 0);
	set_make(fd);
	for (int i = 0; i < 12; i++) {
		struct pollfd p = {fd, POLLIN, 0};
		struct timespec ts = {20, 0};

		handled = 0;
		CHECK_EQ(raise(SIGUSR1), 0);
		FD_ZERO(&in);
		FD_SET(fd, &in);
		switch (i % 4) {
		case 0:
			CHECK_ERR(ppoll(&p, 1, &ts, &none), EINTR);
			break;
		case 1:
			CHECK_ERR(pselect(fd + 1, &in, NULL, NULL, &ts, &none), EINTR);
			break;
		case 2:
			CHECK_ERR(epoll_pwait(epoll_set, &ev, 1, 20000, &none), EINTR);
			break;
		default:
			CHECK_ERR(epoll_pwait2(epoll_set, &ev, 1, &ts, &none), EINTR);
		}
		CHECK_EQ(handled, 1);
		CHECK_CALM(by_ppoll(fd, 0), 0); /* and the old mask is back */
	}
	CHECK_EQ(sigprocmask(SIG_UNBLOCK, &blocked, NULL), 0);
	CHECK_EQ(close(epoll_set), 0);
}

static void mask_peer(int fd)
{
	char buf[4];

	for (int i = 0; i < 20; i++) {
		recv_all(fd, buf, 4);
		CHECK_EQ(send(fd, buf, 4, 0), 4);
	}
	CHECK_EQ(recv(fd, buf, 1, 0), 0);
}

static void masks(void)
{
	struct peer peer = peer_make(AF_INET, SOCK_STREAM, mask_peer);
	char buf[4];
	int fd[2];

	for (int i = 0; i < 20; i++) {
		CHECK_EQ(send(peer.fd, "echo", 4, 0), 4);
		CHECK_EQ(by_poll(peer.fd, -1), 1);
		recv_all(peer.fd, buf, 4);
	}
	masks_on(peer.fd);
	peer_wait(&peer);
	pair_make(fd, AF_INET, SOCK_STREAM);
	masks_on(fd[1]);
	pair_close(fd);
}

static const struct test_case cases[] = {
    {"ready-one-process",
	"poll __poll __poll_chk ppoll __ppoll_chk select __select pselect epoll_create1 epoll_ctl "
	"epoll_wait epoll_pwait epoll_pwait2",
	ready_one_process},
    {"ready-two-processes", "poll select epoll_wait", ready_two_processes},
    {"timeouts", "poll ppoll select pselect epoll_wait", timeouts},
    {"states", "poll select", states},
    {"deadly", "__poll_chk __ppoll_chk", deadly},
    {"epoll-sets", "epoll_create epoll_create1 epoll_ctl epoll_wait", epoll_sets},
    {"epoll-mixed", "epoll_create1 epoll_ctl epoll_wait", epoll_mixed},
    {"epoll-added-meanwhile", "epoll_ctl epoll_wait", epoll_added_meanwhile},
    {"masks", "ppoll pselect epoll_pwait epoll_pwait2", masks},
};

TESTS_MAIN(cases)
