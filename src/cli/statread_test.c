/* SPDX-License-Identifier: BSD-3-Clause */
/* Pages of other processes: good ones, and ones that lie. The writer here is this test, byte by
 * byte. */
#include "cli/statread.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/stat.h"

#define ROWS 8u
#define BYTES 16384u

static union {
	struct tt_stat_page page;
	char bytes[BYTES];
} im;

static void image_make(void)
{
	memset(&im, 0, sizeof(im));
	im.page.magic = TT_STAT_MAGIC;
	im.page.version = TT_STAT_VERSION;
	im.page.page_bytes = BYTES;
	im.page.sock_size = sizeof(struct tt_stat_sock);
	im.page.sock_max = ROWS;
	im.page.sock_high = 4;
	im.page.pid = getpid();
	im.page.start_ns = 1;
	strcpy(im.page.profile, "balanced");
	strcpy(im.page.comm, "server");
	strcpy(im.page.version_text, TAUT_VERSION);
	im.page.closed.tx_shm_bytes = 1000;
	im.page.fallbacks[TT_REASON_RING_FULL] = 3;
	im.page.socks[0].fd = -1;
	for (int i = 1; i < 4; i++) {
		struct tt_stat_sock *s = &im.page.socks[i];

		s->in_use = 2u * (unsigned int)i;
		s->fd = 10 + i;
		s->domain = AF_INET;
		s->type = SOCK_STREAM;
		s->n.tx_shm_bytes = 1;
		s->local.sin6_port = htons(80);
		inet_pton(AF_INET6, "::ffff:127.0.0.1", &s->local.sin6_addr);
	}
}

static int page_fd(int seals)
{
	int fd = memfd_create("taut-stat", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, &im, sizeof(im)), sizeof(im));
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static int read_image(struct tt_stat_view *view)
{
	pid_t pid;
	int fd = page_fd(SEALS);
	int rc = tt_stat_read_fd(fd, view, &pid);

	close(fd);
	return rc;
}

static void test_good(void **state)
{
	struct tt_stat_view view;

	(void)state;
	image_make();
	im.page.socks[2].in_use = 0; /* free, with what a late thread added */
	im.page.socks[3].in_use = 7; /* on its way into the closed sums */
	im.page.socks[5].in_use = 2; /* beyond sock_high */
	im.page.socks[1].reason = 999;
	assert_int_equal(read_image(&view), 0);
	assert_int_equal(view.count, 1);
	assert_int_equal(view.rows[0].sock.fd, 11);
	assert_int_equal(view.total.tx_shm_bytes, 1002);
	assert_string_equal(view.comm, "server");
	assert_int_equal(view.fallbacks[TT_REASON_RING_FULL], 3);
	tt_stat_view_free(&view);
}

static void test_text(void **state)
{
	char out[64];

	(void)state;
	tt_text_clean(out, sizeof(out), "a\033[2Jb\x7f\tc", 16);
	assert_string_equal(out, "a?[2Jb??c");
	tt_text_clean(out, sizeof(out), "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80", 64);
	assert_string_equal(out, "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80");
	/* Overlong, surrogate, beyond the last, cut, C1 control, right-to-left override. */
	tt_text_clean(out, sizeof(out), "\xc0\xaf|\xed\xa0\x80|\xf4\x90\x80\x80|\xe2\x82", 64);
	assert_string_equal(out, "?"
				 "?|???|????|??");
	tt_text_clean(out, sizeof(out), "\xc2\x9b|\xe2\x80\xae", 64);
	assert_string_equal(out, "?"
				 "?|???");
	/* No end within the field; no room in the copy: whole characters only. */
	tt_text_clean(out, sizeof(out), "abcdef", 3);
	assert_string_equal(out, "abc");
	tt_text_clean(out, 4, "ab\xe2\x82\xac", 64);
	assert_string_equal(out, "ab");
}

static void bad(int want, const char *what)
{
	struct tt_stat_view view;
	int rc = read_image(&view);

	if (rc == 0)
		tt_stat_view_free(&view);
	if (rc != want)
		fail_msg("%s: %d, not %d", what, rc, want);
	image_make();
}

static void test_header_lies(void **state)
{
	(void)state;
	image_make();
	im.page.magic++;
	bad(-EBADMSG, "magic");
	im.page.version++;
	bad(-EPROTO, "version");
	im.page.sock_size += 8;
	bad(-EPROTO, "sock_size");
	im.page.sock_size = 0;
	bad(-EPROTO, "sock_size 0");
	im.page.page_bytes *= 2;
	bad(-EBADMSG, "page_bytes above the file");
	im.page.page_bytes = 64;
	bad(-EBADMSG, "page_bytes below the file");
	im.page.sock_high = ROWS + 1;
	bad(-EBADMSG, "sock_high above sock_max");
	im.page.sock_max = im.page.sock_high = 0xffffffff;
	bad(-EBADMSG, "sock_max without end");
	im.page.sock_max = im.page.sock_high = TT_STAT_SOCKS_MAX;
	bad(-EBADMSG, "rows beyond the file");
	memset(im.page.comm, 'x', sizeof(im.page.comm));
	memset(im.page.cmdline, 0x1b, sizeof(im.page.cmdline));
	bad(0, "strings without end");
}

static void test_seals(void **state)
{
	struct tt_stat_view view;
	char path[64] = "/tmp/taut-statread-XXXXXX";
	pid_t pid;
	int fd;

	(void)state;
	image_make();
	fd = page_fd(F_SEAL_GROW);
	assert_int_equal(tt_stat_read_fd(fd, &view, &pid), -EBADMSG);
	close(fd);
	fd = mkstemp(path); /* not a memfd at all */
	unlink(path);
	assert_int_equal(write(fd, &im, sizeof(im)), sizeof(im));
	assert_int_equal(tt_stat_read_fd(fd, &view, &pid), -EBADMSG);
	close(fd);
	fd = memfd_create("taut-stat", MFD_CLOEXEC | MFD_ALLOW_SEALING); /* empty */
	assert_int_equal(fcntl(fd, F_ADD_SEALS, SEALS), 0);
	assert_int_equal(tt_stat_read_fd(fd, &view, &pid), -EBADMSG);
	close(fd);
}

