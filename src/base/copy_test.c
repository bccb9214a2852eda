/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/copy.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <cmocka.h>

static int faults;

static void on_fault(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;
	uintptr_t pc;

	(void)info;
#if defined(__x86_64__)
	pc = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];
#else
	pc = (uintptr_t)uc->uc_mcontext.pc;
#endif
	if (!tt_copy_recover(&pc)) {
		signal(sig, SIG_DFL);
		return;
	}
	faults++;
#if defined(__x86_64__)
	uc->uc_mcontext.gregs[REG_RIP] = (greg_t)pc;
#else
	uc->uc_mcontext.pc = pc;
#endif
}

static void handlers_set(void)
{
	struct sigaction sa = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};

	assert_int_equal(sigaction(SIGSEGV, &sa, NULL), 0);
	assert_int_equal(sigaction(SIGBUS, &sa, NULL), 0);
}

/* Two pages, the second of which can't be touched; the first ends where it begins. */
static uint8_t *page_before_nothing(void)
{
	uint8_t *p = mmap(NULL, 2 * TT_PAGE, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(p != MAP_FAILED);
	assert_int_equal(mprotect(p + TT_PAGE, TT_PAGE, PROT_NONE), 0);
	return p;
}

static void copies_exactly(size_t n, size_t at)
{
	static uint8_t from[70000], to[70000];

	for (size_t i = 0; i < n + 32; i++) {
		from[i] = (uint8_t)(i * 7 + n);
		to[i] = 0xee;
	}
	assert_true(tt_copy(to + at, from + 3, n));
	assert_memory_equal(to + at, from + 3, n);
	for (size_t i = 0; i < at; i++)
		assert_int_equal(to[i], 0xee);
	for (size_t i = at + n; i < at + n + 8; i++)
		assert_int_equal(to[i], 0xee);
}

static void lengths(void **state)
{
	(void)state;
	/* Without the string instruction, then with it where there is one. */
	for (int pass = 0; pass < 2; pass++) {
		for (size_t n = 0; n < 600; n++)
			copies_exactly(n, n % 17);
		for (size_t n = 1000; n < 69000; n += 1999)
			copies_exactly(n, n % 17);
		tt_copy_init();
	}
}

static void faults_are_answers(void **state)
{
	uint8_t *p = page_before_nothing();
	uint8_t *bad = p + TT_PAGE;
	static uint8_t ours[TT_PAGE];

	(void)state;
	handlers_set();
	for (size_t n = 1; n <= TT_PAGE; n = n < 200 ? n + 1 : n * 2 - 3) {
		faults = 0;
		assert_false(tt_copy(bad, ours, n));
		assert_false(tt_copy(ours, bad, n));
		assert_false(tt_copy(ours, bad - n / 2, n));
		assert_false(tt_copy(bad - n / 2, ours, n));
		assert_int_equal(faults, 4);
		assert_true(tt_copy(bad - n, ours, n));
		assert_true(tt_copy(ours, bad - n, n));
		assert_int_equal(faults, 4);
	}
	assert_true(tt_copy(bad, ours, 0));
	assert_false(tt_copy(ours, (void *)16, 100));
	assert_false(tt_copy(NULL, ours, 100));
	munmap(p, 2 * TT_PAGE);
}

static void readable(void **state)
{
	uint8_t *p = page_before_nothing();

	(void)state;
	handlers_set();
	assert_true(tt_copy_readable(p, TT_PAGE));
	assert_true(tt_copy_readable(p + TT_PAGE - 1, 1));
	assert_true(tt_copy_readable(p + TT_PAGE, 0));
	assert_false(tt_copy_readable(p, TT_PAGE + 1));
	assert_false(tt_copy_readable(p + 100, TT_PAGE));
	assert_false(tt_copy_readable(NULL, 1));
	assert_false(tt_copy_readable(p, SIZE_MAX));
	munmap(p, 2 * TT_PAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(lengths),
	    cmocka_unit_test(faults_are_answers),
	    cmocka_unit_test(readable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
