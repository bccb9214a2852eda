/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/clock.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/fmt.h"
#include "base/raw.h"

#define NS_PER_S 1000000000u
#define RATE_ONE (1ull << 32)
#define SAMPLE_TRIES 9
#define DRIFT_MIN_NS 10000000u

struct tt_clock tt_clock;

/* The same moment on both clocks. */
struct sample {
	uint64_t cycles;
	uint64_t ns;
};

/* Taken by whoever moved anchor_state from 0 to 1, valid once it is 2. */
static struct sample anchor;
static uint32_t anchor_state;

/* Why CLOCK_MONOTONIC, or NULL. Written with the same value by every thread that comes first. */
static const char *why_not;

uint64_t tt_clock_monotonic_ns(void)
{
	struct timespec ts = {0};

	/* Can't fail: the clock exists in every kernel, the pointer is ours. */
	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

static size_t kernel_clock(char *name, size_t size)
{
	int fd = tt_raw_open("/sys/devices/system/clocksource/clocksource0/current_clocksource",
	    O_RDONLY | O_CLOEXEC, 0);
	long n;

	name[0] = '\0';
	if (fd < 0)
		return 0;
	n = tt_raw_read(fd, name, size - 1);
	tt_raw_close(fd);
	n = n < 0 ? 0 : n;
	name[n] = '\0';
	name[strcspn(name, "\n")] = '\0';
	return strlen(name);
}

#if defined(__x86_64__)
static bool tsc_invariant(void)
{
	unsigned int a, b, c, d;

	return __get_cpuid(0x80000007u, &a, &b, &c, &d) && (d & 1u << 8);
}

static const char *tsc_unsound(void)
{
	static const char *const made_of_tsc[] = {
	    "tsc", "kvm-clock", "hyperv_clocksource_tsc_page"};
	char name[64];

	if (!tsc_invariant())
		return "the TSC is not invariant";
	if (!kernel_clock(name, sizeof(name)))
		return NULL;
	for (size_t i = 0; i < tt_array_len(made_of_tsc); i++)
		if (strcmp(name, made_of_tsc[i]) == 0)
			return NULL;
	return "the kernel's own clock does not use the TSC";
}
#else
static const char *tsc_unsound(void)
{
	return "no TSC on this processor";
}
#endif

static uint64_t source_cycles(uint32_t source)
{
#if defined(__x86_64__)
	if (source == TT_CLOCK_TSC)
		return __builtin_ia32_rdtsc();
#endif
	(void)source;
	return tt_clock_monotonic_ns();
}

/* The closest of a few brackets: an interrupt in between makes one wide. */
static struct sample sample_take(uint32_t source)
{
	struct sample best = {0};
	uint64_t width = UINT64_MAX;

	for (int i = 0; i < SAMPLE_TRIES; i++) {
		uint64_t before = source_cycles(source);
		uint64_t ns = tt_clock_monotonic_ns();
		uint64_t after = source_cycles(source);

		if (after - before < width) {
			width = after - before;
			best = (struct sample){before + width / 2, ns};
		}
	}
	return best;
}

void tt_clock_init(void)
{
	uint32_t fresh = 0;

	if (tt_load_relaxed(&anchor_state) == 0 && tt_cas_relaxed(&anchor_state, &fresh, 1u)) {
		/* In TSC cycles whatever the source will be: with the other one nobody asks. */
		anchor = sample_take(TT_CLOCK_TSC);
		/* Release: the sample before the word that shows it. */
		tt_store_release(&anchor_state, 2u);
	}
}

/* Several threads may come here at once: all find the same. */
static tt_cold uint32_t source_settle(void)
{
	uint32_t source;

	tt_clock_init();
	tt_store_relaxed(&why_not, tsc_unsound());
	source = tt_load_relaxed(&why_not) ? TT_CLOCK_MONOTONIC : TT_CLOCK_TSC;
	tt_store_relaxed(&tt_clock.source, source);
	return source;
}

enum tt_clock_source tt_clock_source_get(void)
{
	uint32_t source = tt_load_relaxed(&tt_clock.source);

	return (enum tt_clock_source)(source == TT_CLOCK_UNSET ? source_settle() : source);
}

uint64_t tt_clock_cycles_slow(void)
{
	return source_cycles(tt_clock_source_get());
}

/* Two words, each good on its own: a reader may mix an older rate with a newer inverse, both are
 * right to some ppm. */
static void rate_store(uint64_t ns, uint64_t cycles)
{
	if (ns == 0 || cycles == 0)
		return;
	tt_store_relaxed(
	    &tt_clock.ns_per_cycle, (uint64_t)(((unsigned __int128)ns << 32) / cycles));
	tt_store_relaxed(
	    &tt_clock.cycles_per_ns, (uint64_t)(((unsigned __int128)cycles << 32) / ns));
}

uint64_t tt_clock_calibrate(void)
{
	uint32_t source = tt_clock_source_get();
	struct sample from, to;

	if (source == TT_CLOCK_MONOTONIC) {
		tt_store_relaxed(&tt_clock.cycles_per_ns, RATE_ONE);
		tt_store_relaxed(&tt_clock.ns_per_cycle, RATE_ONE);
		return RATE_ONE;
	}
	/* Acquire: the anchor behind the word. A thread that finds it half made takes one of its
	 * own. */
	from = tt_load_acquire(&anchor_state) == 2 ? anchor : sample_take(source);
	while (tt_clock_monotonic_ns() - from.ns < TT_CLOCK_CALIBRATE_NS)
		tt_cpu_relax();
	to = sample_take(source);
	rate_store(to.ns - from.ns, to.cycles - from.cycles);
	return tt_load_relaxed(&tt_clock.ns_per_cycle);
}

uint64_t tt_clock_calibrate_inverse(void)
{
	tt_clock_calibrate();
	return tt_load_relaxed(&tt_clock.cycles_per_ns);
}

void tt_clock_recalibrate(unsigned int ms)
{
	struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
	uint32_t source = tt_clock_source_get();
	struct sample from, to;

	if (source == TT_CLOCK_MONOTONIC) {
		tt_clock_calibrate();
		return;
	}
	from = sample_take(source);
	while (tt_raw4(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, (long)&left, (long)&left) == -EINTR)
		;
	to = sample_take(source);
	rate_store(to.ns - from.ns, to.cycles - from.cycles);
}

int64_t tt_clock_drift_ppb(void)
{
	uint32_t source = tt_clock_source_get();
	struct sample now;
	int64_t real_ns, ours_ns;

	if (source == TT_CLOCK_MONOTONIC || tt_load_acquire(&anchor_state) != 2)
		return 0;
	now = sample_take(source);
	real_ns = (int64_t)(now.ns - anchor.ns);
	/* A counter that went backwards (reset by a suspend) must not look like centuries. */
	ours_ns =
	    now.cycles >= anchor.cycles ? (int64_t)tt_cycles_to_ns(now.cycles - anchor.cycles) : 0;
	if (real_ns < DRIFT_MIN_NS)
		return 0;
	return (int64_t)((__int128)(ours_ns - real_ns) * NS_PER_S / real_ns);
}

size_t tt_clock_describe(char *buf, size_t size)
{
	char name[64];
	uint64_t khz;

	if (tt_clock_source_get() == TT_CLOCK_MONOTONIC) {
		const char *why = tt_load_relaxed(&why_not);

		return tt_fmt(buf, size, "CLOCK_MONOTONIC (%s)", why ? why : "");
	}
	khz = tt_ns_to_cycles(1000000);
	kernel_clock(name, sizeof(name));
	return tt_fmt(buf, size, "TSC at %llu.%03llu MHz (kernel clock %s)",
	    (unsigned long long)(khz / 1000), (unsigned long long)(khz % 1000),
	    *name ? name : "unknown");
}
