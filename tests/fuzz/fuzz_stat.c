/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz_stat.c - any bytes as the statistics page of another process: refused or shown, with nothing
 * a terminal obeys. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/base.h"
#include "cli/stat.h"

#define BYTES 8192u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void shown(
    const struct tt_stat_round *round, int (*view)(const struct tt_stat_round *, FILE *))
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	int rc;

	TT_ASSERT(f);
	rc = view(round, f);
	fclose(f);
	TT_ASSERT(rc == 0 || rc == -ENOTSUP);
	for (size_t i = 0; i < len; i++)
		TT_ASSERT(text[i] == '\n' || ((unsigned char)text[i] >= 0x20 && text[i] != 0x7f));
	free(text);
}

static int text_view(const struct tt_stat_round *round, FILE *f)
{
	const struct tt_stat_show show = {.reasons = true, .wide = true};

	return tt_stat_text(round, &show, f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static union {
		struct tt_stat_page page;
		uint8_t bytes[BYTES];
	} im;
	struct tt_stat_round round = {.interval_s = size % 2};
	struct tt_stat_view view;
	pid_t pid;
	int fd = memfd_create("taut-stat", MFD_CLOEXEC | MFD_ALLOW_SEALING), rc;

	memset(&im, 0, sizeof(im));
	memcpy(im.bytes, data, tt_min(size, (size_t)BYTES));
	/* The doors that random bytes would not open; the first byte may leave them shut. */
	if (size && data[0] != 0) {
		im.page.magic = TT_STAT_MAGIC;
		im.page.version = TT_STAT_VERSION;
		im.page.page_bytes = BYTES;
		im.page.sock_size = sizeof(struct tt_stat_sock);
		im.page.sock_max %= 40;
		im.page.sock_high %= 41;
	}
	TT_ASSERT(fd >= 0 && write(fd, &im, sizeof(im)) == (ssize_t)sizeof(im));
	TT_ASSERT(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
	rc = tt_stat_read_fd(fd, &view, &pid);
	close(fd);
	TT_ASSERT(rc <= 0);
	if (rc < 0)
		return 0;
	TT_ASSERT(view.count <= im.page.sock_high && im.page.sock_high <= im.page.sock_max);
	TT_ASSERT(tt_stat_list_add(&round.now, &view) == 0);
	shown(&round, text_view);
	shown(&round, tt_stat_json);
	tt_stat_list_free(&round.now);
	return 0;
}
