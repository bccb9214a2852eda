/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "cli/stat.h"
#include "socket/trace.h"

/* One line of a table, sorted by traffic: a process (row NULL) or a socket. */
struct line {
	const struct tt_stat_view *view;
	const struct tt_stat_row *row;
	struct tt_stat_counters n; /* what is shown */
	uint64_t bytes;
	uint64_t msgs;
};

const struct tt_stat_view *tt_stat_before(
    const struct tt_stat_round *round, const struct tt_stat_view *view)
{
	for (size_t i = 0; i < round->before.count; i++) {
		const struct tt_stat_view *old = &round->before.views[i];

		if (old->pid == view->pid && old->start_ns == view->start_ns)
			return old;
	}
	return NULL;
}

const struct tt_stat_counters *tt_stat_row_before(
    const struct tt_stat_view *before, const struct tt_stat_row *row)
{
	size_t low = 0, high = before ? before->count : 0;

	while (low < high) { /* rows are in the order of their places */
		size_t mid = low + (high - low) / 2;

		if (before->rows[mid].index < row->index)
			low = mid + 1;
		else
			high = mid;
	}
	if (!before || low == before->count || before->rows[low].index != row->index ||
	    before->rows[low].sock.in_use != row->sock.in_use)
		return NULL;
	return &before->rows[low].sock.n;
}

void tt_stat_diff(const struct tt_stat_counters *now, const struct tt_stat_counters *before,
    struct tt_stat_counters *out)
{
	static const struct tt_stat_counters none;

	if (!before)
		before = &none;
#define X(name) out->name = now->name > before->name ? now->name - before->name : 0;
	TT_STAT_COUNTERS(X)
#undef X
}

static void scale(struct tt_stat_counters *n, double seconds)
{
#define X(name) n->name = (uint64_t)((double)n->name / seconds + 0.5);
	TT_STAT_COUNTERS(X)
#undef X
}

static void line_fill(struct line *line, const struct tt_stat_round *round,
    const struct tt_stat_view *view, const struct tt_stat_row *row)
{
	const struct tt_stat_view *old = tt_stat_before(round, view);

	line->view = view;
	line->row = row;
	if (row)
		tt_stat_diff(&row->sock.n, tt_stat_row_before(old, row), &line->n);
	else
		tt_stat_diff(&view->total, old ? &old->total : NULL, &line->n);
	if (round->interval_s > 0)
		scale(&line->n, round->interval_s);
	line->bytes = line->n.tx_shm_bytes + line->n.tx_kernel_bytes + line->n.rx_shm_bytes +
		      line->n.rx_kernel_bytes;
	line->msgs = line->n.tx_shm_msgs + line->n.tx_kernel_msgs + line->n.rx_shm_msgs +
		     line->n.rx_kernel_msgs;
}

static int line_order(const void *left, const void *right)
{
	const struct line *a = left, *b = right;
	int32_t a_fd = a->row ? a->row->sock.fd : 0, b_fd = b->row ? b->row->sock.fd : 0;

	if (a->bytes != b->bytes)
		return a->bytes > b->bytes ? -1 : 1;
	if (a->msgs != b->msgs)
		return a->msgs > b->msgs ? -1 : 1;
	if (a->view->pid != b->view->pid)
		return a->view->pid < b->view->pid ? -1 : 1;
	return a_fd < b_fd ? -1 : a_fd > b_fd;
}

/* Numbers in at most six characters: 999999, 12.3M; bytes by 1024, the rest by 1000. */
static const char *number(char out[16], uint64_t n, double step)
{
	static const char units[] = "KMGTPE";
	double v = (double)n;
	size_t unit = 0;

	if (n < (step > 1000 ? 10240 : 100000)) {
		snprintf(out, 16, "%" PRIu64, n);
		return out;
	}
	for (v /= step; v >= 999.5 && unit < sizeof(units) - 2; unit++)
		v /= step;
	snprintf(out, 16, "%.*f%c", v < 99.95 ? 1 : 0, v, units[unit]);
	return out;
}

static void put(FILE *out, uint64_t n, double step)
{
	char text[16];

	fprintf(out, " %7s", number(text, n, step));
}

#define BYTES 1024.0
#define COUNT 1000.0

/* Characters, not bytes, fill a column. */
static void put_text(FILE *out, const char *text, int width)
{
	int chars = 0;

	for (const char *p = text; *p; p++) {
		if ((*p & 0xc0) != 0x80 && ++chars > width)
			break;
		fputc(*p, out);
	}
	for (; chars < width; chars++)
		fputc(' ', out);
}

