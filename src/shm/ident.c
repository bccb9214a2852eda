/* SPDX-License-Identifier: BSD-3-Clause */
#include "shm/ident.h"

#include <errno.h>
#include <string.h>
#include <asm/ioctls.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>

#include "base/raw.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif
#define TT_SO_ORIGINAL_DST 80 /* linux/netfilter_ipv4.h, which does not compile beside netinet/in.h */
/* net/tcp_states.h of the kernel; tcp_info.tcpi_state */
enum {
	TT_TCP_ESTABLISHED = 1,
	TT_TCP_TIME_WAIT = 6,
	TT_TCP_CLOSE_WAIT = 8,
	TT_TCP_LAST_ACK = 9,
	TT_TCP_CLOSING = 11,
};

static uint64_t sockopt_u64(int fd, int name)
{
	uint64_t value = 0;
	socklen_t len = sizeof(value);

	if (tt_raw5(SYS_getsockopt, fd, SOL_SOCKET, name, &value, &len) < 0)
		return 0;
	return value;
}

uint64_t tt_ident_cookie(int fd)
{
	return sockopt_u64(fd, SO_COOKIE);
}

uint64_t tt_ident_netns(int fd)
{
	return sockopt_u64(fd, SO_NETNS_COOKIE);
}

static int addr_unpack(const struct sockaddr *addr, int *family, uint16_t *port, uint8_t ip[16],
    uint32_t *scope)
{
	static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

	memset(ip, 0, 16);
	*scope = 0;
	if (addr->sa_family == AF_INET) {
		struct sockaddr_in in;

		memcpy(&in, addr, sizeof(in));
		*family = AF_INET;
		*port = in.sin_port;
		memcpy(ip, &in.sin_addr, 4);
		return 0;
	}
	if (addr->sa_family == AF_INET6) {
		struct sockaddr_in6 in6;

		memcpy(&in6, addr, sizeof(in6));
		*port = in6.sin6_port;
		if (memcmp(&in6.sin6_addr, mapped, sizeof(mapped)) == 0) {
			*family = AF_INET;
			memcpy(ip, (const uint8_t *)&in6.sin6_addr + 12, 4);
			return 0;
		}
		*family = AF_INET6;
		memcpy(ip, &in6.sin6_addr, 16);
		*scope = in6.sin6_scope_id;
		return 0;
	}
	return -EAFNOSUPPORT;
}

int tt_tuple_set_local(struct tt_tuple *t, const struct sockaddr *addr)
{
	uint32_t scope;
	int err = addr_unpack(addr, &t->family, &t->local_port, t->local, &scope);

	if (!err && scope)
		t->scope = scope;
	return err;
}

int tt_tuple_set_remote(struct tt_tuple *t, const struct sockaddr *addr)
{
	uint32_t scope;
	int family;
	int err = addr_unpack(addr, &family, &t->remote_port, t->remote, &scope);

	if (err)
		return err;
	if (scope)
		t->scope = scope;
	t->family = family;
	return 0;
}

int tt_tuple_of(int fd, struct tt_tuple *t)
{
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);
	int family;
	int err;

	memset(t, 0, sizeof(*t));
	err = (int)tt_raw3(SYS_getsockname, fd, &addr, &len);
	if (err < 0)
		return err;
	err = tt_tuple_set_local(t, (struct sockaddr *)&addr);
	if (err)
		return err;
	family = t->family;
	len = sizeof(addr);
	err = (int)tt_raw3(SYS_getpeername, fd, &addr, &len);
	if (err < 0)
		return err;
	err = tt_tuple_set_remote(t, (struct sockaddr *)&addr);
	if (!err && family != t->family)
		err = -EAFNOSUPPORT;
	return err;
}

struct diag_query {
	struct nlmsghdr nlh;
	struct inet_diag_req_v2 req;
};

/* One exact lookup on a socket of its own: a kept netlink descriptor could be closed, and its number reused, unseen. */
static int diag_ask(struct diag_query *query, uint64_t *cookie, uint32_t *uid, uint8_t *state)
{
	char reply[1024] __attribute__((aligned(NLMSG_ALIGNTO)));
	struct nlmsghdr nlh;
	struct inet_diag_msg msg;
	long got;
	int fd = (int)tt_raw3(SYS_socket, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);

	if (fd < 0)
		return fd;
	got = tt_raw6(SYS_sendto, fd, query, sizeof(*query), 0, 0, 0);
	if (got > 0)
		got = tt_raw6(SYS_recvfrom, fd, reply, sizeof(reply), MSG_DONTWAIT, 0, 0);
	(void)tt_raw1(SYS_close, fd);
	if (got < 0)
		return (int)got;
	if ((size_t)got < sizeof(nlh))
		return -EPROTO;
	memcpy(&nlh, reply, sizeof(nlh));
	if (nlh.nlmsg_type == NLMSG_ERROR) {
		struct nlmsgerr err;

		if ((size_t)got < NLMSG_HDRLEN + sizeof(err))
			return -EPROTO;
		memcpy(&err, reply + NLMSG_HDRLEN, sizeof(err));
		return err.error ? err.error : -EPROTO;
	}
	if (nlh.nlmsg_type != SOCK_DIAG_BY_FAMILY || (size_t)got < NLMSG_HDRLEN + sizeof(msg))
		return -EPROTO;
	memcpy(&msg, reply + NLMSG_HDRLEN, sizeof(msg));
	*cookie = (uint64_t)msg.id.idiag_cookie[1] << 32 | msg.id.idiag_cookie[0];
	*uid = msg.idiag_uid;
	*state = msg.idiag_state;
	return 0;
}

