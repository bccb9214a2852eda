/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/library.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void with(const char *list, const char *want)
{
	char *got = tt_preload_with(list, "/opt/libtaut.so");

	assert_non_null(got);
	assert_string_equal(got, want);
	free(got);
}

static void test_preload_list(void **state)
{
	char *got;

	(void)state;
	with(NULL, "/opt/libtaut.so");
	with("", "/opt/libtaut.so");
	with("liba.so", "/opt/libtaut.so:liba.so");
	with("liba.so /x/libb.so", "/opt/libtaut.so:liba.so:/x/libb.so");
	/* Once only, whichever copy was there: two would intercept each other. */
	with(" :/opt/libtaut.so:liba.so::", "/opt/libtaut.so:liba.so");
	with("liba.so:libtaut.so", "/opt/libtaut.so:liba.so");
	with("/old/libtaut.so", "/opt/libtaut.so");
	with("/x/notlibtaut.so:libtaut.so.1", "/opt/libtaut.so:/x/notlibtaut.so:libtaut.so.1");
	got = tt_preload_without("/opt/libtaut.so");
	assert_string_equal(got, "");
	free(got);
	got = tt_preload_without(NULL);
	assert_string_equal(got, "");
	free(got);
}

static void test_find(void **state)
{
	char folder[64] = "/tmp/taut library XXXXXX", plain[64] = "/tmp/taut-library-XXXXXX";
	char path[128], link[128], out[PATH_MAX], error[512];
	int fd;

	(void)state;
	assert_non_null(mkdtemp(folder));
	assert_non_null(mkdtemp(plain));
	snprintf(path, sizeof(path), "%s/libtaut.so", folder);
	snprintf(link, sizeof(link), "%s/libtaut.so", plain);
	assert_int_equal(tt_library_find(path, out, error, sizeof(error)), -1);
	assert_non_null(strstr(error, path));
	assert_non_null(strstr(error, "No such file"));
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	close(fd);
	/* A path that LD_PRELOAD would cut in two, also through a link. */
	assert_int_equal(tt_library_find(path, out, error, sizeof(error)), -1);
	assert_non_null(strstr(error, "blank"));
	assert_int_equal(symlink(path, link), 0);
	assert_int_equal(tt_library_find(link, out, error, sizeof(error)), -1);
	unlink(link);
	assert_int_equal(rename(path, link), 0);
	assert_int_equal(tt_library_find(link, out, error, sizeof(error)), 0);
	assert_string_equal(out, link);
	unlink(link);
	rmdir(folder);
	rmdir(plain);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_preload_list),
	    cmocka_unit_test(test_find),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