static size_t shm_count(const struct tt_stat_view *view)
{
	size_t n = 0;

	for (size_t i = 0; i < view->count; i++)
		n += view->rows[i].sock.tx == TT_TRANSPORT_SHM ||
		     view->rows[i].sock.rx == TT_TRANSPORT_SHM;
	return n;
}

static void put_waits(FILE *out, const struct tt_stat_counters *n)
{
	put(out, n->spin_hits, COUNT);
	put(out, n->spin_misses, COUNT);
	put(out, n->sleeps, COUNT);
	put(out, n->doorbells, COUNT);
	put(out, n->ring_full, COUNT);
	put(out, n->drops, COUNT);
}

static void put_bytes(FILE *out, const struct tt_stat_counters *n)
{
	put(out, n->tx_shm_bytes, BYTES);
	put(out, n->tx_kernel_bytes, BYTES);
	put(out, n->rx_shm_bytes, BYTES);
	put(out, n->rx_kernel_bytes, BYTES);
}

static void processes(const struct line *lines, size_t count, FILE *out)
{
	fprintf(out, "%8s %-15s %-8s %6s %6s %7s %7s %7s %7s %7s %7s %7s %7s %7s %7s\n", "PID",
	    "PROGRAM", "PROFILE", "SOCKS", "BY SHM", "TX SHM", "TX KERN", "RX SHM", "RX KERN",
	    "SPIN OK", "MISSED", "SLEEPS", "BELLS", "FULL", "DROPS");
	for (size_t i = 0; i < count; i++) {
		const struct tt_stat_view *view = lines[i].view;

		fprintf(out, "%8d ", view->pid);
		put_text(out, view->comm, 15);
		fprintf(out, " %-8.8s %6zu %6zu", view->profile, view->count + (view->unlisted > 0),
		    shm_count(view));
		put_bytes(out, &lines[i].n);
		put_waits(out, &lines[i].n);
		fputc('\n', out);
	}
}

static const char *proto(const struct tt_stat_sock *sock)
{
	return sock->type == SOCK_STREAM ? "tcp" : sock->type == SOCK_DGRAM ? "udp" : "?";
}

static const char *transport(unsigned int t)
{
	return t == TT_TRANSPORT_SHM ? "shm" : t == TT_TRANSPORT_KERNEL ? "kern" : "?";
}

/* How much of the bytes went by shared memory, in percent; "-" of nothing. */
static void put_share(FILE *out, const struct tt_stat_counters *n, uint64_t bytes)
{
	double shm = (double)n->tx_shm_bytes + (double)n->rx_shm_bytes;

	if (bytes == 0)
		fprintf(out, " %6s", "-");
	else
		fprintf(out, " %6.1f", 100.0 * shm / (double)bytes);
}

static void socket_head(int local_width, int remote_width, bool wide, FILE *out)
{
	fprintf(out, "\n%14s %-3s %-*s %-*s %7s %-4s %-4s", "PID:FD", "", local_width, "LOCAL",
	    remote_width, "REMOTE", "PEER", "TX", "RX");
	if (wide)
		fprintf(out, " %7s %7s %7s %7s", "TX SHM", "TX KERN", "RX SHM", "RX KERN");
	else
		fprintf(out, " %7s %7s %6s", "TX", "RX", "SHM %");
	fprintf(out, " %7s %7s", "TX MSGS", "RX MSGS");
	if (wide)
		fprintf(out, " %7s %7s %7s %7s %7s %7s", "SPIN OK", "MISSED", "SLEEPS", "BELLS",
		    "FULL", "DROPS");
	else
		fprintf(out, " %7s %7s", "SPIN OK", "SLEEPS");
	fprintf(out, "  WHY NOT\n");
}

