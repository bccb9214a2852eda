/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every form of sending against every form of receiving, TCP and UDP, both ends in this process and
 * the other end in a forked one; then what the forms differ in: lengths of zero, bad vectors,
 * offsets, flags, errors.
 */
#include "check.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/uio.h>
#include <sys/wait.h>

typedef ssize_t (*recv_form)(int fd, void *buf, size_t len);
typedef ssize_t (*send_form)(int fd, const void *buf, size_t len);

static ssize_t by_read(int fd, void *buf, size_t len)
{
	return read(fd, buf, len);
}

static ssize_t by__read(int fd, void *buf, size_t len)
{
	return LIBC("__read", read)(fd, buf, len);
}

static ssize_t by_read_chk(int fd, void *buf, size_t len)
{
	ssize_t (*fn)(int, void *, size_t, size_t) =
	    (ssize_t(*)(int, void *, size_t, size_t))(uintptr_t)libc_function("__read_chk", true);

	return fn(fd, buf, len, len);
}

/* Two entries with an empty one between. */
static int halves(struct iovec iov[3], const void *buf, size_t len)
{
	char *bytes = (char *)(uintptr_t)buf;

	iov[0] = (struct iovec){bytes, len / 2};
	iov[1] = (struct iovec){NULL, 0};
	iov[2] = (struct iovec){bytes + len / 2, len - len / 2};
	return 3;
}

static ssize_t by_readv(int fd, void *buf, size_t len)
{
	struct iovec iov[3];

	return readv(fd, iov, halves(iov, buf, len));
}

static ssize_t by_preadv2(int fd, void *buf, size_t len)
{
	struct iovec iov[3];

	return preadv2(fd, iov, halves(iov, buf, len), -1, 0);
}

static ssize_t by_preadv64v2(int fd, void *buf, size_t len)
{
	struct iovec iov[3];

	return preadv64v2(fd, iov, halves(iov, buf, len), -1, 0);
}

static ssize_t by_recv(int fd, void *buf, size_t len)
{
	return recv(fd, buf, len, 0);
}

static ssize_t by__recv(int fd, void *buf, size_t len)
{
	__typeof__(&recv) fn = (__typeof__(&recv))(uintptr_t)libc_function("__recv", false);

	return fn ? fn(fd, buf, len, 0) : recv(fd, buf, len, 0);
}

static ssize_t by_recv_chk(int fd, void *buf, size_t len)
{
	ssize_t (*fn)(int, void *, size_t, size_t, int) = (ssize_t(*)(
	    int, void *, size_t, size_t, int))(uintptr_t)libc_function("__recv_chk", true);

	return fn(fd, buf, len, len, 0);
}

typedef ssize_t (*recvfrom_chk)(int, void *, size_t, size_t, int, struct sockaddr *, socklen_t *);

static ssize_t by_recvfrom_chk(int fd, void *buf, size_t len)
{
	recvfrom_chk fn = (recvfrom_chk)(uintptr_t)libc_function("__recvfrom_chk", true);

	return fn(fd, buf, len, len, 0, NULL, NULL);
}

static ssize_t by_recvfrom(int fd, void *buf, size_t len)
{
	struct sockaddr_storage from, peer;
	socklen_t from_len = sizeof(from), peer_len = sizeof(peer);
	ssize_t ret = recvfrom(fd, buf, len, 0, (struct sockaddr *)&from, &from_len);
	int type;
	socklen_t type_len = sizeof(type);

	CHECK_EQ(getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_len), 0);
	if (ret < 0)
		return ret;
	if (type == SOCK_STREAM) { /* Linux gives no address for a connected stream */
		CHECK_EQ(from_len, 0);
		return ret;
	}
	CHECK_EQ(getpeername(fd, (struct sockaddr *)&peer, &peer_len), 0);
	CHECK_EQ(from_len, peer_len);
	CHECK_EQ(memcmp(&from, &peer, from_len), 0);
	return ret;
}

