/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * check.h - what the socket checkers share: a seeded generator, the keyed byte stream whose every
 * position can be checked, system calls that no preloaded library can see, and a watchdog that
 * turns a hang into a failure.
 *
 * The checkers are plain socket programs. They know nothing of taut, link nothing of it, and must
 * pass on the kernel alone; what they say under LD_PRELOAD=libtaut.so is then the finding.
 *
 * Failure: tt_fail() prints what, where, and the command that repeats it, and ends the process with
 * status 1. Trouble with the machine (no port, no memory) ends with status 3.
 */
#ifndef TT_TESTS_CHECK_H
#define TT_TESTS_CHECK_H

#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#define TT_CK_ARRAY(a) (sizeof(a) / sizeof((a)[0]))

/* splitmix64: one word of state, good enough to pick calls and sizes with. Not shared between
 * threads. */
struct tt_rng {
	uint64_t s;
};

uint64_t tt_mix64(uint64_t x);
uint64_t tt_rng_next(struct tt_rng *r);
/* 0 <= result < n; n must not be 0. */
uint64_t tt_rng_below(struct tt_rng *r, uint64_t n);
/* lo <= result <= hi, spread evenly over the magnitudes: small and large values are both common. */
size_t tt_rng_size(struct tt_rng *r, size_t lo, size_t hi);
/* True in pct of 100 cases. */
bool tt_rng_pct(struct tt_rng *r, unsigned int pct);

/*
 * The stream of a key: byte i depends on key and i alone, so bytes lost, doubled, swapped or taken
 * from another connection are seen at the first wrong one. tt_stream_check answers -1 when all n
 * bytes are right, else the index of the first wrong byte.
 */
void tt_stream_fill(uint64_t key, uint64_t off, void *buf, size_t n);
ssize_t tt_stream_check(uint64_t key, uint64_t off, const void *buf, size_t n);

/* System calls by the bare instruction. Results as the kernel gives them: a negative errno value on
 * failure. */
long tt_raw3(long nr, long a, long b, long c);
long tt_raw6(long nr, long a, long b, long c, long d, long e, long f);

/* The command that repeats the run; tt_fail prints it. Set once at start. */
extern char tt_rerun[1024];
void tt_rerun_set(int argc, char **argv, uint64_t seed);

_Noreturn void tt_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void tt_env_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

uint64_t tt_now_ns(void);
void tt_nap_us(unsigned int us);

/* Loopback addresses by family word: "4", "6", "mapped" (an IPv4 peer on an IPv6 socket). */
enum tt_family { TT_FAMILY_4, TT_FAMILY_6, TT_FAMILY_MAPPED };

struct tt_addr {
	struct sockaddr_storage ss;
	socklen_t len;
};

bool tt_family_parse(const char *word, enum tt_family *out);
int tt_family_domain(enum tt_family f);
void tt_addr_loopback(struct tt_addr *a, enum tt_family f, uint16_t port);
uint16_t tt_addr_port(const struct tt_addr *a);
/* A listening socket on a free loopback port; *port is what the kernel gave. Never returns a
 * negative value. */
int tt_listen_any(enum tt_family f, int backlog, uint16_t *port);
/* Blocking connect, retried on EINTR. Never returns a negative value. */
int tt_connect_to(enum tt_family f, uint16_t port);
int tt_accept_one(int lfd);

/* Raises RLIMIT_NOFILE to its hard limit and answers the new limit. */
size_t tt_nofile_raise(void);
/* Whole blocks over pipes and Unix sockets. false = the other end is gone. */
bool tt_io_put(int fd, const void *buf, size_t n);
bool tt_io_get(int fd, void *buf, size_t n);

/*
 * Watchdog: a thread that fails the process when no watched slot has been touched for `limit_s`
 * seconds while it is busy. note says what the slot is doing; it is printed. Slots are touched with
 * relaxed stores by their owner.
 */
struct tt_watch {
	_Atomic uint64_t beat;
	_Atomic bool busy;
	_Atomic uint64_t note[4];
};

void tt_watch_start(struct tt_watch *slots, size_t n, unsigned int limit_s,
    void (*print)(const struct tt_watch *slot));

static inline void tt_watch_beat(struct tt_watch *w)
{
	atomic_store_explicit(&w->beat, atomic_load_explicit(&w->beat, memory_order_relaxed) + 1,
	    memory_order_relaxed);
}

#endif
