/* SPDX-License-Identifier: BSD-3-Clause */
#include "patience.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SAMPLE_NS 100000000ull
#define THREADS_MAX 64
#define PROCS_MAX 16
#define SHOW_LINES 24
#define SHOW_GDB_S 60

struct thread_seen {
	pid_t tid;
	uint64_t delay;
};

static pid_t procs[PROCS_MAX];
static struct thread_seen last[THREADS_MAX];
static size_t last_count;

void tt_procs_add(pid_t pid)
{
	for (int i = 0; i < PROCS_MAX; i++) {
		if (!procs[i]) {
			procs[i] = pid;
			return;
		}
	}
}

void tt_procs_del(pid_t pid)
{
	for (int i = 0; i < PROCS_MAX; i++)
		if (procs[i] == pid)
			procs[i] = 0;
}

/* What a thread has waited for a processor, in all. */
static uint64_t delay_of(const char *dir)
{
	char path[128];
	unsigned long long run, delay = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s/schedstat", dir);
	f = fopen(path, "r");
	if (f && fscanf(f, "%llu %llu", &run, &delay) != 2)
		delay = 0;
	if (f)
		fclose(f);
	return delay;
}

static char state_of(const char *dir)
{
	char path[128], line[512] = "";
	const char *at;
	FILE *f;

	snprintf(path, sizeof(path), "%s/stat", dir);
	f = fopen(path, "r");
	if (f && !fgets(line, sizeof(line), f))
		line[0] = 0;
	if (f)
		fclose(f);
	at = strrchr(line, ')');
	return at && at[1] ? at[2] : 'X';
}

/* Threads of the kernel that deliver packets; none where /proc does not show them. */
static size_t softirqs(pid_t *pids, size_t most)
{
	static pid_t found[PROCS_MAX];
	static size_t count;
	static bool looked;
	DIR *d = looked ? NULL : opendir("/proc");
	struct dirent *e;

	while (d && (e = readdir(d)) && count < PROCS_MAX) {
		char path[96], name[32] = "";
		FILE *f;

		snprintf(path, sizeof(path), "/proc/%.16s/comm", e->d_name);
		f = e->d_name[0] >= '1' && e->d_name[0] <= '9' ? fopen(path, "r") : NULL;
		if (f && fgets(name, sizeof(name), f) && strncmp(name, "ksoftirqd/", 10) == 0)
			found[count++] = (pid_t)atoi(e->d_name);
		if (f)
			fclose(f);
	}
	if (d)
		closedir(d);
	looked = true;
	for (size_t i = 0; i < count && i < most; i++)
		pids[i] = found[i];
	return count < most ? count : most;
}

uint64_t tt_run_delay_ns(pid_t pid)
{
	pid_t kernel[PROCS_MAX];
	size_t n = softirqs(kernel, PROCS_MAX);
	char dir[64];
	uint64_t sum;

	snprintf(dir, sizeof(dir), "/proc/%d", pid);
	sum = delay_of(dir);
	for (size_t i = 0; i < n; i++) {
		snprintf(dir, sizeof(dir), "/proc/%d", kernel[i]);
		sum += delay_of(dir);
	}
	return sum;
}

uint64_t tt_thread_delay_ns(void)
{
	return delay_of("/proc/thread-self");
}

/* False: it had no chance for most of the time since it was last looked at. */
static bool thread_chance(const char *dir, pid_t tid, uint64_t passed, struct thread_seen *now, size_t *count)
{
	uint64_t delay = delay_of(dir), before = delay;

	for (size_t i = 0; i < last_count; i++)
		if (last[i].tid == tid)
			before = last[i].delay;
	if (*count < THREADS_MAX)
		now[(*count)++] = (struct thread_seen){tid, delay};
	return state_of(dir) != 'D' && delay - before < passed / 10 * 9;
}

static bool proc_chance(pid_t pid, uint64_t passed, struct thread_seen *now, size_t *count)
{
	char path[64];
	bool good = true;
	struct dirent *e;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	d = opendir(path);
	while (d && (e = readdir(d))) {
		char dir[96];

		if (e->d_name[0] == '.')
			continue;
		snprintf(dir, sizeof(dir), "%s/%.16s", path, e->d_name);
		good = thread_chance(dir, (pid_t)atoi(e->d_name), passed, now, count) && good;
	}
	if (d)
		closedir(d);
	return good;
}

