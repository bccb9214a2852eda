/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/statread.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINK "/memfd:taut-stat (deleted)"
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* Text */

/* Length of the UTF-8 character at p (n bytes are there), 0 when it is none or a control character.
 */
static size_t utf8_len(const unsigned char *p, size_t n)
{
	static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
	uint32_t c = p[0];
	size_t len = c < 0x80 ? 1 : c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc2 ? 2 : 0;

	if (len == 0 || len > n || c > 0xf4)
		return 0;
	if (len == 1)
		return c >= 0x20 && c != 0x7f;
	c &= 0xffu >> (len + 1);
	for (size_t i = 1; i < len; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (p[i] & 0x3fu);
	}
	if (c < least[len] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		return 0;
	/* C1 controls; marks that turn the direction of writing. */
	if (c < 0xa0 || (c >= 0x200e && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
	    (c >= 0x2066 && c <= 0x2069))
		return 0;
	return len;
}

void tt_text_clean(char *out, size_t out_size, const char *in, size_t in_size)
{
	size_t at = 0;

	TT_ASSERT(out_size > 0);
	for (size_t i = 0; i < in_size && in[i];) {
		size_t len = utf8_len((const unsigned char *)in + i, in_size - i);

		if (at + tt_max(len, (size_t)1) >= out_size)
			break;
		if (len == 0) {
			out[at++] = '?';
			i++;
			continue;
		}
		memcpy(out + at, in + i, len);
		at += len;
		i += len;
	}
	out[at] = '\0';
}

/* One page */

static int head_check(const struct tt_stat_page *head, off_t size)
{
	if (head->magic != TT_STAT_MAGIC)
		return -EBADMSG;
	if (head->version != TT_STAT_VERSION || head->sock_size != sizeof(struct tt_stat_sock))
		return -EPROTO;
	if (head->sock_max > TT_STAT_SOCKS_MAX || head->sock_high > head->sock_max ||
	    (off_t)head->page_bytes != size)
		return -EBADMSG;
	if (sizeof(*head) + (size_t)head->sock_max * sizeof(struct tt_stat_sock) > head->page_bytes)
		return -EBADMSG;
	return 0;
}

static void sum_add(struct tt_stat_counters *sum, const struct tt_stat_counters *n)
{
#define X(name) sum->name += n->name;
	TT_STAT_COUNTERS(X)
#undef X
}

/* Copies the rows twice and keeps those that were the same socket both times. */
static int rows_read(int fd, uint32_t high, struct tt_stat_view *out)
{
	size_t bytes = high * sizeof(struct tt_stat_sock);
	struct tt_stat_sock *first = malloc(bytes ? bytes : 1);
	struct tt_stat_sock *second = malloc(bytes ? bytes : 1);
	int rc = -ENOMEM;

	out->rows = calloc(high ? high : 1, sizeof(*out->rows));
	if (!first || !second || !out->rows)
		goto out;
	rc = -EBADMSG;
	if (pread(fd, first, bytes, sizeof(struct tt_stat_page)) != (ssize_t)bytes ||
	    pread(fd, second, bytes, sizeof(struct tt_stat_page)) != (ssize_t)bytes)
		goto out;
	rc = 0;
	for (uint32_t i = 0; i < high; i++) {
		struct tt_stat_row *row = &out->rows[out->count];

		/* Odd: on its way into the closed sums. Free rows may hold what a late thread
		 * added. */
		if (second[i].in_use % 2 != 0)
			continue;
		sum_add(&out->total, &second[i].n);
		if (second[i].in_use == 0 || first[i].in_use != second[i].in_use ||
		    second[i].fd < 0)
			continue;
		row->index = i;
		row->sock = second[i];
		out->count++;
	}
out:
	free(first);
	free(second);
	return rc;
}

int tt_stat_read_fd(int fd, struct tt_stat_view *out, pid_t *pid_inside)
{
	struct tt_stat_page head;
	struct stat st;
	int seals, rc;

	memset(out, 0, sizeof(*out));
	*pid_inside = 0;
	seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return -EBADMSG;
	if (pread(fd, &head, sizeof(head), 0) != (ssize_t)sizeof(head))
		return -EBADMSG;
	tt_text_clean(
	    out->version, sizeof(out->version), head.version_text, sizeof(head.version_text));
	*pid_inside = head.pid;
	rc = head_check(&head, st.st_size);
	if (rc < 0)
		return rc;
	out->start_ns = head.start_ns;
	out->socks_seen = head.socks_seen;
	out->socks_attached = head.socks_attached;
	out->unlisted = head.unlisted;
	out->total = head.closed;
	memcpy(out->fallbacks, head.fallbacks, sizeof(out->fallbacks));
	tt_text_clean(out->comm, sizeof(out->comm), head.comm, sizeof(head.comm));
	tt_text_clean(out->profile, sizeof(out->profile), head.profile, sizeof(head.profile));
	tt_text_clean(out->cmdline, sizeof(out->cmdline), head.cmdline, sizeof(head.cmdline));
	rc = rows_read(fd, head.sock_high, out);
	if (rc < 0)
		tt_stat_view_free(out);
	return rc;
}

/* Processes */

/* The process's number in its innermost namespace: what it believes to be. 0 when that can't be
 * told. */
static pid_t pid_innermost(pid_t pid)
{
	char path[64], line[512];
	pid_t found = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f)) {
		if (strncmp(line, "NSpid:", 6) == 0) {
			const char *last = strrchr(line, '\t');

			found = last ? (pid_t)strtol(last, NULL, 10) : 0;
			break;
		}
	}
	fclose(f);
	return found;
}

