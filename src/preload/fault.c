/* SPDX-License-Identifier: BSD-3-Clause */
#include "preload/fault.h"

#include <string.h>
#include <ucontext.h>

#include "base/copy.h"
#include "base/raw.h"

#define KERNEL_SIGSET_BYTES 8

/* What the program has asked for. The mask is in the kernel's copy, which has ours beside it only in the handler and flags. */
struct own {
	__sighandler_t handler; /* SIG_DFL: none */
	int flags;
};

static struct own own_segv;
static struct own own_bus;
static bool standing;

static struct own *own_of(int sig)
{
	return sig == SIGSEGV ? &own_segv : &own_bus;
}

bool tt_fault_is_ours(int sig)
{
	return (sig == SIGSEGV || sig == SIGBUS) && __atomic_load_n(&standing, __ATOMIC_ACQUIRE);
}

__sighandler_t tt_fault_handler(int sig)
{
	return __atomic_load_n(&own_of(sig)->handler, __ATOMIC_ACQUIRE);
}

static void own_set(int sig, __sighandler_t handler, int flags)
{
	__atomic_store_n(&own_of(sig)->flags, flags, __ATOMIC_RELAXED);
	__atomic_store_n(&own_of(sig)->handler, handler, __ATOMIC_RELEASE);
}

/* The same signal once more, with nobody in its way: it is delivered when the handler returns, on the faulting instruction. */
static void die(int sig, siginfo_t *info)
{
	const struct {
		uintptr_t handler;
		unsigned long flags;
		uintptr_t restorer;
		uint64_t mask;
	} none = {0};

	if (tt_raw4(SYS_rt_sigaction, sig, &none, NULL, KERNEL_SIGSET_BYTES) < 0 ||
	    tt_raw4(SYS_rt_tgsigqueueinfo, tt_raw_getpid(), tt_raw0(SYS_gettid), sig, info) < 0)
		__builtin_trap(); /* a filter forbids even that */
}

static bool recovered(ucontext_t *uc)
{
#if defined(__x86_64__)
	uintptr_t pc = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];

	if (!tt_copy_recover(&pc))
		return false;
	uc->uc_mcontext.gregs[REG_RIP] = (greg_t)pc;
#elif defined(__aarch64__)
	uintptr_t pc = (uintptr_t)uc->uc_mcontext.pc;

	if (!tt_copy_recover(&pc))
		return false;
	uc->uc_mcontext.pc = pc;
#else
#error "guarded copies: this processor is not supported yet"
#endif
	return true;
}

static void guard(int sig, siginfo_t *info, void *context)
{
	struct own *own = own_of(sig);
	__sighandler_t handler;

	/* Not one that a process sent: those have codes of 0 and less. */
	if (info->si_code > 0 && recovered(context))
		return;
	handler = __atomic_load_n(&own->handler, __ATOMIC_ACQUIRE);
	if (handler == SIG_DFL) {
		die(sig, info);
		return;
	}
	if (handler == SIG_IGN) { /* set a moment ago by another thread */
		if (info->si_code > 0)
			die(sig, info);
		return;
	}
	if (__atomic_load_n(&own->flags, __ATOMIC_RELAXED) & (int)SA_RESETHAND)
		(void)__atomic_compare_exchange_n(&own->handler, &handler, SIG_DFL, false,
		    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
	((void (*)(int, siginfo_t *, void *))(uintptr_t)handler)(sig, info, context);
}

static bool is_guard(const struct sigaction *sa)
{
	return sa->sa_sigaction == guard;
}

/* act as the kernel gets it. */
static struct sigaction wrap(const struct sigaction *act)
{
	struct sigaction wrapped = *act;

	wrapped.sa_sigaction = guard;
	wrapped.sa_flags = (act->sa_flags & ~(int)SA_RESETHAND) | SA_SIGINFO;
	if (act->sa_handler == SIG_DFL) /* on the stack that the program set aside for such cases, if any */
		wrapped.sa_flags |= SA_ONSTACK;
	return wrapped;
}

/* Takes the kernel's present disposition for the program's, and stands in front of it. */
static void adopt(int sig)
{
	struct sigaction now;

	if (tt_sys.sigaction(sig, NULL, &now) < 0 || is_guard(&now))
		return;
	own_set(sig, now.sa_handler, now.sa_flags);
	if (now.sa_handler != SIG_IGN) {
		now = wrap(&now);
		(void)tt_sys.sigaction(sig, &now, NULL);
	}
}

void tt_fault_start(void)
{
	int saved = errno;

	tt_copy_init();
	adopt(SIGSEGV);
	adopt(SIGBUS);
	__atomic_store_n(&standing, true, __ATOMIC_RELEASE);
	errno = saved;
}

int tt_fault_sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	__sighandler_t handler = tt_fault_handler(sig);
	int flags = __atomic_load_n(&own_of(sig)->flags, __ATOMIC_RELAXED);
	struct sigaction given;
	struct sigaction wrapped;
	struct sigaction before;
	int ret;

	if (act && !tt_vfork_active) {
		given = *act;
		act = &given;
		/* Before the kernel knows: a fault in between gets the new handler a moment early. */
		own_set(sig, given.sa_handler, given.sa_flags);
		if (given.sa_handler != SIG_IGN) {
			wrapped = wrap(&given);
			act = &wrapped;
		}
	}
	ret = tt_sys.sigaction(sig, act, &before);
	if (ret < 0) {
		if (act && !tt_vfork_active)
			own_set(sig, handler, flags);
		return ret;
	}
	if (!old)
		return ret;
	*old = before;
	if (is_guard(&before)) {
		old->sa_handler = handler;
		old->sa_flags = flags;
	}
	return ret;
}

__sighandler_t tt_fault_changed(int sig, __sighandler_t before, __sighandler_t reported)
{
	int saved = errno;

	if (!tt_vfork_active)
		adopt(sig);
	errno = saved;
	return (uintptr_t)reported == (uintptr_t)guard ? before : reported;
}
