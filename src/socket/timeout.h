/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * timeout.h - what is left of a program's timeout after a part of it was spent spinning.
 *
 * By the kernel's clock: a wait that ends by its timeout must not be shorter than that, by however little the time stamp
 * counter's rate is off.
 */
#ifndef TT_SOCKET_TIMEOUT_H
#define TT_SOCKET_TIMEOUT_H

#include <limits.h>
#include <time.h>

#include "socket/spin.h"

struct tt_deadline {
	const struct timespec *timeout; /* NULL: none */
	uint64_t start_ns; /* CLOCK_MONOTONIC */
	int64_t total_ns;
};

static inline void tt_deadline_set(struct tt_deadline *d, const struct timespec *timeout)
{
	d->timeout = timeout;
	d->start_ns = 0;
	d->total_ns = -1;
	if (timeout) {
		if (timeout->tv_sec > INT64_MAX / 2000000000)
			d->total_ns = INT64_MAX / 2;
		else
			d->total_ns = timeout->tv_sec * 1000000000 + timeout->tv_nsec;
		if (d->total_ns)
			d->start_ns = tt_clock_monotonic_ns();
	}
}

/* -1: no limit. */
static inline int64_t tt_deadline_left_ns(const struct tt_deadline *d)
{
	int64_t left;

	if (!d->timeout)
		return -1;
	if (!d->total_ns)
		return 0;
	left = d->total_ns - (int64_t)(tt_clock_monotonic_ns() - d->start_ns);
	return left > 0 ? left : 0;
}

/* A look that does not wait. */
static inline bool tt_deadline_now(const struct tt_deadline *d)
{
	return d->total_ns == 0;
}

/* The same as a timespec for the kernel; NULL: no limit. */
static inline const struct timespec *tt_deadline_left(const struct tt_deadline *d,
    struct timespec *left)
{
	int64_t ns = tt_deadline_left_ns(d);

	if (ns < 0)
		return NULL;
	left->tv_sec = ns / 1000000000;
	left->tv_nsec = ns % 1000000000;
	return left;
}

/* For calls that count milliseconds: rounded up, so that no wait ends early. */
static inline int tt_timeout_ms(const struct timespec *timeout)
{
	int64_t ms;

	if (!timeout)
		return -1;
	if (timeout->tv_sec >= INT_MAX / 1000)
		return INT_MAX;
	ms = timeout->tv_sec * 1000 + (timeout->tv_nsec + 999999) / 1000000;
	return (int)ms;
}

#endif
