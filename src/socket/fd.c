/* SPDX-License-Identifier: BSD-3-Clause */
#include "socket/sock.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/mman.h>

#include "base/raw.h"
#include "socket/epoll.h"

#define CHUNK_SOCKS 64u
#define SOCKS_MAX 262144u
#define CHUNKS_MAX (SOCKS_MAX / CHUNK_SOCKS)

struct tt_sock *_Atomic tt_fd_table[TT_FD_MAX];


/* Sockets come from chunks that are never given back, so that a stale pointer can always be read. */
static struct tt_sock *chunks[CHUNKS_MAX];
static uint32_t chunks_count;
static struct tt_sock *free_list;
static struct tt_lock pool_lock;

bool tt_lock_wait(struct tt_lock *l)
{
	for (uint32_t i = 0; !tt_lock_try(l); i++) {
		if (tt_lock_is_mine(l))
			return false;
		if (i % 64 == 63)
			(void)tt_raw0(SYS_sched_yield);
		else
			tt_cpu_relax();
	}
	return true;
}

static struct tt_sock *pool_get(void)
{
	struct tt_sock *s = free_list;
	long p;

	if (s) {
		free_list = s->free_next;
		return s;
	}
	if (chunks_count == CHUNKS_MAX)
		return NULL;
	p = tt_raw6(SYS_mmap, 0, CHUNK_SOCKS * sizeof(*s), PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p < 0 && p > -4096)
		return NULL;
	s = (struct tt_sock *)p;
	chunks[chunks_count++] = s;
	for (uint32_t i = 1; i < CHUNK_SOCKS; i++) {
		s[i].free_next = free_list;
		free_list = &s[i];
	}
	return s;
}

struct tt_sock *tt_sock_alloc(int fd, int domain, int type)
{
	struct tt_sock *s;

	if (!tt_lock_wait(&pool_lock))
		return NULL;
	s = pool_get();
	tt_unlock(&pool_lock);
	if (!s) {
		tt_stat_add(&tt_stat->fallbacks[TT_REASON_LIMIT], 1);
		return NULL;
	}
	/* refs last: whoever walks over all sockets takes only those that have some. */
	memset((char *)s + offsetof(struct tt_sock, share), 0, sizeof(*s) - offsetof(struct tt_sock, share));
	tt_store_relaxed(&s->fd, fd);
	s->domain = (uint16_t)domain;
	s->type = (uint16_t)type;
	s->probe_at = tt_tun.attach_after;
	s->stat = tt_stat_sock_get(fd, domain, type);
	tt_stat_reason(s->stat, TT_REASON_YOUNG);
	tt_store_release(&s->refs, 1u);
	return s;
}

/* No descriptor above this one was ever ours: closefrom(3) need not look at a million entries. */
static int fd_high = -1;

static void fd_note(int fd)
{
	int high = __atomic_load_n(&fd_high, __ATOMIC_RELAXED);

	while (fd > high && !__atomic_compare_exchange_n(&fd_high, &high, fd, false, __ATOMIC_RELAXED,
				__ATOMIC_RELAXED))
		;
}

static void fd_put(int fd, struct tt_sock *s)
{
	fd_note(fd);
	__atomic_store_n((struct tt_sock **)(void *)&tt_fd_table[fd], s, __ATOMIC_RELEASE);
}

static bool fd_fits(int fd)
{
	if ((unsigned int)fd < TT_FD_MAX)
		return true;
	tt_stat_add(&tt_stat->fallbacks[TT_REASON_LIMIT], 1);
	return false;
}

static bool kind_is_ours(int domain, int type, int protocol)
{
	if ((domain != AF_INET && domain != AF_INET6) || tt_process_confined)
		return false;
	if (type == SOCK_STREAM)
		return tt_tun.tcp && (protocol == 0 || protocol == IPPROTO_TCP);
	return type == SOCK_DGRAM && tt_tun.udp && (protocol == 0 || protocol == IPPROTO_UDP);
}

static struct tt_sock *sock_new(int fd, int domain, int type)
{
	struct tt_sock *s;

	if (!fd_fits(fd))
		return NULL;
	if (tt_fd_sock(fd) || tt_epoll_is_set(fd))
		tt_fd_vanish((unsigned int)fd, (unsigned int)fd); /* closed by code that we can't see */
	s = tt_sock_alloc(fd, domain, type);
	if (s)
		fd_put(fd, s);
	return s;
}

