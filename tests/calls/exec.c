/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Another program takes over a process that has connections: those without close-on-exec are its
 * own and every byte is there, whether it is accelerated (LD_PRELOAD in its environment) or plain;
 * the others are closed.
 */
#include "check.h"

#include <fcntl.h>

extern char **environ;

/* Answers each line that comes in by descriptor 7 and ends with the stream; what the program was
 * called goes first. */
#define SCRIPT "echo \"$1\" >&7; while read line <&7; do echo \"$line back\" >&7; done"
#define STR(text) ((char *)(uintptr_t)(text))

static char *const bare_env[] = {STR("PATH=/usr/bin:/bin"), STR("TAUT_TEST=1"), NULL};

static void by_execve(void)
{
	execve("/bin/sh",
	    (char *const[]){STR("sh"), STR("-c"), STR(SCRIPT), STR("x"), STR("execve"), NULL},
	    environ);
}

static void by_execve_bare(void)
{
	execve("/bin/sh",
	    (char *const[]){STR("sh"), STR("-c"), STR(SCRIPT), STR("x"), STR("bare"), NULL},
	    bare_env);
}

static void by_execv(void)
{
	execv("/bin/sh",
	    (char *const[]){STR("sh"), STR("-c"), STR(SCRIPT), STR("x"), STR("execv"), NULL});
}

static void by_execvp(void)
{
	execvp("sh",
	    (char *const[]){STR("sh"), STR("-c"), STR(SCRIPT), STR("x"), STR("execvp"), NULL});
}

static void by_execvpe(void)
{
	execvpe("sh",
	    (char *const[]){STR("sh"), STR("-c"), STR(SCRIPT), STR("x"), STR("execvpe"), NULL},
	    environ);
}

static void by_execl(void)
{
	execl("/bin/sh", "sh", "-c", SCRIPT, "x", "execl", (char *)NULL);
}

static void by_execlp(void)
{
	execlp("sh", "sh", "-c", SCRIPT, "x", "execlp", (char *)NULL);
}

static void by_execle(void)
{
	execle("/bin/sh", "sh", "-c", "test \"$TAUT_TEST\" = 1 && " SCRIPT, "x", "execle",
	    (char *)NULL, bare_env);
}

static void by_fexecve(void)
{
	int fd = open("/bin/sh", O_RDONLY | O_CLOEXEC);

	fexecve(fd,
	    (char *const[]){STR("sh"), STR("-c"), STR(SCRIPT), STR("x"), STR("fexecve"), NULL},
	    environ);
}

static void by_execveat(void)
{
	int (*fn)(int, const char *, char *const *, char *const *, int) =
	    (int (*)(int, const char *, char *const *, char *const *, int))(uintptr_t)libc_function(
		"execveat", false);
	char *const argv[] = {STR("sh"), STR("-c"), STR(SCRIPT), STR("x"), STR("execveat"), NULL};

	if (fn)
		fn(AT_FDCWD, "/bin/sh", argv, environ, 0);
	else
		execve("/bin/sh", argv, environ);
}

static const struct {
	const char *name;
	void (*run)(void);
} ways[] = {{"execve", by_execve}, {"bare", by_execve_bare}, {"execv", by_execv},
    {"execvp", by_execvp}, {"execvpe", by_execvpe}, {"execl", by_execl}, {"execlp", by_execlp},
    {"execle", by_execle}, {"fexecve", by_fexecve}, {"execveat", by_execveat}};

static void line_in(int fd, const char *want)
{
	char buf[64];
	size_t len = strlen(want);

	CHECK(len < sizeof(buf));
	recv_all(fd, buf, len);
	CHECK_EQ(memcmp(buf, want, len), 0);
}

static size_t way;
static int shut[2];

static void heir(int fd)
{
	char buf[5];

	CHECK_EQ(close(shut[1]), 0);
	for (int k = 0; k < 20; k++) {
		recv_all(fd, buf, 5);
		CHECK_EQ(send(fd, "pong!", 5, 0), 5);
	}
	CHECK_EQ(dup2(fd, 7), 7);
	if (fd != 7)
		CHECK_EQ(close(fd), 0);
	ways[way].run();
	_exit(99);
}

/* The connection was used before, in both directions; with `early`, bytes wait in it at the exec.
 */
