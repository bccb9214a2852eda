/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * exec.c - another program takes over. Sockets that survive (no close-on-exec) leave their rings
 * first. The environment is passed on as it is: with LD_PRELOAD in it the new program is
 * accelerated too, and may adopt the sockets (socket/heir.c).
 *
 * After a vfork() these run on the parent's memory: no lock, no allocation; argument lists are
 * built on the stack.
 */
#include "preload/preload.h"

#include <alloca.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/copy.h"
#include "base/fmt.h"
#include "base/raw.h"

static void leaving(int dir, const char *path, int flags, char *const envp[])
{
	int saved = errno;

	tt_preload_exec();
	if (tt_preload_started()) {
		tt_share_exec(false);
		tt_heir_exec(dir, path, flags, envp);
	}
	errno = saved;
}

/* It failed, or we would not be here. */
static int stayed(int ret)
{
	int saved = errno;

	if (tt_preload_started()) {
		tt_heir_stayed();
		tt_share_exec(true);
	}
	errno = saved;
	return ret;
}

/*
 * Which file the C library will find for a name in PATH. A wrong guess does no harm: the new program sees
 * that it is another one.
 */
static const char *search(const char *file, char found[PATH_MAX])
{
	const char *path = getenv("PATH");

	if (!tt_copy_readable(file, 1) || strchr(file, '/'))
		return file;
	for (path = path ? path : "/bin:/usr/bin"; *path; path += *path == ':') {
		size_t len = strcspn(path, ":");

		if (len && tt_fmt(found, PATH_MAX, "%.*s/%s", (int)len, path, file) < PATH_MAX &&
		    tt_raw3(SYS_faccessat, AT_FDCWD, found, X_OK) == 0)
			return found;
		path += len;
	}
	return file;
}

static void leaving_by_name(const char *file, char *const envp[])
{
	char found[PATH_MAX];

	leaving(AT_FDCWD, search(file, found), 0, envp);
}

int execve(const char *path, char *const argv[], char *const envp[])
{
	leaving(AT_FDCWD, path, 0, envp);
	return stayed(tt_sys.execve(path, argv, envp));
}

int execv(const char *path, char *const argv[])
{
	leaving(AT_FDCWD, path, 0, environ);
	return stayed(tt_sys.execve(path, argv, environ));
}

int execvpe(const char *file, char *const argv[], char *const envp[])
{
	leaving_by_name(file, envp);
	return stayed(tt_sys.execvpe(file, argv, envp));
}

int execvp(const char *file, char *const argv[])
{
	leaving_by_name(file, environ);
	return stayed(tt_sys.execvpe(file, argv, environ));
}

int fexecve(int fd, char *const argv[], char *const envp[])
{
	leaving(fd, "", AT_EMPTY_PATH, envp);
	return stayed(tt_sys.fexecve(fd, argv, envp));
}

int execveat(int dir_fd, const char *path, char *const argv[], char *const envp[], int flags)
{
	tt_sys_init();
	if (!tt_sys.execveat) {
		errno = ENOSYS;
		return -1;
	}
	leaving(dir_fd, path, flags & AT_EMPTY_PATH, envp);
	return stayed(tt_sys.execveat(dir_fd, path, argv, envp, flags));
}

/* Arguments from first to the NULL that ends them, without it. -1: more than exec can take. */
static int args_count(const char *first, va_list ap)
{
	int n = 0;

	for (const char *arg = first; arg; arg = va_arg(ap, const char *))
		if (n++ == INT_MAX - 1) {
			errno = E2BIG;
			return -1;
		}
	return n;
}

/* argv[0..n], the NULL included. */
static void args_copy(char **argv, int n, const char *first, va_list ap)
{
	argv[0] = (char *)(uintptr_t)first;
	for (int i = 1; i <= n; i++)
		argv[i] = va_arg(ap, char *);
}

int execl(const char *path, const char *arg, ...)
{
	char **argv;
	va_list ap;
	int n;

	va_start(ap, arg);
	n = args_count(arg, ap);
	va_end(ap);
	if (n < 0)
		return -1;
	argv = alloca(((size_t)n + 1) * sizeof(*argv));
	va_start(ap, arg);
	args_copy(argv, n, arg, ap);
	va_end(ap);
	return execve(path, argv, environ);
}

int execlp(const char *file, const char *arg, ...)
{
	char **argv;
	va_list ap;
	int n;

	va_start(ap, arg);
	n = args_count(arg, ap);
	va_end(ap);
	if (n < 0)
		return -1;
	argv = alloca(((size_t)n + 1) * sizeof(*argv));
	va_start(ap, arg);
	args_copy(argv, n, arg, ap);
	va_end(ap);
	return execvpe(file, argv, environ);
}

int execle(const char *path, const char *arg, ...)
{
	char **argv;
	char *const *envp;
	va_list ap;
	int n;

	va_start(ap, arg);
	n = args_count(arg, ap);
	va_end(ap);
	if (n < 0)
		return -1;
	argv = alloca(((size_t)n + 1) * sizeof(*argv));
	va_start(ap, arg);
	args_copy(argv, n, arg, ap);
	envp = va_arg(ap, char *const *);
	va_end(ap);
	return execve(path, argv, envp);
}
