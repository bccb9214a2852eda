/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

char tt_rerun[1024];

uint64_t tt_mix64(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

uint64_t tt_rng_next(struct tt_rng *r)
{
	r->s += 0x9e3779b97f4a7c15ull;
	return tt_mix64(r->s);
}

uint64_t tt_rng_below(struct tt_rng *r, uint64_t n)
{
	/* The bias of a plain remainder is far below anything a test could notice. */
	return tt_rng_next(r) % n;
}

size_t tt_rng_size(struct tt_rng *r, size_t lo, size_t hi)
{
	unsigned int bits = 0;
	size_t span = hi - lo;
	uint64_t v;

	if (span == 0)
		return lo;
	while (bits < 63 && (span >> bits) != 0)
		bits++;
	v = tt_rng_next(r) & ((1ull << tt_rng_below(r, bits + 1)) - 1);
	return lo + (size_t)(v > span ? span : v);
}

bool tt_rng_pct(struct tt_rng *r, unsigned int pct)
{
	return tt_rng_below(r, 100) < pct;
}

static uint64_t stream_word(uint64_t key, uint64_t index)
{
	return tt_mix64(key + index * 0x9e3779b97f4a7c15ull);
}

void tt_stream_fill(uint64_t key, uint64_t off, void *buf, size_t n)
{
	unsigned char *p = buf;

	while (n > 0) {
		size_t skip = off % 8;
		size_t take = 8 - skip < n ? 8 - skip : n;
		uint64_t word = stream_word(key, off / 8);
		unsigned char b[8];

		memcpy(b, &word, 8);
		memcpy(p, b + skip, take);
		p += take;
		off += take;
		n -= take;
	}
}

ssize_t tt_stream_check(uint64_t key, uint64_t off, const void *buf, size_t n)
{
	const unsigned char *p = buf;
	size_t done = 0;

	while (done < n) {
		size_t skip = off % 8;
		size_t take = 8 - skip < n - done ? 8 - skip : n - done;
		uint64_t word = stream_word(key, off / 8);
		unsigned char b[8];

		memcpy(b, &word, 8);
		if (memcmp(p + done, b + skip, take) != 0) {
			while (p[done] == b[skip]) {
				done++;
				skip++;
			}
			return (ssize_t)done;
		}
		done += take;
		off += take;
	}
	return -1;
}

long tt_raw6(long nr, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
	long ret;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc 0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	return x0;
#else
#error "check.c: add the bare system call of this architecture"
#endif
}

long tt_raw3(long nr, long a, long b, long c)
{
	return tt_raw6(nr, a, b, c, 0, 0, 0);
}

void tt_rerun_set(int argc, char **argv, uint64_t seed)
{
	const char *preload = getenv("LD_PRELOAD");
	const char *after = getenv("TAUT_ATTACH_AFTER");
	size_t used = 0;
	int n;

	n = snprintf(tt_rerun, sizeof(tt_rerun), "%s%s%s%s%s%s", preload ? "LD_PRELOAD=" : "",
	    preload ? preload : "", preload ? " " : "", after ? "TAUT_ATTACH_AFTER=" : "",
	    after ? after : "", after ? " " : "");
	if (n > 0)
		used = (size_t)n;
	for (int i = 0; i < argc && used < sizeof(tt_rerun) - 1; i++) {
		if ((strcmp(argv[i], "--seed") == 0 || strcmp(argv[i], "--server-child") == 0) &&
		    i + 1 < argc) {
			i++;
			continue;
		}
		n = snprintf(tt_rerun + used, sizeof(tt_rerun) - used, "%s ", argv[i]);
		used += n > 0 ? (size_t)n : 0;
	}
	if (used < sizeof(tt_rerun) - 1)
		snprintf(tt_rerun + used, sizeof(tt_rerun) - used, "--seed %llu",
		    (unsigned long long)seed);
}

__attribute__((format(printf, 2, 0))) static void say(const char *kind, const char *fmt, va_list ap)
{
	char text[2048];
	int n = snprintf(text, sizeof(text), "%s: ", kind);

	n += vsnprintf(text + n, sizeof(text) - (size_t)n, fmt, ap);
	if (n > (int)sizeof(text) - 1)
		n = (int)sizeof(text) - 1;
	fprintf(stderr, "%s\n", text);
	if (tt_rerun[0])
		fprintf(stderr, "rerun: %s\n", tt_rerun);
	fflush(stderr);
}

void tt_fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say("FAIL", fmt, ap);
	va_end(ap);
	_exit(1);
}

void tt_env_fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say("environment", fmt, ap);
	va_end(ap);
	_exit(3);
}

uint64_t tt_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

void tt_nap_us(unsigned int us)
{
	struct timespec ts = {.tv_sec = us / 1000000, .tv_nsec = (long)(us % 1000000) * 1000};

	while (nanosleep(&ts, &ts) < 0 && errno == EINTR)
		;
}

bool tt_family_parse(const char *word, enum tt_family *out)
{
	if (strcmp(word, "4") == 0)
		*out = TT_FAMILY_4;
	else if (strcmp(word, "6") == 0)
		*out = TT_FAMILY_6;
	else if (strcmp(word, "mapped") == 0)
		*out = TT_FAMILY_MAPPED;
	else
		return false;
	return true;
}

int tt_family_domain(enum tt_family f)
{
	return f == TT_FAMILY_4 ? AF_INET : AF_INET6;
}

