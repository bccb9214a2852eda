/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * process.c - processes that begin and end.
 *
 * Every fork() of the C library, also the ones inside daemon() and forkpty(), runs the
 * pthread_atfork handlers of start.c. What does not run them is wrapped: _Fork, clone, vfork
 * (vfork.S). posix_spawn, system and popen start their child inside the C library with the parent's
 * memory on loan; nothing of ours runs in it.
 */
#include "preload/preload.h"

#include <sched.h>

#include "base/raw.h"

pid_t _Fork(void)
{
	pid_t pid;

	tt_sys_init();
	tt_preload_fork_before();
	pid = tt_sys._Fork ? tt_sys._Fork() : (pid_t)tt_raw5(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	tt_preload_fork_after(pid);
	return pid;
}

/* Called by vfork.S in the parent, before the child borrows its memory. */
void tt_preload_vfork_before(void);
void tt_preload_vfork_before(void)
{
	if (tt_vfork_active)
		return;
	tt_preload_spawn(true); /* the child may close, copy and pass on as it likes */
}

struct clone_start {
	int (*fn)(void *);
	void *arg;
};

static int clone_child(void *arg)
{
	/* A copy of the parent's stack: this child has its own memory. */
	struct clone_start start = *(struct clone_start *)arg;

	tt_preload_fork_after(0);
	return start.fn(start.arg);
}

/* A child with its own memory, as from fork(). */
static int clone_copy(struct clone_start *start, void *stack, int flags, pid_t *parent_tid,
    void *tls, pid_t *child_tid)
{
	int pid;

	/* One descriptor table for two memories: whatever the child closes or opens, our table
	 * would not know. */
	if (flags & CLONE_FILES)
		tt_preload_unseen_all();
	tt_preload_fork_before();
	pid = tt_sys.clone(clone_child, stack, flags, start, parent_tid, tls, child_tid);
	tt_preload_fork_after(pid ? pid : 1);
	return pid;
}

int clone(int (*fn)(void *), void *stack, int flags, void *arg, ...)
{
	struct clone_start start = {fn, arg};
	pid_t *parent_tid, *child_tid;
	long args[3];
	void *tls;
	va_list ap;
	int pid, outer;

	va_start(ap, arg);
	tt_preload_args(ap, args, 3);
	va_end(ap);
	parent_tid = (pid_t *)args[0];
	tls = (void *)args[1];
	child_tid = (pid_t *)args[2];
	tt_sys_init();
	if (fn && stack && !(flags & CLONE_VM) && !tt_vfork_active)
		return clone_copy(&start, stack, flags, parent_tid, tls, child_tid);
	if (!(flags & CLONE_VFORK) || (flags & CLONE_THREAD))
		return tt_sys.clone(fn, stack, flags, arg, parent_tid, tls, child_tid);
	/* As vfork(): the child sees our thread-local flag, for it has our memory. */
	tt_preload_vfork_before();
	outer = tt_vfork_active;
	tt_vfork_active = 1;
	pid = tt_sys.clone(fn, stack, flags, arg, parent_tid, tls, child_tid);
	tt_vfork_active = outer;
	return pid;
}

/* 0..2 are replaced inside the C library. When it fails before, they are sockets of unknown
 * history. */
static void standard_received(void)
{
	int saved = errno;

	if (tt_preload_started())
		for (int fd = 0; fd <= 2; fd++)
			tt_sock_received(fd);
	errno = saved;
}

int daemon(int no_chdir, int no_close)
{
	int ret;

	tt_sys_init();
	if (!no_close)
		tt_preload_vanish(0, 2);
	ret = tt_sys.daemon(no_chdir, no_close);
	if (ret < 0 && !no_close)
		standard_received();
	return ret;
}

int login_tty(int fd)
{
	int ret;

	tt_sys_init();
	tt_preload_vanish(0, 2);
	ret = tt_sys.login_tty(fd);
	if (ret < 0)
		standard_received();
	return ret;
}

int forkpty(int *terminal, char *name, const struct termios *termp, const struct winsize *winp)
{
	int pid;

	tt_sys_init();
	pid = tt_sys.forkpty(terminal, name, termp, winp);
	if (pid == 0)
		tt_preload_vanish(0, 2);
	return pid;
}

int system(const char *command)
{
	tt_preload_spawn(false);
	return tt_sys.system(command);
}

FILE *popen(const char *command, const char *mode)
{
	tt_preload_spawn(false);
	return tt_sys.popen(command, mode);
}

/* The child's file actions are done inside the C library, so any socket without close-on-exec may
 * reach the new program. */
int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
    const posix_spawnattr_t *attr, char *const argv[], char *const envp[])
{
	tt_preload_spawn(actions != NULL);
	return tt_sys.posix_spawn(pid, path, actions, attr, argv, envp);
}

int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
    const posix_spawnattr_t *attr, char *const argv[], char *const envp[])
{
	tt_preload_spawn(actions != NULL);
	return tt_sys.posix_spawnp(pid, file, actions, attr, argv, envp);
}

int prctl(int option, ...)
{
	long args[4];
	va_list ap;

	va_start(ap, option);
	tt_preload_args(ap, args, 4);
	va_end(ap);
	tt_sys_init();
	if (option == PR_SET_SECCOMP)
		tt_preload_confine();
	return tt_sys.prctl(option, args[0], args[1], args[2], args[3]);
}

void _exit(int status)
{
	tt_preload_end();
	for (;;)
		(void)tt_raw1(SYS_exit_group, status);
}

#define TT_ALIAS_process TT_ALIAS_DEFINE
#include "preload/aliases.h"
