/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * check.h - the small frame of the programs in tests/calls/.
 *
 * Each program holds cases; a case names the rows of src/preload/calls.def that it exercises ("read
 * __read"), and `PROGRAM --list` prints all of them for the coverage test. Without arguments a
 * program runs every case, with names only those. It knows nothing of the library: CTest runs
 * it on the kernel, under libtaut.so, and under libtaut.so with shared memory from the first byte,
 * and expects the same.
 *
 * A failed check prints file, line and values to stderr and ends the process with 1. Loopback only;
 * no fixed ports; whatever takes longer than ALARM_S is ended by SIGALRM.
 */
#ifndef TESTS_CALLS_CHECK_H
#define TESTS_CALLS_CHECK_H

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#define ALARM_S 60
#define array_len(a) (sizeof(a) / sizeof((a)[0]))

struct test_case {
	const char *name;
	const char *rows; /* of calls.def, separated by blanks */
	void (*run)(void);
};

int tests_main(int argc, char **argv, const struct test_case *cases, size_t n);

#define TESTS_MAIN(cases)                                                                          \
	int main(int argc, char **argv)                                                            \
	{                                                                                          \
		return tests_main(argc, argv, cases, array_len(cases));                            \
	}

_Noreturn void check_failed(const char *file, int line, const char *text, long got, long want);

#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond))                                                                       \
			check_failed(__FILE__, __LINE__, #cond, 0, 1);                             \
	} while (0)
#define CHECK_EQ(expr, want)                                                                       \
	do {                                                                                       \
		long got_ = (long)(expr);                                                          \
		long want_ = (long)(want);                                                         \
		if (got_ != want_)                                                                 \
			check_failed(__FILE__, __LINE__, #expr, got_, want_);                      \
	} while (0)
/* The call fails with this errno. */
#define CHECK_ERR(expr, error)                                                                     \
	do {                                                                                       \
		errno = 0;                                                                         \
		CHECK_EQ(expr, -1);                                                                \
		if (errno != (error))                                                              \
			check_failed(__FILE__, __LINE__, "errno of " #expr, errno, error);         \
	} while (0)
/* The call succeeds with this result and leaves errno as it was. */
#define CHECK_CALM(expr, want)                                                                     \
	do {                                                                                       \
		errno = 4095;                                                                      \
		CHECK_EQ(expr, want);                                                              \
		if (errno != 4095)                                                                 \
			check_failed(__FILE__, __LINE__, "errno after " #expr, errno, 4095);       \
	} while (0)

/* A function of the C library by name, for aliases that no header declares. Checked to be there
 * unless it may be missing. */
void *libc_function(const char *name, bool must);
#define LIBC(name, like) ((__typeof__(&like))(uintptr_t)libc_function(name, true))

/* Two connected sockets of this process; type SOCK_STREAM or SOCK_DGRAM, with its flags; domain
 * AF_INET or AF_INET6. */
void pair_make(int fd[2], int domain, int type);
/* Moves both ends to descriptors from 10 on: a shell names those below, and a test may be started with some of them open. */
void pair_raise(int fd[2]);
void pair_close(const int fd[2]);
/* A listening TCP socket on loopback and its address. */
int listener_make(int domain, struct sockaddr_storage *addr, socklen_t *len);

/*
 * The same with the other end in a forked process, which makes its own socket after the fork: it
 * runs peer(fd) and must return 0. peer_wait() closes fd, and checks that the peer ended well.
 */
struct peer {
	int fd;
	pid_t pid;
};
struct peer peer_make(int domain, int type, void (*run)(int fd));
void peer_wait(struct peer *peer);
/* Runs fn in a forked process and returns its wait status. */
int forked_status(void (*fn)(void));

/* Deterministic bytes: byte i of stream `seed`. */
void pattern_fill(void *buf, size_t len, size_t at, unsigned int seed);
void pattern_check(const void *buf, size_t len, size_t at, unsigned int seed);
void send_all(int fd, const void *buf, size_t len);
void recv_all(int fd, void *buf, size_t len);

#endif
