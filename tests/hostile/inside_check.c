/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * inside_check - a peer that dies, or is kept from running, in the middle of things.
 *
 * Dies: it has entered the words of its connections and not left them, has told of a kernel send that never comes, is taking back
 * what lies unread.
 * Such a death hits a few instructions, so killing at random times meets it once in hundreds of kills. Here the peer writes what it
 * would have left behind into the shared memory, stands still, and is killed. The survivor, in each way of waiting, must
 * see the end of all its connections with it at once: nothing of theirs can come any more, and the kernel says so. Counted is its
 * own time since the kernel has let go of the dead process, without what a busy machine kept it waiting.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../stream/patience.h"
#include "hostile.h"
#include "shm/layout.h"
#include "shm/word.h"

#define CONNS 6
#define ROUNDS 300 /* of question and answer on each connection before the death */
#define LIMIT_NS 300000000ull
#define HANG_S 30
#define STAY_MS 300
#define LAST 2 /* question */

enum leaves { LEAVE_WORDS, LEAVE_SEND, LEAVE_BACK, LEAVE_ALL, LEAVE_COUNT };
static const char *const leave_word[] = {"inside the words", "in a kernel send", "taking bytes back", "all of it"};
static const char *const wait_word[TT_HS_WAITS] = {"blocking", "timeouts", "asking", "poll", "select", "epoll", "edges"};
/* As enum: BACK_BY_R of socket/unread.c. */
#define BACK_BY_R 3

static char doing[100];

/* ---- the peer ---- */

/* What stayed is told in memory that the two share beside taut. */
struct told {
	int segs;    /* found by the peer */
	int entered; /* words */
	int closed;  /* of those, while it was inside */
};

static void dir_leave(struct tt_dir *d, enum leaves what)
{
	if (what == LEAVE_WORDS || what == LEAVE_ALL)
		__atomic_fetch_add(&d->word.v, TT_WORD_ONE, __ATOMIC_SEQ_CST);
	if (what == LEAVE_SEND || what == LEAVE_ALL)
		__atomic_fetch_add(&d->kpend, 1, __ATOMIC_SEQ_CST);
	if (what == LEAVE_BACK || what == LEAVE_ALL)
		__atomic_store_n(&d->back, BACK_BY_R, __ATOMIC_SEQ_CST);
}

/* What a death in the middle leaves, in every slot and group. Answers how many segments there are. */
static int leave(enum leaves what)
{
	struct tt_hs_seg segs[TT_HS_SEGS];
	int n = tt_segs_find(segs);

	for (int i = 0; i < n; i++) {
		struct tt_slot *slots = (struct tt_slot *)(void *)(segs[i].base + tt_segs_slots_at(&segs[i]));
		struct tt_group *groups = (struct tt_group *)(void *)(segs[i].base + TT_SEG_HEAD_BYTES);

		for (uint32_t k = 0; segs[i].seg == 0 && k < 2 * TT_LINK_GROUPS; k++)
			if (what == LEAVE_WORDS || what == LEAVE_ALL)
				__atomic_fetch_add(&groups[k].word.v, TT_WORD_ONE, __ATOMIC_SEQ_CST);
		for (uint32_t k = 0; k < segs[i].slots; k++)
			for (int d = 0; d < 2; d++)
				dir_leave(&slots[k].dir[d], what);
	}
	return n;
}

static void ask_word(int fd, char byte)
{
	if (send(fd, &byte, 1, MSG_NOSIGNAL) != 1 || recv(fd, &byte, 1, 0) != 1)
		tt_fail("%s: the peer's question has no answer: %s", doing, strerror(errno));
}

static void ask(int fd)
{
	ask_word(fd, 1);
}

