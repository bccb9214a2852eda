/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * api.c - the exported half of include/taut/socket.h.
 */
#include "preload/preload.h"

#include <string.h>

static const char *const reason_texts[] = {
#define X(name, word, text) text,
    TT_REASONS(X)
#undef X
};

/* The many reasons of the statistics page, as the few kinds that a program can act on. */
static enum taut_reason reason_public(enum tt_reason reason)
{
	switch (reason) {
	case TT_REASON_NONE:
		return TAUT_REASON_NONE;
	case TT_REASON_FAMILY:
		return TAUT_REASON_NO_SOCKET;
	case TT_REASON_YOUNG:
		return TAUT_REASON_YOUNG;
	case TT_REASON_PEER_PLAIN:
	case TT_REASON_PEER_REMOTE:
	case TT_REASON_PEER_USER:
	case TT_REASON_PEER_CHANGED:
	case TT_REASON_NAT:
	case TT_REASON_MULTICAST:
	case TT_REASON_HOSTILE:
	case TT_REASON_DECLINED:
		return TAUT_REASON_PEER;
	case TT_REASON_OPTION:
	case TT_REASON_FLAG:
		return TAUT_REASON_OPTION;
	case TT_REASON_UNSEEN:
	case TT_REASON_PASSED:
	case TT_REASON_FORKED:
	case TT_REASON_EXEC:
	case TT_REASON_WAIT:
	case TT_REASON_STRANDED:
		return TAUT_REASON_SHARED;
	case TT_REASON_RULE:
	case TT_REASON_API:
		return TAUT_REASON_RULE;
	case TT_REASON_MEMORY:
	case TT_REASON_DESCRIPTORS:
	case TT_REASON_LIMIT:
	case TT_REASON_PERMISSION:
	case TT_REASON_SECCOMP:
		return TAUT_REASON_RESOURCE;
	case TT_REASON_RING_FULL:
	case TT_REASON_CLOSED:
		return TAUT_REASON_MOMENT;
	case TT_REASON_COUNT:
		break;
	}
	return TAUT_REASON_OTHER;
}

static void text_set(struct taut_fd_info *info, const char *text)
{
	size_t len = tt_min(strlen(text), sizeof(info->text) - 1);

	memcpy(info->text, text, len);
	info->text[len] = '\0';
}

const char *taut_version(void)
{
	return TAUT_VERSION;
}

int taut_fd_info(int fd, struct taut_fd_info *info, size_t size)
{
	struct tt_sock *s = tt_preload_sock(fd);
	struct tt_sock_info inside = {.reason = TT_REASON_FAMILY};
	int saved = errno;

	/* A newer program's larger struct is filled as far as this version knows it. */
	if (size < sizeof(*info)) {
		errno = EINVAL;
		return -1;
	}
	if (!s && tt_sys.fcntl(fd, F_GETFD) < 0)
		return -1; /* EBADF */
	memset(info, 0, size);
	if (s)
		tt_sock_info(s, fd, &inside);
	info->tx = inside.tx == TT_TRANSPORT_SHM ? TAUT_TRANSPORT_SHM : TAUT_TRANSPORT_KERNEL;
	info->rx = inside.rx == TT_TRANSPORT_SHM ? TAUT_TRANSPORT_SHM : TAUT_TRANSPORT_KERNEL;
	info->accelerated = info->tx != TAUT_TRANSPORT_KERNEL || info->rx != TAUT_TRANSPORT_KERNEL;
	info->reason = (int)reason_public(inside.reason);
	text_set(info, reason_texts[inside.reason]);
	errno = saved;
	return 0;
}

int taut_fd_accelerate(int fd, int on)
{
	struct tt_sock *s = tt_preload_sock(fd);
	int saved = errno;

	if (s)
		return tt_preload_result_int(tt_sock_accelerate(s, fd, on != 0), saved);
	if (tt_sys.fcntl(fd, F_GETFD) < 0)
		return -1;
	errno = ENOTSUP;
	return -1;
}