static void diag_fill(struct diag_query *query, int family, int protocol)
{
	memset(query, 0, sizeof(*query));
	query->nlh.nlmsg_len = sizeof(*query);
	query->nlh.nlmsg_type = SOCK_DIAG_BY_FAMILY;
	query->nlh.nlmsg_flags = NLM_F_REQUEST;
	query->req.sdiag_family = (uint8_t)family;
	query->req.sdiag_protocol = (uint8_t)protocol;
	query->req.idiag_states = UINT32_MAX;
	query->req.id.idiag_cookie[0] = INET_DIAG_NOCOOKIE;
	query->req.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
}

int tt_ident_tcp_peer(const struct tt_tuple *t, uint64_t *cookie, uint32_t *uid)
{
	struct diag_query query;
	uint8_t state = 0;
	int err;

	/* For TCP "src" is the local side of the socket that is looked for: our remote side. */
	diag_fill(&query, t->family, IPPROTO_TCP);
	query.req.id.idiag_sport = t->remote_port;
	query.req.id.idiag_dport = t->local_port;
	memcpy(query.req.id.idiag_src, t->remote, 16);
	memcpy(query.req.id.idiag_dst, t->local, 16);
	query.req.id.idiag_if = t->scope;
	err = diag_ask(&query, cookie, uid, &state);
	if (!err && state != TT_TCP_ESTABLISHED)
		err = -ENOTCONN;
	return err;
}

int tt_ident_udp_receiver(const struct tt_tuple *t, uint64_t *cookie, uint32_t *uid)
{
	struct diag_query query;
	uint8_t state = 0;

	/* For UDP "src" is the sender and "dst" the target of the datagram (udp_dump_one). */
	diag_fill(&query, t->family, IPPROTO_UDP);
	query.req.id.idiag_sport = t->local_port;
	query.req.id.idiag_dport = t->remote_port;
	memcpy(query.req.id.idiag_src, t->local, 16);
	memcpy(query.req.id.idiag_dst, t->remote, 16);
	query.req.id.idiag_if = t->scope;
	return diag_ask(&query, cookie, uid, &state);
}

struct route_query {
	struct nlmsghdr nlh;
	struct rtmsg rtm;
	uint8_t attrs[3 * RTA_SPACE(16)];
};

static void route_attr(struct route_query *query, unsigned short type, const void *data, size_t len)
{
	struct rtattr attr = {.rta_len = (unsigned short)RTA_LENGTH(len), .rta_type = type};
	uint8_t *at = (uint8_t *)query + NLMSG_ALIGN(query->nlh.nlmsg_len);

	memcpy(at, &attr, sizeof(attr));
	memcpy(at + RTA_LENGTH(0), data, len);
	query->nlh.nlmsg_len = (uint32_t)(NLMSG_ALIGN(query->nlh.nlmsg_len) + RTA_ALIGN(attr.rta_len));
}

/* The preferred source of a route answer goes into local. */
static int route_source(const char *reply, size_t got, size_t ip_len, uint8_t local[16])
{
	size_t at = NLMSG_LENGTH(sizeof(struct rtmsg));
	struct rtattr attr;

	while (at + sizeof(attr) <= got) {
		memcpy(&attr, reply + at, sizeof(attr));
		if (attr.rta_len < sizeof(attr) || attr.rta_len > got - at)
			break;
		if (attr.rta_type == RTA_PREFSRC && attr.rta_len == RTA_LENGTH(ip_len)) {
			memcpy(local, reply + at + RTA_LENGTH(0), ip_len);
			return 0;
		}
		at += RTA_ALIGN(attr.rta_len);
	}
	return -EHOSTUNREACH;
}