static ssize_t by_recvmsg(int fd, void *buf, size_t len)
{
	struct iovec iov[3];
	struct msghdr msg = {.msg_iov = iov, .msg_flags = 0x7fff};
	ssize_t ret;

	msg.msg_iovlen = (size_t)halves(iov, buf, len);
	ret = recvmsg(fd, &msg, 0);
	if (ret >= 0)
		CHECK_EQ(msg.msg_flags & ~MSG_CMSG_CLOEXEC, 0);
	return ret;
}

static ssize_t by_write(int fd, const void *buf, size_t len)
{
	return write(fd, buf, len);
}

static ssize_t by__write(int fd, const void *buf, size_t len)
{
	return LIBC("__write", write)(fd, buf, len);
}

static ssize_t by_writev(int fd, const void *buf, size_t len)
{
	struct iovec iov[3];

	return writev(fd, iov, halves(iov, buf, len));
}

static ssize_t by_pwritev2(int fd, const void *buf, size_t len)
{
	struct iovec iov[3];

	return pwritev2(fd, iov, halves(iov, buf, len), -1, 0);
}

static ssize_t by_pwritev64v2(int fd, const void *buf, size_t len)
{
	struct iovec iov[3];

	return pwritev64v2(fd, iov, halves(iov, buf, len), -1, 0);
}

static ssize_t by_send(int fd, const void *buf, size_t len)
{
	return send(fd, buf, len, MSG_NOSIGNAL);
}

static ssize_t by__send(int fd, const void *buf, size_t len)
{
	return LIBC("__send", send)(fd, buf, len, 0);
}

static ssize_t by_sendto(int fd, const void *buf, size_t len)
{
	struct sockaddr_storage peer;
	socklen_t peer_len = sizeof(peer);

	CHECK_EQ(getpeername(fd, (struct sockaddr *)&peer, &peer_len), 0);
	return sendto(fd, buf, len, 0, (struct sockaddr *)&peer, peer_len);
}

static ssize_t by_sendmsg(int fd, const void *buf, size_t len)
{
	struct iovec iov[3];
	struct msghdr msg = {.msg_iov = iov};

	msg.msg_iovlen = (size_t)halves(iov, buf, len);
	return sendmsg(fd, &msg, 0);
}

static const recv_form recv_forms[] = {by_read, by__read, by_read_chk, by_readv, by_preadv2,
    by_preadv64v2, by_recv, by__recv, by_recv_chk, by_recvfrom_chk, by_recvfrom, by_recvmsg};
static const send_form send_forms[] = {by_write, by__write, by_writev, by_pwritev2, by_pwritev64v2,
    by_send, by__send, by_sendto, by_sendmsg};

#define ROUNDS 8
#define LEN 333

/* One message by form i of each kind; a stream may give it in pieces. */
static void message_out(int fd, unsigned int i)
{
	unsigned char buf[LEN];

	pattern_fill(buf, sizeof(buf), 0, i);
	CHECK_CALM(send_forms[i % array_len(send_forms)](fd, buf, sizeof(buf)), sizeof(buf));
}

static void message_in(int fd, unsigned int i, bool stream)
{
	unsigned char buf[LEN];
	recv_form form = recv_forms[i % array_len(recv_forms)];
	size_t at = 0;

	do {
		ssize_t ret;

		errno = 4095;
		ret = form(fd, buf + at, sizeof(buf) - at);
		CHECK(ret > 0);
		CHECK_EQ(errno, 4095);
		at += (size_t)ret;
	} while (stream && at < sizeof(buf));
	CHECK_EQ(at, sizeof(buf));
	pattern_check(buf, sizeof(buf), 0, i);
}

static const unsigned int messages =
    ROUNDS * (unsigned int)(array_len(recv_forms) * array_len(send_forms));

