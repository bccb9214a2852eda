/* SPDX-License-Identifier: BSD-3-Clause */
#include "measure/path.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REASONS_MAX 64
#define MOST 0.5 /* the floor of a measurement; docs/stat.md, "A good share", has 5 % for tests */

struct sums {
	struct tt_path *path;
	struct taut_run *run;
	const char *role;
};

static int counter_sum(struct taut_run *run, const char *text, uint64_t value)
{
	char name[TAUT_NAME_MAX];

	taut_text_set(name, text);
	for (size_t i = 0; i < run->counters.len; i++) {
		if (strcmp(run->counters.at[i].name, name) == 0) {
			run->counters.at[i].value += value;
			return 0;
		}
	}
	return taut_counter_add(run, name, value);
}

static void sum_sent(struct tt_path *path, const char *name, uint64_t value)
{
	static const char *const excuses[] = {"tx_bell_bytes", "tx_young_bytes", "tx_still_bytes", "tx_last_bytes",
	    "tx_shared_bytes"};

	if (strcmp(name, "tx_shm_bytes") == 0)
		path->sent_shm += value;
	else if (strcmp(name, "tx_kernel_bytes") == 0)
		path->sent_kernel += value;
	for (size_t i = 0; i < tt_array_len(excuses); i++)
		if (strcmp(name, excuses[i]) == 0)
			path->excused += value;
}

/* One "name":number of the object that was called `group`. */
static int take(struct sums *s, const char *group, const char *name, uint64_t value)
{
	char full[4 * TAUT_NAME_MAX];
	bool shm = strstr(name, "_shm_") != NULL;

	if (value == 0)
		return 0;
	if (strcmp(group, "totals") == 0) {
		if (strcmp(name, "tx_shm_msgs") == 0 || strcmp(name, "rx_shm_msgs") == 0 ||
		    strcmp(name, "tx_kernel_msgs") == 0 || strcmp(name, "rx_kernel_msgs") == 0)
			*(shm ? &s->path->shm_msgs : &s->path->kernel_msgs) += value;
		else if (strcmp(name, "tx_shm_bytes") == 0 || strcmp(name, "rx_shm_bytes") == 0 ||
			 strcmp(name, "tx_kernel_bytes") == 0 ||
			 strcmp(name, "rx_kernel_bytes") == 0)
			*(shm ? &s->path->shm_bytes : &s->path->kernel_bytes) += value;
		sum_sent(s->path, name, value);
		snprintf(full, sizeof(full), "%s.%s", s->role, name);
	} else {
		snprintf(full, sizeof(full), "%s.%s.%s", s->role, group, name);
	}
	return counter_sum(s->run, full, value);
}

/* The members of "group":{...} in this line. */
static int take_group(struct sums *s, const char *line, const char *end, const char *group)
{
	char key[TAUT_NAME_MAX];
	const char *p;
	int rc = 0;

	snprintf(key, sizeof(key), "\"%s\":{", group);
	p = strstr(line, key);
	if (!p || p >= end)
		return 0;
	p += strlen(key);
	while (rc == 0 && p < end && *p == '"') {
		const char *close = strchr(p + 1, '"');
		char *after;
		uint64_t value;

		if (!close || close >= end || close[1] != ':')
			break;
		snprintf(key, sizeof(key), "%.*s", (int)(close - p - 1), p + 1);
		value = strtoull(close + 2, &after, 10);
		if (after == close + 2)
			break;
		rc = take(s, group, key, value);
		p = after + (*after == ',');
	}
	return rc;
}

/* Why not all was read: an error, or (0) the limit. The first one counts. */
static void unread_set(struct tt_path *path, const char *role, int err)
{
	const char *what = err ? strerror(err) : "are more than 1 MB: measure fewer processes in one run";
	char text[TAUT_TEXT_MAX];

	snprintf(text, sizeof(text), "the counters of the %s %s%s", role, err ? "can't be read: " : "", what);
	if (!path->unread[0])
		taut_text_set(path->unread, text);
}

/* The file's text, NUL-terminated; NULL with *rc 0 when there is no file, or none that can be read. */
static char *file_text(const char *file, const char *role, struct tt_path *path, int *rc)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	char *text = NULL;
	size_t len = 0;
	ssize_t n;
	char more;

	*rc = 0;
	if (fd < 0) {
		if (errno != ENOENT)
			unread_set(path, role, errno);
		return NULL;
	}
	text = malloc(TT_PATH_FILE_MAX + 1);
	if (!text)
		*rc = -ENOMEM;
	while (text) {
		bool full = len == TT_PATH_FILE_MAX;

		n = full ? read(fd, &more, 1) : read(fd, text + len, TT_PATH_FILE_MAX - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			unread_set(path, role, errno);
		else if (n > 0 && full)
			unread_set(path, role, 0);
		if (n <= 0 || full)
			break;
		len += (size_t)n;
	}
	if (text)
		text[len] = '\0';
	close(fd);
	return text;
}