/*
 * A process that has just forked still holds its parent's page, and anything may hold several: the
 * right one names the process itself.
 */
static int page_of(pid_t pid, int dir, const char *name, pid_t inside, struct tt_stat_view *out)
{
	char link[64];
	ssize_t n = readlinkat(dir, name, link, sizeof(link));
	pid_t says;
	int fd, rc;

	if (n != sizeof(LINK) - 1 || memcmp(link, LINK, sizeof(LINK) - 1) != 0)
		return -ENOENT;
	fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return errno == EACCES || errno == EPERM ? -EACCES : -ENOENT;
	rc = tt_stat_read_fd(fd, out, &says);
	close(fd);
	if (says != inside && rc != -EBADMSG) {
		if (rc == 0)
			tt_stat_view_free(out);
		return -ENOENT;
	}
	out->pid = pid;
	return rc;
}

int tt_stat_read_pid(pid_t pid, struct tt_stat_view *out)
{
	char path[64];
	struct dirent *entry;
	struct stat st;
	pid_t inside;
	DIR *dir;
	int rc = -ENOENT, one;

	memset(out, 0, sizeof(*out));
	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	if (!dir)
		return errno == ENOENT || errno == ESRCH ? -ESRCH : -errno;
	inside = pid_innermost(pid);
	while ((entry = readdir(dir))) {
		one = page_of(pid, dirfd(dir), entry->d_name, inside, out);
		if (one != -ENOENT)
			rc = one;
		if (one == 0)
			break;
	}
	if (rc == 0)
		out->uid = fstat(dirfd(dir), &st) == 0 ? st.st_uid : (uid_t)-1;
	closedir(dir);
	return rc;
}

int tt_stat_list_add(struct tt_stat_list *list, struct tt_stat_view *view)
{
	/* Doubles: full at 0, 1, 2, 4, ... */
	if ((list->count & (list->count - 1)) == 0) {
		size_t room = list->count ? list->count * 2 : 1;
		void *grown = reallocarray(list->views, room, sizeof(*list->views));

		if (!grown)
			return -ENOMEM;
		list->views = grown;
	}
	list->views[list->count++] = *view;
	return 0;
}

int tt_stat_read_all(struct tt_stat_list *out)
{
	struct dirent *entry;
	DIR *dir = opendir("/proc");
	int rc = 0;

	memset(out, 0, sizeof(*out));
	if (!dir)
		return -errno;
	for (size_t n = 0; n < TT_STAT_PROCS_MAX && rc == 0 && (entry = readdir(dir));) {
		struct tt_stat_view view;
		char *end;
		long pid = strtol(entry->d_name, &end, 10);
		int one;

		if (*end || pid <= 0 || pid > INT32_MAX || pid == getpid())
			continue;
		n++;
		one = tt_stat_read_pid((pid_t)pid, &view);
		if (one == 0) {
			rc = tt_stat_list_add(out, &view);
			if (rc < 0)
				tt_stat_view_free(&view);
		} else if (one == -EBADMSG || one == -EPROTO) {
			out->bad++;
			out->bad_pid = (pid_t)pid;
			out->bad_rc = one;
		} else if (one == -ENOMEM) {
			rc = one;
		}
	}
	closedir(dir);
	if (rc < 0)
		tt_stat_list_free(out);
	return rc;
}

void tt_stat_view_free(struct tt_stat_view *view)
{
	free(view->rows);
	view->rows = NULL;
	view->count = 0;
}

void tt_stat_list_free(struct tt_stat_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		tt_stat_view_free(&list->views[i]);
	free(list->views);
	list->views = NULL;
	list->count = 0;
}