static void socket_line(
    const struct line *line, int local_width, int remote_width, bool wide, FILE *out)
{
	const struct tt_stat_sock *sock = &line->row->sock;
	const struct tt_stat_counters *n = &line->n;
	char local[TT_ADDR_TEXT_MAX], remote[TT_ADDR_TEXT_MAX], name[32], peer[16] = "-";

	tt_addr_text(&sock->local, local);
	tt_addr_text(&sock->remote, remote);
	snprintf(name, sizeof(name), "%d:%d", line->view->pid, sock->fd);
	if (sock->peer_pid > 0)
		snprintf(peer, sizeof(peer), "%d", sock->peer_pid);
	fprintf(out, "%14s %-3s %-*s %-*s %7s %-4s %-4s", name, proto(sock), local_width, local,
	    remote_width, (sock->flags & TT_STAT_LISTEN) ? "listening" : remote, peer,
	    transport(sock->tx), transport(sock->rx));
	if (wide) {
		put_bytes(out, n);
	} else {
		put(out, n->tx_shm_bytes + n->tx_kernel_bytes, BYTES);
		put(out, n->rx_shm_bytes + n->rx_kernel_bytes, BYTES);
		put_share(out, n, line->bytes);
	}
	put(out, n->tx_shm_msgs + n->tx_kernel_msgs, COUNT);
	put(out, n->rx_shm_msgs + n->rx_kernel_msgs, COUNT);
	if (wide) {
		put_waits(out, n);
	} else {
		put(out, n->spin_hits, COUNT);
		put(out, n->sleeps, COUNT);
	}
	fprintf(out, "  %s\n", sock->reason == TT_REASON_NONE ? "-" : tt_reason_word(sock->reason));
}

static int addr_width(const struct line *lines, size_t count, bool remote, int least)
{
	int width = least;

	for (size_t i = 0; i < count; i++) {
		char text[TT_ADDR_TEXT_MAX];

		tt_addr_text(remote ? &lines[i].row->sock.remote : &lines[i].row->sock.local, text);
		width = tt_max(width, (int)strlen(text));
	}
	return width;
}

static void sockets(
    const struct line *lines, size_t count, const struct tt_stat_show *show, FILE *out)
{
	size_t shown = show->sockets && show->sockets < count ? show->sockets : count;
	int local = addr_width(lines, shown, false, 5), remote = addr_width(lines, shown, true, 9);

	if (count == 0)
		return;
	socket_head(local, remote, show->wide, out);
	for (size_t i = 0; i < shown; i++)
		socket_line(&lines[i], local, remote, show->wide, out);
	if (shown < count)
		fprintf(out, "%14s %zu more with less traffic (--sockets 0 shows all)\n", "...",
		    count - shown);
}

static void reason_lines(const uint64_t counts[64], pid_t pid, FILE *out)
{
	for (unsigned int r = 0; r < 64; r++) {
		if (counts[r] == 0)
			continue;
		if (pid)
			fprintf(out, "%8d", pid);
		put(out, counts[r], COUNT);
		fprintf(out, "  %-12s %s\n", tt_reason_word(r), tt_reason_text(r));
	}
}

static void reasons(
    const struct line *lines, size_t count, const struct tt_stat_show *show, FILE *out)
{
	uint64_t sum[64] = {0}, any = 0;

	for (size_t i = 0; i < count; i++) {
		for (unsigned int r = 0; r < 64; r++) {
			sum[r] += lines[i].view->fallbacks[r];
			any |= lines[i].view->fallbacks[r];
		}
	}
	if (!any)
		return;
	if (show->reasons) {
		fprintf(out, "\n%8s %7s  %-12s %s\n", "PID", "TIMES", "WHY NOT", "SINCE ITS START");
		for (size_t i = 0; i < count; i++)
			reason_lines(lines[i].view->fallbacks, lines[i].view->pid, out);
	} else {
		fprintf(out, "\n%8s  %-12s %s\n", "TIMES", "WHY NOT",
		    "SINCE THE START (--reasons: by process)");
		reason_lines(sum, 0, out);
	}
}

int tt_stat_text(const struct tt_stat_round *round, const struct tt_stat_show *show, FILE *out)
{
	size_t procs = round->now.count, socks = 0, at = 0;
	struct line *p, *s;
	int rc = -ENOMEM;

	for (size_t i = 0; i < procs; i++)
		socks += round->now.views[i].count;
	p = calloc(procs + 1, sizeof(*p));
	s = calloc(socks + 1, sizeof(*s));
	if (!p || !s)
		goto out;
	for (size_t i = 0; i < procs; i++) {
		const struct tt_stat_view *view = &round->now.views[i];

		line_fill(&p[i], round, view, NULL);
		for (size_t k = 0; k < view->count; k++)
			line_fill(&s[at++], round, view, &view->rows[k]);
	}
	qsort(p, procs, sizeof(*p), line_order);
	qsort(s, socks, sizeof(*s), line_order);
	if (round->interval_s > 0)
		fprintf(out, "per second, over %.1f s\n", round->interval_s);
	if (procs) {
		processes(p, procs, out);
		sockets(s, socks, show, out);
		reasons(p, procs, show, out);
	} else {
		fprintf(out, "no accelerated process here; taut run PROGRAM starts one\n");
	}
	rc = 0;
out:
	free(p);
	free(s);
	return rc;
}
