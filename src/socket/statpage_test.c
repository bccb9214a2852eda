/* SPDX-License-Identifier: BSD-3-Clause */
#include "socket/statpage.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Runs f in a child that has no page yet (this process makes none before the last tests) and
 * returns its status. */
static int in_child(int (*f)(void))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(f());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFSIGNALED(status))
		fail_msg("the child died of signal %d", WTERMSIG(status));
	return WEXITSTATUS(status);
}

#define CHECK(x)                                                                                   \
	do {                                                                                       \
		if (!(x)) {                                                                        \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x);                    \
			return 1;                                                                  \
		}                                                                                  \
	} while (0)

static int small_file_limit(void)
{
	struct rlimit lim = {4096, 4096};

	CHECK(setrlimit(RLIMIT_FSIZE, &lim) == 0);
	CHECK(tt_stat_open("balanced") == -EFBIG);
	CHECK(tt_stat_fd() == -1);
	/* The dummy works: rows, sums. */
	struct tt_stat_sock *row = tt_stat_sock_get(7, AF_INET, SOCK_STREAM);
	struct tt_stat_counters sum;
	CHECK(row != NULL);
	tt_stat_add(&row->n.tx_shm_bytes, 5);
	tt_stat_sock_put(row);
	tt_stat_sum(tt_stat, &sum);
	CHECK(sum.tx_shm_bytes == 5 && tt_stat->socks_seen == 1);
	return 0;
}

/* A file size limit between the smallest and the whole page gives fewer rows, and no SIGXFSZ. */
static int middle_file_limit(void)
{
	struct rlimit lim = {1 << 20, 1 << 20};

	CHECK(setrlimit(RLIMIT_FSIZE, &lim) == 0);
	CHECK(tt_stat_open("balanced") == 0);
	CHECK(tt_stat->sock_max >= 64 && tt_stat->sock_max < TT_STAT_SOCKS_MAX);
	for (uint32_t i = 1; i < tt_stat->sock_max; i++)
		CHECK(tt_stat_sock_get((int)i, AF_INET, SOCK_STREAM)->fd == (int)i);
	CHECK(tt_stat_sock_get(5, AF_INET, SOCK_STREAM) == &tt_stat->socks[0]);
	return 0;
}

static int no_descriptors(void)
{
	struct rlimit lim = {3, 3};

	CHECK(setrlimit(RLIMIT_NOFILE, &lim) == 0);
	CHECK(tt_stat_open("balanced") == -EMFILE);
	CHECK(tt_stat_sock_get(7, AF_INET, SOCK_STREAM) != NULL);
	return 0;
}

static int few_descriptors(void)
{
	struct rlimit lim = {64, 64};

	CHECK(setrlimit(RLIMIT_NOFILE, &lim) == 0);
	CHECK(tt_stat_open("balanced") == 0);
	CHECK(tt_stat_fd() >= 50);
	return 0;
}

static int opened(void)
{
	struct stat st;
	int fd;

	CHECK(tt_stat_open("latency") == 0);
	fd = tt_stat_fd();
	CHECK(fd >= 1000);
	CHECK(fcntl(fd, F_GETFD) == FD_CLOEXEC);
	CHECK((fcntl(fd, F_GET_SEALS) & (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) ==
	      (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL));
	CHECK(fstat(fd, &st) == 0 && st.st_size == (off_t)tt_stat->page_bytes);
	CHECK(tt_stat->magic == TT_STAT_MAGIC && tt_stat->version == TT_STAT_VERSION);
	CHECK(tt_stat->sock_size == sizeof(struct tt_stat_sock));
	CHECK(tt_stat->pid == getpid() && strcmp(tt_stat->profile, "latency") == 0);
	CHECK(strstr(tt_stat->cmdline, "statpage") != NULL);
	/* A second open is the same page. */
	CHECK(tt_stat_open("blocking") == 0 && tt_stat_fd() == fd);
	CHECK(strcmp(tt_stat->profile, "latency") == 0);
	/* The lowest free number was not taken: a program that counts on it gets it. */
	int next = dup(0);
	CHECK(next >= 0 && next < 100);
	/* Nobody else can write it. */
	char path[64];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	int again = open(path, O_RDWR);
	CHECK(again >= 0);
	CHECK(pwrite(again, "x", 1, 0) == -1 && errno == EPERM);
	CHECK(mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, again, 0) == MAP_FAILED);
	return 0;
}

