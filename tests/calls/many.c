/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several messages at once, and bytes from and to other descriptors: recvmmsg, sendmmsg, sendfile,
 * splice.
 */
#include "check.h"

#include <sys/sendfile.h>
#include <sys/uio.h>
#include <time.h>

#define BATCH 16
#define LEN 200

struct batch {
	struct mmsghdr msgs[BATCH];
	struct iovec iovs[BATCH];
	unsigned char bytes[BATCH][LEN];
};

static void batch_make(struct batch *b, bool fill)
{
	memset(b, 0, sizeof(*b));
	for (unsigned int i = 0; i < BATCH; i++) {
		b->iovs[i] = (struct iovec){b->bytes[i], LEN};
		b->msgs[i].msg_hdr.msg_iov = &b->iovs[i];
		b->msgs[i].msg_hdr.msg_iovlen = 1;
		b->msgs[i].msg_len = 12345;
		if (fill)
			pattern_fill(b->bytes[i], LEN, 0, i);
	}
}

typedef int (*sendmmsg_fn)(int fd, struct mmsghdr *msgs, unsigned int n, int flags);

static sendmmsg_fn hidden_sendmmsg(void)
{
	sendmmsg_fn fn = (sendmmsg_fn)(uintptr_t)libc_function("__sendmmsg", false);

	return fn ? fn
		  : (sendmmsg_fn)sendmmsg; /* private in newer C libraries, and gone in others */
}

static void batch_out(int fd, sendmmsg_fn fn)
{
	struct batch b;

	batch_make(&b, true);
	CHECK_CALM(fn(fd, b.msgs, BATCH, 0), BATCH);
	for (unsigned int i = 0; i < BATCH; i++)
		CHECK_EQ(b.msgs[i].msg_len, LEN);
}

static void batch_in(int fd)
{
	struct batch b;
	unsigned int seen = 0;

	while (seen < BATCH) {
		int n;

		batch_make(&b, false);
		errno = 4095;
		n = recvmmsg(fd, b.msgs, BATCH, MSG_WAITFORONE, NULL);
		CHECK(n > 0);
		CHECK_EQ(errno, 4095);
		for (int i = 0; i < n; i++) {
			CHECK_EQ(b.msgs[i].msg_len, LEN);
			pattern_check(b.bytes[i], LEN, 0, seen + (unsigned int)i);
		}
		for (int i = n; i < BATCH; i++)
			CHECK_EQ(b.msgs[i].msg_len, 12345); /* untouched */
		seen += (unsigned int)n;
	}
	CHECK_EQ(seen, BATCH);
}

static void batches_same_process(void)
{
	int fd[2];

	pair_make(fd, AF_INET, SOCK_DGRAM);
	for (int i = 0; i < 20; i++) {
		batch_out(fd[0], (sendmmsg_fn)sendmmsg);
		batch_in(fd[1]);
		batch_out(fd[1], hidden_sendmmsg());
		batch_in(fd[0]);
	}
	pair_close(fd);
}

static void batch_peer(int fd)
{
	for (int i = 0; i < 20; i++) {
		batch_in(fd);
		batch_out(fd, (sendmmsg_fn)sendmmsg);
	}
}

static void batches_two_processes(void)
{
	struct peer peer = peer_make(AF_INET, SOCK_DGRAM, batch_peer);

	for (int i = 0; i < 20; i++) {
		batch_out(peer.fd, (sendmmsg_fn)sendmmsg);
		batch_in(peer.fd);
	}
	peer_wait(&peer);
}

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* Errors, fewer messages than asked for, and the timeout, which is looked at only after a message.
 */
