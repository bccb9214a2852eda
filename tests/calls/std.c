/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The C library uses a socket by itself: stdio, dprintf, asynchronous I/O. What the program sent
 * and received by calls before, between and after keeps its order.
 */
#include "check.h"

#include <aio.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <time.h>

static void warm(const int fd[2])
{
	char buf[4];

	for (int i = 0; i < 10; i++) {
		CHECK_EQ(send(fd[0], "mesg", 4, 0), 4);
		recv_all(fd[1], buf, 4);
		CHECK_EQ(send(fd[1], "back", 4, 0), 4);
		recv_all(fd[0], buf, 4);
	}
}

static void heard(int fd, const char *want)
{
	char buf[128];
	size_t len = strlen(want);

	CHECK(len < sizeof(buf));
	recv_all(fd, buf, len);
	CHECK_EQ(memcmp(buf, want, len), 0);
}

static void streams(void)
{
	__typeof__(&fdopen) opens[] = {(__typeof__(&fdopen))fdopen, LIBC("_IO_fdopen", fdopen)};
	__typeof__(&fclose) closes[] = {(__typeof__(&fclose))fclose, LIBC("_IO_fclose", fclose)};

	for (size_t i = 0; i < array_len(opens); i++) {
		char line[64];
		FILE *in, *out;
		int fd[2];

		pair_make(fd, AF_INET, SOCK_STREAM);
		warm(fd);
		CHECK_EQ(send(fd[0], "plain\n", 6, 0), 6);
		CHECK_EQ(
		    recv(fd[1], line, 6, MSG_PEEK), 6); /* read what is there before stdio comes */
		recv_all(fd[1], line, 6);
		out = opens[i](fd[0], "w");
		in = opens[i](fd[1], "r");
		CHECK(out && in);
		CHECK_EQ(fileno(out), fd[0]);
		for (int k = 0; k < 20; k++) {
			CHECK_EQ(fprintf(out, "line %d\n", k), k < 10 ? 7 : 8);
			CHECK_EQ(fflush(out), 0);
			CHECK(fgets(line, sizeof(line), in) == line);
			CHECK_EQ(atoi(line + 5), k);
		}
		/* Calls on the same descriptor again. */
		CHECK_EQ(send(fd[0], "by send\n", 8, 0), 8);
		CHECK(fgets(line, sizeof(line), in) == line);
		CHECK_EQ(strcmp(line, "by send\n"), 0);
		CHECK_EQ(fputs("in the buffer\n", out) >= 0, 1);
		CHECK_EQ(closes[i](out), 0); /* writes it, then closes */
		CHECK(fgets(line, sizeof(line), in) == line);
		CHECK_EQ(strcmp(line, "in the buffer\n"), 0);
		CHECK(fgets(line, sizeof(line), in) == NULL);
		CHECK(feof(in));
		CHECK_EQ(closes[i](in), 0);
		CHECK_ERR(fcntl(fd[0], F_GETFD), EBADF);
		CHECK_ERR(fcntl(fd[1], F_GETFD), EBADF);
		/* The numbers are free for new sockets. */
		pair_make(fd, AF_INET, SOCK_STREAM);
		warm(fd);
		pair_close(fd);
	}
	errno = 0;
	CHECK(fdopen(-1, "r") == NULL);
	CHECK_EQ(errno, EBADF);
}

static void stdio_peer(int fd)
{
	FILE *f = fdopen(fd, "r+");
	char line[64];

	CHECK(f);
	while (fgets(line, sizeof(line), f)) {
		CHECK_EQ(fseek(f, 0, SEEK_CUR) == 0 || errno == ESPIPE, 1);
		CHECK(fputs(line, f) >= 0);
		CHECK_EQ(fflush(f), 0);
	}
	CHECK_EQ(dup(fd) >= 0, 1); /* for the close() that follows in the frame */
	CHECK_EQ(fclose(f), 0);
	exit(0);
}

/* One end talks by calls, the other by stdio. */
static void stdio_and_calls(void)
{
	struct peer peer = peer_make(AF_INET, SOCK_STREAM, stdio_peer);

	for (int i = 0; i < 50; i++) {
		char line[32];

		snprintf(line, sizeof(line), "question %d\n", i);
		send_all(peer.fd, line, strlen(line));
		heard(peer.fd, line);
	}
	CHECK_EQ(shutdown(peer.fd, SHUT_WR), 0);
	CHECK_EQ(recv(peer.fd, (char[1]){0}, 1, 0), 0);
	peer_wait(&peer);
}