/* Any bytes anywhere: read, refused, printed, and never a crash. */
static void test_any_bytes(void **state)
{
	static const struct tt_stat_show all = {.reasons = true};
	FILE *null = fopen("/dev/null", "we");
	unsigned int seed = 1;
	int good = 0;

	(void)state;
	assert_non_null(null);
	for (int turn = 0; turn < 2000; turn++) {
		struct tt_stat_round round = {.interval_s = turn % 2};
		struct tt_stat_view view;

		image_make();
		for (int i = 0; i < 40; i++) {
			size_t from = turn % 3 ? offsetof(struct tt_stat_page, pid) : 0;

			seed = seed * 1103515245u + 12345u;
			im.bytes[from + (seed >> 8) % (4096 - from)] = (char)(seed >> 3);
		}
		if (read_image(&view) < 0)
			continue;
		good++;
		assert_int_equal(tt_stat_list_add(&round.now, &view), 0);
		assert_int_equal(tt_stat_text(&round, &all, null), 0);
		assert_true(
		    tt_stat_json(&round, null) == 0 || tt_stat_json(&round, null) == -ENOTSUP);
		tt_stat_list_free(&round.now);
	}
	fclose(null);
	assert_true(good > 100);
}

/* A process is found by its page, and only by one that names it. */
static void test_processes(void **state)
{
	struct tt_stat_view view;
	int ready[2], end[2], status;
	char c = 0;
	pid_t pid;
	int rc;

	(void)state;
	assert_int_equal(pipe(ready), 0);
	assert_int_equal(pipe(end), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		close(end[1]);
		image_make();
		im.page.pid = 1; /* somebody else's, as between fork() and a page of its own */
		page_fd(SEALS);
		(void)!write(ready[1], "1", 1);
		(void)!read(end[0], &c, 1);
		im.page.pid = getpid();
		page_fd(SEALS);
		(void)!write(ready[1], "2", 1);
		(void)!read(end[0], &c, 1);
		_exit(0);
	}
	close(end[0]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	assert_int_equal(tt_stat_read_pid(pid, &view), -ENOENT);
	assert_int_equal(write(end[1], "x", 1), 1);
	assert_int_equal(read(ready[0], &c, 1), 1);
	rc = tt_stat_read_pid(pid, &view);
	assert_int_equal(rc, 0);
	assert_int_equal(view.pid, pid);
	assert_int_equal(view.uid, getuid());
	assert_int_equal(view.count, 3);
	tt_stat_view_free(&view);
	{
		struct tt_stat_list list;
		int seen = 0;

		assert_int_equal(tt_stat_read_all(&list), 0);
		for (size_t i = 0; i < list.count; i++)
			seen += list.views[i].pid == pid;
		assert_int_equal(seen, 1);
		tt_stat_list_free(&list);
	}
	close(end[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(tt_stat_read_pid(pid, &view), -ESRCH);
	close(ready[0]);
	close(ready[1]);
}

static char shown[16384];

static void show(const struct tt_stat_round *round, const struct tt_stat_show *how)
{
	FILE *f = tmpfile();
	size_t n;

	assert_non_null(f);
	assert_int_equal(tt_stat_text(round, how, f), 0);
	rewind(f);
	n = fread(shown, 1, sizeof(shown) - 1, f);
	shown[n] = '\0';
	fclose(f);
}

/* Busiest first, rates against the round before, a socket that took another's place is new. */
static void test_rates(void **state)
{
	static const struct tt_stat_show two = {.sockets = 2};
	struct tt_stat_round round = {.interval_s = 2};
	struct tt_stat_view view;
	char *first, *second;

	(void)state;
	image_make();
	im.page.socks[1].n.tx_shm_bytes = 5000;
	im.page.socks[2].n.tx_shm_bytes = 8000;
	assert_int_equal(read_image(&view), 0);
	assert_int_equal(tt_stat_list_add(&round.before, &view), 0);
	im.page.socks[1].n.tx_shm_bytes += 200;
	im.page.socks[2].n.tx_shm_bytes = 400;
	im.page.socks[2].in_use = 20;
	im.page.socks[2].reason = TT_REASON_NAT;
	assert_int_equal(read_image(&view), 0);
	assert_int_equal(tt_stat_list_add(&round.now, &view), 0);
	show(&round, &two);
	assert_non_null(strstr(shown, "per second, over 2.0 s"));
	first = strstr(shown, "0:12 ");
	second = strstr(shown, "0:11 ");
	assert_non_null(first);
	assert_non_null(second);
	assert_true(first < second);
	assert_non_null(strstr(first, " 200 "));
	assert_non_null(strstr(first, "  nat\n"));
	assert_non_null(strstr(second, " 100 "));
	assert_null(strstr(shown, "0:13 "));
	assert_non_null(strstr(shown, "1 more with less traffic"));
	assert_non_null(strstr(shown, "ring-full"));
	tt_stat_list_free(&round.before);
	tt_stat_list_free(&round.now);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_good),
	    cmocka_unit_test(test_text),
	    cmocka_unit_test(test_header_lies),
	    cmocka_unit_test(test_seals),
	    cmocka_unit_test(test_any_bytes),
	    cmocka_unit_test(test_processes),
	    cmocka_unit_test(test_rates),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