struct reason {
	const char *word;
	uint64_t count;
};

static int greater(const void *a, const void *b)
{
	const struct reason *x = a, *y = b;

	return (x->count < y->count) - (x->count > y->count);
}

/* "closed 12, ring-full 3" out of the run's counters, both roles. */
static void list_reasons(const struct taut_run *run, char *buf, size_t size)
{
	struct reason found[REASONS_MAX];
	size_t n = 0, len = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < run->counters.len; i++) {
		const char *word = strstr(run->counters.at[i].name, ".reasons.");
		size_t k = 0;

		if (!word)
			continue;
		word += strlen(".reasons.");
		while (k < n && strcmp(found[k].word, word) != 0)
			k++;
		if (k == REASONS_MAX)
			continue;
		if (k == n)
			found[n++] = (struct reason){word, 0};
		found[k].count += run->counters.at[i].value;
	}
	qsort(found, n, sizeof(found[0]), greater);
	for (size_t i = 0; i < n && i < 4 && len < size; i++)
		len += (size_t)snprintf(buf + len, size - len, "%s%s %llu", i ? ", " : "",
		    found[i].word, (unsigned long long)found[i].count);
}

int tt_path_read(const char *file, const char *role, struct tt_path *path, struct taut_run *run)
{
	struct sums s = {.path = path, .run = run, .role = role};
	int rc;
	char *text = file_text(file, role, path, &rc);

	for (const char *line = text; rc == 0 && line && *line;) {
		const char *end = strchr(line, '\n');

		if (!end)
			end = line + strlen(line);
		if (*line == '{') {
			path->lines++;
			rc = take_group(&s, line, end, "totals");
			if (rc == 0)
				rc = take_group(&s, line, end, "reasons");
		}
		line = *end ? end + 1 : NULL;
	}
	free(text);
	list_reasons(run, path->reasons, sizeof(path->reasons));
	return rc;
}

double tt_path_share(const struct tt_path *p, enum tt_parse_weight weight)
{
	double shm = (double)(weight == TT_WEIGHT_BYTES ? p->shm_bytes : p->shm_msgs);
	double kernel = (double)(weight == TT_WEIGHT_BYTES ? p->kernel_bytes : p->kernel_msgs);

	return shm + kernel > 0 ? shm / (shm + kernel) : NAN;
}

double tt_path_share_possible(const struct tt_path *p)
{
	uint64_t missed = p->sent_kernel - tt_min(p->sent_kernel, p->excused); /* more excused: the round is void */

	return p->sent_shm + missed > 0 ? (double)p->sent_shm / (double)(p->sent_shm + missed) : NAN;
}

void tt_path_judge(const struct tt_path *path, enum tt_parse_weight weight, bool accelerated,
    double share_min, struct taut_run *run)
{
	const char *unit = weight == TT_WEIGHT_BYTES ? "bytes" : "messages";
	char why[4 * TAUT_TEXT_MAX] = "";
	double share = tt_path_share(path, weight);
	double possible = tt_path_share_possible(path);
	bool took = share >= share_min || (share >= MOST && possible >= share_min);

	run->path_share = accelerated ? share : isnan(share) ? 1 : 1 - share;
	if (!accelerated && path->shm_msgs > 0)
		snprintf(why, sizeof(why),
		    "the plain side was accelerated: %.1f %% of its %s went by shared memory",
		    share * 100, unit);
	if (path->unread[0])
		snprintf(why, sizeof(why), "%s", path->unread);
	else if (accelerated && path->excused > path->sent_kernel)
		snprintf(why, sizeof(why),
		    "the counters contradict each other: %llu bytes went by the kernel, %llu of them with need",
		    (unsigned long long)path->sent_kernel, (unsigned long long)path->excused);
	else if (accelerated && path->lines == 0)
		snprintf(why, sizeof(why),
		    "no accelerated process left its counters: the library was not loaded");
	else if (accelerated && isnan(share))
		snprintf(why, sizeof(why), "no %s were counted by the accelerated processes%s%s",
		    unit, path->reasons[0] ? "; reasons met: " : "", path->reasons);
	else if (accelerated && !took)
		snprintf(why, sizeof(why),
		    "%.1f %% of the %s went by shared memory, and %.1f %% of the bytes that could; %.1f %% are wanted%s%s",
		    share * 100, unit, isnan(possible) ? 0 : possible * 100, share_min * 100,
		    path->reasons[0] ? "; reasons met: " : "", path->reasons);
	taut_text_set(run->void_reason, why);
}