static int rows(void)
{
	struct tt_stat_sock *a, *b;
	struct tt_stat_counters sum;

	CHECK(tt_stat_open("balanced") == 0);
	a = tt_stat_sock_get(9, AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK);
	b = tt_stat_sock_get(10, AF_INET, SOCK_STREAM);
	CHECK(a != b && a != &tt_stat->socks[0]);
	CHECK(a->fd == 9 && a->domain == AF_INET6 && a->type == SOCK_DGRAM);
	CHECK(a->in_use != 0 && a->in_use % 2 == 0 && a->in_use != b->in_use);
	CHECK(a->reason == TT_REASON_YOUNG);
	tt_stat_reason(a, TT_REASON_NAT);
	tt_stat_reason(a, TT_REASON_NONE);
	CHECK(a->reason == TT_REASON_NONE);
	CHECK(tt_stat->fallbacks[TT_REASON_NAT] == 1 && tt_stat->fallbacks[TT_REASON_NONE] == 0);
	tt_stat_add(&a->n.rx_shm_bytes, 100);
	tt_stat_add(&b->n.rx_shm_bytes, 11);
	uint32_t was = a->in_use;
	tt_stat_sock_put(a);
	CHECK(a->in_use == 0 && tt_stat->closed.rx_shm_bytes == 100);
	tt_stat_sum(tt_stat, &sum);
	CHECK(sum.rx_shm_bytes == 111);
	/* The row is used again, empty and under a new number. */
	CHECK(tt_stat_sock_get(12, AF_INET, SOCK_STREAM) == a);
	CHECK(a->in_use != was && a->n.rx_shm_bytes == 0 && tt_stat->socks_seen == 3);
	return 0;
}

static int addresses(void)
{
	struct sockaddr_in addr = {.sin_family = AF_INET};
	socklen_t len = sizeof(addr);
	struct tt_stat_sock *row;
	int listener = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);

	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(bind(listener, (struct sockaddr *)&addr, len) == 0 && listen(listener, 1) == 0);
	CHECK(getsockname(listener, (struct sockaddr *)&addr, &len) == 0);
	CHECK(tt_stat_open("balanced") == 0);
	row = tt_stat_sock_get(listener, AF_INET, SOCK_STREAM);
	errno = 0;
	tt_stat_addresses(row, listener);
	CHECK(errno == 0 && row->remote.sin6_port == 0 && row->local.sin6_port == addr.sin_port);
	CHECK(IN6_IS_ADDR_V4MAPPED(&row->local.sin6_addr));
	CHECK(memcmp(&row->local.sin6_addr.s6_addr[12], &addr.sin_addr, 4) == 0);
	CHECK(connect(fd, (struct sockaddr *)&addr, len) == 0);
	row = tt_stat_sock_get(fd, AF_INET, SOCK_STREAM);
	tt_stat_addresses(row, fd);
	CHECK(row->remote.sin6_port == addr.sin_port && row->local.sin6_port != 0);
	tt_stat_addresses(row, -1);
	CHECK(row->remote.sin6_port == addr.sin_port);
	return 0;
}

