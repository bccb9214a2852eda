/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * include/taut/socket.h, with the library and without it. What it says about acceleration is
 * checked where it is certain: TAUT_ATTACH_AFTER=0 and two processes.
 */
#include "check.h"

#include <stdlib.h>

#include "taut/socket.h"

static bool present(void)
{
	return libc_function("taut_version", false) != NULL;
}

static void versions(void)
{
	CHECK_EQ(taut_present(), present());
	if (!taut_present()) {
		CHECK(taut_version() == NULL);
		return;
	}
	CHECK_EQ(strcmp(taut_version(), TAUT_VERSION), 0);
	CHECK(dlvsym(RTLD_DEFAULT, "taut_version", "TAUT_1") != NULL);
	CHECK(dlvsym(RTLD_DEFAULT, "taut_fd_info", "TAUT_1") != NULL);
	CHECK(dlvsym(RTLD_DEFAULT, "taut_fd_accelerate", "TAUT_1") != NULL);
}

static void infos(void)
{
	struct taut_fd_info info;
	char larger[sizeof(info) + 64];
	int fd[2];

	pair_make(fd, AF_INET, SOCK_STREAM);
	memset(&info, 0x55, sizeof(info));
	CHECK_CALM(taut_fd_info(fd[0], &info, sizeof(info)), 0);
	CHECK(memchr(info.text, 0, sizeof(info.text)) != NULL && info.text[0]);
	CHECK_EQ(
	    info.accelerated, info.tx != TAUT_TRANSPORT_KERNEL || info.rx != TAUT_TRANSPORT_KERNEL);
	if (!present())
		CHECK_EQ(info.reason, TAUT_REASON_ABSENT);
	CHECK_ERR(taut_fd_info(fd[0], &info, sizeof(info) - 1), EINVAL);
	memset(larger, 0x55, sizeof(larger)); /* of a later version: what this one lacks is zero */
	CHECK_CALM(taut_fd_info(fd[0], (struct taut_fd_info *)(void *)larger, sizeof(larger)), 0);
	if (present()) {
		CHECK_EQ(larger[sizeof(larger) - 1], 0);
		CHECK_ERR(taut_fd_info(999, &info, sizeof(info)), EBADF);
		CHECK_CALM(taut_fd_info(0, &info, sizeof(info)), 0);
		CHECK_EQ(info.accelerated, 0);
		CHECK_EQ(info.reason, TAUT_REASON_NO_SOCKET);
	}
	pair_close(fd);
}

#define TURNS 50

static void echo(int fd)
{
	char buf[4];

	for (int i = 0; i < 3 * TURNS; i++) {
		recv_all(fd, buf, 4);
		CHECK_EQ(send(fd, buf, 4, 0), 4);
	}
}

static void turns(int fd)
{
	char buf[4];

	for (int i = 0; i < TURNS; i++) {
		pattern_fill(buf, 4, (size_t)i, 5);
		CHECK_EQ(send(fd, buf, 4, 0), 4);
		recv_all(fd, buf, 4);
		pattern_check(buf, 4, (size_t)i, 5);
	}
}

/* Switched off and on while the other end knows nothing of it. */
static void switches(void)
{
	struct peer peer = peer_make(AF_INET, SOCK_STREAM, echo);
	const char *after = getenv("TAUT_ATTACH_AFTER");
	struct taut_fd_info info;
	bool attached;

	turns(peer.fd);
	CHECK_EQ(taut_fd_info(peer.fd, &info, sizeof(info)), 0);
	if (present() && after && strcmp(after, "0") == 0)
		CHECK_EQ(info.reason == TAUT_REASON_NONE || info.reason == TAUT_REASON_MOMENT, 1);
	attached = info.accelerated;
	if (!present()) {
		CHECK_ERR(taut_fd_accelerate(peer.fd, 0), ENOSYS);
		turns(peer.fd);
		turns(peer.fd);
		peer_wait(&peer);
		return;
	}
	CHECK_CALM(taut_fd_accelerate(peer.fd, 0), 0);
	turns(peer.fd);
	CHECK_EQ(taut_fd_info(peer.fd, &info, sizeof(info)), 0);
	CHECK_EQ(info.accelerated, 0);
	CHECK_EQ(info.reason, TAUT_REASON_RULE);
	CHECK_CALM(taut_fd_accelerate(peer.fd, 1), 0);
	turns(peer.fd);
	if (attached) { /* and left its ring for good */
		CHECK_EQ(taut_fd_info(peer.fd, &info, sizeof(info)), 0);
		CHECK_EQ(info.accelerated, 0);
		CHECK_EQ(info.reason, TAUT_REASON_RULE);
	}
	CHECK_ERR(taut_fd_accelerate(0, 1), ENOTSUP);
	CHECK_ERR(taut_fd_accelerate(999, 1), EBADF);
	peer_wait(&peer);
}

