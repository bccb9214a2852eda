/* SPDX-License-Identifier: BSD-3-Clause */
#include "host/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int full_path(const char *root, const char *path, char out[TT_TREE_PATH_MAX])
{
	int n = snprintf(out, TT_TREE_PATH_MAX, "%s/%s", root, path);

	return n < 0 || n >= (int)TT_TREE_PATH_MAX ? -ENAMETOOLONG : 0;
}

char *tt_tree_slurp(const char *root, const char *path, size_t max, int *rc)
{
	char full[TT_TREE_PATH_MAX], *buf = NULL;
	size_t len = 0;
	ssize_t n = 0;
	int fd;

	*rc = full_path(root, path, full);
	if (*rc < 0)
		return NULL;
	fd = open(full, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0) {
		*rc = -errno;
		return NULL;
	}
	buf = malloc(max + 1);
	if (!buf) {
		*rc = -ENOMEM;
		goto out;
	}
	while (len < max && (n = read(fd, buf + len, max - len)) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break;
		len += (size_t)n;
	}
	if (n < 0) {
		*rc = -errno;
		free(buf);
		buf = NULL;
		goto out;
	}
	buf[len] = '\0';
	for (size_t i = 0; i < len; i++) {
		if (buf[i] == '\0')
			buf[i] = ' ';
	}
out:
	close(fd);
	return buf;
}

int tt_tree_read(const char *root, const char *path, char *buf, size_t size)
{
	size_t len;
	int rc;
	char *all = tt_tree_slurp(root, path, size - 1, &rc);

	if (!all)
		return rc;
	len = strlen(all);
	while (len > 0 && strchr(" \t\r\n", all[len - 1]))
		len--;
	memcpy(buf, all, len);
	buf[len] = '\0';
	free(all);
	return 0;
}

int tt_tree_read_number(const char *root, const char *path, double *out)
{
	char buf[64], *end;
	int rc = tt_tree_read(root, path, buf, sizeof(buf));

	if (rc < 0)
		return rc;
	*out = strtod(buf, &end);
	return end == buf ? -EINVAL : 0;
}

int tt_tree_link(const char *root, const char *path, char *buf, size_t size)
{
	char full[TT_TREE_PATH_MAX], target[TT_TREE_PATH_MAX];
	const char *base;
	ssize_t n;
	int rc = full_path(root, path, full);

	if (rc < 0)
		return rc;
	n = readlink(full, target, sizeof(target) - 1);
	if (n < 0)
		return -errno;
	target[n] = '\0';
	base = strrchr(target, '/');
	snprintf(buf, size, "%s", base ? base + 1 : target);
	return 0;
}

int tt_tree_each(const char *root, const char *path, tt_tree_entry_fn *fn, void *arg)
{
	char full[TT_TREE_PATH_MAX];
	struct dirent **names;
	int n, rc = full_path(root, path, full);

	if (rc < 0)
		return rc;
	n = scandir(full, &names, NULL, versionsort);
	if (n < 0)
		return -errno;
	for (int i = 0; i < n; i++) {
		if (rc == 0 && strcmp(names[i]->d_name, ".") && strcmp(names[i]->d_name, ".."))
			rc = fn(arg, names[i]->d_name);
		free(names[i]);
	}
	free(names);
	return rc;
}

/* Gives the next range of a list, false at its end (or at what is no number). */
static bool cpulist_next(const char **p, long *low, long *high)
{
	char *end;

	while (**p == ',' || **p == ' ')
		++*p;
	*low = *high = strtol(*p, &end, 10);
	if (end == *p)
		return false;
	if (*end == '-') {
		*p = end + 1;
		*high = strtol(*p, &end, 10);
		if (end == *p)
			return false;
	}
	*p = end;
	return true;
}

bool tt_cpulist_has(const char *list, int cpu)
{
	long low, high;

	while (cpulist_next(&list, &low, &high)) {
		if (cpu >= low && cpu <= high)
			return true;
	}
	return false;
}

int tt_cpulist_count(const char *list)
{
	long low, high, n = 0;

	while (cpulist_next(&list, &low, &high)) {
		if (high >= low)
			n += high - low + 1;
	}
	return (int)n;
}