static int exhausted(void)
{
	struct tt_stat_counters sum;
	struct tt_stat_sock *row;

	CHECK(tt_stat_open("balanced") == 0);
	for (uint32_t i = 1; i < TT_STAT_SOCKS_MAX; i++)
		CHECK(tt_stat_sock_get((int)i, AF_INET, SOCK_STREAM) == &tt_stat->socks[i]);
	for (int i = 0; i < 3; i++) {
		row = tt_stat_sock_get(20000 + i, AF_INET, SOCK_STREAM);
		CHECK(row == &tt_stat->socks[0] && row->fd == -1);
		tt_stat_add(&row->n.drops, 1);
		tt_stat_sock_put(row);
	}
	tt_stat_sum(tt_stat, &sum);
	CHECK(tt_stat->unlisted == 3 && sum.drops == 3);
	tt_stat_sock_put(&tt_stat->socks[5000]);
	CHECK(tt_stat_sock_get(1, AF_INET, SOCK_STREAM) == &tt_stat->socks[5000]);
	CHECK(tt_stat_sock_get(1, AF_INET, SOCK_STREAM) == &tt_stat->socks[0]);
	return 0;
}

/* A child keeps its rows' places, counts from zero, and leaves the parent's page alone. */
static int forked(void)
{
	struct tt_stat_sock *row;
	pid_t pid;
	int status, parent_fd;

	CHECK(tt_stat_open("balanced") == 0);
	parent_fd = tt_stat_fd();
	row = tt_stat_sock_get(33, AF_INET, SOCK_STREAM);
	tt_stat_add(&row->n.tx_shm_msgs, 4);
	tt_stat_add(&tt_stat->closed.tx_shm_msgs, 1);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		struct tt_stat_counters sum;

		CHECK(tt_stat_open("balanced") == 0);
		CHECK(tt_stat->pid == getpid());
		CHECK(row->fd == 33 && row->n.tx_shm_msgs == 0 && row->in_use != 0);
		tt_stat_add(&row->n.tx_shm_msgs, 2);
		tt_stat_sum(tt_stat, &sum);
		CHECK(sum.tx_shm_msgs == 2);
		CHECK(tt_stat_sock_get(34, AF_INET, SOCK_STREAM) != row);
		tt_stat_sock_put(row);
		/* One page only: the parent's is closed here. */
		int pages = 0;
		for (int fd = 900; fd < 1100; fd++)
			pages += fcntl(fd, F_GET_SEALS) > 0;
		CHECK(pages == 1);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CHECK(row->n.tx_shm_msgs == 4 && row->fd == 33 && tt_stat->pid == getpid());
	CHECK(tt_stat_fd() == parent_fd && fcntl(parent_fd, F_GET_SEALS) > 0);
	return 0;
}

/* A child that may make no file (RLIMIT_FSIZE) gets private memory at the same place. */
static int forked_without_file(void)
{
	struct tt_stat_sock *row;
	pid_t pid;
	int status;

	CHECK(tt_stat_open("balanced") == 0);
	row = tt_stat_sock_get(33, AF_INET, SOCK_STREAM);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		struct rlimit lim = {4096, 4096};

		CHECK(setrlimit(RLIMIT_FSIZE, &lim) == 0);
		CHECK(tt_stat_open("balanced") == -EFBIG);
		CHECK(tt_stat_fd() == -1);
		tt_stat_add(&row->n.drops, 1);
		CHECK(row->fd == 33);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CHECK(row->n.drops == 0);
	return 0;
}

#define THREADS 4
#define TURNS 20000

/* Each thread holds up to 100 rows and marks them: a row given twice would be seen. */
static void *row_user(void *arg)
{
	struct tt_stat_sock *mine[100] = {0};
	int id = *(int *)arg;

	for (unsigned int i = 0; i < TURNS; i++) {
		struct tt_stat_sock **slot = &mine[i * 7 % 100];

		if (*slot) {
			if ((*slot)->fd != id)
				return "a row had two owners";
			tt_stat_sock_put(*slot);
		}
		*slot = tt_stat_sock_get(id, AF_INET, SOCK_STREAM);
		tt_stat_add(&(*slot)->n.sleeps, 1);
	}
	for (unsigned int i = 0; i < 100; i++) {
		if (mine[i])
			tt_stat_sock_put(mine[i]);
	}
	return NULL;
}

