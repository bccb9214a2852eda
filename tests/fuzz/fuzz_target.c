/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz_target.c - any file as the program of `taut run`: looked at within its bounds, and with one
 * answer. */
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/base.h"
#include "cli/target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum tt_obstacle obstacle, again;
	char interp[256];
	int fd = memfd_create("program", MFD_CLOEXEC), rc;

	TT_ASSERT(fd >= 0);
	TT_ASSERT(write(fd, data, size) == (ssize_t)size);
	rc = tt_target_elf(fd, "ld-linux-x86-64.so.2", interp, &obstacle);
	TT_ASSERT(rc <= 0);
	TT_ASSERT(memchr(interp, 0, sizeof(interp)));
	TT_ASSERT(tt_obstacle_text(obstacle) != NULL);
	TT_ASSERT(
	    tt_target_elf(fd, "ld-linux-x86-64.so.2", interp, &again) == rc && again == obstacle);
	close(fd);
	return 0;
}
