/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/log.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#include "base/fmt.h"
#include "base/raw.h"

enum tt_log_level tt_log_level = TT_LOG_NOTE;
uint64_t tt_log_lost;

static char log_path[TT_LOG_PATH_MAX];

/* What descriptor 2 was at tt_log_start(). */
static struct {
	bool known;
	bool usable;
	dev_t dev;
	ino_t ino;
} standard;

static bool fd_identity(dev_t *dev, ino_t *ino, mode_t *mode)
{
	struct stat st = {0};

	if (tt_raw4(SYS_newfstatat, 2, (long)"", (long)&st, AT_EMPTY_PATH) != 0)
		return false;
	*dev = st.st_dev;
	*ino = st.st_ino;
	*mode = st.st_mode;
	return true;
}

void tt_log_start(void)
{
	mode_t mode = 0;
	int domain = AF_UNIX;
	socklen_t len = sizeof(domain);

	standard.usable = fd_identity(&standard.dev, &standard.ino, &mode);
	/* journald's stderr is a Unix socket and welcome; an internet socket carries somebody's
	 * protocol. */
	if (standard.usable && S_ISSOCK(mode))
		standard.usable = tt_raw6(SYS_getsockopt, 2, SOL_SOCKET, SO_DOMAIN, (long)&domain,
				      (long)&len, 0) == 0 &&
				  domain == AF_UNIX;
	standard.known = true;
}

static bool standard_usable(void)
{
	dev_t dev;
	ino_t ino;
	mode_t mode;

	if (!standard.known)
		return true;
	return standard.usable && fd_identity(&dev, &ino, &mode) && dev == standard.dev &&
	       ino == standard.ino;
}

/* The path with each "%d" replaced by the process number. */
static int path_expand(char *out, size_t size, const char *path)
{
	size_t n = 0;

	while (*path) {
		if (path[0] == '%' && path[1] == 'd') {
			n += tt_fmt(out + n, size - n, "%d", tt_raw_getpid());
			path += 2;
		} else {
			out[n++] = *path++;
		}
		if (n >= size - 1)
			return -ENAMETOOLONG;
	}
	out[n] = '\0';
	return 0;
}

static int file_open(const char *path)
{
	char name[TT_LOG_PATH_MAX + 64];
	int ret = path_expand(name, sizeof(name), path);

	if (ret < 0)
		return ret;
	return tt_raw_open(name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0644);
}

int tt_log_open(const char *path)
{
	int fd;

	if (!path || !*path) {
		log_path[0] = '\0';
		return 0;
	}
	if (strlen(path) >= sizeof(log_path))
		return -ENAMETOOLONG;
	fd = file_open(path);
	if (fd < 0)
		return fd;
	tt_raw_close(fd);
	memcpy(log_path, path, strlen(path) + 1);
	return 0;
}

/*
 * A write that can't end the program: a closed pipe's SIGPIPE and a file limit's SIGXFSZ are held
 * back and taken off again, unless the program had one of them waiting already.
 */
static long write_quietly(int fd, const char *text, size_t len)
{
	const uint64_t quiet = 1ull << (SIGPIPE - 1) | 1ull << (SIGXFSZ - 1);
	static const struct timespec now;
	uint64_t pending = 0, ours, before = 0;
	long done;

	tt_raw4(SYS_rt_sigpending, (long)&pending, sizeof(pending), 0, 0);
	ours = quiet & ~pending;
	tt_raw4(SYS_rt_sigprocmask, SIG_BLOCK, (long)&quiet, (long)&before, sizeof(quiet));
	done = tt_raw_write(fd, text, len);
	if ((done == -EPIPE || done == -EFBIG) && ours)
		tt_raw4(SYS_rt_sigtimedwait, (long)&ours, 0, (long)&now, sizeof(ours));
	tt_raw4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, sizeof(before));
	return done;
}

static void line_write(const char *text, size_t len)
{
	long done = -EBADF;
	int fd;

	if (log_path[0]) {
		fd = file_open(log_path);
		if (fd >= 0) {
			done = write_quietly(fd, text, len);
			tt_raw_close(fd);
		}
	} else if (standard_usable()) {
		done = write_quietly(2, text, len);
	}
	/* Relaxed: a counter that stands alone. */
	if (done != (long)len)
		__atomic_fetch_add(&tt_log_lost, 1, __ATOMIC_RELAXED);
}

void tt_vlog(enum tt_log_level level, const char *fmt, va_list ap)
{
	static const char prefix[] = "taut: ";
	char line[TT_LOG_LINE_MAX];
	size_t at = sizeof(prefix) - 1;
	size_t n;

	if (level > tt_log_level)
		return;
	memcpy(line, prefix, at);
	n = at + tt_vfmt(line + at, sizeof(line) - at, fmt, ap);
	if (n > sizeof(line) - 2) {
		n = sizeof(line) - 2;
		memcpy(line + n - 3, "...", 3);
	}
	/* One call is one line, also where the text came from outside. */
	for (size_t i = at; i < n; i++)
		if (line[i] == '\n' || line[i] == '\r')
			line[i] = ' ';
	line[n] = '\n';
	line_write(line, n + 1);
}

void tt_log_line(enum tt_log_level level, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	tt_vlog(level, fmt, ap);
	va_end(ap);
}