static void recvmmsg_rules(void)
{
	struct batch b;
	struct timespec timeout = {0, 20 * 1000 * 1000};
	struct timespec bad = {0, 1000000000};
	double start;
	int fd[2];

	pair_make(fd, AF_INET, SOCK_DGRAM);
	batch_make(&b, false);
	CHECK_ERR(recvmmsg(-1, b.msgs, BATCH, 0, NULL), EBADF);
	CHECK_ERR(recvmmsg(fd[1], b.msgs, BATCH, MSG_DONTWAIT, NULL), EAGAIN);
	CHECK_ERR(recvmmsg(fd[1], b.msgs, BATCH, 0, &bad), EINVAL);
	bad = (struct timespec){-1, 0};
	CHECK_ERR(recvmmsg(fd[1], b.msgs, BATCH, 0, &bad), EINVAL);
	CHECK_CALM(recvmmsg(fd[1], b.msgs, 0, 0, NULL), 0);

	CHECK_EQ(send(fd[0], "one", 3, 0), 3);
	CHECK_EQ(send(fd[0], "three", 5, 0), 5);
	CHECK_CALM(recvmmsg(fd[1], b.msgs, BATCH, MSG_DONTWAIT, NULL), 2);
	CHECK_EQ(b.msgs[0].msg_len, 3);
	CHECK_EQ(b.msgs[1].msg_len, 5);
	CHECK_EQ(b.msgs[2].msg_len, 12345);

	/* Two of three come in time; the third ends the call only because it comes after. */
	for (int i = 0; i < 3; i++)
		CHECK_EQ(send(fd[0], "x", 1, 0), 1);
	CHECK_CALM(recvmmsg(fd[1], b.msgs, 3, 0, &timeout), 3);
	CHECK(timeout.tv_sec == 0 && timeout.tv_nsec > 0 && timeout.tv_nsec <= 20000000);
	timeout = (struct timespec){0, 0}; /* over at once, but after one message */
	CHECK_EQ(send(fd[0], "y", 1, 0), 1);
	CHECK_EQ(send(fd[0], "z", 1, 0), 1);
	start = now_s();
	CHECK_CALM(recvmmsg(fd[1], b.msgs, 2, 0, &timeout), 1);
	CHECK(now_s() - start < 10);
	CHECK_CALM(recvmmsg(fd[1], b.msgs, 2, MSG_WAITFORONE, NULL), 1);

	/* A stream gives what is there as one message; its end is a message of 0 that ends the
	 * call. */
	pair_close(fd);
	pair_make(fd, AF_INET, SOCK_STREAM);
	CHECK_EQ(send(fd[0], "abcdef", 6, 0), 6);
	CHECK_EQ(shutdown(fd[0], SHUT_WR), 0);
	CHECK_CALM(recvmmsg(fd[1], b.msgs, 4, 0, NULL), 4);
	CHECK_EQ(b.msgs[0].msg_len, 6);
	CHECK_EQ(b.msgs[1].msg_len, 0);
	pair_close(fd);
}

/* An error after the first message is kept for the next call. */
static void recvmmsg_late_error(void)
{
	struct sockaddr_in addr;
	socklen_t len = sizeof(addr);
	struct batch b;
	int value, fd[2];

	pair_make(fd, AF_INET, SOCK_DGRAM);
	batch_make(&b, false);
	CHECK_EQ(getsockname(fd[1], (struct sockaddr *)&addr, &len), 0);
	CHECK_EQ(send(fd[1], "last", 4, 0), 4);
	CHECK_EQ(close(fd[1]), 0);
	CHECK_EQ(send(fd[0], "refused", 7, 0), 7);
	/* recvmmsg() reports a pending error first; the message is still there. */
	CHECK_ERR(recvmmsg(fd[0], b.msgs, 2, MSG_DONTWAIT, NULL), ECONNREFUSED);
	CHECK_CALM(recvmmsg(fd[0], b.msgs, 2, MSG_DONTWAIT, NULL), 1);
	CHECK_EQ(b.msgs[0].msg_len, 4);
	len = sizeof(value);
	CHECK_EQ(getsockopt(fd[0], SOL_SOCKET, SO_ERROR, &value, &len), 0);
	CHECK_EQ(value, 0);
	CHECK_EQ(close(fd[0]), 0);
}

