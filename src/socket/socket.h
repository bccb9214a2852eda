/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * socket.h - accelerated sockets: what preload/ calls for a descriptor that this room knows.
 *
 * A program's descriptor is always the kernel's descriptor. tt_fd_sock() answers NULL for one that is not an IPv4 or
 * IPv6 stream or datagram socket (or that is not known): then the caller goes straight to tt_sys. For the others it calls
 * the function below of the same name, which uses shared memory where it can and the kernel's call
 * where it can't.
 *
 * Results: as the system call's on success, a negative errno value on failure. Nobody below preload/ promises errno.
 * Threads: any thread, any number at once, also inside signal handlers, unless a function says otherwise.
 * Ownership: a struct tt_sock lives as long as one descriptor of this process refers to it; memory of it stays
 * readable for ever (type-stable pool), so a racing close can't fault.
 */
#ifndef TT_SOCKET_SOCKET_H
#define TT_SOCKET_SOCKET_H

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

#include "base/base.h"
#include "socket/statpage.h"

struct tt_sock;

/* Descriptors at or above this number are never accelerated (counted as a fallback). */
#define TT_FD_MAX (1 << 20)

extern struct tt_sock *_Atomic tt_fd_table[TT_FD_MAX];

static inline struct tt_sock *tt_fd_sock(int fd)
{
	if (tt_unlikely((unsigned int)fd >= TT_FD_MAX))
		return NULL;
	/* Acquire: what the creating thread wrote into the socket before it published it here. */
	return __atomic_load_n((struct tt_sock **)(void *)&tt_fd_table[fd], __ATOMIC_ACQUIRE);
}

/*
 * Process. tt_process_start() reads the options, makes the statistics page and adopts inherited sockets; it is called
 * once, before the first other call. The fork functions are pthread_atfork handlers. tt_exec_before() closes
 * the leases of sockets that survive exec. tt_vfork_active is true in a vfork child that still borrows its
 * parent's memory: then nothing of this room may be called.
 */
void tt_process_start(void);
void tt_process_exit(void);
void tt_fork_before(void);
void tt_fork_parent(void);
void tt_fork_child(void);
void tt_exec_before(bool spawn); /* this process executes another program, or another one that inherits */
/* Bytes unread in rings go back to the kernel's queues where that can be: before a child may read any socket. */
void tt_unread_return_all(void);
/* Other programs are started with descriptors of their own choice: any socket of ours may be among them. */
void tt_share_given_all(void);
/*
 * This very process executes another program now, by these arguments of execveat(); after a failure, again with true. In between
 * tt_heir_exec() writes down what the program inherits (heir.c), and after a failure tt_heir_stayed() takes it back.
 */
void tt_share_exec(bool failed);
void tt_heir_exec(int dir, const char *path, int flags, char *const envp[]);
void tt_heir_stayed(void);
/*
 * A process that has set up a seccomp filter still counts among the holders of its sockets, until it ends: it has forked; any of
 * its descriptors may be elsewhere; it ends. No system calls.
 */
void tt_share_lost_forked(void);
void tt_share_lost_given(void);
void tt_share_lost_exit(void);
/*
 * Before a seccomp filter: from then on no system call of ours. True when no socket is known any more, and nothing here
 * may be called again; false when one still holds unread bytes. tt_process_filtered(): there was one at the start.
 */
bool tt_process_confine(void);
bool tt_process_filtered(void);
extern bool tt_process_confined;
extern __thread int tt_vfork_active __attribute__((tls_model("initial-exec")));

/*
 * Signal handlers of the program that began on this thread; preload/ counts them by wrapping sigaction() and its kin. A spin
 * compares with what it saw at the entry of its call: a change of `stop` (handlers installed without SA_RESTART)
 * ends a send, receive, accept or connect with -EINTR, a change of `all` one that has a timeout, and a
 * poll, select or epoll wait. Handlers of SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP and SIGSYS are not counted.
 */
struct tt_signal_count {
	uint32_t all;
	uint32_t stop;
};
extern __thread volatile struct tt_signal_count tt_signals __attribute__((tls_model("initial-exec")));

/* Life of a descriptor. "created", "accepted", "dup" follow the kernel's success; the rest do the kernel's call themselves. */
void tt_sock_created(int fd, int domain, int type, int protocol);
void tt_sock_accepted(int fd, struct tt_sock *listener);
void tt_sock_received(int fd);		   /* came by SCM_RIGHTS or pidfd_getfd */
void tt_sock_inherited(int fd);		   /* came through exec */
void tt_sock_passed(struct tt_sock *s, int fd); /* is about to leave by SCM_RIGHTS: kernel path for good */
void tt_sock_unseen(struct tt_sock *s, int fd); /* io_uring, aio, ...: kernel path for good */
/*
 * stdio, dprintf: as above for the calls that will come. True: bytes lie in the ring, and stay there; who reads must do it by calls
 * that we see.
 */
