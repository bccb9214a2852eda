/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scene.h - transcript programs: short scenes that print what the socket calls answer. The
 * transcript on the kernel is the reference; a transcript under libtaut must be the same line by
 * line (tests/stream/same).
 *
 * So a scene prints nothing that may differ from run to run: no ports, descriptors, times or
 * amounts that buffers decide. Each scene is a process of its own (this program executed again), so
 * that a crash or a hang is one line of the transcript and the next scene starts fresh.
 *
 * The other end of a connection is a peer: this process itself, a second process, or a second
 * process without any preloaded library (--peer self, proc, plain). Peer operations are done when
 * they return, except those given a delay.
 */
#ifndef TT_TESTS_SCENE_H
#define TT_TESTS_SCENE_H

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "check.h"

struct tt_scene {
	const char *name;
	void (*run)(void);
};

int tt_scene_main(int argc, char **argv, const struct tt_scene *scenes, size_t n);

/* One line of the transcript. */
void tt_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* "what: 5" or "what: -1 EAGAIN", from a call's result and errno. */
void tt_say_ret(const char *what, long ret);
const char *tt_errno_word(int err);
/* "IN|OUT|RDHUP"; poll and epoll share the bits. */
const char *tt_events_word(uint32_t events);

/* One connection; fd is our end. */
struct tt_conn {
	int fd;
	int far; /* the peer's descriptor, in the peer's process */
	uint64_t tx, rx;
	uint64_t key;
};

/*
 * A connection that we open to the peer, warmed by --warm exchanges so that acceleration, where
 * there is any, is in place. tt_conn_accepted() has the peer connect to us.
 */
void tt_conn_open(struct tt_conn *c);
void tt_conn_accepted(struct tt_conn *c);
/* Without the warm-up. */
void tt_conn_cold(struct tt_conn *c);
void tt_conn_nonblock(struct tt_conn *c);

/* The peer's doings. delay_ms > 0: after that time, while we go on. */
void tt_far_send(struct tt_conn *c, size_t n, unsigned int delay_ms);
void tt_far_send_raw(struct tt_conn *c, size_t n, unsigned int delay_ms);
void tt_far_send_oob(struct tt_conn *c);
/* Receives exactly n bytes and checks them. */
void tt_far_recv(struct tt_conn *c, size_t n);
/* One recv(); answers its result or a negative errno value. */
long tt_far_recv_once(struct tt_conn *c, size_t n);
/* Reads to the end of the stream and answers how many bytes came. All must be right. */
long tt_far_recv_eof(struct tt_conn *c);
void tt_far_shutdown(struct tt_conn *c, int how, unsigned int delay_ms);
void tt_far_close(struct tt_conn *c, unsigned int delay_ms);
void tt_far_reset(struct tt_conn *c); /* SO_LINGER 0, then close */
/* The same by bare system calls: the library at the peer's end, if any, does not see it go. */
void tt_far_reset_raw(struct tt_conn *c, unsigned int delay_ms);
/* A listening socket of the peer; answers its port. A connection to it is accepted by
 * tt_far_accept(). */
uint16_t tt_far_listen(void);
void tt_far_accept(struct tt_conn *c);
void tt_far_connect(struct tt_conn *c, uint16_t port);

/* Our doings: bytes of the connection's keyed stream, and the check of such. */
void tt_near_fill(struct tt_conn *c, void *buf, size_t n); /* the next n bytes to send; moves on */
void tt_near_check(
    struct tt_conn *c, const void *buf, size_t n); /* says "wrong byte" if so; moves on */
/* recv() of at most n bytes with flags; says the result and checks the bytes (a peek does not move
 * on). */
long tt_near_recv(struct tt_conn *c, const char *what, size_t n, int flags);
long tt_near_send(struct tt_conn *c, const char *what, size_t n, int flags);

/* Polls until the events (any of them) are there, 5 s at most. Says nothing on success. */
void tt_until(int fd, short events);
/* Waits and says the events sorted by their data: "what: 2 events: 1=IN 7=OUT". */
int tt_ep_say(const char *what, int epfd, int max, int timeout_ms);
void tt_ep_ctl(int epfd, int op, int fd, uint32_t events, uint64_t data);

/* poll() of one descriptor: "what: 1 IN|OUT". */
int tt_poll_say(const char *what, int fd, short events, int timeout_ms);
/* "what: in time", "too early" or "too late", for something that should have taken at_least_ms
 * since t0. */
void tt_time_say(const char *what, uint64_t t0, unsigned int at_least_ms);

/* SIGUSR1: a handler that counts in tt_handled, and a thread that sends it to the caller in 30 ms
 * (join it). */
extern volatile sig_atomic_t tt_handled;
void tt_on_counted(int sig);
void tt_handler_set(void (*handler)(int), int flags);
pthread_t tt_kick(void (*handler)(int), int flags);

/* A moment in which nothing should happen, and the time that anything which should happen may take.
 */
#define TT_QUIET_MS 40
#define TT_SOON_MS 5000

#endif