static void same_process(int domain, int type)
{
	int fd[2];

	pair_make(fd, domain, type);
	for (unsigned int i = 0; i < messages; i++) {
		message_out(fd[0], i);
		message_in(fd[1], i, type == SOCK_STREAM);
		message_out(fd[1], i + 1);
		message_in(fd[0], i + 1, type == SOCK_STREAM);
	}
	pair_close(fd);
}

static bool peer_stream;

static void mirror(int fd)
{
	for (unsigned int i = 0; i < messages; i++) {
		message_in(fd, i, peer_stream);
		message_out(fd, i + 1);
	}
}

static void two_processes(int domain, int type)
{
	struct peer peer;

	peer_stream = type == SOCK_STREAM;
	peer = peer_make(domain, type, mirror);
	for (unsigned int i = 0; i < messages; i++) {
		message_out(peer.fd, i);
		message_in(peer.fd, i + 1, peer_stream);
	}
	peer_wait(&peer);
}

static void forms_one_process(void)
{
	same_process(AF_INET, SOCK_STREAM);
	same_process(AF_INET, SOCK_DGRAM);
	same_process(AF_INET6, SOCK_STREAM);
	same_process(AF_INET6, SOCK_DGRAM);
}

static void forms_two_processes(void)
{
	two_processes(AF_INET, SOCK_STREAM);
	two_processes(AF_INET, SOCK_DGRAM);
	two_processes(AF_INET6, SOCK_STREAM);
	two_processes(AF_INET6, SOCK_DGRAM);
}

/* read() of nothing takes nothing, not even an empty datagram; recv() of nothing takes the
 * datagram. */
static void lengths_of_zero(void)
{
	int fd[2];
	char byte = 'x';
	struct iovec none = {&byte, 0};

	pair_make(fd, AF_INET, SOCK_DGRAM);
	CHECK_CALM(write(fd[0], &byte, 0), 0); /* an empty datagram */
	CHECK_CALM(write(fd[0], &byte, 1), 1);
	CHECK_CALM(read(fd[1], &byte, 0), 0);
	CHECK_CALM(readv(fd[1], &none, 1), 0);
	CHECK_CALM(preadv2(fd[1], &none, 1, -1, 0), 0);
	CHECK_CALM(recv(fd[1], &byte, 1, 0), 0); /* the empty one */
	CHECK_CALM(recv(fd[1], &byte, 0, 0), 0); /* takes "x" */
	CHECK_ERR(recv(fd[1], &byte, 1, MSG_DONTWAIT), EAGAIN);
	CHECK_CALM(writev(fd[0], &none, 1), 0); /* no datagram at all */
	CHECK_CALM(pwritev2(fd[0], &none, 1, -1, 0), 0);
	CHECK_ERR(recv(fd[1], &byte, 1, MSG_DONTWAIT), EAGAIN);
	pair_close(fd);

	pair_make(fd, AF_INET, SOCK_STREAM);
	CHECK_CALM(write(fd[0], &byte, 0), 0);
	CHECK_CALM(read(fd[1], &byte, 0), 0);
	CHECK_ERR(recv(fd[1], &byte, 1, MSG_DONTWAIT), EAGAIN);
	pair_close(fd);
}

static void bad_vectors(void)
{
	static struct iovec many[IOV_MAX + 1];
	volatile int below_zero = -1; /* the compiler would warn */
	int fd[2];
	char buf[8] = "1234567";
	struct iovec good = {buf, sizeof(buf)};

	for (size_t i = 0; i < array_len(many); i++)
		many[i] = (struct iovec){buf, i < 8};
	pair_make(fd, AF_INET, SOCK_STREAM);
	CHECK_ERR(readv(fd[1], &good, below_zero), EINVAL);
	CHECK_ERR(writev(fd[0], &good, below_zero), EINVAL);
	CHECK_ERR(readv(fd[1], many, IOV_MAX + 1), EINVAL);
	CHECK_ERR(writev(fd[0], many, IOV_MAX + 1), EINVAL);
	CHECK_ERR(preadv2(fd[1], &good, 1, 5, 0), ESPIPE);
	CHECK_ERR(pwritev2(fd[0], &good, 1, 5, 0), ESPIPE);
	CHECK_ERR(readv(fd[1], (struct iovec[]){{buf, (size_t)SSIZE_MAX + 1}}, 1), EINVAL);
	CHECK_ERR(writev(fd[0], (struct iovec[]){{buf, (size_t)SSIZE_MAX + 1}}, 1), EINVAL);
	CHECK_CALM(writev(fd[0], many, IOV_MAX), 8);
	memset(buf, 0, sizeof(buf));
	CHECK_CALM(readv(fd[1], many, 8), 8);
	pair_close(fd);
}

