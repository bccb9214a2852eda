/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * page [MEMBER=NUMBER]... [comm=TEXT] [cmdline=TEXT] [profile=TEXT]: a process with live counters:
 * one listener, one busy and one idle connection, one UDP socket. Says "ready" and lives until its
 * input ends; each line of input makes the busy connection 1000000 bytes and 10 messages busier,
 * and is answered by "more". MEMBER of the page's header is overwritten: what a broken or hostile
 * process could show.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "socket/statpage.h"

static struct tt_stat_sock *sock(
    int fd, int type, const char *local, unsigned int lport, const char *remote, unsigned int rport)
{
	struct tt_stat_sock *row = tt_stat_sock_get(fd, AF_INET, type);

	inet_pton(AF_INET6, local, &row->local.sin6_addr);
	row->local.sin6_port = htons((uint16_t)lport);
	inet_pton(AF_INET6, remote, &row->remote.sin6_addr);
	row->remote.sin6_port = htons((uint16_t)rport);
	return row;
}

static int text_set(const char *arg, const char *name, char *out, size_t size)
{
	size_t n = strlen(name);

	if (strncmp(arg, name, n) != 0 || arg[n] != '=')
		return 0;
	memset(out, 0, size);
	memcpy(out, arg + n + 1, strnlen(arg + n + 1, size));
	return 1;
}

static int spoil(const char *arg)
{
	struct tt_stat_page *p = tt_stat;
	const char *value = strchr(arg, '=');
	unsigned long long n = value ? strtoull(value + 1, NULL, 0) : 0;
	size_t len = value ? (size_t)(value - arg) : 0;

#define NUMBER(member)                                                                             \
	if (len == strlen(#member) && strncmp(arg, #member, len) == 0) {                           \
		p->member = (__typeof__(p->member))n;                                              \
		return 1;                                                                          \
	}
	NUMBER(magic)
	NUMBER(version)
	NUMBER(page_bytes)
	NUMBER(sock_size)
	NUMBER(sock_max)
	NUMBER(sock_high)
	NUMBER(pid)
	NUMBER(start_ns)
	NUMBER(unlisted)
#undef NUMBER
	return text_set(arg, "comm", p->comm, sizeof(p->comm)) ||
	       text_set(arg, "cmdline", p->cmdline, sizeof(p->cmdline)) ||
	       text_set(arg, "profile", p->profile, sizeof(p->profile));
}

int main(int argc, char **argv)
{
	struct tt_stat_sock *listener, *busy, *idle, *udp;
	char line[64];
	int rc = tt_stat_open("balanced");

	if (rc < 0) {
		fprintf(stderr, "page: tt_stat_open: %s\n", strerror(-rc));
		return 3;
	}
	listener = sock(3, SOCK_STREAM, "::ffff:127.0.0.1", 7000, "::", 0);
	listener->flags = TT_STAT_LISTEN;
	tt_stat_reason(listener, TT_REASON_NONE);
	idle = sock(4, SOCK_STREAM, "::ffff:127.0.0.1", 7000, "::ffff:127.0.0.1", 40001);
	tt_stat_reason(idle, TT_REASON_PEER_PLAIN);
	busy = sock(5, SOCK_STREAM, "::ffff:127.0.0.1", 7000, "::ffff:127.0.0.1", 40002);
	busy->tx = busy->rx = TT_TRANSPORT_SHM;
	busy->peer_pid = 4242;
	tt_stat_reason(busy, TT_REASON_NONE);
	tt_stat_add(&busy->n.tx_shm_bytes, 5000);
	tt_stat_add(&busy->n.tx_shm_msgs, 50);
	tt_stat_add(&tt_stat->socks_attached, 1);
	udp = sock(6, SOCK_DGRAM, "::1", 53, "::", 0);
	tt_stat_add(&udp->n.rx_kernel_bytes, 100);
	tt_stat_reason(udp, TT_REASON_MULTICAST);
	for (int i = 1; i < argc; i++) {
		if (!spoil(argv[i])) {
			fprintf(stderr, "page: what is %s?\n", argv[i]);
			return 2;
		}
	}
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		tt_stat_add(&busy->n.tx_shm_bytes, 1000000);
		tt_stat_add(&busy->n.tx_shm_msgs, 10);
		puts("more");
		fflush(stdout);
	}
	return 0;
}