tt_must_check bool tt_sock_unseen_part(struct tt_sock *s, bool reads, bool writes);
tt_must_check int tt_sock_bind(struct tt_sock *s, int fd, const struct sockaddr *addr, socklen_t len);
tt_must_check int tt_sock_listen(struct tt_sock *s, int fd, int backlog);
tt_must_check int tt_sock_connect(struct tt_sock *s, int fd, const struct sockaddr *addr,
    socklen_t len);
tt_must_check int tt_sock_shutdown(struct tt_sock *s, int fd, int how);
tt_must_check int tt_sock_close(struct tt_sock *s, int fd);

/* Any descriptor, known or not. dup: after the kernel's. vanish: before the kernel closes lo..hi (dup2's target, close_range). */
void tt_fd_dup(int from, int to);
void tt_fd_vanish(unsigned int lo, unsigned int hi);

/*
 * Descriptors of ours among the program's. To the program these numbers are not open: it must not close them, and gets one that it
 * wants for itself (dup2) after they were moved away. tt_fd_own_next(): the lowest in lo..hi; false: none.
 */
bool tt_fd_is_own(int fd);
tt_must_check bool tt_fd_own_next(unsigned int lo, unsigned int hi, unsigned int *own);
void tt_fd_own_move(int fd);

/*
 * Data. flags are MSG_*, and one of these, which mean nothing to the kernel: the call was read() or write(), readv() or writev(), recvfrom()
 * or sendto() with an address. What goes to the kernel before shared memory is used goes by the very call that the program
 * made, where a filter or a tracer may look for it.
 */
#define TT_CALL_READ 0x01000000
#define TT_CALL_READV 0x02000000
#define TT_CALL_FROM 0x03000000
#define TT_CALLS 0x03000000
tt_must_check ssize_t tt_sock_recv(struct tt_sock *s, int fd, void *buf, size_t len, int flags);
tt_must_check ssize_t tt_sock_recvmsg(struct tt_sock *s, int fd, struct msghdr *msg, int flags);
tt_must_check ssize_t tt_sock_send(struct tt_sock *s, int fd, const void *buf, size_t len, int flags);
tt_must_check ssize_t tt_sock_sendmsg(struct tt_sock *s, int fd, const struct msghdr *msg, int flags);
/* The emulated forms: at least one of the two descriptors is known. */
tt_must_check ssize_t tt_sock_sendfile(struct tt_sock *out, int out_fd, int in_fd, off_t *offset,
    size_t count);
tt_must_check ssize_t tt_sock_splice(int fd_in, off_t *off_in, int fd_out, off_t *off_out,
    size_t len, unsigned int flags);

/* Bytes of a stream that lie in shared memory: nobody but this process's calls can read them. */
size_t tt_sock_stranded(const struct tt_sock *s);

/* Options and control. */
tt_must_check int tt_sock_setsockopt(struct tt_sock *s, int fd, int level, int name,
    const void *value, socklen_t len);
tt_must_check int tt_sock_getsockopt(struct tt_sock *s, int fd, int level, int name, void *value,
    socklen_t *len);
tt_must_check int tt_sock_ioctl(struct tt_sock *s, int fd, unsigned long request, void *arg);
/* After a successful F_SETFL or FIONBIO: flags is the new file status word. */
void tt_sock_set_status(struct tt_sock *s, int status_flags);
/* The kernel's sk_err: the next call on the socket, or SO_ERROR, fails with err (> 0) once. recvmmsg() needs it. */
void tt_sock_error_set(struct tt_sock *s, int err);

/* Extension API (include/taut/socket.h). */
struct tt_sock_info {
	enum tt_transport tx;
	enum tt_transport rx;
	enum tt_reason reason; /* why a direction is the kernel's, or NONE */
};
void tt_sock_info(struct tt_sock *s, int fd, struct tt_sock_info *info);
/* Off: kernel path from the next call on, what lies in a ring is still read. On: may be attached again. */
tt_must_check int tt_sock_accelerate(struct tt_sock *s, int fd, bool on);
/* Runs the send path of len bytes as far as it leaves no trace: nothing is sent, no counter moves. */
void tt_sock_warm(struct tt_sock *s, int fd, size_t len);

/* Waiting: any mixture of descriptors. A NULL timeout waits for ever; a NULL mask changes nothing. */
tt_must_check int tt_poll(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
    const sigset_t *mask);
/* timeout is only read; the caller of select(2) subtracts the time slept itself. */
tt_must_check int tt_select(int n, fd_set *in, fd_set *out, fd_set *err,
    const struct timespec *timeout, const sigset_t *mask);
void tt_epoll_created(int epfd);
void tt_epoll_passed(int fd); /* is about to leave by SCM_RIGHTS; it need not be a set */
tt_must_check int tt_epoll_ctl(int epfd, int op, int fd, struct epoll_event *event);
tt_must_check int tt_epoll_wait(int epfd, struct epoll_event *events, int max,
    const struct timespec *timeout, const sigset_t *mask);
/* True while no descriptor of this process is accelerated: waits may go straight to the kernel. */
bool tt_wait_native(void);

#endif
