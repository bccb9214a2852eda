/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz_rules.c - any file as TAUT_CONFIG: mistakes are named within their limits, and what was read can be asked. */
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/base.h"
#include "socket/rules.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void mistake(void *arg, const char *line)
{
	const char *path = arg;
	size_t len = strlen(line);

	TT_ASSERT(len > 0 && len < TT_OPT_ERROR_MAX);
	TT_ASSERT(strncmp(line, path, strlen(path)) == 0);
	TT_ASSERT(!memchr(line, '\n', len));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t local[16] = {127, 0, 0, 1}, remote[16] = {10, 1, 2, 3};
	char path[32];
	int fd = memfd_create("rules", MFD_CLOEXEC), mistakes;
	bool first, again;

	TT_ASSERT(fd >= 0);
	TT_ASSERT(write(fd, data, size) == (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	mistakes = tt_rules_load(path, mistake, path);
	TT_ASSERT(mistakes >= 0);
	TT_ASSERT(tt_rules_count <= TT_RULES_MAX);
	for (int server = 0; server < 2; server++) {
		first = tt_rules_match(server, IPPROTO_TCP, AF_INET, local, htons(22), remote, htons(40000));
		again = tt_rules_match(server, IPPROTO_TCP, AF_INET, local, htons(22), remote, htons(40000));
		TT_ASSERT(first == again);
		TT_ASSERT(tt_rules_count > 0 || first);
		(void)tt_rules_match(server, IPPROTO_UDP, AF_INET6, local, 0, remote, 0xffff);
	}
	close(fd);
	return 0;
}