static bool accelerated(int fd)
{
	struct taut_fd_info info;

	CHECK_EQ(taut_fd_info(fd, &info, sizeof(info)), 0);
	return info.accelerated;
}

/* Off and on before the first byte: as if nothing had been. */
static void on_again(void)
{
	const char *after = getenv("TAUT_ATTACH_AFTER");
	struct peer peer = peer_make(AF_INET, SOCK_STREAM, echo);
	struct taut_fd_info info;

	if (present()) {
		CHECK_EQ(taut_fd_accelerate(peer.fd, 0), 0);
		CHECK_EQ(taut_fd_info(peer.fd, &info, sizeof(info)), 0);
		CHECK_EQ(info.reason, TAUT_REASON_RULE);
		CHECK_EQ(taut_fd_accelerate(peer.fd, 1), 0);
		CHECK_EQ(taut_fd_info(peer.fd, &info, sizeof(info)), 0);
		CHECK(info.reason != TAUT_REASON_RULE);
	}
	turns(peer.fd);
	CHECK_EQ(taut_fd_info(peer.fd, &info, sizeof(info)), 0);
	if (present() && after && strcmp(after, "0") == 0)
		CHECK(info.reason == TAUT_REASON_NONE || info.reason == TAUT_REASON_MOMENT);
	turns(peer.fd);
	turns(peer.fd);
	peer_wait(&peer);
}

/* A warm send leaves no trace. */
static void warm_sends(void)
{
	struct peer peer = peer_make(AF_INET, SOCK_STREAM, echo);
	struct iovec iov = {(void *)(uintptr_t) "cold", 4};
	struct mmsghdr many = {.msg_hdr = {.msg_iov = &iov, .msg_iovlen = 1}};

	for (int i = 0; i < 3; i++) {
		bool before = accelerated(peer.fd);
		ssize_t warmed = taut_send_warm(peer.fd, "warm", 4);
		bool after = accelerated(peer.fd);

		if (before == after) /* the other end may switch in between */
			CHECK_EQ(warmed, before ? 4 : 0);
		else
			CHECK(warmed == 0 || warmed == 4);
		CHECK(present() || warmed == 0);
		if (present()) { /* without the library these would be sent */
			CHECK_CALM(send(peer.fd, "warm", 4, TAUT_MSG_WARM), 4);
			CHECK_CALM(sendto(peer.fd, "warm", 4, TAUT_MSG_WARM, NULL, 0), 4);
			CHECK_CALM(sendmsg(peer.fd, &many.msg_hdr, TAUT_MSG_WARM), 4);
			CHECK_CALM(sendmmsg(peer.fd, &many, 1, TAUT_MSG_WARM), 1);
			CHECK_EQ(many.msg_len, 4);
		}
		turns(peer.fd);
	}
	peer_wait(&peer);
}

static const struct test_case cases[] = {
    {"versions", "taut_version", versions},
    {"infos", "taut_fd_info", infos},
    {"switches", "taut_fd_accelerate taut_fd_info", switches},
    {"on-again", "taut_fd_accelerate", on_again},
    {"warm-sends", "send sendto sendmsg sendmmsg", warm_sends},
};

TESTS_MAIN(cases)
