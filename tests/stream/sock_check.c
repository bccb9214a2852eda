/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sock_check - the transcript of what the calls on a TCP socket answer: flags, lengths, timeouts,
 * errors, options, shutdown and close, poll and select, duplicates, bad pointers.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>
#include <linux/sockios.h>

#include "scene.h"

static void lengths(void)
{
	struct tt_conn c;
	char b[10] = {0};

	tt_conn_open(&c);
	tt_say_ret("read of 0, nothing there", read(c.fd, b, 0));
	tt_say_ret("recv of 0, nothing there", recv(c.fd, b, 0, MSG_DONTWAIT));
	tt_say_ret("send of 0", send(c.fd, b, 0, 0));
	tt_say_ret("write of 0", write(c.fd, b, 0));
	tt_far_send(&c, 10, 0);
	tt_until(c.fd, POLLIN);
	tt_say_ret("recv of 0", recv(c.fd, b, 0, MSG_DONTWAIT));
	tt_say_ret("recv of 0, waitall", recv(c.fd, b, 0, MSG_WAITALL | MSG_DONTWAIT));
	tt_near_recv(&c, "recv of 1", 1, 0);
	tt_near_recv(&c, "recv of more", 100, 0);
	tt_near_recv(&c, "nothing left", 100, MSG_DONTWAIT);
}