void tt_sock_created(int fd, int domain, int type, int protocol)
{
	struct tt_sock *s;
	int kind = type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (!kind_is_ours(domain, kind, protocol)) {
		if (tt_fd_sock(fd))
			tt_fd_vanish((unsigned int)fd, (unsigned int)fd);
		return;
	}
	s = sock_new(fd, domain, kind);
	if (s)
		s->nonblock = (type & SOCK_NONBLOCK) != 0;
}

static void sock_nonblock_read(struct tt_sock *s, int fd)
{
	long flags = tt_raw2(SYS_fcntl, fd, F_GETFL);

	s->nonblock = flags >= 0 && (flags & O_NONBLOCK);
}

void tt_sock_accepted(int fd, struct tt_sock *listener)
{
	struct tt_sock *s = sock_new(fd, listener->domain, SOCK_STREAM);

	if (!s)
		return;
	s->role = TT_ROLE_SERVER;
	/* Linux does not hand O_NONBLOCK down; accept4() has its own flag, which the caller sets by tt_sock_set_status(). */
	s->rcvtimeo_ns = listener->rcvtimeo_ns;
	if (tt_attach_state(listener) == TT_ATTACH_NEVER)
		tt_attach_never(s, listener->stat->reason);
	else if (tt_tun.attach_after == 0)
		tt_attach_first(s, fd);
}

/* A descriptor that this process did not make. NULL: no socket of ours, or known. */
static struct tt_sock *sock_found(int fd)
{
	int domain = 0;
	int type = 0;
	int protocol = 0;
	int listening = 0;
	socklen_t len = sizeof(int);
	struct tt_sock *s;

	if (!fd_fits(fd) || tt_fd_sock(fd))
		return NULL;
	if (tt_raw5(SYS_getsockopt, fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) < 0 ||
	    tt_raw5(SYS_getsockopt, fd, SOL_SOCKET, SO_TYPE, &type, &len) < 0 ||
	    tt_raw5(SYS_getsockopt, fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &len) < 0 ||
	    tt_raw5(SYS_getsockopt, fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &len) < 0 ||
	    !kind_is_ours(domain, type, protocol))
		return NULL;
	s = sock_new(fd, domain, type);
	if (!s)
		return NULL;
	sock_nonblock_read(s, fd);
	if (listening) {
		s->role = TT_ROLE_LISTENER;
		s->stat->flags |= TT_STAT_LISTEN;
	}
	return s;
}

void tt_sock_received(int fd)
{
	struct tt_sock *s = sock_found(fd);

	if (!s)
		return;
	s->shared = true;
	/* Somebody else may still hold it and read it by the kernel: which end it is, is not known either. */
	if (s->role != TT_ROLE_LISTENER && s->type == SOCK_STREAM)
		tt_attach_never(s, TT_REASON_PASSED);
}

/* Another descriptor of the same socket, known already. */
static int same_socket(int fd)
{
	uint64_t cookie = tt_ident_cookie(fd);
	int high = tt_fd_high();

	for (int i = 0; cookie && i <= high; i++) {
		const struct tt_sock *s = tt_fd_sock(i);

		if (s && s->cookie == cookie)
			return i;
	}
	return -1;
}

void tt_sock_inherited(int fd)
{
	int same = same_socket(fd);
	struct tt_sock *s;

	if (same >= 0) {
		tt_fd_dup(same, fd);
		return;
	}
	s = sock_found(fd);
	if (!s)
		return;
	s->standard = fd == 1 || fd == 2;
	if (s->role != TT_ROLE_LISTENER && s->type == SOCK_STREAM)
		tt_heir_adopt(s, fd);
	else
		s->shared = true;
}

void tt_sock_set_status(struct tt_sock *s, int status_flags)
{
	s->nonblock = (status_flags & O_NONBLOCK) != 0;
	/* SIGIO is raised by what the kernel receives. */
	if (status_flags & O_ASYNC)
		tt_sock_rx_stop(s, TT_REASON_OPTION);
}

void tt_sock_put(struct tt_sock *s)
{
	if (__atomic_sub_fetch(&s->refs, 1, __ATOMIC_ACQ_REL) != 0)
		return;
	tt_epoll_sock_gone(s);
	tt_detach(s);
	tt_share_leave(s);
	if (s->dgram)
		tt_dgram_close(s);
	tt_stat_sock_put(s->stat);
	if (tt_load_acquire(&s->inside) || tt_load_acquire(&s->sleepers))
		return; /* a thread is still in a call on it: its memory is not used again */
	if (!tt_lock_wait(&pool_lock))
		return; /* in a handler that interrupted the pool: the socket is lost, not the memory's integrity */
	s->free_next = free_list;
	free_list = s;
	tt_unlock(&pool_lock);
}

