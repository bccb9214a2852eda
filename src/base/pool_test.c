/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/pool.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/atomic.h"

#define THREADS 4u
#define TURNS 50000u
#define HELD 4u

struct object {
	uint64_t owner;
	uint64_t generation;
	char rest[90];
};

static struct tt_pool pool;

static void the_limit_holds_and_is_counted(void **state)
{
	struct object *o[8], *again;

	(void)state;
	assert_int_equal(tt_pool_init(&pool, "tests", sizeof(struct object), 8), 0);
	assert_int_equal(pool.object_size, 128);
	for (uint32_t i = 0; i < 8; i++) {
		o[i] = tt_pool_get(&pool);
		assert_non_null(o[i]);
		assert_int_equal((uintptr_t)o[i] % TT_CACHE_LINE, 0);
		assert_int_equal(o[i]->owner, 0);
		o[i]->owner = i;
		for (uint32_t k = 0; k < i; k++)
			assert_ptr_not_equal(o[i], o[k]);
		assert_ptr_equal(tt_pool_at(&pool, tt_pool_index(&pool, o[i])), o[i]);
	}
	assert_null(tt_pool_get(&pool));
	assert_null(tt_pool_get(&pool));
	assert_int_equal(pool.refused, 2);
	assert_int_equal(pool.in_use, 8);
	tt_pool_put(&pool, o[3]);
	tt_pool_put(&pool, o[5]);
	assert_int_equal(pool.in_use, 6);
	/* Last in, first out; a free object's contents are left alone. */
	assert_int_equal(o[5]->owner, 5);
	again = tt_pool_get(&pool);
	assert_ptr_equal(again, o[5]);
	assert_int_equal(again->owner, 5);
	assert_ptr_equal(tt_pool_get(&pool), o[3]);
	assert_int_equal(pool.most_in_use, 8);
	tt_pool_done(&pool);
}

static void too_much_memory_is_an_error(void **state)
{
	(void)state;
	assert_int_equal(
	    tt_pool_init(&pool, "tests", (size_t)1 << 40, TT_POOL_OBJECTS_MAX), -ENOMEM);
}

/* Nobody else may hold what we hold: each marks its objects and finds its marks again. */
static void *churn(void *arg)
{
	uint64_t me = (uint64_t)(uintptr_t)arg + 1;
	uint64_t wrong = 0;

	for (uint32_t turn = 0; turn < TURNS; turn++) {
		struct object *held[HELD];
		uint32_t n = 0;

		for (uint32_t i = 0; i < HELD; i++) {
			held[n] = tt_pool_get(&pool);
			if (held[n])
				held[n++]->owner = me;
		}
		for (uint32_t i = 0; i < n; i++) {
			wrong += held[i]->owner != me;
			held[i]->generation++;
			tt_pool_put(&pool, held[i]);
		}
	}
	return (void *)(uintptr_t)wrong;
}

static void threads_never_share_an_object(void **state)
{
	pthread_t thread[THREADS];
	uint64_t generations = 0;
	void *wrong;

	(void)state;
	/* Fewer than all together want, so that the limit is met as well. */
	assert_int_equal(
	    tt_pool_init(&pool, "tests", sizeof(struct object), THREADS * HELD - 3), 0);
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, churn, (void *)i), 0);
	for (uint32_t i = 0; i < THREADS; i++) {
		pthread_join(thread[i], &wrong);
		assert_null(wrong);
	}
	assert_int_equal(pool.in_use, 0);
	for (uint32_t i = 0; i < pool.limit; i++)
		generations += ((struct object *)tt_pool_at(&pool, i))->generation;
	assert_int_equal(generations + pool.refused, (uint64_t)THREADS * TURNS * HELD);
	tt_pool_done(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_limit_holds_and_is_counted),
	    cmocka_unit_test(too_much_memory_is_an_error),
	    cmocka_unit_test(threads_never_share_an_object),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