static void flags(void)
{
	int fd[2];
	char buf[16];
	struct iovec iov = {buf, 4};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	pair_make(fd, AF_INET, SOCK_DGRAM);
	CHECK_ERR(recv(fd[1], buf, sizeof(buf), MSG_DONTWAIT), EAGAIN);
	CHECK_CALM(send(fd[0], "datagram", 8, 0), 8);
	CHECK_CALM(recv(fd[1], buf, 4, MSG_PEEK), 4);
	CHECK_CALM(recv(fd[1], buf, 4, MSG_PEEK | MSG_TRUNC), 8);
	CHECK_CALM(recvmsg(fd[1], &msg, 0), 4);
	CHECK_EQ(msg.msg_flags & MSG_TRUNC, MSG_TRUNC);
	CHECK_EQ(memcmp(buf, "data", 4), 0);
	pair_close(fd);

	pair_make(fd, AF_INET, SOCK_STREAM);
	CHECK_CALM(send(fd[0], "abc", 3, 0), 3);
	CHECK_CALM(recv(fd[1], buf, 3, MSG_PEEK), 3);
	CHECK_CALM(send(fd[0], "defgh", 5, MSG_MORE), 5);
	CHECK_CALM(send(fd[0], "ij", 2, 0), 2);
	CHECK_CALM(recv(fd[1], buf, 10, MSG_WAITALL), 10);
	CHECK_EQ(memcmp(buf, "abcdefghij", 10), 0);
	CHECK_CALM(send(fd[0], "xy", 2, 0), 2);
	CHECK_CALM(shutdown(fd[0], SHUT_WR), 0);
	CHECK_CALM(recv(fd[1], buf, 10, MSG_WAITALL), 2); /* the end comes first */
	CHECK_CALM(recv(fd[1], buf, 10, MSG_PEEK), 0);
	CHECK_CALM(recv(fd[1], buf, 10, 0), 0);
	CHECK_CALM(read(fd[1], buf, 10), 0);
	pair_close(fd);
}

static void nowait(void)
{
	int fd[2];
	char buf[4];
	struct iovec iov = {buf, sizeof(buf)};
	ssize_t ret;

	pair_make(fd, AF_INET, SOCK_STREAM);
	/* Kernels before 6.5 know RWF_NOWAIT on files only. */
	errno = 0;
	ret = preadv2(fd[1], &iov, 1, -1, RWF_NOWAIT);
	CHECK_EQ(ret, -1);
	CHECK(errno == EAGAIN || errno == EOPNOTSUPP);
	if (errno == EAGAIN) {
		CHECK_EQ(pwritev2(fd[0], &iov, 1, -1, RWF_NOWAIT), 4);
		CHECK_EQ(recv(fd[1], buf, 4, MSG_WAITALL), 4);
	}
	CHECK_ERR(preadv2(fd[1], &iov, 1, -1, 0x4000), EOPNOTSUPP);
	pair_close(fd);
}