void tt_fd_note(int fd)
{
	fd_note(fd);
}

void tt_fd_dup(int from, int to)
{
	struct tt_sock *s = tt_fd_sock(from);

	if (!fd_fits(to))
		return;
	if (tt_fd_sock(to))
		tt_fd_vanish((unsigned int)to, (unsigned int)to);
	tt_epoll_dup(from, to);
	if (!s)
		return;
	__atomic_add_fetch(&s->refs, 1, __ATOMIC_ACQ_REL);
	if (to == 1 || to == 2)
		s->standard = true;
	fd_put(to, s);
}

int tt_fd_high(void)
{
	return __atomic_load_n(&fd_high, __ATOMIC_RELAXED);
}

/* Another descriptor of the same socket, once one of them is gone (dup2() and close(), as every inetd does). */
static int other_name(const struct tt_sock *s)
{
	int high = tt_fd_high();

	for (int fd = 0; fd <= high; fd++)
		if (tt_fd_sock(fd) == s)
			return fd;
	return -1;
}

/* The descriptor that it was known by has gone. */
static void rename_sock(struct tt_sock *s)
{
	struct tt_dir *dir = tt_load_acquire(&s->tx.dir);
	int fd = tt_load_relaxed(&s->refs) > 1 ? other_name(s) : -1;

	tt_store_relaxed(&s->fd, fd);
	if (dir && !s->foreign)
		tt_store_release(&dir->s_fd, (uint32_t)(fd + 1));
}

void tt_fd_vanish(unsigned int lo, unsigned int hi)
{
	int high = __atomic_load_n(&fd_high, __ATOMIC_RELAXED);

	if (high < 0)
		return;
	hi = tt_min(hi, (unsigned int)high);
	for (unsigned int fd = lo; fd <= hi; fd++) {
		struct tt_sock *s;

		if (!tt_fd_table[fd] && !tt_epoll_is_set((int)fd))
			continue;
		s = __atomic_exchange_n((struct tt_sock **)(void *)&tt_fd_table[fd], NULL, __ATOMIC_ACQ_REL);
		tt_epoll_vanish((int)fd);
		if (!s)
			continue;
		tt_epoll_fd_gone(s, (int)fd);
		if (__atomic_load_n(&s->refs, __ATOMIC_ACQUIRE) == 1 && tt_attach_state(s) != TT_ATTACH_NONE)
			tt_stream_last_close(s, (int)fd);
		if (tt_load_relaxed(&s->fd) == (int)fd)
			rename_sock(s);
		tt_sock_put(s);
	}
}

void tt_fd_forget(int fd)
{
	struct tt_sock *s = __atomic_exchange_n((struct tt_sock **)(void *)&tt_fd_table[fd], NULL,
	    __ATOMIC_ACQ_REL);

	if (!s)
		return;
	tt_share_lost(s); /* this process still holds it, and reads */
	tt_epoll_fd_gone(s, fd);
	if (tt_load_relaxed(&s->fd) == fd)
		rename_sock(s);
	tt_sock_put(s);
}

int tt_sock_close(struct tt_sock *s, int fd)
{
	(void)s;
	tt_fd_vanish((unsigned int)fd, (unsigned int)fd);
	return tt_sys.close(fd) < 0 ? -errno : 0;
}

void tt_fd_fork_child(void)
{
	/* Other threads of the parent may have held it: they do not exist here. */
	pool_lock.tid = 0;
	for (uint32_t c = 0; c < chunks_count; c++) {
		for (uint32_t i = 0; i < CHUNK_SOCKS; i++) {
			struct tt_sock *s = &chunks[c][i];

			s->tx_lock.tid = 0;
			s->rx_lock.tid = 0;
			s->sleepers = 0;
			s->inside = 0;
			s->native_sends = 0;
		}
	}
}

void tt_sock_for_each(void (*fn)(struct tt_sock *s, void *arg), void *arg)
{
	for (uint32_t c = 0; c < chunks_count; c++)
		for (uint32_t i = 0; i < CHUNK_SOCKS; i++)
			if (tt_load_acquire(&chunks[c][i].refs))
				fn(&chunks[c][i], arg);
}
