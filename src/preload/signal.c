/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * signal.c - a signal must end a call that is still spinning, as it ends one that sleeps in the
 * kernel.
 *
 * A spin makes no system call, so only the handler itself can tell that it ran. Each handler of the
 * program is installed behind ours, which counts (tt_signals in socket.h) and goes on to it at
 * once: no signal is deferred, blocked or seen by anybody else. Masks, flags and the order of
 * delivery are the kernel's. What sigaction() and its kin report as the old handler is the
 * program's, never ours.
 *
 * Not counted: the signals that a fault raises (their handlers look at the frame, and they end no
 * wait; SIGSEGV and SIGBUS are told in fault.h), SIG_DFL and SIG_IGN, and handlers installed by a
 * raw system call.
 *
 * A vfork child changes the handlers of its own process but shares our memory: it installs the
 * program's handler bare and leaves the table alone.
 */
#include "preload/fault.h"

#include <signal.h>

typedef void (*handler3)(int sig, siginfo_t *info, void *context);

struct entry {
	handler3 handler; /* the program's */
	int restart;      /* SA_RESTART is set */
};

static struct entry entries[_NSIG];

#define NO_HANDLER ((handler3)0)

static handler3 handler_get(int sig)
{
	return __atomic_load_n(&entries[sig].handler, __ATOMIC_ACQUIRE);
}

/* The kernel passes all three arguments whether SA_SIGINFO is set or not. */
static void counted(int sig, siginfo_t *info, void *context)
{
	handler3 handler = handler_get(sig);

	tt_signals.all = tt_signals.all + 1;
	if (!__atomic_load_n(&entries[sig].restart, __ATOMIC_RELAXED))
		tt_signals.stop = tt_signals.stop + 1;
	handler(sig, info, context);
}

static bool wrappable(int sig)
{
	switch (sig) {
	case SIGSEGV:
	case SIGBUS:
	case SIGILL:
	case SIGFPE:
	case SIGTRAP:
	case SIGSYS:
		return false;
	default:
		return sig > 0 && sig < _NSIG && !tt_vfork_active;
	}
}

/* SIG_DFL, SIG_IGN, SIG_HOLD and SIG_ERR are small numbers or -1. */
static bool is_function(handler3 handler)
{
	return (uintptr_t)handler > 2 && (uintptr_t)handler != (uintptr_t)SIG_ERR;
}

static handler3 wide(__sighandler_t handler)
{
	return (handler3)(uintptr_t)handler;
}

static __sighandler_t narrow(handler3 handler)
{
	return (__sighandler_t)(uintptr_t)handler;
}

static void restart_set(int sig, int flags)
{
	__atomic_store_n(&entries[sig].restart, (flags & SA_RESTART) != 0, __ATOMIC_RELAXED);
}

int sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	struct sigaction wrapped;
	handler3 before;
	int ret;

	tt_sys_init();
	if (tt_fault_is_ours(sig))
		return tt_fault_sigaction(sig, act, old);
	if (!wrappable(sig)) {
		ret = tt_sys.sigaction(sig, act, old);
		if (ret == 0 && old && sig > 0 && sig < _NSIG && old->sa_sigaction == counted)
			old->sa_sigaction = handler_get(sig);
		return ret;
	}
	before = handler_get(sig);
	if (act && is_function(act->sa_sigaction)) {
		wrapped = *act;
		/* Before the kernel knows: a signal in between gets the new handler a moment early.
		 */
		if (act->sa_sigaction != counted)
			__atomic_store_n(
			    &entries[sig].handler, act->sa_sigaction, __ATOMIC_RELEASE);
		restart_set(sig, act->sa_flags);
		wrapped.sa_sigaction = counted;
		act = &wrapped;
	}
	ret = tt_sys.sigaction(sig, act, old);
	if (ret < 0 && act == &wrapped) {
		__atomic_store_n(&entries[sig].handler, before, __ATOMIC_RELEASE);
		return ret;
	}
	if (old && old->sa_sigaction == counted)
		old->sa_sigaction = before;
	return ret;
}

/* For the older calls, which choose the flags themselves: ask the kernel what they chose. */
static void restart_learn(int sig)
{
	struct sigaction now;
	int saved = errno;

	if (tt_sys.sigaction(sig, NULL, &now) == 0)
		restart_set(sig, now.sa_flags);
	errno = saved;
}

static __sighandler_t old_kind(__typeof__(&signal) install, int sig, __sighandler_t handler)
{
	handler3 before;
	__sighandler_t ret;

	if (tt_fault_is_ours(sig)) {
		ret = tt_fault_handler(sig);
		return tt_fault_changed(sig, ret, install(sig, handler));
	}
	if (!wrappable(sig)) {
		ret = install(sig, handler);
		return sig > 0 && sig < _NSIG && wide(ret) == counted ? narrow(handler_get(sig))
								      : ret;
	}
	before = handler_get(sig);
	if (is_function(wide(handler))) {
		if (wide(handler) != counted)
			__atomic_store_n(&entries[sig].handler, wide(handler), __ATOMIC_RELEASE);
		ret = install(sig, narrow(counted));
		if (ret == SIG_ERR)
			__atomic_store_n(&entries[sig].handler, before, __ATOMIC_RELEASE);
		else
			restart_learn(sig);
	} else {
		ret = install(sig, handler);
	}
	return wide(ret) == counted ? narrow(before) : ret;
}

__sighandler_t signal(int sig, __sighandler_t handler)
{
	tt_sys_init();
	return old_kind(tt_sys.signal, sig, handler);
}

__sighandler_t sysv_signal(int sig, __sighandler_t handler)
{
	tt_sys_init();
	return old_kind(tt_sys.sysv_signal, sig, handler);
}

__sighandler_t sigset(int sig, __sighandler_t handler)
{
	tt_sys_init();
	return old_kind(tt_sys.sigset, sig, handler);
}

int siginterrupt(int sig, int interrupt)
{
	int ret;

	tt_sys_init();
	ret = tt_sys.siginterrupt(sig, interrupt);
	if (ret == 0 && wrappable(sig))
		restart_learn(sig);
	return ret;
}

#define TT_ALIAS_signal TT_ALIAS_DEFINE
#include "preload/aliases.h"
