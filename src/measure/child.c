/* SPDX-License-Identifier: BSD-3-Clause */
#include "measure/child.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "measure/procfs.h"

#define TAIL_LINES 4
#define TAIL_BYTES 4096

/* In the child: what went wrong is told through the pipe, which a successful exec closes. */
static _Noreturn void child_main(
    const struct tt_child_spec *spec, const struct tt_child *c, int tell)
{
	struct sigaction dfl = {.sa_handler = SIG_DFL};
	sigset_t none;
	int rc, null;

	setsid();
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* What a shell or a supervisor set must not decide whether a server can be stopped. */
	for (int s = 1; s < 32; s++)
		sigaction(s, &dfl, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (spec->cpu >= 0) {
		cpu_set_t set;

		CPU_ZERO(&set);
		CPU_SET((unsigned int)spec->cpu, &set);
		if (sched_setaffinity(0, sizeof(set), &set) < 0)
			goto out;
	}
	null = open("/dev/null", O_RDONLY);
	if (null < 0 || dup2(null, 0) < 0 || dup2(c->out, 1) < 0 || dup2(c->err, 2) < 0)
		goto out;
	if (null > 2)
		close(null);
	for (char *const *e = spec->env; e && *e; e++)
		putenv(*e);
	execvp(spec->argv[0], spec->argv);
out:
	rc = errno;
	(void)!write(tell, &rc, sizeof(rc));
	_exit(127);
}

static int output_file(const char *name)
{
	int fd = memfd_create(name, MFD_CLOEXEC);

	/* Append: a program that opens /dev/stdout anew must not write over what is there. */
	if (fd >= 0 && fcntl(fd, F_SETFL, O_APPEND) < 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* An explanation of the errno value that an exec ended with. */
static void explain(int rc, const struct tt_child_spec *spec, char error[TT_CHILD_LINE_MAX])
{
	if (rc == ENOENT)
		snprintf(error, TT_CHILD_LINE_MAX,
		    "there is no program \"%s\" (looked for along PATH); install it or give its "
		    "path",
		    spec->argv[0]);
	else if (rc == EINVAL && spec->cpu >= 0)
		snprintf(error, TT_CHILD_LINE_MAX,
		    "\"%s\" can't be pinned to processor %d: it is not there", spec->argv[0],
		    spec->cpu);
	else
		snprintf(error, TT_CHILD_LINE_MAX, "\"%s\" can't be started: %s", spec->argv[0],
		    strerror(rc));
}

int tt_child_start(
    struct tt_child *c, const struct tt_child_spec *spec, char error[TT_CHILD_LINE_MAX])
{
	int tell[2] = {-1, -1}, rc = 0;
	ssize_t n;

	memset(c, 0, sizeof(*c));
	c->pidfd = c->err = -1;
	c->out = output_file("taut-out");
	if (c->out >= 0)
		c->err = output_file("taut-err");
	if (c->out < 0 || c->err < 0 || pipe2(tell, O_CLOEXEC) < 0)
		goto fail;
	c->pid = fork();
	if (c->pid < 0)
		goto fail;
	if (c->pid == 0)
		child_main(spec, c, tell[1]);
	c->running = true;
	close(tell[1]);
	tell[1] = -1;
	c->pidfd = (int)syscall(SYS_pidfd_open, c->pid, 0);
	if (c->pidfd < 0)
		goto fail;
	do
		n = read(tell[0], &rc, sizeof(rc));
	while (n < 0 && errno == EINTR);
	close(tell[0]);
	if (n == (ssize_t)sizeof(rc)) {
		explain(rc, spec, error);
		tt_child_end(c);
		return -rc;
	}
	return 0;
fail:
	rc = errno;
	snprintf(
	    error, TT_CHILD_LINE_MAX, "\"%s\" can't be started: %s", spec->argv[0], strerror(rc));
	if (tell[0] >= 0)
		close(tell[0]);
	if (tell[1] >= 0)
		close(tell[1]);
	tt_child_end(c);
	return -rc;
}

int tt_child_wait(struct tt_child *c, int timeout_ms)
{
	struct pollfd p = {.fd = c->pidfd, .events = POLLIN};
	siginfo_t info = {0};
	int n;

	if (c->ended)
		return 0;
	n = poll(&p, 1, timeout_ms);
	if (n < 0)
		return -errno;
	if (n == 0)
		return -ETIMEDOUT;
	/* Not reaped yet: as long as it is a zombie its number, which is the session's, can't be
	 * given away. */
	if (waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOWAIT) < 0)
		return -errno;
	c->status = info.si_code == CLD_EXITED ? info.si_status << 8 : info.si_status;
	c->ended = true;
	c->running = false;
	return 0;
}

/* Waits until nobody of the session is alive. False when the time is up. */
static bool session_gone(struct tt_child *c, int ms)
{
	for (int waited = 0;; waited += 5) {
		if (tt_child_wait(c, waited < ms ? 5 : 0) == 0 && !tt_procfs_session_alive(c->pid))
			return true;
		if (waited >= ms)
			return false;
		if (c->ended)
			poll(NULL, 0, 5); /* the rest of the session has no descriptor to wait on */
	}
}

void tt_child_stop(struct tt_child *c, int *signal)
{
	static const int ways[] = {SIGINT, SIGTERM, SIGKILL};

	*signal = 0;
	if (!c->pid || session_gone(c, 0))
		return;
	for (size_t i = 0; i < tt_array_len(ways); i++) {
		*signal = ways[i];
		tt_procfs_session_kill(c->pid, ways[i]);
		if (session_gone(c, TT_CHILD_INT_MS))
			return;
	}
}

void tt_child_end(struct tt_child *c)
{
	if (c->pid > 0) {
		tt_procfs_session_kill(c->pid, SIGKILL);
		kill(c->pid, SIGKILL); /* also where /proc can't be read */
		while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
			;
		if (c->pidfd >= 0)
			close(c->pidfd);
	}
	/* A zeroed struct has no files; descriptor 0 is never one of ours. */
	if (c->out > 0)
		close(c->out);
	if (c->err > 0)
		close(c->err);
	memset(c, 0, sizeof(*c));
}

char *tt_child_output(const struct tt_child *c, bool err, size_t *len)
{
	int fd = err ? c->err : c->out;
	struct stat st;
	size_t size, got = 0;
	char *buf;

	*len = 0;
	if (fstat(fd, &st) < 0)
		return NULL;
	size = tt_min((size_t)st.st_size, (size_t)TT_CHILD_OUTPUT_MAX);
	buf = malloc(size + 1);
	if (!buf)
		return NULL;
	while (got < size) {
		ssize_t n = pread(fd, buf + got, size - got, (off_t)got);

		if (n <= 0)
			break;
		got += (size_t)n;
	}
	for (size_t i = 0; i < got; i++) {
		if (buf[i] == '\0')
			buf[i] = ' ';
	}
	buf[got] = '\0';
	*len = got;
	return buf;
}

void tt_child_how(const struct tt_child *c, char *buf, size_t size)
{
	if (!c->ended)
		snprintf(buf, size, "still running");
	else if (WIFSIGNALED(c->status))
		snprintf(buf, size, "killed by signal %d (%s)", WTERMSIG(c->status),
		    strsignal(WTERMSIG(c->status)));
	else
		snprintf(buf, size, "exit status %d", WEXITSTATUS(c->status));
}

/* Appends the last lines of one file; escapes and other control characters are left out. */
static void tail_of(int fd, char *buf, size_t size)
{
	char raw[TAIL_BYTES + 1];
	size_t len, start, used = strlen(buf);
	struct stat st;
	off_t from;
	ssize_t n;
	int lines = 0;

	if (fstat(fd, &st) < 0)
		return;
	from = st.st_size > TAIL_BYTES ? st.st_size - TAIL_BYTES : 0;
	n = pread(fd, raw, TAIL_BYTES, from);
	if (n <= 0)
		return;
	len = (size_t)n;
	while (len > 0 && strchr(" \t\r\n", raw[len - 1]))
		len--;
	for (start = len; start > 0; start--) {
		if ((raw[start - 1] == '\n' || raw[start - 1] == '\r') && ++lines == TAIL_LINES)
			break;
	}
	raw[len] = '\0';
	if (used && len > start && used + 4 < size)
		used += (size_t)snprintf(buf + used, size - used, " | ");
	for (size_t i = start; i < len && used + 4 < size; i++) {
		unsigned char ch = (unsigned char)raw[i];

		if (ch == 0x1b && raw[i + 1] == '[') {
			i += 2;
			while (i < len && !(raw[i] >= '@' && raw[i] <= '~'))
				i++;
		} else if (ch == '\n' || ch == '\r') {
			if (used >= 3 && strncmp(buf + used - 3, " | ", 3) != 0)
				used += (size_t)snprintf(buf + used, size - used, " | ");
		} else if (ch >= ' ' && ch != 0x7f) {
			buf[used++] = (char)ch;
		}
	}
	buf[used] = '\0';
}

void tt_child_tail(const struct tt_child *c, char *buf, size_t size)
{
	buf[0] = '\0';
	tail_of(c->out, buf, size);
	tail_of(c->err, buf, size);
	if (!buf[0])
		snprintf(buf, size, "(it printed nothing)");
}
