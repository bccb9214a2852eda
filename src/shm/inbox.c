/* SPDX-License-Identifier: BSD-3-Clause */
#include "shm/inbox.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/raw.h"
#include "shm/ident.h"

#define INBOX_BACKLOG 64
#define TAKE_WAIT_MS 5 /* an offerer that was preempted between connect and send */

static struct {
	int fd;
	uint64_t cookie;
	uint8_t id[TT_INBOX_ID_BYTES];
	int unusable; /* opening failed for good */
} inbox = {.fd = -1};

static socklen_t inbox_addr(struct sockaddr_un *addr, const uint8_t id[TT_INBOX_ID_BYTES])
{
	static const char hex[] = "0123456789abcdef";
	char *p = addr->sun_path;

	memset(addr, 0, sizeof(*addr));
	addr->sun_family = AF_UNIX;
	*p++ = '\0'; /* abstract: nothing in the file system */
	memcpy(p, "taut-", 5);
	p += 5;
	for (size_t i = 0; i < TT_INBOX_ID_BYTES; i++) {
		*p++ = hex[id[i] >> 4];
		*p++ = hex[id[i] & 15];
	}
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)(p - addr->sun_path));
}

/* Out of the way of programs that expect the lowest free number, or use numbers below FD_SETSIZE. */
static int fd_move_high(int fd)
{
	struct rlimit limit;
	long floor_nr = 1024;
	long high;

	if (tt_raw4(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, &limit) == 0 && limit.rlim_cur < 2048)
		floor_nr = limit.rlim_cur > 64 ? (long)limit.rlim_cur - 32 : 32;
	high = tt_raw3(SYS_fcntl, fd, F_DUPFD_CLOEXEC, floor_nr);
	if (high < 0)
		return fd;
	(void)tt_raw1(SYS_close, fd);
	return (int)high;
}

bool tt_inbox_is_ours(void)
{
	return inbox.fd >= 0 && tt_ident_cookie(inbox.fd) == inbox.cookie;
}

int tt_inbox_open(void)
{
	struct sockaddr_un addr;
	socklen_t len;
	long err;
	int fd;

	if (inbox.unusable)
		return inbox.unusable;
	if (tt_inbox_is_ours())
		return 0;
	/* Closed unseen, or never opened. A new id: the old name may have been taken by somebody else. */
	inbox.fd = -1;
	err = tt_raw3(SYS_getrandom, inbox.id, sizeof(inbox.id), 0);
	if (err != (long)sizeof(inbox.id))
		return -EIO;
	fd = (int)tt_raw3(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return fd;
	len = inbox_addr(&addr, inbox.id);
	err = tt_raw3(SYS_bind, fd, &addr, len);
	if (!err)
		err = tt_raw2(SYS_listen, fd, INBOX_BACKLOG);
	if (err) {
		(void)tt_raw1(SYS_close, fd);
		return (int)err;
	}
	inbox.fd = fd_move_high(fd);
	inbox.cookie = tt_ident_cookie(inbox.fd);
	if (!inbox.cookie) {
		(void)tt_raw1(SYS_close, inbox.fd);
		inbox.fd = -1;
		inbox.unusable = -ENOTSUP;
		return -ENOTSUP;
	}
	return 0;
}

const uint8_t *tt_inbox_id(void)
{
	return inbox.id;
}

int tt_inbox_fd(void)
{
	return inbox.fd;
}

void tt_inbox_move(void)
{
	long fd = tt_raw3(SYS_fcntl, inbox.fd, F_DUPFD_CLOEXEC, inbox.fd + 1);

	if (fd < 0)
		fd = tt_raw3(SYS_fcntl, inbox.fd, F_DUPFD_CLOEXEC, 0);
	inbox.fd = fd < 0 ? -1 : (int)fd;
}

void tt_inbox_forget(void)
{
	if (tt_inbox_is_ours())
		(void)tt_raw1(SYS_close, inbox.fd);
	inbox.fd = -1;
	inbox.unusable = 0;
}

static bool same_user(int fd, int *pid)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (tt_raw5(SYS_getsockopt, fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return false;
	*pid = cred.pid;
	return cred.uid == (uid_t)tt_raw0(SYS_geteuid);
}

static void close_passed(struct msghdr *msg, int *fd)
{
	*fd = -1;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < count; i++) {
			int passed;

			memcpy(&passed, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (*fd < 0)
				*fd = passed;
			else
				(void)tt_raw1(SYS_close, passed);
		}
	}
}

static int offer_read(int conn, struct tt_offer *offer, int *fd)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))];
	struct iovec iov = {.iov_base = offer, .iov_len = sizeof(*offer)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
	    .msg_controllen = sizeof(control)};
	struct pollfd wait = {.fd = conn, .events = POLLIN};
	struct timespec limit = {.tv_nsec = TAKE_WAIT_MS * 1000000L};
	long got;

	*fd = -1;
	(void)tt_raw5(SYS_ppoll, &wait, 1, &limit, 0, 8);
	got = tt_raw3(SYS_recvmsg, conn, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (got < 0)
		return -EBADMSG;
	close_passed(&msg, fd);
	if (got == (long)sizeof(*offer) && !(msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) &&
	    offer->magic == TT_OFFER_MAGIC && offer->version == TT_SHM_VERSION)
		return 0;
	if (*fd >= 0)
		(void)tt_raw1(SYS_close, *fd);
	*fd = -1;
	return -EBADMSG;
}

int tt_inbox_take(struct tt_offer *offer, int *fd, int *pid)
{
	int conn;
	int err;

	/* Accepting on a number that became somebody else's would steal a connection of the program's. */
	if (!tt_inbox_is_ours())
		return -EAGAIN;
	conn = (int)tt_raw4(SYS_accept4, inbox.fd, 0, 0, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (conn < 0)
		return -EAGAIN;
	err = same_user(conn, pid) ? offer_read(conn, offer, fd) : -EACCES;
	(void)tt_raw1(SYS_close, conn);
	return err;
}

static int inbox_connect(const uint8_t to[TT_INBOX_ID_BYTES], int *pid)
{
	struct sockaddr_un addr;
	socklen_t len = inbox_addr(&addr, to);
	int fd = (int)tt_raw3(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	long err;

	if (fd < 0)
		return fd;
	err = tt_raw3(SYS_connect, fd, &addr, len);
	if (!err && !same_user(fd, pid))
		err = -EACCES;
	if (!err)
		return fd;
	(void)tt_raw1(SYS_close, fd);
	return (int)err;
}

int tt_inbox_send(const uint8_t to[TT_INBOX_ID_BYTES], const struct tt_offer *offer, int fd,
    int *pid)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
	struct tt_offer copy = *offer;
	struct iovec iov = {.iov_base = &copy, .iov_len = sizeof(copy)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	long err;
	int conn = inbox_connect(to, pid);

	if (conn < 0)
		return conn;
	if (fd >= 0) {
		struct cmsghdr *c;

		msg.msg_control = control;
		msg.msg_controllen = sizeof(control);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(int));
	}
	err = tt_raw3(SYS_sendmsg, conn, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	(void)tt_raw1(SYS_close, conn);
	if (err < 0)
		return (int)err;
	return err == (long)sizeof(copy) ? 0 : -EMSGSIZE;
}

bool tt_inbox_alive(const uint8_t id[TT_INBOX_ID_BYTES])
{
	int pid;
	int fd = inbox_connect(id, &pid);

	if (fd >= 0)
		(void)tt_raw1(SYS_close, fd);
	return fd != -ECONNREFUSED && fd != -EACCES; /* no descriptor left, for one, says nothing of the other process */
}