static _Noreturn void peer_main(uint16_t port, enum leaves what, struct told *told)
{
	int fd[CONNS];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int i = 0; i < CONNS; i++)
		fd[i] = tt_connect_to(TT_FAMILY_4, port);
	for (int k = 0; k < ROUNDS; k++)
		for (int i = 0; i < CONNS; i++)
			ask(fd[i]);
	tt_nap_us(1000); /* the survivor is back in its wait */
	told->segs = leave(what);
	tt_nap_us(1000);
	for (;;)
		raise(SIGKILL);
}

#define WORDS_MAX 64

struct entered {
	struct tt_word *word[WORDS_MAX];
	int count;
};

static void enter(struct entered *in, struct tt_word *w)
{
	if (in->count < WORDS_MAX && tt_word_enter(w)) /* else it is closed */
		in->word[in->count++] = w;
}

/* The open words of connections: their own, or of the group that governs them. */
static void enter_all(struct entered *in)
{
	struct tt_hs_seg segs[TT_HS_SEGS];
	struct tt_group *groups = NULL;
	bool entered[2 * TT_LINK_GROUPS] = {false};
	int n = tt_segs_find(segs);

	for (int i = 0; i < n; i++)
		if (segs[i].seg == 0)
			groups = (struct tt_group *)(void *)(segs[i].base + TT_SEG_HEAD_BYTES);
	for (int i = 0; i < n; i++) {
		struct tt_slot *slots = (struct tt_slot *)(void *)(segs[i].base + tt_segs_slots_at(&segs[i]));

		for (uint32_t k = 0; k < segs[i].slots * 2; k++) {
			const struct tt_slot *slot = &slots[k / 2];
			struct tt_dir *dir = &slots[k / 2].dir[k % 2];
			uint32_t g = dir->gov - 1 + (k % 2) * TT_LINK_GROUPS;

			/* Also mapped is what the survivor shared with peers before this one. */
			if (slot->state % (1u << TT_SLOT_STATE_BITS) != TT_SLOT_ACCEPTED || slot->done[0] || slot->done[1])
				continue;
			if (!dir->gov)
				enter(in, &dir->word);
			else if (groups && !entered[g])
				enter(in, &groups[g].word);
			if (dir->gov)
				entered[g] = true;
		}
	}
}

/* Stays inside; then leaves. Answers how many words were closed meanwhile. */
static int stay(struct entered *in)
{
	bool closed[WORDS_MAX] = {false};
	int sum = 0;

	for (int i = 0; i < STAY_MS; i++) {
		tt_nap_us(1000);
		for (int k = 0; k < in->count; k++)
			closed[k] = closed[k] || tt_word_is_closed(in->word[k]);
	}
	for (int k = 0; k < in->count; k++) {
		sum += closed[k];
		tt_word_leave(in->word[k]);
	}
	return sum;
}

static _Noreturn void alive_main(uint16_t port, struct told *told)
{
	static struct entered in;
	int fd[CONNS];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int i = 0; i < CONNS; i++)
		fd[i] = tt_connect_to(TT_FAMILY_4, port);
	for (int k = 0; k < ROUNDS; k++)
		for (int i = 0; i < CONNS; i++)
			ask(fd[i]);
	tt_nap_us(1000);
	enter_all(&in);
	told->entered = in.count;
	shutdown(fd[0], SHUT_WR);
	told->closed = stay(&in);
	for (int i = 1; i < CONNS; i++)
		ask(fd[i]);
	for (;;)
		raise(SIGKILL);
}

static _Noreturn void dgram_main(uint16_t port, struct told *told)
{
	static struct entered in;
	struct tt_addr to;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	tt_addr_loopback(&to, TT_FAMILY_4, port);
	if (fd < 0 || connect(fd, (void *)&to.ss, to.len) < 0)
		tt_env_fail("UDP socket: %s", strerror(errno));
	/* Flows open lazily: until one has. */
	for (int i = 0; i < ROUNDS && !in.count; i++) {
		for (int k = 0; k < ROUNDS / 6; k++)
			ask(fd);
		tt_nap_us(1000);
		enter_all(&in);
	}
	told->entered = in.count;
	told->closed = in.count ? stay(&in) : 0;
	ask_word(fd, LAST);
	exit(0);
}