static int threads(void)
{
	pthread_t t[THREADS];
	int id[THREADS];

	CHECK(tt_stat_open("balanced") == 0);
	for (int i = 0; i < THREADS; i++) {
		id[i] = i;
		CHECK(pthread_create(&t[i], NULL, row_user, &id[i]) == 0);
	}
	for (int i = 0; i < THREADS; i++) {
		void *said = NULL;

		CHECK(pthread_join(t[i], &said) == 0);
		CHECK(said == NULL);
	}
	CHECK(tt_stat->closed.sleeps == THREADS * TURNS && tt_stat->unlisted == 0);
	CHECK(tt_stat->sock_high <= THREADS * 100 + 64);
	for (uint32_t i = 1; i < tt_stat->sock_high; i++)
		CHECK(tt_stat->socks[i].in_use == 0);
	return 0;
}

static char dump_path[64];

static int dumped(void)
{
	char text[20000];
	struct tt_stat_sock *row;
	struct rlimit lim;
	int fd;
	ssize_t n;

	CHECK(tt_stat_open("balanced") == 0);
	row = tt_stat_sock_get(3, AF_INET, SOCK_STREAM);
	tt_stat_add(&row->n.tx_shm_bytes, 18446744073709551615ull);
	tt_stat_reason(row, TT_REASON_RING_FULL);
	memset(tt_stat->cmdline, 1, sizeof(tt_stat->cmdline)); /* all escaped, and no end */
	memcpy(tt_stat->comm, "a\"b\\c\xff", 7);
	tt_stat_dump(dump_path);
	tt_stat_dump(dump_path);
	fd = open(dump_path, O_RDONLY);
	n = read(fd, text, sizeof(text) - 1);
	CHECK(n > 0);
	text[n] = '\0';
	CHECK(strstr(text, "\"comm\":\"a\\\"b\\\\c\\u00ff\",") != NULL);
	CHECK(strstr(text, "\"tx_shm_bytes\":18446744073709551615,") != NULL);
	CHECK(strstr(text, "\"reasons\":{\"ring-full\":1}}\n") != NULL);
	char *second = strchr(text, '\n');
	CHECK(second && second[1] == '{' && strchr(second + 1, '\n') == text + n - 1);
	/* At the file size limit nothing is written and no signal comes. */
	lim.rlim_cur = lim.rlim_max = (rlim_t)n + 10;
	CHECK(setrlimit(RLIMIT_FSIZE, &lim) == 0);
	tt_stat_dump(dump_path);
	CHECK(lseek(fd, 0, SEEK_END) == n);
	tt_stat_dump("/nonexistent/directory/file");
	return 0;
}

static void test_child(void **state)
{
	int (*f)(void);

	memcpy(&f, state, sizeof(f));
	assert_int_equal(in_child(f), 0);
}

static void test_dump(void **state)
{
	int fd;

	(void)state;
	strcpy(dump_path, "/tmp/taut-statpage-XXXXXX");
	fd = mkstemp(dump_path);
	assert_true(fd >= 0);
	close(fd);
	int rc = in_child(dumped);
	unlink(dump_path);
	assert_int_equal(rc, 0);
}

#define CHILD(f)                                                                                   \
	{                                                                                          \
#f, test_child, NULL, NULL, (void *)(f)                                            \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CHILD(small_file_limit),
	    CHILD(middle_file_limit),
	    CHILD(no_descriptors),
	    CHILD(few_descriptors),
	    CHILD(opened),
	    CHILD(rows),
	    CHILD(addresses),
	    CHILD(exhausted),
	    CHILD(forked),
	    CHILD(forked_without_file),
	    CHILD(threads),
	    cmocka_unit_test(test_dump),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
