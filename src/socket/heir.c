/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * heir.c - a connection that crosses exec is adopted by the next program (same-host.md rules 1, 20, 21).
 *
 * To use a ring a process must be alone with the socket, and the kernel tells nobody who else holds one. So the old program, which
 * knows (share.c counts its forks), says so in the file of hints: a *testament*, found by the socket's cookie, for this process
 * number, this start of the process and the very file that is to be executed. Without one an inherited socket stays with the kernel.
 *
 *  - The heir of a process that was alone is alone.
 *  - Where others were still counted, as the server that forked for this connection and is about to close its copy, the
 *    testament names a number, and whoever of them leaves the heir alone writes that number down (tt_heir_tell()). The heir looks
 *    for it as it moves messages.
 *
 * A testament is for the next program and none after it: programs between that we don't see could have forked without
 * being counted. So it is for one file, is made only when our library goes along (LD_PRELOAD), is taken back when exec
 * fails, is wiped when it is read, and dies after seconds.
 *
 * None is written for a socket that a process outside the count may hold (passed, inherited by a spawned program), that the program
 * has done something with which only the kernel serves (an option: the heir would not know), whose unread bytes could
 * not go back to the kernel, or that is in an epoll set.
 *
 * The heir's C library may read standard input and write standard output behind our back: stdio.c.
 */
#include "socket/heir.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>

#include "base/copy.h"
#include "base/raw.h"
#include "socket/spin.h"
#include "socket/trace.h"

/* In the file of hints, beside the sockets' own entries: other keys. */
#define KEY_TESTAMENT 0x7465737461000000ull
#define KEY_TOLD 0x746f6c6400000000ull
/* exec takes less. */
#define TESTAMENT_AGE_NS 10000000000ull
#define SCRIPTS_DEEP 4 /* as the kernel */

/* The low bits of its number. */
#define NUMBER_CLIENT 1u
#define NUMBER_ALONE 2u
#define NUMBER_BITS 3u

bool tt_heir_leaving;

struct testament {
	uint64_t proof; /* of process and file; 0: wiped */
	uint64_t number;
};
_Static_assert(sizeof(struct testament) == TT_INBOX_ID_BYTES, "it takes an entry of the file of hints");

static uint64_t mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* When this process began, in the kernel's ticks: exec leaves it. 0: not told. */
static uint64_t process_start(void)
{
	char text[1024];
	const char *at;
	uint64_t ticks = 0;
	long n;
	int fd = tt_raw_open("/proc/self/stat", O_RDONLY | O_CLOEXEC, 0);

	if (fd < 0)
		return 0;
	n = tt_raw_read(fd, text, sizeof(text) - 1);
	(void)tt_raw_close(fd);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	at = strrchr(text, ')'); /* the name may hold anything */
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	for (at = at ? at + 1 : ""; *at >= '0' && *at <= '9'; at++)
		ticks = ticks * 10 + (uint64_t)(*at - '0');
	return ticks;
}

/* Never 0. */
static uint64_t proof(const struct stat *program)
{
	uint64_t p = mix((uint64_t)tt_raw_getpid());

	p = mix(p ^ process_start());
	p = mix(p ^ (uint64_t)program->st_dev);
	return mix(p ^ (uint64_t)program->st_ino) | 1;
}

static int testament_put(const struct tt_sock *s, const struct testament *t)
{
	uint8_t bytes[TT_INBOX_ID_BYTES];

	memcpy(bytes, t, sizeof(bytes));
	return tt_hint_publish(s->netns ^ KEY_TESTAMENT, s->cookie, bytes);
}

/* ---- the program that goes ---- */