static void inherit(bool early)
{
	for (way = 0; way < array_len(ways); way++) {
		struct peer peer;
		char line[64];

		pair_make(shut, AF_INET, SOCK_STREAM);
		CHECK_EQ(fcntl(shut[0], F_SETFD, FD_CLOEXEC), 0);
		peer = peer_make(AF_INET, SOCK_STREAM, heir);
		CHECK_EQ(close(shut[0]), 0);
		for (int k = 0; k < 20; k++) {
			CHECK_EQ(send(peer.fd, "ping!", 5, 0), 5);
			if (early && k == 19)
				CHECK_EQ(send(peer.fd, "early\n", 6, 0), 6);
			line_in(peer.fd, "pong!");
		}
		snprintf(line, sizeof(line), "%s\n", ways[way].name);
		line_in(peer.fd, line);
		if (early)
			line_in(peer.fd, "early back\n");
		for (int k = 0; k < 10; k++) {
			CHECK_EQ(send(peer.fd, "some line\n", 10, 0), 10);
			line_in(peer.fd, "some line back\n");
		}
		CHECK_EQ(recv(shut[1], line, 1, 0), 0); /* close-on-exec */
		CHECK_EQ(close(shut[1]), 0);
		CHECK_EQ(shutdown(peer.fd, SHUT_WR), 0);
		CHECK_EQ(recv(peer.fd, line, 1, 0), 0);
		peer_wait(&peer);
	}
}

static void heirs(void)
{
	inherit(false);
}

static void heir_udp(int fd)
{
	char buf[8];

	for (int k = 0; k < 20; k++) {
		CHECK_EQ(recv(fd, buf, sizeof(buf), 0), 5);
		CHECK_EQ(send(fd, "pong!", 5, 0), 5);
	}
	CHECK_EQ(dup2(fd, 0), 0);
	CHECK_EQ(dup2(fd, 1), 1);
	if (way)
		execlp("sh", "sh", "-c", "echo go; head -c 40", (char *)NULL);
	else
		execle("/bin/sh", "sh", "-c", "echo go; head -c 40", (char *)NULL, bare_env);
	_exit(99);
}

/* A datagram socket as standard input and output of the new program: what comes in goes out again.
 */
static void heirs_udp(void)
{
	for (way = 0; way < 2; way++) {
		struct peer peer = peer_make(AF_INET, SOCK_DGRAM, heir_udp);
		char buf[64]; /* the program may send all in one */

		for (int k = 0; k < 20; k++) {
			CHECK_EQ(send(peer.fd, "ping!", 5, 0), 5);
			line_in(peer.fd, "pong!");
		}
		line_in(peer.fd, "go\n");
		for (int k = 0; k < 5; k++)
			CHECK_EQ(send(peer.fd, "datagram", 8, 0), 8);
		for (int at = 0; at < 40;) {
			ssize_t n = recv(peer.fd, buf, sizeof(buf), 0);

			CHECK(n > 0);
			at += (int)n;
		}
		peer_wait(&peer);
	}
}

static void heirs_early(void)
{
	inherit(true);
}

/* An exec that fails returns, and everything works on. */
static void failures(void)
{
	char *const argv[] = {STR("none"), NULL};
	int fd[2];
	char buf[4];

	pair_make(fd, AF_INET, SOCK_STREAM);
	for (int i = 0; i < 20; i++) {
		CHECK_EQ(send(fd[0], "mesg", 4, 0), 4);
		recv_all(fd[1], buf, 4);
		switch (i % 9) {
		case 0:
			CHECK_ERR(execve("/nonexistent", argv, environ), ENOENT);
			break;
		case 1:
			CHECK_ERR(execv("/etc/passwd", argv), EACCES);
			break;
		case 2:
			CHECK_ERR(execvp("no-such-program-here", argv), ENOENT);
			break;
		case 3:
			CHECK_ERR(execvpe("no-such-program-here", argv, environ), ENOENT);
			break;
		case 4:
			CHECK_ERR(execl("/nonexistent", "none", (char *)NULL), ENOENT);
			break;
		case 5:
			CHECK_ERR(execlp("no-such-program-here", "none", (char *)NULL), ENOENT);
			break;
		case 6:
			CHECK_ERR(execle("/nonexistent", "none", (char *)NULL, environ), ENOENT);
			break;
		case 7:
			CHECK_ERR(fexecve(fd[0], argv, environ), EACCES);
			break;
		default:
			CHECK_ERR(execve("", argv, environ), ENOENT);
		}
	}
	pair_close(fd);
}

static const struct test_case cases[] = {
    {"heirs", "execve execv execvp execvpe execl execle execlp fexecve execveat", heirs},
    {"heirs-udp", "execlp execle", heirs_udp},
    {"heirs-early", "execve", heirs_early},
    {"failures", "execve execv execvp execvpe execl execlp execle fexecve", failures},
};

TESTS_MAIN(cases)
