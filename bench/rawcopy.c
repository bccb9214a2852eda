/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rawcopy - the bulk limit of this machine: one thread copies blocks into a ring, another copies
 * them out. What any transport through shared memory that copies twice could reach at best, in this
 * minute, between these two cores.
 */
#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "bench.h"

#define PIECE (64u << 10) /* positions are published so often */

static struct {
	size_t block, ring;
	double seconds;
	int core[2];
	bool json;
} opt = {.block = 128 << 10, .ring = 1 << 20, .seconds = 1, .core = {-1, -1}};

static struct {
	uint64_t tail tt_aligned(64);
	uint64_t head tt_aligned(64);
	bool stop tt_aligned(64);
	unsigned char *ring;
} sh;

static void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#endif
}

/* Copies between block and ring, in pieces, as far as `room` goes; answers the new position. */
static uint64_t move(unsigned char *block, size_t n, uint64_t pos, bool in)
{
	while (n > 0) {
		size_t at = (size_t)(pos & (opt.ring - 1));
		size_t take = tt_min(n, opt.ring - at);

		if (in)
			memcpy(sh.ring + at, block, take);
		else
			memcpy(block, sh.ring + at, take);
		pos += take;
		block += take;
		n -= take;
	}
	return pos;
}

static void *producer(void *arg)
{
	unsigned char *block = aligned_alloc(4096, opt.block);
	uint64_t tail = 0, head = 0;

	(void)arg;
	tt_bench_pin(opt.core[0]);
	memset(block, 1, opt.block);
	while (!__atomic_load_n(&sh.stop, __ATOMIC_RELAXED)) {
		for (size_t done = 0; done < opt.block;) {
			size_t n = tt_min(opt.block - done, (size_t)PIECE);

			/* Acquire: the consumer has finished with what lies before head. */
			while (opt.ring - (tail - head) < n) {
				head = __atomic_load_n(&sh.head, __ATOMIC_ACQUIRE);
				if (__atomic_load_n(&sh.stop, __ATOMIC_RELAXED))
					goto out;
				relax();
			}
			tail = move(block + done, n, tail, true);
			/* Release: the bytes before tail are in the ring. */
			__atomic_store_n(&sh.tail, tail, __ATOMIC_RELEASE);
			done += n;
		}
	}
out:
	free(block);
	return NULL;
}

static double consume(void)
{
	unsigned char *block = aligned_alloc(4096, opt.block);
	uint64_t head = 0, tail = 0, start = 0, from = 0, now = 0, end = UINT64_MAX;

	memset(block, 2, opt.block);
	/* The first blocks touch every page of ring and block; then the clock starts. */
	for (uint64_t blocks = 0; now < end; blocks++) {
		if (blocks == 64) {
			start = tt_clock_cycles();
			from = head;
			end = start + tt_ns_to_cycles((uint64_t)(opt.seconds * 1e9));
		}
		for (size_t done = 0; done < opt.block;) {
			size_t n = tt_min(opt.block - done, (size_t)PIECE);

			while (tail - head < n) {
				tail = __atomic_load_n(&sh.tail, __ATOMIC_ACQUIRE);
				relax();
			}
			head = move(block + done, n, head, false);
			__atomic_store_n(&sh.head, head, __ATOMIC_RELEASE);
			done += n;
		}
		now = start ? tt_clock_cycles() : 0;
	}
	/* Relaxed: only tells the producer to leave. */
	__atomic_store_n(&sh.stop, true, __ATOMIC_RELAXED);
	free(block);
	return (double)(head - from) / (double)tt_cycles_to_ns(now - start);
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {{"block", 1, NULL, 'b'}, {"ring", 1, NULL, 'r'},
	    {"seconds", 1, NULL, 't'}, {"cores", 1, NULL, 'C'}, {"json", 0, NULL, 'j'},
	    {NULL, 0, NULL, 0}};
	pthread_t t;
	double rate;
	int c;

	while ((c = getopt_long(argc, argv, "", longs, NULL)) >= 0) {
		if (c == 'b')
			opt.block = tt_bench_number(optarg);
		else if (c == 'r')
			opt.ring = tt_bench_number(optarg);
		else if (c == 't')
			opt.seconds = atof(optarg);
		else if (c == 'C')
			tt_bench_cores(optarg, &opt.core[0], &opt.core[1]);
		else if (c == 'j')
			opt.json = true;
		else
			tt_bench_fail(2,
			    "usage: rawcopy [--block BYTES] [--ring BYTES] [--seconds S] "
			    "[--cores IN,OUT] [--json]");
	}
	if (opt.block % 4096 || opt.block < 4096 || opt.ring < 2 * PIECE ||
	    (opt.ring & (opt.ring - 1)))
		tt_bench_fail(2,
		    "a block is a multiple of 4096 bytes, a ring a power of two of at "
		    "least %u bytes",
		    2 * PIECE);
	sh.ring = aligned_alloc(4096, opt.ring);
	memset(sh.ring, 0, opt.ring);
	tt_clock_recalibrate(100);
	if (pthread_create(&t, NULL, producer, NULL) != 0)
		tt_bench_fail(3, "pthread_create failed");
	tt_bench_pin(opt.core[1]);
	rate = consume();
	pthread_join(t, NULL);
	printf(opt.json
		   ? "{\"bench\":\"rawcopy\",\"block\":%zu,\"ring\":%zu,\"gbytes_per_s\":%.3f}\n"
		   : "two-copy ring, blocks of %zu bytes, ring of %zu: %.3f GB/s\n",
	    opt.block, opt.ring, rate);
	free(sh.ring);
	return 0;
}