static void sendmmsg_rules(void)
{
	struct batch b;
	static char big[70000];
	int fd[2];

	pair_make(fd, AF_INET, SOCK_DGRAM);
	batch_make(&b, true);
	CHECK_CALM(sendmmsg(fd[0], b.msgs, 0, 0), 0);
	CHECK_ERR(sendmmsg(-1, b.msgs, 1, 0), EBADF);
	/* The third does not fit a datagram: two are sent, and the error shows only when it comes
	 * first. */
	b.iovs[2] = (struct iovec){big, sizeof(big)};
	CHECK_CALM(sendmmsg(fd[0], b.msgs, 4, 0), 2);
	CHECK_EQ(b.msgs[2].msg_len, 12345);
	CHECK_ERR(sendmmsg(fd[0], b.msgs + 2, 2, 0), EMSGSIZE);
	pair_close(fd);

	/* A full stream: a message cut short ends the call. */
	pair_make(fd, AF_INET, SOCK_STREAM | SOCK_NONBLOCK);
	for (;;) {
		int n;

		for (unsigned int i = 0; i < BATCH; i++)
			b.iovs[i] = (struct iovec){big, sizeof(big)};
		n = sendmmsg(fd[0], b.msgs, BATCH, 0);
		if (n < 0) {
			CHECK_EQ(errno, EAGAIN);
			break;
		}
		for (int i = 0; i + 1 < n; i++)
			CHECK_EQ(b.msgs[i].msg_len, sizeof(big));
		if (n < BATCH)
			CHECK(b.msgs[n - 1].msg_len <= sizeof(big));
	}
	pair_close(fd);
}

#define FILE_LEN 100000

static int file_make(void)
{
	char path[] = "/tmp/taut-calls-XXXXXX";
	unsigned char *bytes = malloc(FILE_LEN);
	int fd = mkstemp(path);

	CHECK(fd >= 0 && bytes);
	CHECK_EQ(unlink(path), 0);
	pattern_fill(bytes, FILE_LEN, 0, 3);
	CHECK_EQ(write(fd, bytes, FILE_LEN), FILE_LEN);
	free(bytes);
	return fd;
}

static void file_in(int fd, size_t at, size_t len)
{
	unsigned char *bytes = malloc(len);

	CHECK(bytes);
	recv_all(fd, bytes, len);
	pattern_check(bytes, len, at, 3);
	free(bytes);
}

static void file_peer(int fd)
{
	file_in(fd, 1000, FILE_LEN - 1000);
	file_in(fd, 0, FILE_LEN);
	CHECK_EQ(send(fd, "thanks", 6, 0), 6);
	CHECK_EQ(recv(fd, (char[1]){0}, 1, 0), 0);
}

static void sendfile_peer(void)
{
	struct peer peer = peer_make(AF_INET, SOCK_STREAM, file_peer);
	int file = file_make();
	off_t offset = 1000;
	char thanks[6];

	while (offset < FILE_LEN) {
		off_t before = offset;
		ssize_t n = sendfile(peer.fd, file, &offset, (size_t)(FILE_LEN - offset));

		CHECK(n > 0);
		CHECK_EQ(offset, before + n);
	}
	CHECK_EQ(lseek(file, 0, SEEK_CUR), FILE_LEN); /* an offset given leaves the file's alone */
	CHECK_EQ(lseek(file, 0, SEEK_SET), 0);
	for (ssize_t sent = 0; sent < FILE_LEN;) {
		ssize_t n = sendfile64(peer.fd, file, NULL, FILE_LEN);

		CHECK(n > 0);
		sent += n;
		CHECK_EQ(lseek(file, 0, SEEK_CUR), sent);
	}
	CHECK_CALM(sendfile(peer.fd, file, NULL, 10), 0); /* the end of the file */
	recv_all(peer.fd, thanks, sizeof(thanks));
	CHECK_ERR(sendfile(peer.fd, -1, NULL, 10), EBADF);
	CHECK_ERR(sendfile(-1, file, NULL, 10), EBADF);
	CHECK_ERR(sendfile(file, peer.fd, NULL, 10), EINVAL); /* from a socket: never */
	CHECK_EQ(close(file), 0);
	peer_wait(&peer);
}

/* Bytes sent before and after by other calls keep their order. */
static void sendfile_order(void)
{
	int fd[2], file = file_make();
	off_t offset = 50;
	char buf[4];

	pair_make(fd, AF_INET, SOCK_STREAM);
	for (int i = 0; i < 50; i++) {
		offset = 50;
		CHECK_EQ(send(fd[0], "head", 4, 0), 4);
		CHECK_EQ(sendfile(fd[0], file, &offset, 500), 500);
		CHECK_EQ(send(fd[0], "tail", 4, 0), 4);
		recv_all(fd[1], buf, 4);
		CHECK_EQ(memcmp(buf, "head", 4), 0);
		file_in(fd[1], 50, 500);
		recv_all(fd[1], buf, 4);
		CHECK_EQ(memcmp(buf, "tail", 4), 0);
	}
	pair_close(fd);
	CHECK_EQ(close(file), 0);
}

