/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <arpa/inet.h>
#include <signal.h>
#include <sys/wait.h>

void check_failed(const char *file, int line, const char *text, long got, long want)
{
	fprintf(stderr, "%s:%d: %s: %ld, not %ld (errno %d, %s)\n", file, line, text, got, want,
	    errno, strerror(errno));
	fflush(NULL);
	_exit(1);
}

static bool named(char **names, const char *name)
{
	for (; *names; names++)
		if (strcmp(*names, name) == 0)
			return true;
	return false;
}

int tests_main(int argc, char **argv, const struct test_case *cases, size_t n)
{
	size_t ran = 0;

	if (argc == 2 && strcmp(argv[1], "--list") == 0) {
		for (size_t i = 0; i < n; i++)
			printf("%s\n", cases[i].rows);
		return 0;
	}
	for (size_t i = 0; i < n; i++) {
		if (argc > 1 && !named(argv + 1, cases[i].name))
			continue;
		printf("%s\n", cases[i].name);
		fflush(stdout);
		alarm(ALARM_S);
		cases[i].run();
		alarm(0);
		ran++;
	}
	if (ran)
		return 0;
	fprintf(stderr, "%s: no case is called %s\n", argv[0], argc > 1 ? argv[1] : "");
	return 2;
}

void *libc_function(const char *name, bool must)
{
	void *fn = dlsym(RTLD_DEFAULT, name);

	if (!fn && must)
		check_failed(__FILE__, __LINE__, name, 0, 1);
	return fn;
}

static socklen_t loopback(struct sockaddr_storage *addr, int domain)
{
	memset(addr, 0, sizeof(*addr));
	if (domain == AF_INET6) {
		struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)addr;

		in6->sin6_family = AF_INET6;
		in6->sin6_addr = in6addr_loopback;
		return sizeof(*in6);
	}
	((struct sockaddr_in *)addr)->sin_family = AF_INET;
	((struct sockaddr_in *)addr)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return sizeof(struct sockaddr_in);
}

static int bound_make(int domain, int type, struct sockaddr_storage *addr, socklen_t *len)
{
	int fd = socket(domain, type, 0);

	CHECK(fd >= 0);
	*len = loopback(addr, domain);
	CHECK_EQ(bind(fd, (struct sockaddr *)addr, *len), 0);
	CHECK_EQ(getsockname(fd, (struct sockaddr *)addr, len), 0);
	return fd;
}

int listener_make(int domain, struct sockaddr_storage *addr, socklen_t *len)
{
	int fd = bound_make(domain, SOCK_STREAM | SOCK_CLOEXEC, addr, len);

	CHECK_EQ(listen(fd, 8), 0);
	return fd;
}

static int kind(int type)
{
	return type & ~(SOCK_CLOEXEC | SOCK_NONBLOCK);
}

void pair_make(int fd[2], int domain, int type)
{
	struct sockaddr_storage addr, other;
	socklen_t len;

	if (kind(type) == SOCK_DGRAM) {
		fd[0] = bound_make(domain, type, &addr, &len);
		fd[1] = bound_make(domain, type, &other, &len);
		CHECK_EQ(connect(fd[0], (struct sockaddr *)&other, len), 0);
		CHECK_EQ(connect(fd[1], (struct sockaddr *)&addr, len), 0);
		return;
	}
	int listener = listener_make(domain, &addr, &len);

	fd[0] = socket(domain, kind(type), 0);
	CHECK(fd[0] >= 0);
	CHECK_EQ(connect(fd[0], (struct sockaddr *)&addr, len), 0);
	fd[1] = accept4(listener, NULL, NULL, type & (SOCK_CLOEXEC | SOCK_NONBLOCK));
	CHECK(fd[1] >= 0);
	if (type & SOCK_NONBLOCK)
		CHECK_EQ(fcntl(fd[0], F_SETFL, O_NONBLOCK), 0);
	CHECK_EQ(close(listener), 0);
}

