/* SPDX-License-Identifier: BSD-3-Clause */
/* Stands in for libtaut.so: appends the name of each program that loads it to $PROBE_FILE. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((constructor)) static void loaded(void)
{
	const char *path = getenv("PROBE_FILE");
	int fd = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;

	if (fd < 0)
		return;
	dprintf(fd, "%s\n", program_invocation_short_name);
	close(fd);
}
