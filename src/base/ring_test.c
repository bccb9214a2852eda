/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/ring.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define CAPACITY 64u
#define RECORDS 200000u
#define PRODUCERS 3u

struct record {
	uint32_t producer;
	uint32_t number;
	uint64_t check;
};

static struct record make(uint32_t producer, uint32_t number)
{
	return (struct record){
	    producer, number, ((uint64_t)producer << 32 | number) * 0x9e3779b97f4a7c15ull};
}

static void spsc_is_a_bounded_queue(void **state)
{
	uint64_t memory[4], v;
	struct tt_spsc r;

	(void)state;
	assert_int_equal(tt_spsc_bytes(4, 8), sizeof(memory));
	tt_spsc_init(&r, memory, 4, 8);
	/* Across the wrap of the 32-bit positions. */
	r.head = r.tail = r.head_seen = r.tail_seen = UINT32_MAX - 5;
	for (uint64_t turn = 0; turn < 10; turn++) {
		assert_false(tt_spsc_pop(&r, &v));
		for (uint64_t i = 0; i < 4; i++) {
			v = turn * 100 + i;
			assert_true(tt_spsc_push(&r, &v));
			assert_int_equal(tt_spsc_count(&r), i + 1);
		}
		assert_false(tt_spsc_push(&r, &v));
		for (uint64_t i = 0; i < 4; i++) {
			assert_true(tt_spsc_pop(&r, &v));
			assert_int_equal(v, turn * 100 + i);
		}
	}
}

static void mpsc_is_a_bounded_queue(void **state)
{
	_Alignas(8) unsigned char memory[4 * 16];
	struct tt_mpsc r;
	uint32_t v;

	(void)state;
	assert_int_equal(tt_mpsc_bytes(4, 4), sizeof(memory));
	tt_mpsc_init(&r, memory, 4, 4);
	for (uint32_t turn = 0; turn < 10; turn++) {
		assert_false(tt_mpsc_pop(&r, &v));
		for (uint32_t i = 0; i < 4; i++) {
			v = turn * 100 + i;
			assert_true(tt_mpsc_push(&r, &v));
		}
		assert_false(tt_mpsc_push(&r, &v));
		for (uint32_t i = 0; i < 4; i++) {
			assert_true(tt_mpsc_pop(&r, &v));
			assert_int_equal(v, turn * 100 + i);
		}
	}
}

static struct tt_spsc spsc;
static struct tt_mpsc mpsc;

static void *produce_spsc(void *arg)
{
	(void)arg;
	for (uint32_t i = 0; i < RECORDS; i++) {
		struct record rec = make(0, i);

		while (!tt_spsc_push(&spsc, &rec))
			sched_yield();
	}
	return NULL;
}

static void *produce_mpsc(void *arg)
{
	uint32_t me = (uint32_t)(uintptr_t)arg;

	for (uint32_t i = 0; i < RECORDS / PRODUCERS; i++) {
		struct record rec = make(me, i);

		while (!tt_mpsc_push(&mpsc, &rec))
			sched_yield();
	}
	return NULL;
}

static void spsc_keeps_order_between_threads(void **state)
{
	void *memory = calloc(1, tt_spsc_bytes(CAPACITY, sizeof(struct record)));
	struct record rec, want;
	pthread_t thread;

	(void)state;
	tt_spsc_init(&spsc, memory, CAPACITY, sizeof(rec));
	assert_int_equal(pthread_create(&thread, NULL, produce_spsc, NULL), 0);
	for (uint32_t i = 0; i < RECORDS; i++) {
		while (!tt_spsc_pop(&spsc, &rec))
			sched_yield();
		want = make(0, i);
		assert_memory_equal(&rec, &want, sizeof(rec));
	}
	pthread_join(thread, NULL);
	assert_false(tt_spsc_pop(&spsc, &rec));
	free(memory);
}

static void mpsc_keeps_each_producers_order(void **state)
{
	void *memory = calloc(1, tt_mpsc_bytes(CAPACITY, sizeof(struct record)));
	uint32_t next[PRODUCERS] = {0};
	pthread_t thread[PRODUCERS];
	struct record rec, want;

	(void)state;
	tt_mpsc_init(&mpsc, memory, CAPACITY, sizeof(rec));
	for (uintptr_t i = 0; i < PRODUCERS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, produce_mpsc, (void *)i), 0);
	for (uint32_t i = 0; i < RECORDS / PRODUCERS * PRODUCERS; i++) {
		while (!tt_mpsc_pop(&mpsc, &rec))
			sched_yield();
		assert_true(rec.producer < PRODUCERS);
		want = make(rec.producer, next[rec.producer]++);
		assert_memory_equal(&rec, &want, sizeof(rec));
	}
	for (uint32_t i = 0; i < PRODUCERS; i++) {
		pthread_join(thread[i], NULL);
		assert_int_equal(next[i], RECORDS / PRODUCERS);
	}
	assert_false(tt_mpsc_pop(&mpsc, &rec));
	free(memory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(spsc_is_a_bounded_queue),
	    cmocka_unit_test(mpsc_is_a_bounded_queue),
	    cmocka_unit_test(spsc_keeps_order_between_threads),
	    cmocka_unit_test(mpsc_keeps_each_producers_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