/* A script is executed by its interpreter. False: nothing that we can name. */
static bool program_of(int dir, const char *path, int flags, struct stat *program)
{
	char head[PATH_MAX];

	for (int i = 0; i <= SCRIPTS_DEEP; i++) {
		long n;
		int fd;

		if (tt_raw4(SYS_newfstatat, dir, path, program, flags) < 0 || !S_ISREG(program->st_mode))
			return false;
		fd = (int)tt_raw4(SYS_openat, dir, path, O_RDONLY | O_CLOEXEC, 0);
		if (fd < 0) /* an empty path, or one that can only be executed: then no script */
			return true;
		n = tt_raw_read(fd, head, sizeof(head) - 1);
		(void)tt_raw_close(fd);
		if (n < 2 || head[0] != '#' || head[1] != '!')
			return true;
		head[n] = '\0';
		path = head + 2;
		path += strspn(path, " \t");
		head[(size_t)(path - head) + strcspn(path, " \t\n")] = '\0';
		dir = AT_FDCWD;
		flags = 0;
	}
	return false;
}

/* The next program gets our library. */
static bool library_goes_along(char *const envp[])
{
	static const char key[] = "LD_PRELOAD=";

	for (; envp && tt_copy_readable(envp, sizeof(*envp)) && *envp; envp++)
		if (tt_copy_readable(*envp, sizeof(key)) && strncmp(*envp, key, sizeof(key) - 1) == 0)
			return strstr(*envp, "libtaut") != NULL;
	return false;
}

static bool drained(const struct tt_sock *s)
{
	const struct tt_dir *dir = s->rx.dir;

	return !dir || tt_load_acquire(&dir->tail) == tt_load_acquire(&dir->head);
}

static bool has_heir(struct tt_sock *s, int fd)
{
	if (s->type != SOCK_STREAM || (s->role != TT_ROLE_CLIENT && s->role != TT_ROLE_SERVER))
		return false;
	if (s->given || s->barred || s->hostile || s->pending_err || s->tx.last || s->ep_regs || s->heir_wrote ||
	    (tt_attach_state(s) != TT_ATTACH_NONE && tt_attach_state(s) != TT_ATTACH_DONE) || !drained(s) || !tt_ident_tcp_established(fd))
		return false;
	if (s->heir_nonce && !tt_heir_look(s))
		return false;
	s->cookie = tt_ident_cookie(fd);
	s->netns = tt_ident_netns(fd);
	return s->cookie != 0;
}

static void write_down(struct tt_sock *s, const struct stat *program)
{
	struct testament t = {.proof = proof(program)};
	bool alone;

	t.number = mix(t.proof ^ mix(s->cookie) ^ tt_tsc()) & ~(uint64_t)NUMBER_BITS;
	s->heir_wrote = t.number | NUMBER_BITS; /* never 0, and not the number itself */
	if (tt_share_bequeath(s, t.number, &alone)) {
		s->heir_wrote = 0;
		return;
	}
	t.number |= (alone ? NUMBER_ALONE : 0) | (s->role == TT_ROLE_CLIENT ? NUMBER_CLIENT : 0);
	if (testament_put(s, &t) == 0)
		return;
	tt_share_take_back(s);
	s->heir_wrote = 0;
}

/* To the peer: this end has left the slot for good, and the connection goes on. */
static void slot_given_up(struct tt_sock *s)
{
	if (!s->rx.dir || s->foreign || !tt_lock_wait(&s->rx_lock))
		return;
	if (s->rx.dir && drained(s) && tt_word_is_closed(&s->rx.dir->word) && !s->ref.gov)
		tt_store_release(&s->rx.dir->r_gone, 1);
	tt_unlock(&s->rx_lock);
}

void tt_heir_exec(int dir, const char *path, int flags, char *const envp[])
{
	int high = tt_process_confined ? -1 : tt_fd_high();
	struct stat program;
	bool known = false;

	__atomic_store_n(&tt_heir_leaving, true, __ATOMIC_SEQ_CST);
	for (int fd = 0; fd <= high; fd++) {
		struct tt_sock *s = tt_fd_sock(fd);

		if (!s || !s->exec_keeps || tt_attach_state(s) == TT_ATTACH_NEVER)
			continue;
		if (!known && (!library_goes_along(envp) || !program_of(dir, path, flags, &program)))
			return;
		known = true;
		if (!has_heir(s, fd))
			continue;
		slot_given_up(s);
		write_down(s, &program);
	}
}