void pair_close(const int fd[2])
{
	CHECK_EQ(close(fd[0]), 0);
	CHECK_EQ(close(fd[1]), 0);
}

static _Noreturn void peer_run(int domain, int type, const struct sockaddr_storage *addr,
    socklen_t len, int tell, void (*run)(int fd))
{
	struct sockaddr_storage own;
	int fd;

	alarm(ALARM_S);
	if (kind(type) == SOCK_DGRAM)
		fd = bound_make(domain, type, &own, &len);
	else
		fd = socket(domain, type, 0);
	CHECK(fd >= 0);
	CHECK_EQ(connect(fd, (const struct sockaddr *)addr, len), 0);
	if (kind(type) == SOCK_DGRAM)
		CHECK_EQ(write(tell, &own, sizeof(own)), sizeof(own));
	close(tell);
	run(fd);
	CHECK_EQ(close(fd), 0);
	exit(0);
}

struct peer peer_make(int domain, int type, void (*run)(int fd))
{
	struct sockaddr_storage addr, other;
	struct peer peer;
	socklen_t len;
	int tell[2];
	int fd = kind(type) == SOCK_DGRAM ? bound_make(domain, type, &addr, &len)
					  : listener_make(domain, &addr, &len);

	CHECK_EQ(pipe(tell), 0);
	fflush(NULL);
	peer.pid = fork();
	CHECK(peer.pid >= 0);
	if (peer.pid == 0) {
		close(fd);
		close(tell[0]);
		peer_run(domain, type, &addr, len, tell[1], run);
	}
	close(tell[1]);
	if (kind(type) == SOCK_DGRAM) {
		CHECK_EQ(read(tell[0], &other, sizeof(other)), sizeof(other));
		CHECK_EQ(connect(fd, (struct sockaddr *)&other, len), 0);
		peer.fd = fd;
	} else {
		peer.fd = accept4(fd, NULL, NULL, type & SOCK_NONBLOCK);
		CHECK(peer.fd >= 0);
		close(fd);
	}
	close(tell[0]);
	return peer;
}

void peer_wait(struct peer *peer)
{
	int status;

	CHECK_EQ(close(peer->fd), 0);
	CHECK_EQ(waitpid(peer->pid, &status, 0), peer->pid);
	CHECK_EQ(status, 0);
}

int forked_status(void (*fn)(void))
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		alarm(ALARM_S);
		fn();
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	return status;
}

static unsigned char pattern_byte(size_t i, unsigned int seed)
{
	return (unsigned char)((i * 31 + (i >> 8) * 7 + seed * 131) & 0xff);
}

void pattern_fill(void *buf, size_t len, size_t at, unsigned int seed)
{
	for (size_t i = 0; i < len; i++)
		((unsigned char *)buf)[i] = pattern_byte(at + i, seed);
}

void pair_raise(int fd[2])
{
	for (int i = 0; i < 2; i++) {
		int high = fcntl(fd[i], F_DUPFD, 10);

		CHECK(high >= 10);
		CHECK_EQ(close(fd[i]), 0);
		fd[i] = high;
	}
}

void pattern_check(const void *buf, size_t len, size_t at, unsigned int seed)
{
	for (size_t i = 0; i < len; i++)
		CHECK_EQ(((const unsigned char *)buf)[i], pattern_byte(at + i, seed));
}

void send_all(int fd, const void *buf, size_t len)
{
	for (size_t at = 0; at < len;) {
		ssize_t ret = send(fd, (const char *)buf + at, len - at, 0);

		CHECK(ret > 0);
		at += (size_t)ret;
	}
}

void recv_all(int fd, void *buf, size_t len)
{
	for (size_t at = 0; at < len;) {
		ssize_t ret = recv(fd, (char *)buf + at, len - at, 0);

		CHECK(ret > 0);
		at += (size_t)ret;
	}
}
