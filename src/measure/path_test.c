/* SPDX-License-Identifier: BSD-3-Clause */
/* Which rounds are void: counters as accelerated processes leave them, whole, cut short, or none.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "measure/path.h"

#define LINE(tx_shm, tx_kernel, reasons)                                                           \
	"{\"pid\":12,\"comm\":\"a\\\"totals\",\"cmdline\":\"x "                                    \
	"tx_shm_msgs\",\"totals\":{\"tx_shm_bytes\":" #tx_shm "00,\"tx_shm_msgs\":" #tx_shm        \
	",\"tx_kernel_bytes\":" #tx_kernel "00,\"tx_kernel_msgs\":" #tx_kernel                     \
	",\"rx_shm_bytes\":0,\"rx_shm_msgs\":0,\"doorbells\":4},\"reasons\":{" reasons "}}\n"

static char file[64];

static void write_file(const char *text)
{
	int fd;

	strcpy(file, "/tmp/taut-path-XXXXXX");
	fd = mkstemp(file);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static void judge(const char *text, bool accelerated, struct taut_result *r, struct tt_path *path)
{
	taut_result_init(r, "compare");
	memset(path, 0, sizeof(*path));
	if (text)
		write_file(text);
	else
		strcpy(file, "/tmp/taut-path-none");
	assert_int_equal(tt_path_read(file, "client", path, taut_run_add(r)), 0);
	if (text)
		unlink(file);
	tt_path_judge(path, TT_WEIGHT_MESSAGES, accelerated, 0.95, &r->runs.at[0]);
}

static void test_good(void **state)
{
	struct taut_result r;
	struct tt_path path;

	(void)state;
	judge(LINE(96, 4, "\"closed\":3"), true, &r, &path);
	assert_int_equal(path.lines, 1);
	assert_true(fabs(r.runs.at[0].path_share - 0.96) < 1e-9);
	assert_string_equal(r.runs.at[0].void_reason, "");
	assert_string_equal(r.runs.at[0].counters.at[0].name, "client.tx_shm_bytes");
	assert_int_equal(r.runs.at[0].counters.at[0].value, 9600);
	taut_result_free(&r);
}

static void test_missed(void **state)
{
	struct taut_result r;
	struct tt_path path;

	(void)state;
	judge(LINE(94, 6, "\"young\":2,\"ring-full\":5"), true, &r, &path);
	assert_non_null(strstr(r.runs.at[0].void_reason, "94.0 % of the messages"));
	assert_non_null(strstr(r.runs.at[0].void_reason, "ring-full 5, young 2"));
	taut_result_free(&r);
}

/* What woke a sleeping receiver had to go by the kernel: most went by shared memory, and what could did. Then not most. */
static void test_excused(void **state)
{
#define BELL(shm, kernel, bell) \
	"{\"totals\":{\"tx_shm_bytes\":" #shm "00,\"tx_shm_msgs\":" #shm ",\"tx_kernel_bytes\":" #kernel \
	"00,\"tx_kernel_msgs\":" #kernel ",\"tx_bell_bytes\":" #bell "00},\"reasons\":{}}\n"
	struct taut_result r;
	struct tt_path path;

	(void)state;
	judge(BELL(84, 16, 15), true, &r, &path);
	assert_string_equal(r.runs.at[0].void_reason, "");
	assert_true(fabs(r.runs.at[0].path_share - 0.84) < 1e-9);
	assert_true(fabs(tt_path_share_possible(&path) - 84 / 85.) < 1e-9);
	taut_result_free(&r);
	judge(BELL(84, 16, 5), true, &r, &path);
	assert_non_null(strstr(r.runs.at[0].void_reason, "84.0 % of the messages"));
	assert_non_null(strstr(r.runs.at[0].void_reason, "and 88.4 % of the bytes that could"));
	taut_result_free(&r);
	judge(BELL(40, 60, 60), true, &r, &path);
	assert_non_null(strstr(r.runs.at[0].void_reason, "40.0 % of the messages"));
	taut_result_free(&r);
	judge(BELL(0, 60, 60), true, &r, &path);
	assert_non_null(strstr(r.runs.at[0].void_reason, "0.0 % of the messages"));
	taut_result_free(&r);
	judge(BELL(50, 50, 48), true, &r, &path); /* the floor: half */
	assert_string_equal(r.runs.at[0].void_reason, "");
	taut_result_free(&r);
	judge(BELL(49, 51, 51), true, &r, &path);
	assert_non_null(strstr(r.runs.at[0].void_reason, "and 100.0 % of the bytes that could"));
	taut_result_free(&r);
	judge(BELL(95, 5, 6), true, &r, &path);
	assert_non_null(strstr(r.runs.at[0].void_reason, "contradict each other: 500 bytes went by the kernel, 600 of"));
	taut_result_free(&r);
#undef BELL
}

