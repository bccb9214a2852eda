/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads that share a processor, one of which spins without end: the processor goes back and forth. */
#include "socket/spin.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <time.h>

#include <cmocka.h>

static uint32_t signals, stop, steps;

static void *spinner(void *arg)
{
	struct tt_spin spin;

	(void)arg;
	tt_spin_start(&spin, TT_SPIN_ENDLESS, &signals, 0);
	while (!tt_load_relaxed(&stop)) {
		(void)tt_spin_step(&spin);
		tt_store_relaxed(&steps, steps + 1);
	}
	return NULL;
}

static void pin(const cpu_set_t *from)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (CPU_ISSET(cpu, from)) {
			CPU_SET(cpu, &one);
			break;
		}
	}
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
}

static void test_turns(void **state)
{
	struct timespec pause = {.tv_nsec = 100000};
	unsigned int moved = 0;
	cpu_set_t before;
	pthread_t thread;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	pin(&before);
	assert_int_equal(pthread_create(&thread, NULL, spinner, NULL), 0);
	for (int i = 0; i < 200; i++) {
		uint32_t seen;

		/* Its mark is there when it has been at its first step. */
		while (!tt_load_relaxed(&tt_spin_marked))
			nanosleep(&pause, NULL);
		nanosleep(&pause, NULL);
		seen = tt_load_relaxed(&steps);
		tt_spin_sent();
		moved += tt_load_relaxed(&steps) != seen;
	}
	tt_store_relaxed(&stop, 1);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
	/* Who else has work on this processor may have had some of the turns. */
	assert_in_range(moved, 20, 200);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_turns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