/* ---- the survivor ---- */

struct end {
	int fd[CONNS];
	bool over[CONNS];
	int left;
	enum tt_hs_wait wait;
	int epfd;
	uint64_t got[CONNS];
};

static void over(struct end *e, int i, ssize_t n, int err)
{
	if (n < 0 && err != ECONNRESET && err != EPIPE)
		tt_fail("%s: connection %d ended with: %s", doing, i, strerror(err));
	if (!e->over[i])
		e->left--;
	e->over[i] = true;
	if (e->epfd >= 0)
		(void)epoll_ctl(e->epfd, EPOLL_CTL_DEL, e->fd[i], NULL);
}

/* All that it has now, or what it waits for; answers each byte. False: over, or nothing there. */
static bool answer(struct end *e, int i)
{
	char buf[64];
	ssize_t n = recv(e->fd[i], buf, sizeof(buf), e->wait == TT_HS_BLOCK || e->wait == TT_HS_TIMEO ? 0 : MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n > 0) {
		e->got[i] += (uint64_t)n;
		n = send(e->fd[i], buf, (size_t)n, MSG_NOSIGNAL);
		if (n > 0)
			return true;
	}
	over(e, i, n, errno);
	return false;
}

static void turn_poll(struct end *e)
{
	struct pollfd p[CONNS];

	for (int i = 0; i < CONNS; i++)
		p[i] = (struct pollfd){.fd = e->over[i] ? -1 : e->fd[i], .events = POLLIN};
	(void)poll(p, CONNS, -1);
	for (int i = 0; i < CONNS; i++)
		if (p[i].revents)
			(void)answer(e, i);
}

static void turn_select(struct end *e)
{
	fd_set in;
	int high = 0;

	FD_ZERO(&in);
	for (int i = 0; i < CONNS; i++) {
		if (e->over[i])
			continue;
		FD_SET(e->fd[i], &in);
		high = e->fd[i] > high ? e->fd[i] : high;
	}
	if (select(high + 1, &in, NULL, NULL, NULL) < 0)
		return;
	for (int i = 0; i < CONNS; i++)
		if (FD_ISSET(e->fd[i], &in))
			(void)answer(e, i);
}

static void turn_epoll(struct end *e)
{
	struct epoll_event ev[CONNS];
	int n = epoll_wait(e->epfd, ev, CONNS, -1);

	for (int k = 0; k < n; k++)
		while (answer(e, (int)ev[k].data.u32) && e->wait == TT_HS_EDGE)
			;
}

static void live(struct end *e)
{
	while (e->left) {
		switch (e->wait) {
		case TT_HS_POLL:
			turn_poll(e);
			break;
		case TT_HS_SELECT:
			turn_select(e);
			break;
		case TT_HS_LEVEL:
		case TT_HS_EDGE:
			turn_epoll(e);
			break;
		default:
			for (int i = 0; i < CONNS; i++)
				if (!e->over[i])
					(void)answer(e, i);
		}
	}
}

