/* SPDX-License-Identifier: BSD-3-Clause */
#include "shm/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define RING 4096u

static const struct tt_seg_geo first = {.seg = 0, .first_slot = 0, .slots = 4, .ring_bytes = RING};

/* Neither end can pull a page from under the other: not by the descriptor, not by a copy of it, not after the seals. */
static void the_size_is_for_ever(void **state)
{
	struct tt_seg mine = {0}, theirs = {0};
	int fd = -1, again;
	off_t bytes;
	char path[64];

	(void)state;
	assert_int_equal(tt_seg_create(&mine, &first, &fd), 0);
	bytes = (off_t)mine.bytes;
	assert_int_equal(lseek(fd, 0, SEEK_END), bytes);
	assert_int_equal(ftruncate(fd, 0), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(ftruncate(fd, bytes + 4096), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(fallocate(fd, 0, bytes, 4096), -1);
	assert_int_equal(pwrite(fd, "x", 1, bytes), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
	assert_int_equal(errno, EPERM);
	/* Opened anew the file is the same. */
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_RDWR | O_TRUNC | O_CLOEXEC);
	assert_true(again < 0 || ftruncate(again, 0) < 0);
	assert_int_equal(lseek(fd, 0, SEEK_END), bytes);
	if (again >= 0)
		close(again);

	assert_int_equal(tt_seg_map(&theirs, &first, fd), 0);
	/* Memory can be given back, not the place: it reads as zeroes. */
	mine.base[bytes - 1] = 7;
	assert_int_equal(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, bytes), 0);
	assert_int_equal(theirs.base[bytes - 1], 0);
	theirs.base[bytes - 1] = 3;
	assert_int_equal(mine.base[bytes - 1], 3);
	tt_seg_unmap(&theirs);
	tt_seg_unmap(&mine);
	close(fd);
}

static int file_of(size_t bytes, unsigned int flags, int seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static void refused(const struct tt_seg_geo *geo, int fd)
{
	struct tt_seg seg = {0};

	assert_int_equal(tt_seg_map(&seg, geo, fd), -EPROTO);
	assert_null(seg.base);
	close(fd);
}

static void only_what_is_sealed_and_of_the_size_is_mapped(void **state)
{
	size_t bytes = tt_seg_bytes(&first);

	(void)state;
	refused(&first, file_of(bytes, 0, F_SEAL_SHRINK | F_SEAL_GROW));
	refused(&first, file_of(bytes, 0, F_SEAL_GROW | F_SEAL_SEAL));
	refused(&first, file_of(bytes, 0, F_SEAL_SHRINK | F_SEAL_SEAL));
	refused(&first, file_of(bytes, 0, SEALS | F_SEAL_WRITE));
	refused(&first, file_of(bytes - 4096, 0, SEALS));
	refused(&first, file_of(bytes + 4096, 0, SEALS));
	refused(&first, file_of(0, 0, SEALS));
	refused(&first, open("/dev/zero", O_RDWR | O_CLOEXEC));
	refused(&first, open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
}

/* A touch of a huge page that is not there is a SIGBUS, sealed or not. */
static void huge_pages_are_refused(void **state)
{
	const size_t huge = 2u << 20;
	struct tt_seg_geo geo = {.seg = 1, .ring_bytes = RING};
	int fd;

	(void)state;
	for (geo.slots = 1; geo.slots < TT_LINK_SLOTS_MAX && (!tt_seg_bytes(&geo) || tt_seg_bytes(&geo) % huge); geo.slots++)
		;
	if (geo.slots == TT_LINK_SLOTS_MAX)
		return; /* no segment has such a size */
	fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
	if (fd < 0 || ftruncate(fd, (off_t)tt_seg_bytes(&geo)) < 0) /* this kernel has none, or of another size */
		skip();
	assert_int_equal(fcntl(fd, F_ADD_SEALS, SEALS), 0);
	refused(&geo, fd);
}

static void nonsense_geometry_has_no_size(void **state)
{
	static const struct tt_seg_geo bad[] = {
	    {.seg = TT_LINK_SEGS_MAX, .slots = 1, .ring_bytes = RING},
	    {.seg = 0, .slots = 0, .ring_bytes = RING},
	    {.seg = 0, .slots = TT_LINK_SLOTS_MAX + 1, .ring_bytes = RING},
	    {.seg = 0, .first_slot = TT_LINK_SLOTS_MAX, .slots = 1, .ring_bytes = RING},
	    {.seg = 0, .first_slot = UINT32_MAX, .slots = 2, .ring_bytes = RING},
	    {.seg = 0, .slots = 1, .ring_bytes = 0},
	    {.seg = 0, .slots = 1, .ring_bytes = RING + 1},
	    {.seg = 0, .slots = 1, .ring_bytes = RING / 2},
	    {.seg = 0, .slots = 1, .ring_bytes = 1u << 31},
	    {.seg = 0, .slots = TT_LINK_SLOTS_MAX, .ring_bytes = TT_RING_BYTES_MAX},
	};

	(void)state;
	for (size_t i = 0; i < tt_array_len(bad); i++)
		assert_int_equal(tt_seg_bytes(&bad[i]), 0);
	assert_true(tt_seg_bytes(&first) > 0);
}

/* A limit on files is an error code: SIGXFSZ would end the process. */
static void a_file_limit_is_an_error(void **state)
{
	int status;
	pid_t pid = fork();

	(void)state;
	assert_true(pid >= 0);
	if (pid == 0) {
		struct rlimit small = {8192, 8192};
		struct tt_seg seg = {0};
		int fd;

		if (setrlimit(RLIMIT_FSIZE, &small) < 0)
			_exit(9);
		_exit(tt_seg_create(&seg, &first, &fd) == -EFBIG && !seg.base ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_size_is_for_ever),
	    cmocka_unit_test(only_what_is_sealed_and_of_the_size_is_mapped),
	    cmocka_unit_test(huge_pages_are_refused),
	    cmocka_unit_test(nonsense_geometry_has_no_size),
	    cmocka_unit_test(a_file_limit_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