static bool all_had_chance(uint64_t passed)
{
	struct thread_seen now[THREADS_MAX];
	pid_t kernel[PROCS_MAX];
	size_t count = 0, n = softirqs(kernel, PROCS_MAX);
	bool good = proc_chance(getpid(), passed, now, &count);

	for (int i = 0; i < PROCS_MAX; i++)
		if (procs[i])
			good = proc_chance(procs[i], passed, now, &count) && good;
	for (size_t i = 0; i < n; i++)
		good = proc_chance(kernel[i], passed, now, &count) && good;
	memcpy(last, now, count * sizeof(last[0]));
	last_count = count;
	return good;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

void tt_patience_start(struct tt_patience *p, unsigned int ms)
{
	uint64_t now = tt_now_ns();

	*p = (struct tt_patience){.left_ns = ms * 1000000ull, .last_ns = now, .begin_ns = now};
	last_count = 0;
}

bool tt_patience_left(struct tt_patience *p)
{
	uint64_t now = tt_now_ns(), passed = now - p->last_ns;

	if (passed < SAMPLE_NS)
		return true;
	p->last_ns = now;
	/* More than the usual distance between two looks does not count: this process itself stood still. */
	if (all_had_chance(passed))
		p->left_ns -= least(p->left_ns, least(passed, 2 * SAMPLE_NS));
	if (now - p->begin_ns > TT_PATIENCE_S * 1000000000ull) {
		fprintf(stderr, "patience: %d s have passed, in most of which some process of the test could not run\n", TT_PATIENCE_S);
		return false;
	}
	return p->left_ns > 0;
}

bool tt_patience_poll(int fd, unsigned int ms)
{
	struct pollfd f = {.fd = fd, .events = POLLIN};
	struct tt_patience p;

	tt_patience_start(&p, ms);
	do
		if (poll(&f, 1, SAMPLE_NS / 1000000) == 1)
			return true;
	while (tt_patience_left(&p));
	return false;
}

bool tt_patience_reap(pid_t pid, int *status, unsigned int ms)
{
	struct tt_patience p;
	pid_t got;

	tt_patience_start(&p, ms);
	while ((got = waitpid(pid, status, WNOHANG)) == 0 || (got < 0 && errno == EINTR)) {
		if (!tt_patience_left(&p))
			return false;
		tt_nap_us(500);
	}
	return got == pid;
}

/* ---- what hangs ---- */

static void file_show(const char *path)
{
	FILE *f = fopen(path, "r");
	char line[512];

	for (int i = 0; f && i < SHOW_LINES && fgets(line, sizeof(line), f); i++)
		fprintf(stderr, "  %s: %s%s", path, line, strchr(line, '\n') ? "" : "\n");
	if (f)
		fclose(f);
}

static void gdb_show(pid_t pid)
{
	char word[16];
	pid_t gdb;

	snprintf(word, sizeof(word), "%d", pid);
	gdb = fork();
	if (gdb == 0) {
		unsetenv("LD_PRELOAD");
		dup2(STDERR_FILENO, STDOUT_FILENO);
		alarm(SHOW_GDB_S);
		execlp("gdb", "gdb", "-batch", "-nx", "-p", word, "-ex", "thread apply all backtrace -frame-arguments all",
		    (char *)NULL);
		_exit(127);
	}
	while (gdb > 0 && waitpid(gdb, NULL, 0) < 0 && errno == EINTR)
		;
}

void tt_proc_show(pid_t pid)
{
	static const char *const what[] = {"stat", "wchan", "syscall", "stack"};
	char path[64];
	DIR *d;
	struct dirent *e;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file_show(path);
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	d = opendir(path);
	while (d && (e = readdir(d))) {
		for (size_t i = 0; e->d_name[0] != '.' && i < TT_CK_ARRAY(what); i++) {
			snprintf(path, sizeof(path), "/proc/%d/task/%.16s/%s", pid, e->d_name, what[i]);
			file_show(path);
		}
	}
	if (d)
		closedir(d);
	file_show("/proc/loadavg");
	gdb_show(pid);
	fflush(stderr);
	while (getenv("TT_STAY"))
		pause();
}
