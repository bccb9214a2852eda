/* SPDX-License-Identifier: BSD-3-Clause */
#include "shm/hints.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include "base/raw.h"

#define BUCKET_BYTES (TT_HINT_WAYS * sizeof(struct tt_hint))
#define FILE_BYTES (TT_HINT_BUCKETS * BUCKET_BYTES)

_Static_assert(sizeof(struct tt_hint) == 64, "an entry is a cache line");

static char folder[200];

static uint64_t mix(uint64_t x)
{
	/* The finalizer of SplitMix64: every input bit reaches every output bit. */
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

static uint64_t hint_sum(const struct tt_hint *hint)
{
	uint64_t words[5];
	uint64_t sum = 0x7461757468696e74ull;

	memcpy(words, hint, sizeof(words));
	for (size_t i = 0; i < tt_array_len(words); i++)
		sum = mix(sum ^ words[i]);
	return sum;
}

int tt_hints_set_folder(const char *override)
{
	unsigned int uid = (unsigned int)tt_raw0(SYS_geteuid);
	char runtime[64];
	struct stat st;
	int n;

	(void)snprintf(runtime, sizeof(runtime), "/run/user/%u", uid);
	if (override && *override)
		n = snprintf(folder, sizeof(folder), "%s", override);
	else if (tt_raw4(SYS_newfstatat, AT_FDCWD, runtime, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    S_ISDIR(st.st_mode) && st.st_uid == uid)
		n = snprintf(folder, sizeof(folder), "%s/taut", runtime);
	else
		n = snprintf(folder, sizeof(folder), "/tmp/taut-%u", uid);
	if (n < 0 || (size_t)n >= sizeof(folder)) {
		folder[0] = '\0';
		return -ENAMETOOLONG;
	}
	return 0;
}

const char *tt_hints_folder(void)
{
	return folder;
}

static int file_check(int fd, unsigned int uid, mode_t kind, mode_t forbidden)
{
	struct stat st;
	long err = tt_raw2(SYS_fstat, fd, &st);

	if (err < 0)
		return (int)err;
	if ((st.st_mode & S_IFMT) != kind || st.st_uid != uid || (st.st_mode & forbidden))
		return -EPERM;
	return 0;
}

static int hints_open(bool create)
{
	unsigned int uid = (unsigned int)tt_raw0(SYS_geteuid);
	int flags = O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
	int dir;
	int fd;
	int err;

	if (!folder[0])
		return -ENOENT;
	if (create)
		(void)tt_raw3(SYS_mkdirat, AT_FDCWD, folder, 0700);
	dir = (int)tt_raw4(SYS_openat, AT_FDCWD, folder, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
	if (dir < 0)
		return dir;
	err = file_check(dir, uid, S_IFDIR, 0077);
	if (err) {
		(void)tt_raw1(SYS_close, dir);
		return err;
	}
	fd = (int)tt_raw4(SYS_openat, dir, "hints", create ? flags | O_CREAT : flags, 0600);
	(void)tt_raw1(SYS_close, dir);
	if (fd < 0)
		return fd;
	err = file_check(fd, uid, S_IFREG, 0077);
	if (err) {
		(void)tt_raw1(SYS_close, fd);
		return err;
	}
	return fd;
}

static off_t bucket_offset(uint64_t netns, uint64_t cookie)
{
	return (off_t)((mix(netns ^ mix(cookie)) % TT_HINT_BUCKETS) * BUCKET_BYTES);
}

/* A short or missing bucket reads as empty entries. */
static void bucket_read(int fd, off_t at, struct tt_hint bucket[TT_HINT_WAYS])
{
	memset(bucket, 0, BUCKET_BYTES);
	(void)tt_raw4(SYS_pread64, fd, bucket, BUCKET_BYTES, at);
}

/* What the caller has to tell apart. */
static int trouble(long err)
{
	return err == -EMFILE || err == -ENFILE || err == -EFBIG ? (int)err : -EPERM;
}

int tt_hint_publish(uint64_t netns, uint64_t cookie, const uint8_t inbox[TT_INBOX_ID_BYTES])
{
	struct tt_hint bucket[TT_HINT_WAYS];
	struct tt_hint hint = {.netns = netns, .cookie = cookie};
	off_t at = bucket_offset(netns, cookie);
	struct timespec now;
	struct rlimit limit;
	size_t pick = 0;
	long err;
	int fd;

	/* Writing past RLIMIT_FSIZE raises SIGXFSZ, which would kill the program. */
	if (tt_raw4(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, &limit) == 0 && limit.rlim_cur < FILE_BYTES)
		return -EFBIG;
	fd = hints_open(true);
	if (fd < 0)
		return trouble(fd);
	bucket_read(fd, at, bucket);
	for (size_t i = 0; i < TT_HINT_WAYS; i++) {
		if (bucket[i].cookie == cookie && bucket[i].netns == netns) {
			pick = i;
			break;
		}
		if (bucket[i].time_ns < bucket[pick].time_ns)
			pick = i;
	}
	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	hint.time_ns = (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
	memcpy(hint.inbox, inbox, TT_INBOX_ID_BYTES);
	hint.sum = hint_sum(&hint);
	err = tt_raw4(SYS_pwrite64, fd, &hint, sizeof(hint), at + (off_t)(pick * sizeof(hint)));
	(void)tt_raw1(SYS_close, fd);
	if (err < 0)
		return trouble(err);
	return err == (long)sizeof(hint) ? 0 : -EPERM;
}

int tt_hint_lookup(uint64_t netns, uint64_t cookie, uint8_t inbox[TT_INBOX_ID_BYTES], uint64_t *time_ns)
{
	struct tt_hint bucket[TT_HINT_WAYS];
	int fd = hints_open(false);

	if (fd < 0)
		return fd == -ENOENT ? fd : trouble(fd);
	bucket_read(fd, bucket_offset(netns, cookie), bucket);
	(void)tt_raw1(SYS_close, fd);
	for (size_t i = 0; i < TT_HINT_WAYS; i++) {
		const struct tt_hint *hint = &bucket[i];

		if (hint->cookie == cookie && hint->netns == netns && hint->sum == hint_sum(hint)) {
			memcpy(inbox, hint->inbox, TT_INBOX_ID_BYTES);
			if (time_ns)
				*time_ns = hint->time_ns;
			return 0;
		}
	}
	return -ENOENT;
}
