/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>

#include "cli/stat.h"

#ifdef TT_HAVE_JANSSON

#include <jansson.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "socket/trace.h"

/* JSON's integers are signed here; nothing real counts that far. */
static json_t *integer(uint64_t n)
{
	return json_integer(n > INT64_MAX ? INT64_MAX : (json_int_t)n);
}

/* A failed allocation leaves a hole that json_object_set_new() refuses: counted in *bad. */
static void set(json_t *object, const char *name, json_t *value, int *bad)
{
	if (json_object_set_new(object, name, value) < 0)
		++*bad;
}

static json_t *counters(const struct tt_stat_counters *n, int *bad)
{
	json_t *object = json_object();

#define X(name) set(object, #name, integer(n->name), bad);
	TT_STAT_COUNTERS(X)
#undef X
	return object;
}

static json_t *rates(const struct tt_stat_counters *now, const struct tt_stat_counters *before,
    double seconds, int *bad)
{
	struct tt_stat_counters n;
	json_t *object = json_object();

	tt_stat_diff(now, before, &n);
#define X(name) set(object, #name, json_real((double)n.name / seconds), bad);
	TT_STAT_COUNTERS(X)
#undef X
	return object;
}

static json_t *address(const struct sockaddr_in6 *addr)
{
	char text[TT_ADDR_TEXT_MAX];

	if (addr->sin6_port == 0)
		return json_null();
	tt_addr_text(addr, text);
	return json_string(text);
}

static const char *transport(unsigned int t)
{
	return t == TT_TRANSPORT_SHM ? "shm" : t == TT_TRANSPORT_KERNEL ? "kernel" : "unknown";
}

static json_t *sock_json(const struct tt_stat_round *round, const struct tt_stat_view *before,
    const struct tt_stat_row *row, int *bad)
{
	const struct tt_stat_sock *sock = &row->sock;
	json_t *object = json_object();

	set(object, "fd", json_integer(sock->fd), bad);
	set(object, "protocol",
	    json_string(sock->type == SOCK_STREAM  ? "tcp"
			: sock->type == SOCK_DGRAM ? "udp"
						   : "unknown"),
	    bad);
	set(object, "family",
	    json_string(sock->domain == AF_INET6  ? "ipv6"
			: sock->domain == AF_INET ? "ipv4"
						  : "unknown"),
	    bad);
	set(object, "local", address(&sock->local), bad);
	set(object, "remote", address(&sock->remote), bad);
	set(object, "listening", json_boolean(sock->flags & TT_STAT_LISTEN), bad);
	set(object, "peer_pid", sock->peer_pid > 0 ? json_integer(sock->peer_pid) : json_null(),
	    bad);
	set(object, "tx", json_string(transport(sock->tx)), bad);
	set(object, "rx", json_string(transport(sock->rx)), bad);
	set(object, "reason", json_string(tt_reason_word(sock->reason)), bad);
	set(object, "counters", counters(&sock->n, bad), bad);
	if (round->interval_s > 0)
		set(object, "per_second",
		    rates(&sock->n, tt_stat_row_before(before, row), round->interval_s, bad), bad);
	return object;
}

static json_t *view_json(
    const struct tt_stat_round *round, const struct tt_stat_view *view, int *bad)
{
	const struct tt_stat_view *before = tt_stat_before(round, view);
	json_t *object = json_object(), *reasons = json_object(), *socks = json_array();

	set(object, "pid", json_integer(view->pid), bad);
	set(object, "uid", json_integer(view->uid), bad);
	set(object, "comm", json_string(view->comm), bad);
	set(object, "cmdline", json_string(view->cmdline), bad);
	set(object, "profile", json_string(view->profile), bad);
	set(object, "version", json_string(view->version), bad);
	set(object, "start_ns", integer(view->start_ns), bad);
	set(object, "socks_seen", integer(view->socks_seen), bad);
	set(object, "socks_attached", integer(view->socks_attached), bad);
	set(object, "unlisted", integer(view->unlisted), bad);
	set(object, "totals", counters(&view->total, bad), bad);
	if (round->interval_s > 0)
		set(object, "per_second",
		    rates(&view->total, before ? &before->total : NULL, round->interval_s, bad),
		    bad);
	for (unsigned int r = 0; r < TT_REASON_COUNT; r++) {
		if (view->fallbacks[r])
			set(reasons, tt_reason_word(r), integer(view->fallbacks[r]), bad);
	}
	set(object, "reasons", reasons, bad);
	for (size_t i = 0; i < view->count; i++)
		*bad +=
		    json_array_append_new(socks, sock_json(round, before, &view->rows[i], bad)) < 0;
	set(object, "sockets", socks, bad);
	return object;
}

int tt_stat_json(const struct tt_stat_round *round, FILE *out)
{
	json_t *root = json_object(), *procs = json_array();
	int bad = 0, rc = 0;

	set(root, "schema", json_integer(1), &bad);
	set(root, "time_ns", integer(round->time_ns), &bad);
	if (round->interval_s > 0)
		set(root, "interval_s", json_real(round->interval_s), &bad);
	for (size_t i = 0; i < round->now.count; i++)
		bad +=
		    json_array_append_new(procs, view_json(round, &round->now.views[i], &bad)) < 0;
	set(root, "unreadable", integer(round->now.bad), &bad);
	set(root, "processes", procs, &bad);
	if (bad)
		rc = -ENOMEM;
	else if (json_dumpf(root, out, JSON_COMPACT) < 0)
		rc = -EIO;
	else
		fputc('\n', out);
	json_decref(root);
	return rc;
}

#else

int tt_stat_json(const struct tt_stat_round *round, FILE *out)
{
	(void)round;
	(void)out;
	return -ENOTSUP;
}

#endif