static void end_open(struct end *e, int lfd, enum tt_hs_wait wait)
{
	static const struct timeval tv = {.tv_usec = 20000};

	*e = (struct end){.left = CONNS, .wait = wait, .epfd = -1};
	for (int i = 0; i < CONNS; i++)
		e->fd[i] = tt_accept_one(lfd);
	if (wait == TT_HS_LEVEL || wait == TT_HS_EDGE)
		e->epfd = epoll_create1(EPOLL_CLOEXEC);
	for (int i = 0; i < CONNS; i++) {
		struct epoll_event ev = {.events = EPOLLIN | (wait == TT_HS_EDGE ? EPOLLET : 0u), .data.u32 = (uint32_t)i};

		if (wait == TT_HS_TIMEO)
			(void)setsockopt(e->fd[i], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
		if (e->epfd >= 0 && epoll_ctl(e->epfd, EPOLL_CTL_ADD, e->fd[i], &ev) < 0)
			tt_fail("%s: EPOLL_CTL_ADD: %s", doing, strerror(errno));
	}
}

static void end_close(struct end *e)
{
	if (e->epfd >= 0)
		close(e->epfd);
	for (int i = 0; i < CONNS; i++)
		close(e->fd[i]);
}

/* ---- the judge: a thread, so that it sees the death whatever the survivor does ---- */

static struct {
	pid_t pid;
	_Atomic uint64_t gone_ns; /* the kernel has let go of the peer */
	_Atomic uint64_t delay_ns; /* of the survivor by then */
	_Atomic bool over;
	pid_t survivor;
} judge;

static void *judge_main(void *arg)
{
	int status;

	(void)arg;
	while (waitpid(judge.pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFSIGNALED(status) ? WTERMSIG(status) != SIGKILL : WEXITSTATUS(status) != 0)
		tt_fail("%s: the peer ended with status %x", doing, (unsigned int)status);
	atomic_store(&judge.delay_ns, tt_run_delay_ns(judge.survivor));
	atomic_store(&judge.gone_ns, tt_now_ns());
	for (int i = 0; i < HANG_S * 100 && !atomic_load(&judge.over); i++)
		tt_nap_us(10000);
	if (!atomic_load(&judge.over)) {
		tt_proc_show(judge.survivor);
		tt_fail("%s: the survivor has not seen the end for %d s", doing, HANG_S);
	}
	return NULL;
}

static void judge_start(pid_t pid, pthread_t *t)
{
	if (pid < 0)
		tt_env_fail("fork: %s", strerror(errno));
	judge.survivor = getpid();
	judge.pid = pid;
	atomic_store(&judge.over, false);
	if (pthread_create(t, NULL, judge_main, NULL))
		tt_env_fail("no thread");
}

static uint64_t worst;

static void dies(int lfd, uint16_t port, enum tt_hs_wait wait, enum leaves what, struct told *told)
{
	struct end e;
	pthread_t t;
	uint64_t took, delay, now;
	pid_t pid;

	snprintf(doing, sizeof(doing), "%s, the peer dies %s", wait_word[wait], leave_word[what]);
	*told = (struct told){0};
	pid = fork();
	if (pid == 0)
		peer_main(port, what, told);
	judge_start(pid, &t);
	end_open(&e, lfd, wait);
	live(&e);
	now = tt_now_ns();
	delay = tt_run_delay_ns(judge.survivor);
	atomic_store(&judge.over, true);
	pthread_join(t, NULL);
	for (int i = 0; i < CONNS; i++)
		if (e.got[i] != ROUNDS)
			tt_fail("%s: %llu questions came on connection %d", doing, (unsigned long long)e.got[i], i);
	took = now > judge.gone_ns ? now - judge.gone_ns : 0;
	delay = took ? delay - judge.delay_ns : 0;
	took = took > delay ? took - delay : 0;
	if (took > LIMIT_NS)
		tt_fail("%s: the end was seen %llu ms after the death", doing, (unsigned long long)took / 1000000);
	worst = took > worst ? took : worst;
	end_close(&e);
}

static void stays(int lfd, uint16_t port, enum tt_hs_wait wait, struct told *told)
{
	struct end e;
	pthread_t t;
	pid_t pid;

	snprintf(doing, sizeof(doing), "%s, the peer stays inside", wait_word[wait]);
	*told = (struct told){0};
	pid = fork();
	if (pid == 0)
		alive_main(port, told);
	judge_start(pid, &t);
	end_open(&e, lfd, wait);
	live(&e);
	atomic_store(&judge.over, true);
	pthread_join(t, NULL);
	/* The word of the connection that has ended is nobody's any more. */
	if (told->closed > 1)
		tt_fail("%s: %d words of %d were closed under it", doing, told->closed, told->entered);
	end_close(&e);
}

/* Datagrams: answers until the peer is gone. */
static void stays_dgram(enum tt_hs_wait wait, struct told *told)
{
	static const struct timeval tv = {.tv_usec = 20000};
	struct tt_addr at;
	struct end e = {.wait = wait, .epfd = epoll_create1(EPOLL_CLOEXEC)};
	struct epoll_event ev = {.events = EPOLLIN};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	char byte = 0;
	pid_t pid;
	pthread_t t;

	snprintf(doing, sizeof(doing), "datagrams, %s, the peer stays inside", wait_word[wait]);
	*told = (struct told){0};
	tt_addr_loopback(&at, TT_FAMILY_4, 0);
	if (fd < 0 || bind(fd, (void *)&at.ss, at.len) < 0 || getsockname(fd, (void *)&at.ss, &at.len) < 0)
		tt_env_fail("UDP socket: %s", strerror(errno));
	if (wait == TT_HS_TIMEO)
		(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	pid = fork();
	if (pid == 0) {
		close(fd); /* held by two processes it would stay with the kernel */
		dgram_main(tt_addr_port(&at), told);
	}
	if (wait == TT_HS_LEVEL && epoll_ctl(e.epfd, EPOLL_CTL_ADD, fd, &ev) < 0)
		tt_fail("%s: EPOLL_CTL_ADD: %s", doing, strerror(errno));
	judge_start(pid, &t);
	while (byte != LAST) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		struct tt_addr from = {.len = sizeof(from.ss)};

		if (wait == TT_HS_POLL)
			(void)poll(&p, 1, -1);
		if (wait == TT_HS_LEVEL)
			(void)epoll_wait(e.epfd, &ev, 1, -1);
		if (recvfrom(fd, &byte, 1, wait == TT_HS_POLL || wait == TT_HS_LEVEL ? MSG_DONTWAIT : 0, (void *)&from.ss,
			&from.len) != 1)
			continue;
		if (sendto(fd, &byte, 1, 0, (void *)&from.ss, from.len) != 1)
			tt_fail("%s: sendto: %s", doing, strerror(errno));
	}
	atomic_store(&judge.over, true);
	pthread_join(t, NULL);
	if (told->closed)
		tt_fail("%s: %d words of %d were closed under it", doing, told->closed, told->entered);
	close(e.epfd);
	close(fd);
}

int main(int argc, char **argv)
{
	static const enum tt_hs_wait dgram[] = {TT_HS_BLOCK, TT_HS_TIMEO, TT_HS_POLL, TT_HS_LEVEL};
	struct told *told = mmap(NULL, sizeof(*told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint16_t port;
	int lfd = tt_listen_any(TT_FAMILY_4, CONNS, &port);
	int shared = 0, entered = 0, datagrams = 0;

	tt_rerun_set(argc, argv, 0);
	signal(SIGPIPE, SIG_IGN);
	if (told == MAP_FAILED)
		tt_env_fail("mmap: %s", strerror(errno));
	for (int w = 0; w < TT_HS_WAITS; w++) {
		for (int l = 0; l < LEAVE_COUNT; l++) {
			dies(lfd, port, (enum tt_hs_wait)w, (enum leaves)l, told);
			shared += told->segs > 0;
		}
		stays(lfd, port, (enum tt_hs_wait)w, told);
		entered += told->entered;
	}
	for (size_t i = 0; i < TT_CK_ARRAY(dgram); i++) {
		stays_dgram(dgram[i], told);
		datagrams += told->entered;
	}
	printf("inside_check: %d deaths, %d with shared memory, worst %llu us; %d words stayed in, %d of datagrams\n",
	    TT_HS_WAITS * LEAVE_COUNT, shared, (unsigned long long)worst / 1000, entered, datagrams);
	return 0;
}