/* From an unconnected socket, with the sender's address; buffers that are too short for it. */
static void addresses(void)
{
	struct sockaddr_in a, b, from;
	socklen_t len = sizeof(a);
	char buf[8];
	int one = socket(AF_INET, SOCK_DGRAM, 0);
	int two = socket(AF_INET, SOCK_DGRAM, 0);

	memset(&a, 0, sizeof(a));
	a.sin_family = AF_INET;
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	b = a;
	CHECK_EQ(bind(one, (struct sockaddr *)&a, sizeof(a)), 0);
	CHECK_EQ(bind(two, (struct sockaddr *)&b, sizeof(b)), 0);
	CHECK_EQ(getsockname(one, (struct sockaddr *)&a, &len), 0);
	CHECK_EQ(getsockname(two, (struct sockaddr *)&b, &len), 0);
	for (int i = 0; i < 3; i++) {
		memset(&from, 0x55, sizeof(from));
		len = i ? sizeof(from) : 4;
		CHECK_CALM(sendto(one, "hello", 5, 0, (struct sockaddr *)&b, sizeof(b)), 5);
		CHECK_CALM(recvfrom(two, buf, sizeof(buf), 0, (struct sockaddr *)&from, &len), 5);
		CHECK_EQ(len, sizeof(from)); /* the whole length, also where it was cut */
		CHECK_EQ(memcmp(&from, &a, i ? sizeof(a) : 4), 0);
		if (!i)
			CHECK_EQ(from.sin_addr.s_addr, 0x55555555);
	}
	CHECK_ERR(send(one, "x", 1, 0), EDESTADDRREQ);
	CHECK_EQ(close(one), 0);
	CHECK_EQ(close(two), 0);
}

static void errors(void)
{
	int fd[2];
	char byte = 0;
	int file = open("/dev/null", O_RDWR);

	CHECK(file >= 0);
	CHECK_ERR(recv(-1, &byte, 1, 0), EBADF);
	CHECK_ERR(send(1 << 20, &byte, 1, 0), EBADF);
	CHECK_ERR(read(INT_MAX, &byte, 1), EBADF);
	CHECK_ERR(write(-5, &byte, 1), EBADF);
	CHECK_ERR(recv(file, &byte, 1, 0), ENOTSOCK);
	CHECK_ERR(send(file, &byte, 1, 0), ENOTSOCK);
	CHECK_CALM(read(file, &byte, 1), 0);
	CHECK_EQ(close(file), 0);
	fd[0] = socket(AF_INET, SOCK_STREAM, 0);
	CHECK_ERR(recv(fd[0], &byte, 1, 0), ENOTCONN);
	CHECK_ERR(send(fd[0], &byte, 1, MSG_NOSIGNAL), EPIPE);
	CHECK_EQ(close(fd[0]), 0);
	CHECK_ERR(recv(fd[0], &byte, 1, 0), EBADF);

	/* A reset: data for an end that closed with bytes unread. */
	pair_make(fd, AF_INET, SOCK_STREAM);
	CHECK_EQ(send(fd[0], "unread", 6, 0), 6);
	CHECK_EQ(recv(fd[1], &byte, 1, 0), 1);
	CHECK_EQ(close(fd[1]), 0);
	CHECK_ERR(recv(fd[0], &byte, 1, 0), ECONNRESET);
	CHECK_CALM(recv(fd[0], &byte, 1, 0), 0); /* once */
	CHECK_ERR(send(fd[0], &byte, 1, MSG_NOSIGNAL), EPIPE);
	CHECK_EQ(close(fd[0]), 0);
}

static void write_broken(void)
{
	int fd[2];

	pair_make(fd, AF_INET, SOCK_STREAM);
	CHECK_EQ(shutdown(fd[0], SHUT_WR), 0);
	(void)!write(fd[0], "x", 1); /* SIGPIPE */
}

static void over_read(void)
{
	by_read_chk(0, NULL, 0);
	((ssize_t(*)(int, void *, size_t, size_t))(uintptr_t)libc_function("__read_chk", true))(
	    0, (char[8]){0}, 9, 8);
}

static void over_recv(void)
{
	((ssize_t(*)(int, void *, size_t, size_t, int))(uintptr_t)libc_function(
	    "__recv_chk", true))(0, (char[8]){0}, 9, 8, 0);
}