int tt_ident_local_route(struct tt_tuple *t)
{
	static const uint8_t any[16];
	char reply[1024] __attribute__((aligned(NLMSG_ALIGNTO)));
	size_t ip_len = t->family == AF_INET ? 4 : 16;
	bool bound = memcmp(t->local, any, 16) != 0;
	struct route_query query = {0};
	struct nlmsghdr nlh;
	struct rtmsg rtm;
	long got;
	int fd;

	query.nlh.nlmsg_len = NLMSG_LENGTH(sizeof(query.rtm));
	query.nlh.nlmsg_type = RTM_GETROUTE;
	query.nlh.nlmsg_flags = NLM_F_REQUEST;
	query.rtm.rtm_family = (unsigned char)t->family;
	query.rtm.rtm_dst_len = (unsigned char)(8 * ip_len);
	route_attr(&query, RTA_DST, t->remote, ip_len);
	if (bound) {
		query.rtm.rtm_src_len = (unsigned char)(8 * ip_len);
		route_attr(&query, RTA_SRC, t->local, ip_len);
	}
	if (t->scope)
		route_attr(&query, RTA_OIF, &t->scope, sizeof(t->scope));
	fd = (int)tt_raw3(SYS_socket, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (fd < 0)
		return fd;
	got = tt_raw6(SYS_sendto, fd, &query, query.nlh.nlmsg_len, 0, 0, 0);
	if (got > 0)
		got = tt_raw6(SYS_recvfrom, fd, reply, sizeof(reply), MSG_DONTWAIT, 0, 0);
	(void)tt_raw1(SYS_close, fd);
	if (got < 0)
		return (int)got;
	if ((size_t)got < NLMSG_LENGTH(sizeof(rtm)))
		return -EPROTO;
	memcpy(&nlh, reply, sizeof(nlh));
	memcpy(&rtm, reply + NLMSG_HDRLEN, sizeof(rtm));
	if (nlh.nlmsg_type != RTM_NEWROUTE || rtm.rtm_type != RTN_LOCAL)
		return -EHOSTUNREACH;
	return bound ? 0 : route_source(reply, (size_t)got, ip_len, t->local);
}

static int tcp_info(int fd, struct tcp_info *info)
{
	socklen_t len = sizeof(*info);

	memset(info, 0, sizeof(*info));
	return (int)tt_raw5(SYS_getsockopt, fd, IPPROTO_TCP, TCP_INFO, info, &len);
}

int tt_ident_tcp_accepted(int fd, uint64_t *bytes)
{
	struct tcp_info info;
	int err = tcp_info(fd, &info);

	if (err < 0)
		return err;
	*bytes = (uint64_t)info.tcpi_bytes_sent - (uint64_t)info.tcpi_bytes_retrans +
	    info.tcpi_notsent_bytes;
	return 0;
}

/* A FIN that has come counts as one received byte, and FIONREAD leaves it out. */
static unsigned int fin_counts(const struct tcp_info *info)
{
	switch (info->tcpi_state) {
	case TT_TCP_TIME_WAIT:
	case TT_TCP_CLOSE_WAIT:
	case TT_TCP_LAST_ACK:
	case TT_TCP_CLOSING:
		return info->tcpi_bytes_received ? 1 : 0;
	default:
		return 0;
	}
}

int tt_ident_tcp_consumed(int fd, uint64_t *bytes)
{
	/* Two looks that agree: bytes may arrive between the two questions. */
	for (int i = 0; i < 100; i++) {
		struct tcp_info info;
		struct tcp_info again;
		int queued = 0;
		int err = tcp_info(fd, &info);

		if (err < 0)
			return err;
		err = (int)tt_raw3(SYS_ioctl, fd, FIONREAD, &queued);
		if (err < 0)
			return err;
		err = tcp_info(fd, &again);
		if (err < 0)
			return err;
		if (info.tcpi_bytes_received == again.tcpi_bytes_received) {
			*bytes = (uint64_t)info.tcpi_bytes_received - (uint64_t)queued - fin_counts(&again);
			return 0;
		}
	}
	return -EAGAIN;
}

bool tt_ident_tcp_established(int fd)
{
	struct tcp_info info;

	return tcp_info(fd, &info) >= 0 && info.tcpi_state == TT_TCP_ESTABLISHED;
}

bool tt_ident_not_translated(int fd, const struct tt_tuple *t)
{
	struct sockaddr_storage addr;
	struct tt_tuple seen = {0};
	socklen_t len = sizeof(addr);
	int level = t->family == AF_INET ? IPPROTO_IP : IPPROTO_IPV6;

	memset(&addr, 0, sizeof(addr));
	/* Without connection tracking, or without an entry, nothing is translated. */
	if (tt_raw5(SYS_getsockopt, fd, level, TT_SO_ORIGINAL_DST, &addr, &len) < 0)
		return true;
	if (tt_tuple_set_local(&seen, (struct sockaddr *)&addr))
		return true;
	return seen.family == t->family && seen.local_port == t->local_port &&
	    memcmp(seen.local, t->local, 16) == 0;
}