void tt_addr_loopback(struct tt_addr *a, enum tt_family f, uint16_t port)
{
	memset(a, 0, sizeof(*a));
	if (f == TT_FAMILY_4) {
		struct sockaddr_in *in = (void *)&a->ss;

		in->sin_family = AF_INET;
		in->sin_port = htons(port);
		in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		a->len = sizeof(*in);
	} else {
		struct sockaddr_in6 *in6 = (void *)&a->ss;

		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(port);
		in6->sin6_addr = in6addr_loopback;
		if (f == TT_FAMILY_MAPPED) {
			static const unsigned char mapped[16] = {
			    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};
			memcpy(&in6->sin6_addr, mapped, 16);
		}
		a->len = sizeof(*in6);
	}
}

uint16_t tt_addr_port(const struct tt_addr *a)
{
	if (a->ss.ss_family == AF_INET)
		return ntohs(((const struct sockaddr_in *)(const void *)&a->ss)->sin_port);
	return ntohs(((const struct sockaddr_in6 *)(const void *)&a->ss)->sin6_port);
}

int tt_listen_any(enum tt_family f, int backlog, uint16_t *port)
{
	/* The listener of a mapped run is IPv4, so that the two ends have sockets of different
	 * families. */
	enum tt_family lf = f == TT_FAMILY_MAPPED ? TT_FAMILY_4 : f;
	struct tt_addr a;
	int fd = socket(tt_family_domain(lf), SOCK_STREAM | SOCK_CLOEXEC, 0);

	tt_addr_loopback(&a, lf, 0);
	if (fd < 0 || bind(fd, (void *)&a.ss, a.len) < 0 || listen(fd, backlog) < 0)
		tt_env_fail("listen on loopback: %s", strerror(errno));
	if (getsockname(fd, (void *)&a.ss, &a.len) < 0)
		tt_fail("getsockname of a listener: %s", strerror(errno));
	*port = tt_addr_port(&a);
	return fd;
}

int tt_connect_to(enum tt_family f, uint16_t port)
{
	struct tt_addr a;
	int fd = socket(tt_family_domain(f), SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		tt_env_fail("socket: %s", strerror(errno));
	tt_addr_loopback(&a, f, port);
	if (connect(fd, (void *)&a.ss, a.len) < 0) {
		struct pollfd p = {.fd = fd, .events = POLLOUT};
		int err = errno;
		socklen_t len = sizeof(err);

		/* Interrupted by a signal, the attempt goes on by itself: connect(2). */
		if (err == EINTR) {
			while (poll(&p, 1, -1) < 0 && errno == EINTR)
				;
			(void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len);
		}
		if (err != 0)
			tt_fail("connect to port %u: %s", (unsigned int)port, strerror(err));
	}
	return fd;
}

int tt_accept_one(int lfd)
{
	int fd;

	do {
		fd = accept4(lfd, NULL, NULL, SOCK_CLOEXEC);
	} while (fd < 0 && errno == EINTR);
	if (fd < 0)
		tt_fail("accept: %s", strerror(errno));
	return fd;
}

size_t tt_nofile_raise(void)
{
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl) < 0)
		return 0;
	rl.rlim_cur = rl.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &rl);
	return (size_t)rl.rlim_cur;
}

bool tt_io_put(int fd, const void *buf, size_t n)
{
	const char *p = buf;

	while (n > 0) {
		ssize_t w = write(fd, p, n);

		if (w < 0 && errno == EINTR)
			continue;
		if (w <= 0)
			return false;
		p += w;
		n -= (size_t)w;
	}
	return true;
}

bool tt_io_get(int fd, void *buf, size_t n)
{
	char *p = buf;

	while (n > 0) {
		ssize_t r = read(fd, p, n);

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return false;
		p += r;
		n -= (size_t)r;
	}
	return true;
}

struct watch_all {
	struct tt_watch *slots;
	size_t n;
	unsigned int limit_s;
	void (*print)(const struct tt_watch *slot);
};

static void *watch_main(void *arg)
{
	struct watch_all *w = arg;
	uint64_t *seen = calloc(w->n, sizeof(*seen));
	uint64_t *since = calloc(w->n, sizeof(*since));

	if (!seen || !since)
		tt_env_fail("no memory for the watchdog");
	for (;;) {
		uint64_t now = tt_now_ns();

		for (size_t i = 0; i < w->n; i++) {
			uint64_t beat =
			    atomic_load_explicit(&w->slots[i].beat, memory_order_relaxed);

			if (beat != seen[i] || since[i] == 0 ||
			    !atomic_load_explicit(&w->slots[i].busy, memory_order_relaxed)) {
				seen[i] = beat;
				since[i] = now;
			} else if (now - since[i] > (uint64_t)w->limit_s * 1000000000ull) {
				for (size_t k = 0; k < w->n; k++)
					w->print(&w->slots[k]);
				tt_fail("nothing moved for %u s: a hang", w->limit_s);
			}
		}
		tt_nap_us(200000);
	}
	return NULL;
}

void tt_watch_start(struct tt_watch *slots, size_t n, unsigned int limit_s,
    void (*print)(const struct tt_watch *slot))
{
	static struct watch_all w;
	pthread_t t;

	w = (struct watch_all){slots, n, limit_s, print};
	if (pthread_create(&t, NULL, watch_main, &w) != 0)
		tt_env_fail("pthread_create failed");
	pthread_detach(t);
}
