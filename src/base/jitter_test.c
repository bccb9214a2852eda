/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/jitter.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include <cmocka.h>

#include "base/clock.h"

#define HOLD_NS 3000000u

static struct tt_jitter result;
static volatile bool stop;
static volatile sig_atomic_t held;

/* Takes the processor from the loop for a known time, as an interrupt of the machine would. */
static void hold(int sig)
{
	uint64_t until = tt_clock_monotonic_ns() + HOLD_NS;

	(void)sig;
	while (tt_clock_monotonic_ns() < until)
		;
	held++;
}

static void handle_alarms(void (*handler)(int), long every_us)
{
	struct itimerval timer = {{0, every_us}, {0, every_us}};
	struct sigaction action = {.sa_handler = handler};

	assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
	assert_int_equal(setitimer(ITIMER_REAL, &timer, NULL), 0);
}

static void a_known_stop_is_found(void **state)
{
	struct tt_jitter_gap raw[64];
	struct tt_jitter_config config = {.duration_ns = 100000000,
	    .threshold_ns = 1000000,
	    .raw = raw,
	    .raw_max = tt_array_len(raw)};
	uint64_t sum = 0;

	(void)state;
	held = 0;
	handle_alarms(hold, 20000);
	tt_jitter_run(&config, &result);
	handle_alarms(SIG_IGN, 0);
	assert_true(held >= 1);
	assert_true(result.elapsed_ns >= 99000000);
	assert_true(result.gaps.count >= 1);
	assert_true(result.gaps.max >= HOLD_NS - HOLD_NS / 100);
	/* Each hold but perhaps the last, which may have come after the loop. */
	assert_true(result.lost_ns >= (uint64_t)(held - 1) * (HOLD_NS - HOLD_NS / 100));
	assert_true(result.lost_ns <= result.elapsed_ns + result.elapsed_ns / 100);
	assert_true(result.gaps.min >= 990000);
	assert_int_equal(result.raw_count, tt_min(result.gaps.count, (uint64_t)64));
	for (size_t i = 0; i < result.raw_count; i++) {
		assert_true(i == 0 || raw[i].at_ns >= raw[i - 1].at_ns + raw[i - 1].ns);
		sum += raw[i].ns;
	}
	if (result.gaps.count <= 64)
		assert_int_equal(sum, result.lost_ns);
}

static void the_threshold_follows_the_smallest_gap(void **state)
{
	struct tt_jitter_config config = {.duration_ns = 5000000};

	(void)state;
	tt_jitter_run(&config, &result);
	assert_true(result.threshold_ns >= result.smallest_ns * 7);
	assert_true(result.threshold_ns > 0 && result.threshold_ns < 1000000);
	assert_int_equal(result.raw_count, 0);
}

static void end_it(int sig)
{
	(void)sig;
	stop = true;
}

static void it_ends_when_told(void **state)
{
	struct tt_jitter_config config = {.duration_ns = 3600ull * 1000000000, .stop = &stop};

	(void)state;
	stop = false;
	handle_alarms(end_it, 10000);
	tt_jitter_run(&config, &result);
	handle_alarms(SIG_IGN, 0);
	assert_true(stop);
	assert_true(result.elapsed_ns < config.duration_ns);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_known_stop_is_found),
	    cmocka_unit_test(the_threshold_follows_the_smallest_gap),
	    cmocka_unit_test(it_ends_when_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