static void waitall(void)
{
	struct timeval tv = {.tv_usec = 100000};
	struct tt_conn c;
	pthread_t t;

	tt_conn_open(&c);
	for (int i = 0; i < 4; i++) {
		tt_far_send(&c, 30, 0);
		tt_far_send(&c, 30, 20);
		if (i % 2)
			tt_far_send_raw(&c, 40, 40);
		else
			tt_far_send(&c, 40, 40);
		tt_near_recv(&c, "waitall in three pieces", 100, MSG_WAITALL);
	}
	tt_far_send(&c, 30, 0);
	tt_until(c.fd, POLLIN);
	tt_near_recv(&c, "waitall, dontwait", 100, MSG_WAITALL | MSG_DONTWAIT);
	setsockopt(c.fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	tt_far_send(&c, 30, 0);
	tt_near_recv(&c, "waitall, timeout", 100, MSG_WAITALL);
	tt_near_recv(&c, "timeout", 100, 0);
	tv.tv_usec = 0;
	setsockopt(c.fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	tt_far_send(&c, 30, 0);
	t = tt_kick(tt_on_counted, 0);
	tt_near_recv(&c, "waitall, signal", 100, MSG_WAITALL);
	pthread_join(t, NULL);
	tt_far_send(&c, 30, 0);
	tt_far_close(&c, 30);
	tt_near_recv(&c, "waitall, end", 100, MSG_WAITALL);
}

static void truncate_recv(void)
{
	struct tt_conn c;
	char b[10];

	tt_conn_open(&c);
	tt_far_send(&c, 100, 0);
	tt_until(c.fd, POLLIN);
	tt_say_ret("recv MSG_TRUNC of 40", recv(c.fd, NULL, 40, MSG_TRUNC));
	c.rx += 40;
	tt_near_recv(&c, "recv of 20", 20, 0);
	tt_say_ret("recv MSG_TRUNC of 1000", recv(c.fd, NULL, 1000, MSG_TRUNC));
	tt_say_ret("nothing left", recv(c.fd, b, sizeof(b), MSG_DONTWAIT));
}

static void timeouts(void)
{
	struct timeval tv = {.tv_usec = 60000}, plenty = {.tv_sec = 5}, got = {0};
	socklen_t len = sizeof(got);
	struct tt_conn c;
	uint64_t t0;

	tt_conn_open(&c);
	tt_say_ret("SO_RCVTIMEO", setsockopt(c.fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
	tt_say_ret("SO_SNDTIMEO", setsockopt(c.fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)));
	getsockopt(c.fd, SOL_SOCKET, SO_RCVTIMEO, &got, &len);
	tt_say("SO_RCVTIMEO %ld us", (long)got.tv_usec);
	for (int i = 0; i < 3; i++) {
		setsockopt(c.fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
		t0 = tt_now_ns();
		tt_near_recv(&c, "recv", 100, 0);
		tt_time_say("recv", t0, 60);
		/* Time enough for a peer on a busy machine. */
		setsockopt(c.fd, SOL_SOCKET, SO_RCVTIMEO, &plenty, sizeof(plenty));
		tt_far_send(&c, 10, 20);
		tt_near_recv(&c, "recv in time", 100, 0);
	}
	while (tt_near_send(&c, NULL, 65536, 0) > 0)
		;
	tt_say("send: %s", tt_errno_word(errno));
	t0 = tt_now_ns();
	tt_poll_say("poll knows no such timeout", c.fd, POLLIN, 120);
	tt_time_say("poll", t0, 120);
}

static void low_water(void)
{
	struct tt_conn c;
	int n = 100;

	tt_conn_open(&c);
	tt_say_ret("SO_RCVLOWAT", setsockopt(c.fd, SOL_SOCKET, SO_RCVLOWAT, &n, sizeof(n)));
	tt_far_send(&c, 60, 0);
	tt_poll_say("below", c.fd, POLLIN, TT_QUIET_MS);
	tt_far_send(&c, 60, 0);
	tt_poll_say("above", c.fd, POLLIN, TT_SOON_MS);
	tt_near_recv(&c, "read", 1000, 0);
	/* recv() of more than the mark waits on and on in some kernels (it is woken by the mark
	 * alone): not asked. */
	tt_far_send(&c, 60, 0);
	tt_until(c.fd, POLLOUT);
	tt_near_recv(&c, "recv below the mark, dontwait", 30, MSG_DONTWAIT);
}

static void counts(void)
{
	struct tt_conn c;
	int n = -1;

	tt_conn_open(&c);
	tt_say_ret("FIONREAD", ioctl(c.fd, FIONREAD, &n));
	tt_say("nothing: %d", n);
	tt_far_send(&c, 100, 0);
	tt_until(c.fd, POLLIN);
	ioctl(c.fd, FIONREAD, &n);
	tt_say("100 there: %d", n);
	tt_far_send_raw(&c, 23, 0);
	for (int i = 0; i < 1000 && n < 123; i++) {
		tt_nap_us(1000);
		ioctl(c.fd, FIONREAD, &n);
	}
	tt_say("and 23 unseen: %d", n);
	tt_near_recv(&c, "read 110", 110, 0);
	ioctl(c.fd, FIONREAD, &n);
	tt_say("left: %d", n);
	tt_near_recv(&c, "read", 110, 0);
	tt_near_send(&c, "send", 1000, 0);
	tt_far_recv(&c, 1000);
	tt_say_ret("SIOCOUTQ", ioctl(c.fd, SIOCOUTQ, &n));
	for (int i = 0; i < 1000 && n != 0; i++) {
		tt_nap_us(1000);
		ioctl(c.fd, SIOCOUTQ, &n);
	}
	tt_say("all acknowledged: %d", n);
	tt_near_send(&c, "send", 1000, 0);
	ioctl(c.fd, SIOCOUTQ, &n);
	tt_say(
	    "unread by the peer, but acknowledged or not: %s", n >= 0 && n <= 1000 ? "yes" : "no");
	tt_far_close(&c, 0);
}

static void shut(void)
{
	struct tt_conn c;

	tt_conn_open(&c);
	tt_say_ret("SHUT_WR", shutdown(c.fd, SHUT_WR));
	tt_near_send(&c, "send after SHUT_WR", 10, 0);
	tt_say("peer's end: %ld", tt_far_recv_eof(&c));
	tt_far_send(&c, 10, 0);
	tt_near_recv(&c, "still receives", 100, 0);
	tt_say_ret("SHUT_WR again", shutdown(c.fd, SHUT_WR));
	tt_say_ret("SHUT_RD", shutdown(c.fd, SHUT_RD));
	tt_near_recv(&c, "recv after SHUT_RD", 100, 0);
	tt_say_ret("bad how", shutdown(c.fd, 9));
	tt_conn_open(&c);
	tt_say_ret("SHUT_RD", shutdown(c.fd, SHUT_RD));
	tt_near_recv(&c, "recv after SHUT_RD", 100, 0);
	tt_far_send(&c, 10, 0);
	tt_nap_us(TT_QUIET_MS * 1000);
	tt_near_recv(&c, "data that came all the same", 100, MSG_DONTWAIT);
	tt_near_recv(&c, "then", 100, MSG_DONTWAIT);
	tt_near_send(&c, "send", 10, 0);
	tt_far_recv(&c, 10);
	c.fd = socket(AF_INET, SOCK_STREAM, 0);
	tt_say_ret("not connected", shutdown(c.fd, SHUT_RDWR));
}

static char blocked_buf[100];
static long blocked;
static int blocked_errno;

static void blocked_say(pthread_t t)
{
	pthread_join(t, NULL);
	errno = blocked_errno;
	tt_say_ret("the blocked recv", blocked);
}

static void *recv_main(void *arg)
{
	struct tt_conn *c = arg;

	blocked = recv(c->fd, blocked_buf, 100, 0);
	blocked_errno = errno;
	return NULL;
}

static void shut_by_thread(void)
{
	static const int how[] = {SHUT_RD, SHUT_RDWR};
	struct tt_conn c;
	pthread_t t;

	for (int i = 0; i < 2; i++) {
		tt_conn_open(&c);
		pthread_create(&t, NULL, recv_main, &c);
		tt_nap_us(30000);
		tt_say_ret("shutdown", shutdown(c.fd, how[i]));
		blocked_say(t);
		close(c.fd);
	}
	/* A close by another thread wakes nobody: the blocked call still gets what comes. */
	tt_conn_open(&c);
	pthread_create(&t, NULL, recv_main, &c);
	tt_nap_us(30000);
	tt_say_ret("close", close(c.fd));
	tt_far_send(&c, 10, 0);
	blocked_say(t);
}

static void closes(void)
{
	struct linger lg = {.l_onoff = 1};
	struct tt_conn c;

	tt_conn_open(&c);
	tt_near_send(&c, "send", 200000, 0);
	tt_say_ret("close", close(c.fd));
	tt_say("peer got %ld", tt_far_recv_eof(&c) - 0);
	tt_conn_open(&c);
	tt_far_send(&c, 10, 0);
	tt_until(c.fd, POLLIN);
	tt_say_ret("close with unread", close(c.fd));
	tt_nap_us(TT_QUIET_MS * 1000);
	tt_say("peer: %s", tt_errno_word((int)-tt_far_recv_once(&c, 100)));
	tt_conn_open(&c);
	tt_say_ret("SO_LINGER", setsockopt(c.fd, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg)));
	tt_say_ret("close with a reset", close(c.fd));
	tt_nap_us(TT_QUIET_MS * 1000);
	tt_say("peer: %s", tt_errno_word((int)-tt_far_recv_once(&c, 100)));
	tt_conn_open(&c);
	lg.l_linger = 2;
	setsockopt(c.fd, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg));
	tt_near_send(&c, "send", 1000, 0);
	tt_say_ret("close that lingers", close(c.fd));
	tt_say("peer got %ld", tt_far_recv_eof(&c));
	tt_say_ret("closed twice", close(c.fd));
}

static void peer_reset(void)
{
	struct tt_conn c;
	struct sigaction sa = {.sa_handler = tt_on_counted};

	sigaction(SIGPIPE, &sa, NULL);
	tt_conn_open(&c);
	tt_far_send(&c, 10, 0);
	tt_until(c.fd, POLLIN);
	tt_far_reset(&c);
	tt_until(c.fd, POLLERR);
	tt_near_recv(&c, "recv", 100, 0);
	tt_near_recv(&c, "recv again", 100, 0);
	tt_say_ret("send", send(c.fd, "x", 1, 0));
	tt_say("SIGPIPE %d", (int)tt_handled);
	tt_say_ret("send without the signal", send(c.fd, "x", 1, MSG_NOSIGNAL));
	tt_say_ret("write", write(c.fd, "x", 1));
	tt_say("SIGPIPE %d", (int)tt_handled);
	tt_conn_open(&c);
	tt_far_close(&c, 0);
	tt_until(c.fd, POLLRDHUP);
	tt_say_ret("first send after close", send(c.fd, "x", 1, MSG_NOSIGNAL));
	tt_until(c.fd, POLLERR | POLLHUP);
	tt_say_ret("second send", send(c.fd, "x", 1, MSG_NOSIGNAL));
}

static void urgent(void)
{
	struct tt_conn c;
	char b = 0;
	int n = -1;

	tt_conn_open(&c);
	tt_say_ret("no urgent byte", recv(c.fd, &b, 1, MSG_OOB));
	tt_far_send(&c, 10, 0);
	tt_far_send_oob(&c);
	tt_until(c.fd, POLLPRI);
	tt_poll_say("urgent", c.fd, POLLIN | POLLPRI, TT_SOON_MS);
	tt_near_recv(&c, "up to the mark", 100, 0);
	ioctl(c.fd, SIOCATMARK, &n);
	tt_say("at the mark %d", n);
	tt_say_ret("urgent byte", recv(c.fd, &b, 1, MSG_OOB));
	tt_say("%c", b);
	tt_far_send(&c, 20, 0);
	tt_near_recv(&c, "behind it", 100, 0);
	tt_say_ret("send urgent", send(c.fd, "?", 1, MSG_OOB));
}

static void vectors(void)
{
	static struct iovec iov[IOV_MAX + 1];
	unsigned char *b = calloc(1, 8192);
	struct tt_conn c;
	struct msghdr m = {.msg_iov = iov};
	size_t at = 0;

	tt_conn_open(&c);
	tt_near_fill(&c, b, 4000);
	for (size_t i = 0; i < IOV_MAX; i++) {
		size_t n = i % 3 == 1 ? 0 : i % 8;

		iov[i] = (struct iovec){b + at, n};
		at += n;
	}
	tt_say("total %zu", at);
	tt_say_ret("writev of IOV_MAX", writev(c.fd, iov, IOV_MAX));
	tt_far_recv(&c, at);
	c.tx -= 4000 - at;
	tt_say_ret("writev of more", writev(c.fd, iov, IOV_MAX + 1));
	tt_say_ret("writev of none", writev(c.fd, iov, 0));
	m.msg_iovlen = 0;
	tt_say_ret("sendmsg of none", sendmsg(c.fd, &m, 0));
	m.msg_iovlen = IOV_MAX + 1;
	tt_say_ret("sendmsg of more", sendmsg(c.fd, &m, 0));
	tt_far_send(&c, 3000, 0);
	for (size_t i = 0; i < 40; i++)
		iov[i] = (struct iovec){b + i * 100, i % 4 == 2 ? 0 : 100};
	m.msg_iovlen = 40;
	m.msg_flags = 0x55;
	tt_say_ret("recvmsg", recvmsg(c.fd, &m, MSG_WAITALL));
	tt_say("flags %x, name %d, control %zu", m.msg_flags, (int)m.msg_namelen, m.msg_controllen);
	for (size_t i = 0; i < 40; i++)
		tt_near_check(&c, iov[i].iov_base, iov[i].iov_len);
	free(b);
}

static void names_in_recv(void)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	struct mmsghdr mm[2];
	struct iovec iov = {(char[16]){0}, 16};
	struct timespec ts = {.tv_nsec = 50000000};
	struct tt_conn c;
	char b[16];

	tt_conn_open(&c);
	tt_far_send(&c, 48, 0);
	tt_until(c.fd, POLLIN);
	memset(&ss, 0x55, sizeof(ss));
	tt_say_ret("recvfrom", recvfrom(c.fd, b, sizeof(b), 0, (void *)&ss, &len));
	tt_say("name length %d", (int)len);
	memset(mm, 0, sizeof(mm));
	mm[0].msg_hdr.msg_iov = mm[1].msg_hdr.msg_iov = &iov;
	mm[0].msg_hdr.msg_iovlen = mm[1].msg_hdr.msg_iovlen = 1;
	tt_say_ret("recvmmsg of two", recvmmsg(c.fd, mm, 2, 0, NULL));
	tt_say("%u and %u bytes", mm[0].msg_len, mm[1].msg_len);
	tt_far_send(&c, 5, 0);
	tt_until(c.fd, POLLIN);
	tt_say_ret("recvmmsg for one", recvmmsg(c.fd, mm, 2, MSG_WAITFORONE, NULL));
	tt_say_ret("recvmmsg, none", recvmmsg(c.fd, mm, 2, MSG_DONTWAIT, &ts));
	tt_say_ret("sendto with a name",
	    sendto(c.fd, b, 5, 0, (struct sockaddr *)&(struct sockaddr_in){.sin_family = AF_INET},
		sizeof(struct sockaddr_in)));
}

static void bad_pointers(void)
{
	void *volatile bad = (void *)16;
	long page = sysconf(_SC_PAGESIZE);
	struct iovec iov[2];
	struct tt_conn c;
	char *two = mmap(
	    NULL, 2 * (size_t)page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	mprotect(two + page, (size_t)page, PROT_NONE);
	tt_conn_open(&c);
	tt_say_ret("recv, nothing there", recv(c.fd, bad, 10, MSG_DONTWAIT));
	tt_far_send(&c, 100, 0);
	tt_until(c.fd, POLLIN);
	tt_say_ret("recv", recv(c.fd, bad, 10, 0));
	tt_say_ret("read", read(c.fd, bad, 10));
	tt_near_recv(&c, "nothing is lost", 20, 0);
	tt_say_ret("send", send(c.fd, bad, 10, MSG_NOSIGNAL));
	tt_say_ret("write", write(c.fd, bad, 10));
	iov[0] = (struct iovec){bad, 10};
	tt_say_ret("writev", writev(c.fd, iov, 1));
	tt_say_ret("recvmsg without a header", recvmsg(c.fd, bad, 0));
	tt_say_ret("sendmsg without a header", sendmsg(c.fd, bad, 0));
	iov[0] = (struct iovec){two + page, 10};
	tt_say_ret("readv to a page that is closed", readv(c.fd, iov, 1));
	tt_near_recv(&c, "nothing is lost", 20, 0);
	tt_near_send(&c, "still sends", 50, 0);
	tt_far_recv(&c, 50);
	tt_say_ret("getsockopt", getsockopt(c.fd, SOL_SOCKET, SO_ERROR, bad, &(socklen_t){4}));
	tt_say_ret("setsockopt", setsockopt(c.fd, SOL_SOCKET, SO_RCVTIMEO, bad, 16));
	tt_say_ret("getsockname", getsockname(c.fd, bad, &(socklen_t){16}));
	tt_say_ret("ioctl", ioctl(c.fd, FIONREAD, bad));
	tt_near_recv(&c, "the rest", 100, 0);
}

static void options(void)
{
	struct tcp_info info = {0};
	struct tt_conn c;
	socklen_t len = sizeof(int);
	int v = -1;
	char b[64];

	tt_conn_open(&c);
	getsockopt(c.fd, IPPROTO_TCP, TCP_NODELAY, &v, &len);
	tt_say("TCP_NODELAY as set: %d", v);
	v = 0;
	setsockopt(c.fd, IPPROTO_TCP, TCP_NODELAY, &v, sizeof(v));
	v = -1;
	getsockopt(c.fd, IPPROTO_TCP, TCP_NODELAY, &v, &len);
	tt_say("TCP_NODELAY cleared: %d", v);
	getsockopt(c.fd, SOL_SOCKET, SO_ERROR, &v, &len);
	tt_say("SO_ERROR %d", v);
	getsockopt(c.fd, SOL_SOCKET, SO_TYPE, &v, &len);
	tt_say("SO_TYPE %d", v == SOCK_STREAM);
	v = 40000;
	tt_say_ret("SO_RCVBUF", setsockopt(c.fd, SOL_SOCKET, SO_RCVBUF, &v, sizeof(v)));
	getsockopt(c.fd, SOL_SOCKET, SO_RCVBUF, &v, &len);
	tt_say("SO_RCVBUF %d", v);
	tt_say_ret("unknown option", setsockopt(c.fd, IPPROTO_TCP, 9999, &v, sizeof(v)));
	tt_say_ret("unknown option", getsockopt(c.fd, SOL_SOCKET, 9999, &v, &len));
	tt_say_ret("short option", setsockopt(c.fd, SOL_SOCKET, SO_RCVBUF, &v, 1));
	len = 1;
	v = 0;
	tt_say_ret("short answer", getsockopt(c.fd, SOL_SOCKET, SO_TYPE, &v, &len));
	tt_say("length %d", (int)len);
	len = sizeof(info);
	tt_say_ret("TCP_INFO", getsockopt(c.fd, IPPROTO_TCP, TCP_INFO, &info, &len));
	tt_say("state %u", info.tcpi_state);
	len = sizeof(b);
	tt_say_ret("TCP_CONGESTION", getsockopt(c.fd, IPPROTO_TCP, TCP_CONGESTION, b, &len));
	len = sizeof(v);
	getsockopt(c.fd, SOL_SOCKET, SO_ACCEPTCONN, &v, &len);
	tt_say("SO_ACCEPTCONN %d", v);
	v = 1;
	tt_say_ret("SO_KEEPALIVE", setsockopt(c.fd, SOL_SOCKET, SO_KEEPALIVE, &v, sizeof(v)));
	tt_near_send(&c, "still works", 100, 0);
	tt_far_recv(&c, 100);
}

static void corked(void)
{
	struct tt_conn c;
	int on = 1, off = 0;

	tt_conn_open(&c);
	for (int i = 0; i < 5; i++) {
		tt_near_send(&c, "more", 10, MSG_MORE);
		tt_near_send(&c, "last", 10, 0);
		tt_far_recv(&c, 20);
	}
	tt_say_ret("TCP_CORK", setsockopt(c.fd, IPPROTO_TCP, TCP_CORK, &on, sizeof(on)));
	tt_near_send(&c, "corked", 10, 0);
	tt_near_send(&c, "corked", 10, 0);
	setsockopt(c.fd, IPPROTO_TCP, TCP_CORK, &off, sizeof(off));
	tt_far_recv(&c, 20);
	tt_near_send(&c, "free", 10, 0);
	tt_far_recv(&c, 10);
	/* A lone MSG_MORE is sent after a moment all the same. */
	tt_near_send(&c, "lone more", 10, MSG_MORE);
	tt_far_recv(&c, 10);
}

static void duplicates(void)
{
	struct tt_conn a, b;
	int d, e, keep;

	tt_conn_open(&a);
	tt_conn_open(&b);
	d = dup(a.fd);
	e = fcntl(a.fd, F_DUPFD_CLOEXEC, 50);
	keep = a.fd;
	tt_say("at least 50: %d", e >= 50);
	for (int i = 0; i < 6; i++) {
		a.fd = i % 3 == 0 ? keep : i % 3 == 1 ? d : e;
		tt_near_send(&a, NULL, 100, 0);
		tt_far_recv(&a, 100);
		tt_far_send(&a, 100, i % 2 ? 10 : 0);
		tt_near_recv(&a, "through another name", 100, MSG_WAITALL);
	}
	fcntl(d, F_SETFL, O_RDWR | O_NONBLOCK);
	a.fd = keep;
	tt_near_recv(&a, "O_NONBLOCK is shared", 100, 0);
	tt_say("FD_CLOEXEC is not: %d %d", fcntl(d, F_GETFD), fcntl(e, F_GETFD));
	close(keep);
	close(e);
	a.fd = d;
	tt_near_send(&a, "last name", 100, 0);
	tt_far_recv(&a, 100);
	tt_say_ret("dup2 over it", dup2(b.fd, d) == d ? 0 : -1);
	tt_say("its peer: %ld", tt_far_recv_eof(&a));
	tt_say_ret("dup2 to itself", dup2(d, d) == d ? 0 : -1);
	close(b.fd);
	b.fd = d;
	tt_near_send(&b, "the other through it", 100, 0);
	tt_far_recv(&b, 100);
	tt_say_ret("dup3 with equal numbers", dup3(d, d, 0));
	tt_say_ret("dup of nothing", dup(900));
	close(d);
	tt_say("peer: %ld", tt_far_recv_eof(&b));
}

static void numbers_again(void)
{
	struct tt_conn c;
	char b[8] = {0};
	int n, p[2];

	tt_conn_open(&c);
	n = c.fd;
	tt_say_ret("close_range", close_range((unsigned int)n, (unsigned int)n, 0));
	tt_say("peer: %ld", tt_far_recv_eof(&c));
	if (pipe(p) < 0)
		tt_env_fail("pipe");
	tt_say("number comes back: %d", p[0] == n || p[1] == n);
	(void)!write(p[1], "hello", 5);
	tt_say_ret("pipe", read(p[0], b, sizeof(b)));
	tt_say("%s", b);
	close(p[0]);
	close(p[1]);
	for (int i = 0; i < 20; i++) {
		tt_conn_open(&c);
		if (c.fd != n)
			tt_say("another number");
		tt_near_send(&c, NULL, 10, 0);
		close(c.fd);
		if (tt_far_recv_eof(&c) != 10)
			tt_say("peer did not get 10 bytes");
	}
	tt_say("20 connections on one number");
}

static void sending_files(void)
{
	int f = memfd_create("sock_check", MFD_CLOEXEC);
	struct tt_conn c;
	unsigned char *b = malloc(300000);
	off_t off = 1000;

	tt_conn_open(&c);
	tt_near_fill(&c, b, 300000);
	(void)!pwrite(f, b, 300000, 1000);
	c.tx -= 300000;
	tt_say_ret("sendfile at an offset", sendfile(c.fd, f, &off, 50000));
	tt_say("offset %ld, position %ld", (long)off, (long)lseek(f, 0, SEEK_CUR));
	tt_far_recv(&c, 50000);
	lseek(f, 51000, SEEK_SET);
	tt_say_ret("sendfile at the position", sendfile(c.fd, f, NULL, 50000));
	tt_say("position %ld", (long)lseek(f, 0, SEEK_CUR));
	tt_far_recv(&c, 50000);
	off = 101000;
	tt_say_ret("sendfile past the end", sendfile(c.fd, f, &off, 1000000));
	tt_far_recv(&c, 200000);
	tt_say_ret("sendfile at the end", sendfile(c.fd, f, &off, 100));
	tt_say_ret("sendfile from a socket", sendfile(c.fd, c.fd, NULL, 100));
	tt_say_ret("sendfile from nothing", sendfile(c.fd, 900, NULL, 100));
	c.tx += 300000;
	tt_near_send(&c, "then send", 10, 0);
	tt_far_recv(&c, 10);
	free(b);
}

static void splices(void)
{
	struct tt_conn c;
	unsigned char b[1000];
	int p[2];

	if (pipe(p) < 0)
		tt_env_fail("pipe");
	tt_conn_open(&c);
	for (int i = 0; i < 3; i++) {
		tt_near_fill(&c, b, 1000);
		(void)!write(p[1], b, 1000);
		tt_say_ret("pipe to socket", splice(p[0], NULL, c.fd, NULL, 1000, 0));
		tt_far_recv(&c, 1000);
		tt_far_send(&c, 1000, i ? 20 : 0);
		for (size_t have = 0; have < 1000;) {
			ssize_t r = splice(c.fd, NULL, p[1], NULL, 1000 - have, 0);

			if (r <= 0) {
				tt_say_ret("socket to pipe", r);
				break;
			}
			have += (size_t)r;
		}
		tt_say_ret("from the pipe", read(p[0], b, 1000));
		tt_near_check(&c, b, 1000);
	}
	tt_conn_nonblock(&c);
	tt_say_ret("nothing there", splice(c.fd, NULL, p[1], NULL, 1000, SPLICE_F_NONBLOCK));
	tt_say_ret("with an offset", splice(c.fd, &(off_t){0}, p[1], NULL, 10, 0));
}

static void connects(void)
{
	struct sockaddr un = {.sa_family = AF_UNSPEC};
	uint16_t port = tt_far_listen();
	struct tt_conn c;
	struct tt_addr a;
	int fd;

	tt_addr_loopback(&a, TT_FAMILY_4, port);
	tt_conn_open(&c);
	tt_say_ret("connect a connected one", connect(c.fd, (void *)&a.ss, a.len));
	tt_say_ret("bind a connected one", bind(c.fd, (void *)&a.ss, a.len));
	tt_say_ret("listen on a connected one", listen(c.fd, 1));
	tt_near_send(&c, "still works", 10, 0);
	tt_far_recv(&c, 10);
	tt_say_ret("disconnect", connect(c.fd, &un, sizeof(un)));
	tt_near_send(&c, "send", 10, 0);
	tt_near_recv(&c, "recv", 10, 0);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	tt_say_ret("send unconnected", send(fd, "x", 1, MSG_NOSIGNAL));
	tt_say_ret("recv unconnected", recv(fd, &(char){0}, 1, 0));
	tt_say_ret("accept unconnected", accept(fd, NULL, NULL));
	tt_say_ret("connect with a short name", connect(fd, (void *)&a.ss, 3));
	tt_say_ret("accept4 with odd flags", accept4(fd, NULL, NULL, 0x40000000));
	tt_say_ret("socket of an odd family", socket(77, SOCK_STREAM, 0));
	tt_poll_say("never connected", fd, POLLIN | POLLOUT, TT_SOON_MS);
}

static void same_names(void)
{
	struct sockaddr_in me = {0}, you = {0}, from = {0};
	socklen_t len = sizeof(me);
	uint16_t port;
	int lfd = tt_listen_any(TT_FAMILY_4, 4, &port), s, k = tt_connect_to(TT_FAMILY_4, port);

	s = accept4(lfd, (void *)&from, &len, SOCK_CLOEXEC);
	tt_say("O_NONBLOCK of an accepted one: %d", (fcntl(s, F_GETFL) & O_NONBLOCK) != 0);
	getsockname(k, (void *)&me, &len);
	getpeername(s, (void *)&you, &len);
	tt_say("peer's name is right: %d", memcmp(&me, &you, sizeof(me)) == 0);
	tt_say("accept's name is right: %d", memcmp(&me, &from, sizeof(me)) == 0);
	len = 4;
	tt_say_ret("short name", getpeername(s, (void *)&you, &len));
	tt_say("length %d", (int)len);
}

static void nonblock_toggle(void)
{
	struct tt_conn c;
	int on = 1, off = 0;

	tt_conn_open(&c);
	for (int i = 0; i < 3; i++) {
		ioctl(c.fd, FIONBIO, &on);
		tt_say("O_NONBLOCK %d", (fcntl(c.fd, F_GETFL) & O_NONBLOCK) != 0);
		tt_near_recv(&c, "non-blocking", 10, 0);
		ioctl(c.fd, FIONBIO, &off);
		tt_say("O_NONBLOCK %d", (fcntl(c.fd, F_GETFL) & O_NONBLOCK) != 0);
		tt_far_send(&c, 10, 20);
		tt_near_recv(&c, "blocking", 10, 0);
		fcntl(c.fd, F_SETFL, O_NONBLOCK);
		tt_near_recv(&c, "non-blocking", 10, 0);
	}
	tt_say("F_GETFL %s", (fcntl(c.fd, F_GETFL) & O_ACCMODE) == O_RDWR ? "O_RDWR" : "?");
}

static void async_signal(void)
{
	struct sigaction sa = {.sa_handler = tt_on_counted, .sa_flags = SA_RESTART};
	struct tt_conn c;

	sigaction(SIGIO, &sa, NULL);
	tt_conn_open(&c);
	fcntl(c.fd, F_SETOWN, getpid());
	tt_say_ret("O_ASYNC", fcntl(c.fd, F_SETFL, O_RDWR | O_ASYNC));
	for (int i = 1; i <= 3; i++) {
		int before = (int)tt_handled;

		tt_far_send(&c, 10, 0);
		for (int k = 0; k < 2000 && (int)tt_handled == before; k++)
			tt_nap_us(1000);
		tt_say("SIGIO came: %d", (int)tt_handled > before);
		tt_near_recv(&c, "read", 10, 0);
	}
}

static void odd_calls(void)
{
	struct tt_conn c;
	struct iovec iov = {(char[10]){0}, 10};

	tt_conn_open(&c);
	tt_say_ret("lseek", lseek(c.fd, 0, SEEK_SET));
	tt_say_ret("pread", pread(c.fd, iov.iov_base, 10, 0));
	tt_say_ret("fsync", fsync(c.fd));
	tt_say_ret("ftruncate", ftruncate(c.fd, 0));
	tt_far_send(&c, 20, 0);
	tt_until(c.fd, POLLIN);
	tt_say_ret("preadv2 at -1", preadv2(c.fd, &iov, 1, -1, 0));
	tt_near_check(&c, iov.iov_base, 10);
	tt_say_ret("preadv2 at 0", preadv2(c.fd, &iov, 1, 0, 0));
	tt_near_recv(&c, "read", 10, 0);
	tt_near_fill(&c, iov.iov_base, 10);
	tt_say_ret("pwritev2 at -1", pwritev2(c.fd, &iov, 1, -1, 0));
	tt_far_recv(&c, 10);
	tt_say_ret("mmap", mmap(NULL, 4096, PROT_READ, MAP_SHARED, c.fd, 0) == MAP_FAILED ? -1 : 0);
}

static void big_blocks(void)
{
	struct tt_conn c;

	tt_conn_open(&c);
	for (int i = 0; i < 3; i++) {
		tt_far_send(&c, 3000000, 1);
		tt_near_recv(&c, "3 MB", 3000000, MSG_WAITALL);
		tt_near_send(&c, "200 kB", 200000, 0);
		tt_far_recv(&c, 200000);
	}
	tt_far_send(&c, 100, 0);
	tt_near_recv(&c, "small after large", 1000, 0);
}

static const struct tt_scene scenes[] = {{"lengths", lengths}, {"waitall", waitall}, {"trunc", truncate_recv}, {"timeouts", timeouts},
    {"low-water", low_water}, {"counts", counts}, {"shutdown", shut},
    {"shutdown-by-thread", shut_by_thread}, {"close", closes}, {"peer-reset", peer_reset},
    {"urgent", urgent}, {"vectors", vectors}, {"names-in-recv", names_in_recv},
    {"bad-pointers", bad_pointers}, {"options", options}, {"cork", corked}, {"dup", duplicates},
    {"numbers-again", numbers_again}, {"sendfile", sending_files}, {"splice", splices},
    {"connect", connects}, {"names", same_names}, {"nonblock-toggle", nonblock_toggle},
    {"async", async_signal}, {"odd-calls", odd_calls}, {"big-blocks", big_blocks}};

int main(int argc, char **argv)
{
	return tt_scene_main(argc, argv, scenes, TT_CK_ARRAY(scenes));
}