static void reopened(void)
{
	__typeof__(&freopen) opens[] = {(__typeof__(&freopen))freopen, freopen64};

	for (size_t i = 0; i < array_len(opens); i++) {
		FILE *f;
		int fd[2], number;

		pair_make(fd, AF_INET, SOCK_STREAM);
		warm(fd);
		f = fdopen(fd[0], "w");
		CHECK(f);
		CHECK_EQ(fputs("goodbye\n", f) >= 0, 1);
		CHECK(opens[i]("/dev/null", "w", f) ==
		      f); /* flushes, closes, opens under the same number */
		number = fileno(f);
		heard(fd[1], "goodbye\n");
		CHECK_EQ(recv(fd[1], (char[1]){0}, 1, 0), 0);
		CHECK_EQ(number, fd[0]);
		CHECK_EQ(write(number, "nothing", 7), 7);
		CHECK_ERR(send(number, "x", 1, 0), ENOTSOCK);
		CHECK_EQ(fclose(f), 0);
		CHECK_EQ(close(fd[1]), 0);
	}
}

__attribute__((format(printf, 2, 3))) static int vprint(int fd, const char *format, ...)
{
	va_list ap;
	int ret;

	va_start(ap, format);
	ret = vdprintf(fd, format, ap);
	va_end(ap);
	return ret;
}

static int vprint_chk(int fd, const char *format, ...)
{
	int (*fn)(int, int, const char *, va_list) = (int (*)(int, int, const char *, va_list))(
	    uintptr_t)libc_function("__vdprintf_chk", true);
	va_list ap;
	int ret;

	va_start(ap, format);
	ret = fn(fd, 1, format, ap);
	va_end(ap);
	return ret;
}

static void printed(void)
{
	int (*chk)(int, int, const char *, ...) =
	    (int (*)(int, int, const char *, ...))(uintptr_t)libc_function("__dprintf_chk", true);
	int fd[2];

	pair_make(fd, AF_INET, SOCK_STREAM);
	warm(fd);
	for (int i = 0; i < 10; i++) {
		CHECK_EQ(send(fd[0], "sent ", 5, 0), 5);
		CHECK_EQ(dprintf(fd[0], "one %d ", i), 6);
		CHECK_EQ(vprint(fd[0], "two %d %s ", i, "text"), 11);
		CHECK_EQ(send(fd[0], "sent ", 5, 0), 5);
		CHECK_EQ(chk(fd[0], 1, "three %d ", i), 8);
		CHECK_EQ(vprint_chk(fd[0], "four %d ", i), 7);
		char want[128];

		snprintf(want, sizeof(want), "sent one %d two %d text sent three %d four %d ", i, i,
		    i, i);
		heard(fd[1], want);
	}
	CHECK(dprintf(-1, "nobody") < 0);
	pair_close(fd);
}

static void wait_for(const struct aiocb *cb)
{
	const struct aiocb *list[] = {cb};

	while (aio_error(cb) == EINPROGRESS)
		CHECK_EQ(aio_suspend(list, 1, NULL) == 0 || errno == EINTR, 1);
	CHECK_EQ(aio_error(cb), 0);
}

static void asynchronous(void)
{
	char in[16], out[] = "asynchronous";
	struct aiocb read_cb = {.aio_buf = in, .aio_nbytes = sizeof(in)};
	struct aiocb write_cb = {.aio_buf = out, .aio_nbytes = 12};
	int fd[2];

	pair_make(fd, AF_INET, SOCK_STREAM);
	warm(fd);
	for (int i = 0; i < 6; i++) {
		struct aiocb *both[] = {&write_cb, NULL, &read_cb};

		write_cb.aio_fildes = fd[0];
		read_cb.aio_fildes = fd[1];
		write_cb.aio_lio_opcode = LIO_WRITE;
		read_cb.aio_lio_opcode = LIO_READ;
		memset(in, 0, sizeof(in));
		switch (i % 4) {
		case 0:
			CHECK_EQ(aio_write(&write_cb), 0);
			CHECK_EQ(aio_read(&read_cb), 0);
			break;
		case 1:
			CHECK_EQ(aio_write64((struct aiocb64 *)(void *)&write_cb), 0);
			CHECK_EQ(aio_read64((struct aiocb64 *)(void *)&read_cb), 0);
			break;
		case 2:
			CHECK_EQ(lio_listio(LIO_WAIT, both, 3, NULL), 0);
			break;
		default:
			CHECK_EQ(lio_listio64(LIO_NOWAIT,
				     (struct aiocb64 *const *)(const void *)both, 3, NULL),
			    0);
		}
		wait_for(&write_cb);
		wait_for(&read_cb);
		CHECK_EQ(aio_return(&write_cb), 12);
		CHECK_EQ(aio_return(&read_cb), 12);
		CHECK_EQ(memcmp(in, out, 12), 0);
		CHECK_EQ(send(fd[0], "sync", 4, 0), 4);
		heard(fd[1], "sync");
	}
	pair_close(fd);
}

static const struct test_case cases[] = {
    {"streams", "fdopen _IO_fdopen fclose _IO_fclose", streams},
    {"stdio-and-calls", "fdopen fclose", stdio_and_calls},
    {"reopened", "freopen freopen64", reopened},
    {"printed", "dprintf vdprintf __dprintf_chk __vdprintf_chk", printed},
    {"asynchronous", "aio_read aio_read64 aio_write aio_write64 lio_listio lio_listio64",
	asynchronous},
};

TESTS_MAIN(cases)