static void over_recvfrom(void)
{
	((recvfrom_chk)(uintptr_t)libc_function("__recvfrom_chk", true))(
	    0, (char[8]){0}, 9, 8, 0, NULL, NULL);
}

static void deadly(void)
{
	void (*const over[])(void) = {over_read, over_recv, over_recvfrom};
	int status = forked_status(write_broken);

	CHECK(WIFSIGNALED(status));
	CHECK_EQ(WTERMSIG(status), SIGPIPE);
	/* The message of glibc's check goes nowhere. */
	for (size_t i = 0; i < array_len(over); i++) {
		int err = dup(2);
		int null = open("/dev/null", O_WRONLY);

		CHECK_EQ(dup2(null, 2), 2);
		status = forked_status(over[i]);
		CHECK_EQ(dup2(err, 2), 2);
		close(err);
		close(null);
		CHECK(WIFSIGNALED(status));
		CHECK_EQ(WTERMSIG(status), SIGABRT);
	}
}

static void *wait_in_recv(void *arg)
{
	char byte;

	(void)!recv(*(int *)arg, &byte, 1, 0);
	return NULL;
}

static void *wait_in_read(void *arg)
{
	char byte;

	(void)!read(*(int *)arg, &byte, 1);
	return NULL;
}

/* A thread that waits for data can be cancelled. */
static void cancellation(void)
{
	void *(*const waits[])(void *) = {wait_in_recv, wait_in_read};

	for (size_t i = 0; i < array_len(waits); i++) {
		int fd[2];
		pthread_t thread;
		void *result;

		pair_make(fd, AF_INET, SOCK_STREAM);
		CHECK_EQ(pthread_create(&thread, NULL, waits[i], &fd[1]), 0);
		CHECK_EQ(pthread_cancel(thread), 0);
		CHECK_EQ(pthread_join(thread, &result), 0);
		CHECK(result == PTHREAD_CANCELED);
		/* Nothing was taken or broken. */
		CHECK_EQ(send(fd[0], "!", 1, 0), 1);
		CHECK_EQ(recv(fd[1], (char[1]){0}, 1, 0), 1);
		pair_close(fd);
	}
}

#define BULK ((size_t)4 << 20)

static void bulk_out(int fd)
{
	unsigned char *buf = malloc(BULK);

	CHECK(buf);
	pattern_fill(buf, BULK, 0, 9);
	send_all(fd, buf, BULK);
	free(buf);
}

/* More than any buffer holds, to a reader in another process. */
static void bulk(void)
{
	struct peer peer = peer_make(AF_INET, SOCK_STREAM, bulk_out);
	unsigned char *buf = malloc(BULK);

	CHECK(buf);
	recv_all(peer.fd, buf, BULK);
	CHECK_EQ(recv(peer.fd, buf, 0, MSG_DONTWAIT) <= 0, 1);
	for (size_t at = 0; at < BULK; at += 4096)
		pattern_check(buf + at, 64, at, 9);
	free(buf);
	peer_wait(&peer);
}

static const struct test_case cases[] = {
    {"forms-one-process",
	"read __read __read_chk readv preadv2 preadv64v2 recv __recv __recv_chk recvfrom "
	"__recvfrom_chk recvmsg write __write writev pwritev2 pwritev64v2 send __send sendto "
	"sendmsg",
	forms_one_process},
    {"forms-two-processes", "recv send", forms_two_processes},
    {"lengths-of-zero", "read write readv writev recv preadv2", lengths_of_zero},
    {"bad-vectors", "readv writev preadv2 pwritev2", bad_vectors},
    {"flags", "recv send recvmsg", flags},
    {"nowait", "preadv2 pwritev2", nowait},
    {"addresses", "recvfrom sendto", addresses},
    {"errors", "recv send read write", errors},
    {"deadly", "write __read_chk __recv_chk __recvfrom_chk", deadly},
    {"cancellation", "recv read", cancellation},
    {"bulk", "send recv", bulk},
};

TESTS_MAIN(cases)