static void splice_echo(int fd)
{
	int pipes[2];

	CHECK_EQ(pipe(pipes), 0);
	for (size_t left = FILE_LEN; left;) {
		ssize_t n = splice(fd, NULL, pipes[1], NULL, left, SPLICE_F_MOVE);

		CHECK(n > 0);
		left -= (size_t)n;
		while (n > 0) {
			ssize_t out = splice(pipes[0], NULL, fd, NULL, (size_t)n, SPLICE_F_MORE);

			CHECK(out > 0);
			n -= out;
		}
	}
	close(pipes[0]);
	close(pipes[1]);
}

static void splice_peer(void)
{
	struct peer peer = peer_make(AF_INET, SOCK_STREAM, splice_echo);
	unsigned char bytes[1000];

	for (size_t at = 0; at < FILE_LEN; at += sizeof(bytes)) {
		pattern_fill(bytes, sizeof(bytes), at, 4);
		send_all(peer.fd, bytes, sizeof(bytes));
		if (at % (10 * sizeof(bytes)) == 0)
			continue;
		memset(bytes, 0, sizeof(bytes));
	}
	for (size_t at = 0; at < FILE_LEN; at += sizeof(bytes)) {
		recv_all(peer.fd, bytes, sizeof(bytes));
		pattern_check(bytes, sizeof(bytes), at, 4);
	}
	peer_wait(&peer);
}

static void splice_rules(void)
{
	int fd[2], pipes[2];
	off_t offset = 0;
	char buf[8];

	pair_make(fd, AF_INET, SOCK_STREAM);
	CHECK_EQ(pipe(pipes), 0);
	CHECK_ERR(splice(fd[0], NULL, fd[1], NULL, 8, 0), EINVAL); /* one must be a pipe */
	CHECK_ERR(splice(pipes[0], NULL, fd[0], &offset, 8, 0), EINVAL);
	CHECK_EQ(fcntl(fd[1], F_SETFL, O_NONBLOCK), 0);
	CHECK_ERR(splice(fd[1], NULL, pipes[1], NULL, 8, 0), EAGAIN);
	CHECK_EQ(fcntl(fd[1], F_SETFL, 0), 0);
	CHECK_ERR(splice(-1, NULL, pipes[1], NULL, 8, 0), EBADF);
	CHECK_CALM(splice(fd[0], NULL, pipes[1], NULL, 0, 0), 0);
	CHECK_EQ(send(fd[0], "spliced", 7, 0), 7);
	CHECK_CALM(splice(fd[1], NULL, pipes[1], NULL, 4, 0), 4);
	CHECK_EQ(read(pipes[0], buf, sizeof(buf)), 4);
	CHECK_EQ(memcmp(buf, "spli", 4), 0);
	CHECK_EQ(recv(fd[1], buf, sizeof(buf), 0), 3); /* the rest is still the socket's */
	CHECK_EQ(memcmp(buf, "ced", 3), 0);
	CHECK_EQ(shutdown(fd[0], SHUT_WR), 0);
	CHECK_CALM(splice(fd[1], NULL, pipes[1], NULL, 4, 0), 0);
	close(pipes[0]);
	close(pipes[1]);
	pair_close(fd);
}

static const struct test_case cases[] = {
    {"batches-same-process", "recvmmsg sendmmsg __sendmmsg", batches_same_process},
    {"batches-two-processes", "recvmmsg sendmmsg", batches_two_processes},
    {"recvmmsg-rules", "recvmmsg", recvmmsg_rules},
    {"recvmmsg-late-error", "recvmmsg", recvmmsg_late_error},
    {"sendmmsg-rules", "sendmmsg", sendmmsg_rules},
    {"sendfile-peer", "sendfile sendfile64", sendfile_peer},
    {"sendfile-order", "sendfile", sendfile_order},
    {"splice-peer", "splice", splice_peer},
    {"splice-rules", "splice", splice_rules},
};

TESTS_MAIN(cases)
