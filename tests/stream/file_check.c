/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * file_check - a server in the manner of nginx: for each request it corks the connection, sends a head by writev and a
 * piece of a file by sendfile, and takes the cork out. The client checks each byte, and that nothing has to wait for more.
 */
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define FILE_BYTES (1u << 20)
#define REQUESTS 400
#define KEY 0x5eedu

struct ask {
	uint64_t at, n;
};

static void cork(int fd, int on)
{
	int back = -1;
	socklen_t len = sizeof(back);

	if (setsockopt(fd, IPPROTO_TCP, TCP_CORK, &on, sizeof(on)) < 0)
		tt_fail("TCP_CORK: %s", strerror(errno));
	if (getsockopt(fd, IPPROTO_TCP, TCP_CORK, &back, &len) < 0 || len != sizeof(back) || back != on)
		tt_fail("TCP_CORK was set to %d and reads %d", on, back);
}

static int file_make(void)
{
	static unsigned char bytes[FILE_BYTES];
	int fd = memfd_create("file_check", 0);

	if (fd < 0)
		tt_env_fail("memfd_create: %s", strerror(errno));
	tt_stream_fill(KEY, 0, bytes, sizeof(bytes));
	if (write(fd, bytes, sizeof(bytes)) != (ssize_t)sizeof(bytes))
		tt_env_fail("memfd: %s", strerror(errno));
	return fd;
}

/* By an offset of its own, or by the file's. */
static void body_send(int fd, int file, const struct ask *ask)
{
	off_t at = (off_t)ask->at;
	size_t left = ask->n;
	bool own = ask->n % 2 == 0;

	if (!own && lseek(file, at, SEEK_SET) != at)
		tt_fail("lseek: %s", strerror(errno));
	while (left) {
		ssize_t n = sendfile(fd, file, own ? &at : NULL, left);

		if (n <= 0)
			tt_fail("sendfile: %zd %s", n, n < 0 ? strerror(errno) : "");
		left -= (size_t)n;
	}
	if (own ? at != (off_t)(ask->at + ask->n) : lseek(file, 0, SEEK_CUR) != (off_t)(ask->at + ask->n))
		tt_fail("the offset is wrong after %llu bytes", (unsigned long long)ask->n);
}

static void serve(int listener)
{
	int file = file_make();
	int fd = tt_accept_one(listener);
	struct ask ask;

	while (tt_io_get(fd, &ask, sizeof(ask))) {
		struct iovec head[2] = {{&ask.at, sizeof(ask.at)}, {&ask.n, sizeof(ask.n)}};

		cork(fd, 1);
		if (writev(fd, head, 2) != (ssize_t)sizeof(ask))
			tt_fail("writev: %s", strerror(errno));
		body_send(fd, file, &ask);
		cork(fd, 0);
	}
	exit(0);
}

static void request(int fd, struct tt_rng *rng)
{
	static unsigned char body[FILE_BYTES];
	struct ask ask = {.n = tt_rng_size(rng, 1, FILE_BYTES / 4)}, back;
	ssize_t wrong;

	ask.at = tt_rng_below(rng, FILE_BYTES - ask.n);
	if (!tt_io_put(fd, &ask, sizeof(ask)) || !tt_io_get(fd, &back, sizeof(back)) || !tt_io_get(fd, body, ask.n))
		tt_fail("the server has gone");
	if (memcmp(&ask, &back, sizeof(ask)))
		tt_fail("the head is another one");
	wrong = tt_stream_check(KEY, ask.at, body, ask.n);
	if (wrong >= 0)
		tt_fail("byte %zd of %llu is wrong", wrong, (unsigned long long)ask.n);
}

int main(int argc, char **argv)
{
	struct tt_rng rng = {1};
	uint16_t port;
	int listener = tt_listen_any(TT_FAMILY_4, 1, &port);
	int status;
	int fd;
	pid_t pid;

	tt_rerun_set(argc, argv, 1);
	pid = fork();
	if (pid < 0)
		tt_env_fail("fork: %s", strerror(errno));
	if (pid == 0)
		serve(listener);
	close(listener);
	fd = tt_connect_to(TT_FAMILY_4, port);
	for (int i = 0; i < REQUESTS; i++)
		request(fd, &rng);
	close(fd);
	if (waitpid(pid, &status, 0) != pid || status)
		tt_fail("the server ended with status %#x", (unsigned int)status);
	return 0;
}