/* Counters that were not all read say nothing: neither that the path was taken, nor that it was not. */
static void test_unread(void **state)
{
	static const char line[] = LINE(100, 0, "");
	struct taut_result r;
	struct tt_path path;
	size_t size = TT_PATH_FILE_MAX;
	char *text = malloc(size + 2);

	(void)state;
	assert_non_null(text);
	memset(text, ' ', size + 1);
	memcpy(text, line, sizeof(line) - 1);
	text[size] = '\0'; /* as much as is read */
	judge(text, true, &r, &path);
	assert_string_equal(r.runs.at[0].void_reason, "");
	taut_result_free(&r);
	text[size] = ' ';
	text[size + 1] = '\0';
	judge(text, true, &r, &path);
	assert_non_null(strstr(r.runs.at[0].void_reason, "counters of the client are more than 1 MB"));
	taut_result_free(&r);
	memset(text, ' ', sizeof(line)); /* of the plain side it is not known either */
	judge(text, false, &r, &path);
	assert_non_null(strstr(r.runs.at[0].void_reason, "more than 1 MB"));
	taut_result_free(&r);
	free(text);

	taut_result_init(&r, "compare");
	memset(&path, 0, sizeof(path));
	assert_int_equal(tt_path_read("/", "server", &path, taut_run_add(&r)), 0); /* EISDIR */
	tt_path_judge(&path, TT_WEIGHT_MESSAGES, true, 0.95, &r.runs.at[0]);
	assert_non_null(strstr(r.runs.at[0].void_reason, "counters of the server can't be read: Is a directory"));
	taut_result_free(&r);
}

/* Several processes of one program, and the other end: everything is summed. */
static void test_sums(void **state)
{
	struct taut_result r;
	struct tt_path path = {0};

	(void)state;
	taut_result_init(&r, "compare");
	write_file(LINE(50, 0, "\"closed\":1") LINE(50, 0, "\"closed\":2"));
	assert_int_equal(tt_path_read(file, "server", &path, taut_run_add(&r)), 0);
	assert_int_equal(tt_path_read(file, "client", &path, &r.runs.at[0]), 0);
	unlink(file);
	assert_int_equal(path.lines, 4);
	assert_int_equal(path.shm_msgs, 200);
	assert_int_equal(path.shm_bytes, 20000);
	assert_string_equal(path.reasons, "closed 6");
	taut_result_free(&r);
}

static void test_none(void **state)
{
	struct taut_result r;
	struct tt_path path;

	(void)state;
	judge(NULL, true, &r, &path);
	assert_non_null(strstr(r.runs.at[0].void_reason, "left its counters"));
	taut_result_free(&r);
	judge(LINE(0, 0, "\"peer-user\":1"), true, &r, &path);
	assert_non_null(strstr(r.runs.at[0].void_reason, "no messages were counted"));
	assert_non_null(strstr(r.runs.at[0].void_reason, "peer-user 1"));
	taut_result_free(&r);
}

static void test_plain_side(void **state)
{
	struct taut_result r;
	struct tt_path path;

	(void)state;
	judge(NULL, false, &r, &path);
	assert_string_equal(r.runs.at[0].void_reason, "");
	assert_true(r.runs.at[0].path_share == 1);
	taut_result_free(&r);
	judge(LINE(0, 100, ""), false, &r, &path);
	assert_string_equal(r.runs.at[0].void_reason, "");
	taut_result_free(&r);
	judge(LINE(30, 70, ""), false, &r, &path);
	assert_non_null(strstr(r.runs.at[0].void_reason, "plain side was accelerated: 30.0 %"));
	taut_result_free(&r);
}

static void test_cut_short(void **state)
{
	static const char line[] = LINE(96, 4, "\"closed\":3");
	struct taut_result r;
	struct tt_path path;

	(void)state;
	for (size_t n = 0; n < sizeof(line); n++) {
		char part[sizeof(line)];

		memcpy(part, line, n);
		part[n] = '\0';
		judge(part, true, &r, &path);
		assert_true(path.shm_msgs <= 96 && path.kernel_msgs <= 4);
		taut_result_free(&r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_good),
	    cmocka_unit_test(test_missed),
	    cmocka_unit_test(test_excused),
	    cmocka_unit_test(test_unread),
	    cmocka_unit_test(test_sums),
	    cmocka_unit_test(test_none),
	    cmocka_unit_test(test_plain_side),
	    cmocka_unit_test(test_cut_short),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