static void take_back(struct tt_sock *s, void *arg)
{
	static const struct testament none;

	(void)arg;
	if (!s->heir_wrote)
		return;
	s->heir_wrote = 0;
	(void)testament_put(s, &none);
	tt_share_take_back(s);
}

void tt_heir_revoke(void)
{
	tt_sock_for_each(take_back, NULL);
}

static void forget(struct tt_sock *s, void *arg)
{
	(void)arg;
	s->heir_wrote = 0;
}

void tt_heir_fork_child(void)
{
	tt_heir_leaving = false;
	tt_sock_for_each(forget, NULL);
}

void tt_heir_stayed(void)
{
	tt_heir_revoke();
	__atomic_store_n(&tt_heir_leaving, false, __ATOMIC_SEQ_CST);
}

void tt_heir_tell(uint64_t nonce)
{
	static const uint8_t nothing[TT_INBOX_ID_BYTES];

	if (tt_hint_publish(KEY_TOLD, nonce, nothing))
		tt_stat_add(&tt_stat->fallbacks[TT_REASON_PERMISSION], 1); /* the heir stays with the kernel */
}

/* ---- the program that comes ---- */

bool tt_heir_look(struct tt_sock *s)
{
	uint8_t nothing[TT_INBOX_ID_BYTES];

	if (s->heir_nonce && tt_hint_lookup(KEY_TOLD, s->heir_nonce, nothing, NULL) == 0)
		s->heir_nonce = 0;
	return !tt_share_held(s);
}

/* Reads the testament for this socket, and wipes it. */
static bool testament_take(const struct tt_sock *s, struct testament *t)
{
	static const struct testament none;
	uint8_t bytes[TT_INBOX_ID_BYTES];
	uint64_t written;
	struct stat program;

	if (tt_hint_lookup(s->netns ^ KEY_TESTAMENT, s->cookie, bytes, &written))
		return false;
	memcpy(t, bytes, sizeof(*t));
	if (!t->proof || tt_raw4(SYS_newfstatat, AT_FDCWD, "/proc/self/exe", &program, 0) < 0 ||
	    t->proof != proof(&program))
		return false;
	/* Not to be had twice. */
	return testament_put(s, &none) == 0 && now_ns() - written < TESTAMENT_AGE_NS;
}

/* What the old program had told us, as far as the kernel knows it. */
static void options_read(struct tt_sock *s, int fd)
{
	struct timeval tv = {0};
	socklen_t len = sizeof(tv);
	long flags = tt_raw2(SYS_fcntl, fd, F_GETFL);

	if (tt_raw5(SYS_getsockopt, fd, SOL_SOCKET, SO_RCVTIMEO_OLD, &tv, &len) == 0)
		s->rcvtimeo_ns = tv.tv_sec * 1000000000 + tv.tv_usec * 1000;
	if (flags < 0 || (flags & O_ASYNC))
		tt_attach_never(s, TT_REASON_OPTION);
}

void tt_heir_adopt(struct tt_sock *s, int fd)
{
	struct testament t;

	s->cookie = tt_ident_cookie(fd);
	s->netns = tt_ident_netns(fd);
	if (!s->cookie || !testament_take(s, &t)) {
		s->shared = true;
		tt_attach_never(s, TT_REASON_PASSED);
		return;
	}
	s->role = t.number & NUMBER_CLIENT ? TT_ROLE_CLIENT : TT_ROLE_SERVER;
	s->recount = true;
	if (!(t.number & NUMBER_ALONE)) {
		s->heir_nonce = t.number & ~(uint64_t)NUMBER_BITS;
		tt_stat_reason(s->stat, TT_REASON_FORKED);
	}
	options_read(s, fd);
	tt_stdio_look();
	if (tt_stdio_may_read(s))
		tt_stat_reason(s->stat, TT_REASON_UNSEEN);
	tt_trace_sock(fd, s->stat, "inherited", s->heir_nonce ? TT_REASON_FORKED : TT_REASON_NONE);
}
