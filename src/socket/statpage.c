/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * statpage.c - the writer's side of the live counters.
 *
 * Rows are handed out lowest first from a bitmap in private memory, so that a process with few
 * sockets touches few pages of the mapping. The bitmap is lock-free: sockets are made and closed in
 * signal handlers and in threads that may be killed by fork. Row 0 stands for all sockets that
 * found no row: its counters are real, its descriptor is -1.
 *
 * Nothing is written outside the mapping after tt_stat_open(), and no system call is made either: a
 * process may enter a seccomp sandbox later.
 */
#include "socket/statpage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/raw.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

#define WORDS (TT_STAT_SOCKS_MAX / 64u)
#define GROUPS (WORDS / 64u)
#define ROWS_MIN 64u  /* fewer are not worth a page */
#define FD_FLOOR 1000 /* where our descriptor goes when the limit leaves room */
#define DUMP_BYTES                                                                                 \
	8192 /* one line: 256 + 16 + 16 bytes of text, six times that when escaped, 50 numbers */

_Static_assert(GROUPS * 64u * 64u == TT_STAT_SOCKS_MAX, "the bitmap has two full levels");
_Static_assert(sizeof(struct tt_stat_sock) % 8 == 0, "rows keep the counters aligned");

/* What tt_stat points to without a page: the header and row 0. Never found by a reader. */
static union {
	struct tt_stat_page page;
	char bytes[sizeof(struct tt_stat_page) + sizeof(struct tt_stat_sock)];
} dummy = {.page = {.profile = "none", .sock_max = 1, .sock_high = 1}};

struct tt_stat_page *tt_stat = &dummy.page;

static int page_fd = -1;
static dev_t page_dev;
static ino_t page_ino;
static uint32_t generation; /* of the last row filled; even */

/* Bit set = row taken; a bit of `full` is set while its word of `taken` has no zero. */
static uint64_t taken[WORDS];
static uint64_t full[GROUPS];

int tt_stat_fd(void)
{
	return page_fd;
}

/* Brings the group's bit up to date after word w became full. */
static void group_update(uint32_t w)
{
	uint64_t bit = 1ull << (w % 64);

	/* Sequentially consistent: the second look at the word must not pass the store into the
	 * group. */
	if (__atomic_load_n(&taken[w], __ATOMIC_SEQ_CST) != ~0ull)
		return;
	__atomic_fetch_or(&full[w / 64], bit, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&taken[w], __ATOMIC_SEQ_CST) != ~0ull) /* a free came between */
		__atomic_fetch_and(&full[w / 64], ~bit, __ATOMIC_SEQ_CST);
}

static void bitmap_clear(uint32_t i)
{
	/* Sequentially consistent: see group_update(). Releases the cleaned row to the next owner.
	 */
	__atomic_fetch_and(&taken[i / 64], ~(1ull << (i % 64)), __ATOMIC_SEQ_CST);
	__atomic_fetch_and(&full[i / 64 / 64], ~(1ull << (i / 64 % 64)), __ATOMIC_SEQ_CST);
}

/* Takes the lowest free row below max; 0 (the shared row) when there is none. */
static uint32_t bitmap_take(uint32_t max)
{
	for (uint32_t g = 0; g < GROUPS; g++) {
		uint64_t open;

		while ((open = ~__atomic_load_n(&full[g], __ATOMIC_SEQ_CST)) != 0) {
			uint32_t w = g * 64 + (uint32_t)__builtin_ctzll(open);
			uint64_t word = __atomic_load_n(&taken[w], __ATOMIC_SEQ_CST);
			uint32_t i;

			if (word ==
			    ~0ull) { /* who took its last bit is about to say so: do it too */
				group_update(w);
				continue;
			}
			i = w * 64 + (uint32_t)__builtin_ctzll(~word);
			if (i >= max)
				return 0;
			/* Acquire pairs with bitmap_clear(): the row was cleaned before it was
			 * freed. */
			if (__atomic_compare_exchange_n(&taken[w], &word, word | (1ull << (i % 64)),
				false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
				group_update(w);
				return i;
			}
		}
	}
	return 0;
}

/* Making the page */

static size_t page_size(uint32_t rows)
{
	size_t bytes = sizeof(struct tt_stat_page) + (size_t)rows * sizeof(struct tt_stat_sock);

	return (bytes + TT_PAGE - 1) & ~(size_t)(TT_PAGE - 1);
}

/*
 * Where every page is charged when the file is made (vm.overcommit_memory = 2), touching a hole
 * later could end in SIGBUS: then all of it is taken at once, or none.
 */
static bool overcommit_strict(void)
{
	char c = '0';
	int fd = tt_raw_open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC, 0);

	if (fd < 0)
		return false;
	if (tt_raw_read(fd, &c, 1) != 1)
		c = '0';
	tt_raw_close(fd);
	return c == '2';
}

/* Moves fd out of the numbers that programs use and count on; the old number is closed either way.
 */
static int fd_raise(int fd)
{
	struct rlimit lim;
	int floor = FD_FLOOR;
	int high;

	if (getrlimit(RLIMIT_NOFILE, &lim) == 0 && lim.rlim_cur < FD_FLOOR + 16)
		floor = lim.rlim_cur > 16 ? (int)lim.rlim_cur - 8 : (int)lim.rlim_cur / 2;
	high = (int)tt_raw3(SYS_fcntl, fd, F_DUPFD_CLOEXEC, floor);
	tt_raw_close(fd);
	return high;
}

static int file_create(size_t bytes)
{
	struct rlimit lim;
	int fd, rc;

	/* Past this limit ftruncate() would kill the program with SIGXFSZ. */
	if (getrlimit(RLIMIT_FSIZE, &lim) == 0 && lim.rlim_cur < bytes)
		return -EFBIG;
	fd = memfd_create("taut-stat", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
	if (fd < 0 && errno == EINVAL) /* Linux before 6.3 */
		fd = memfd_create("taut-stat", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	fd = fd_raise(fd);
	if (fd < 0)
		return fd;
	rc = (int)tt_raw3(SYS_ftruncate, fd, (long)bytes, 0);
	if (rc < 0 || (overcommit_strict() &&
			  (rc = (int)tt_raw4(SYS_fallocate, fd, 0, 0, (long)bytes)) < 0)) {
		tt_raw_close(fd);
		return rc;
	}
	return fd;
}

/* Our mapping stays writable under F_SEAL_FUTURE_WRITE; readers can't write, not even through
 * /proc. */
static int file_seal(int fd)
{
	int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;

	int rc = (int)tt_raw3(SYS_fcntl, fd, F_ADD_SEALS, seals);

	if (rc == -EINVAL) /* Linux before 5.1 */
		rc = (int)tt_raw3(SYS_fcntl, fd, F_ADD_SEALS, seals & ~F_SEAL_FUTURE_WRITE);
	return rc;
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void cmdline_read(char *out, size_t size)
{
	int fd = tt_raw_open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC, 0);
	ssize_t n = 0;

	if (fd >= 0) {
		n = tt_raw_read(fd, out, size - 1);
		tt_raw_close(fd);
	}
	if (n < 0)
		n = 0;
	while (n > 0 && out[n - 1] == '\0')
		n--;
	for (ssize_t i = 0; i < n; i++) {
		if (out[i] == '\0')
			out[i] = ' ';
	}
	out[n] = '\0';
}

static void text_copy(char *out, size_t size, const char *text)
{
	size_t n = strnlen(text, size - 1);

	memcpy(out, text, n);
	memset(out + n, 0, size - n);
}

/* before is the page of the process that forked, or NULL. */
static void page_fill(struct tt_stat_page *page, const struct tt_stat_page *before, uint32_t rows,
    const char *profile)
{
	page->version = TT_STAT_VERSION;
	page->page_bytes = (uint32_t)page_size(rows);
	page->sock_size = sizeof(struct tt_stat_sock);
	page->sock_max = rows;
	page->pid = getpid();
	page->sock_high = 1;
	page->start_ns = now_ns();
	text_copy(page->profile, sizeof(page->profile),
	    profile ? profile : (before ? before->profile : ""));
	(void)tt_raw2(SYS_prctl, PR_GET_NAME, page->comm);
	text_copy(page->version_text, sizeof(page->version_text), TAUT_VERSION);
	if (before)
		text_copy(page->cmdline, sizeof(page->cmdline), before->cmdline);
	else
		cmdline_read(page->cmdline, sizeof(page->cmdline));
	page->socks[0].fd = -1;
}

/*
 * The child's sockets still point at their rows: rows keep their places and say what the socket is,
 * their counters start at zero. A row that another thread of the parent was filling belongs to
 * nobody here.
 */
static void rows_inherit(struct tt_stat_page *page, const struct tt_stat_page *before)
{
	uint32_t high = tt_min(before->sock_high, page->sock_max);

	for (uint32_t i = 0; i < high; i++) {
		const struct tt_stat_sock *from = &before->socks[i];
		struct tt_stat_sock *to = &page->socks[i];

		if (from->in_use == 0 || from->in_use % 2 != 0) {
			to->fd = -1;
			continue;
		}
		*to = *from;
		to->n = (struct tt_stat_counters){0};
		if (i > 0)
			page->socks_seen++;
	}
	page->sock_high = high;
}

static void bitmap_rebuild(const struct tt_stat_page *page)
{
	memset(taken, 0, sizeof(taken));
	memset(full, 0, sizeof(full));
	taken[0] = 1; /* the shared row */
	for (uint32_t i = 1; i < page->sock_high; i++) {
		if (page->socks[i].in_use != 0)
			taken[i / 64] |= 1ull << (i % 64);
	}
	for (uint32_t w = 0; w < WORDS; w++)
		group_update(w);
}

bool tt_stat_fd_is_ours(void)
{
	struct stat st;

	return page_fd >= 0 && tt_raw2(SYS_fstat, page_fd, &st) == 0 && st.st_dev == page_dev &&
	       st.st_ino == page_ino;
}

void tt_stat_fd_move(void)
{
	long fd = tt_raw3(SYS_fcntl, page_fd, F_DUPFD_CLOEXEC, page_fd + 1);

	if (fd < 0)
		fd = tt_raw3(SYS_fcntl, page_fd, F_DUPFD_CLOEXEC, 0);
	page_fd = fd < 0 ? -1 : (int)fd;
}

/* Drops the descriptor of the parent's page, if the number still is that file. */
static void fd_forget(void)
{
	if (tt_stat_fd_is_ours())
		tt_raw_close(page_fd);
	page_fd = -1;
}

static void fd_keep(int fd)
{
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return;
	page_fd = fd;
	page_dev = st.st_dev;
	page_ino = st.st_ino;
}

/* Fewer rows where RLIMIT_FSIZE is small. */
static uint32_t rows_allowed(void)
{
	struct rlimit lim;
	uint32_t rows = TT_STAT_SOCKS_MAX;

	if (getrlimit(RLIMIT_FSIZE, &lim) != 0)
		return rows;
	while (rows > ROWS_MIN && page_size(rows) > lim.rlim_cur)
		rows /= 2;
	return rows;
}

static int page_open(const char *profile)
{
	struct tt_stat_page *before = tt_stat == &dummy.page ? NULL : tt_stat;
	struct tt_stat_page *page;
	uint32_t rows = before ? before->sock_max : rows_allowed();
	size_t bytes = page_size(rows);
	int fd, rc = 0;

	if (before && before->pid == getpid())
		return 0;
	fd = file_create(bytes);
	if (fd < 0)
		rc = fd;
	if (fd < 0 && !before)
		return rc;
	/* A child without a file still must not write into its parent's page. */
	page = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
	    fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd, 0);
	if (page == MAP_FAILED) {
		rc = -errno;
		goto out_fd;
	}
	if (fd >= 0 && (rc = file_seal(fd)) < 0)
		goto out_map;
	page_fill(page, before, rows, profile);
	if (before) {
		rows_inherit(page, before);
		if (mremap(page, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, before) ==
		    MAP_FAILED) {
			rc = -errno;
			goto out_map;
		}
		page = before;
	}
	fd_forget();
	fd_keep(fd);
	bitmap_rebuild(page);
	tt_stat = page;
	/* Release: a reader that sees the magic sees the header. */
	__atomic_store_n(&page->magic, TT_STAT_MAGIC, __ATOMIC_RELEASE);
	return rc;
out_map:
	munmap(page, bytes);
out_fd:
	if (fd >= 0)
		tt_raw_close(fd);
	return rc;
}

int tt_stat_open(const char *profile)
{
	int saved = errno;
	int rc = page_open(profile);

	errno = saved;
	return rc;
}

/* Rows */

static void row_fill(struct tt_stat_sock *row, int fd, int domain, int type)
{
	/* Relaxed: only uniqueness matters. Skips 0 when it wraps. */
	uint32_t gen = __atomic_add_fetch(&generation, 2, __ATOMIC_RELAXED);

	if (gen == 0)
		gen = __atomic_add_fetch(&generation, 2, __ATOMIC_RELAXED);
	__atomic_store_n(&row->in_use, gen - 1, __ATOMIC_RELAXED);
	/* Release: a reader that copied one of the fields below sees that in_use changed. */
	__atomic_thread_fence(__ATOMIC_RELEASE);
	row->fd = fd;
	row->domain = (uint16_t)domain;
	row->type = (uint16_t)(type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC));
	row->tx = TT_TRANSPORT_KERNEL;
	row->rx = TT_TRANSPORT_KERNEL;
	row->reason = TT_REASON_YOUNG;
	row->flags = 0;
	row->peer_pid = 0;
	memset(&row->local, 0, sizeof(row->local));
	memset(&row->remote, 0, sizeof(row->remote));
	/* Release: the row is whole before it can be read. */
	__atomic_store_n(&row->in_use, gen, __ATOMIC_RELEASE);
}

struct tt_stat_sock *tt_stat_sock_get(int fd, int domain, int type)
{
	struct tt_stat_page *page = tt_stat;
	struct tt_stat_sock *row;
	uint32_t i, high;

	tt_stat_add(&page->socks_seen, 1);
	if (page == &dummy.page)
		return &page->socks[0];
	i = bitmap_take(page->sock_max);
	row = &page->socks[i];
	if (i == 0) {
		tt_stat_add(&page->unlisted, 1);
		if (__atomic_load_n(&row->in_use, __ATOMIC_RELAXED) == 0)
			__atomic_store_n(&row->in_use, 2, __ATOMIC_RELEASE);
		return row;
	}
	row_fill(row, fd, domain, type);
	/* Release: readers go up to sock_high only. */
	high = __atomic_load_n(&page->sock_high, __ATOMIC_RELAXED);
	while (high < i + 1 && !__atomic_compare_exchange_n(&page->sock_high, &high, i + 1, true,
				   __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
	return row;
}

void tt_stat_sock_put(struct tt_stat_sock *row)
{
	struct tt_stat_page *page = tt_stat;
	uint32_t i;

	if (row == &dummy.page.socks[0] || row == &page->socks[0])
		return;
	i = (uint32_t)(row - page->socks);
	TT_ASSERT(row >= page->socks && i < page->sock_max);
	/* Odd: a reader leaves the row out while its counters move. Release: before they do. */
	__atomic_fetch_add(&row->in_use, 1, __ATOMIC_ACQ_REL);
	/* Exchange, not read and clear: a thread still inside a call adds to the row, and nothing
	 * may be lost. */
#define X(name)                                                                                    \
	tt_stat_add(&page->closed.name, __atomic_exchange_n(&row->n.name, 0, __ATOMIC_RELAXED));
	TT_STAT_COUNTERS(X)
#undef X
	row->fd = -1;
	__atomic_store_n(&row->in_use, 0, __ATOMIC_RELEASE);
	bitmap_clear(i);
}

static void address_ask(long call, int fd, struct sockaddr_in6 *out)
{
	union {
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} addr = {.v6 = {.sin6_family = AF_UNSPEC}};
	socklen_t len = sizeof(addr);

	if (tt_raw3(call, fd, (long)&addr, (long)&len) != 0)
		return;
	if (addr.v6.sin6_family == AF_INET6 && len >= sizeof(addr.v6)) {
		*out = addr.v6;
	} else if (addr.v6.sin6_family == AF_INET && len >= sizeof(addr.v4)) {
		out->sin6_family = AF_INET6;
		out->sin6_port = addr.v4.sin_port;
		memset(&out->sin6_addr, 0, 10);
		memset(&out->sin6_addr.s6_addr[10], 0xff, 2);
		memcpy(&out->sin6_addr.s6_addr[12], &addr.v4.sin_addr, 4);
	}
}

void tt_stat_addresses(struct tt_stat_sock *row, int fd)
{
	address_ask(SYS_getsockname, fd, &row->local);
	address_ask(SYS_getpeername, fd, &row->remote);
}

void tt_stat_reason(struct tt_stat_sock *row, enum tt_reason reason)
{
	/* Relaxed: a word for people. */
	__atomic_store_n(&row->reason, (uint16_t)reason, __ATOMIC_RELAXED);
	if (reason != TT_REASON_NONE)
		tt_stat_add(&tt_stat->fallbacks[reason], 1);
}

/* The line at exit */

struct line {
	char *text;
	size_t size;
	size_t len; /* beyond size once something was cut */
};

static void line_char(struct line *line, char c)
{
	if (line->len < line->size)
		line->text[line->len] = c;
	line->len++;
}

static void line_text(struct line *line, const char *text)
{
	while (*text)
		line_char(line, *text++);
}

/* A JSON string. Bytes outside ASCII are escaped one by one: valid JSON, whatever the encoding was.
 */
static void line_string(struct line *line, const char *text, size_t size)
{
	static const char hex[] = "0123456789abcdef";

	line_char(line, '"');
	for (size_t i = 0; i < size && text[i]; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c == '"' || c == '\\') {
			line_char(line, '\\');
			line_char(line, (char)c);
		} else if (c < 0x20 || c >= 0x7f) {
			line_text(line, "\\u00");
			line_char(line, hex[c >> 4]);
			line_char(line, hex[c & 15]);
		} else {
			line_char(line, (char)c);
		}
	}
	line_char(line, '"');
}

static void line_number(struct line *line, uint64_t n)
{
	char digits[20];
	size_t k = 0;

	do {
		digits[k++] = (char)('0' + n % 10);
		n /= 10;
	} while (n);
	while (k)
		line_char(line, digits[--k]);
}

static void line_field(struct line *line, const char *name, uint64_t n, bool first)
{
	if (!first)
		line_char(line, ',');
	line_char(line, '"');
	line_text(line, name);
	line_text(line, "\":");
	line_number(line, n);
}

void tt_stat_sum(const struct tt_stat_page *page, struct tt_stat_counters *out)
{
	uint32_t high = __atomic_load_n(&page->sock_high, __ATOMIC_ACQUIRE);

	*out = page->closed;
	/* Free rows too: they hold what a late thread added, and zero otherwise. */
	for (uint32_t i = 0; i < high; i++) {
#define X(name) out->name += __atomic_load_n(&page->socks[i].n.name, __ATOMIC_RELAXED);
		TT_STAT_COUNTERS(X)
#undef X
	}
}

static void line_page(struct line *line, const struct tt_stat_page *page)
{
	struct tt_stat_counters sum;
	bool first = true;

	tt_stat_sum(page, &sum);
	line_char(line, '{');
	line_field(line, "pid", (uint64_t)getpid(), true);
	line_text(line, ",\"comm\":");
	line_string(line, page->comm, sizeof(page->comm));
	line_text(line, ",\"cmdline\":");
	line_string(line, page->cmdline, sizeof(page->cmdline));
	line_text(line, ",\"profile\":");
	line_string(line, page->profile, sizeof(page->profile));
	line_text(line, ",\"version\":");
	line_string(line, TAUT_VERSION, sizeof(TAUT_VERSION));
	line_field(line, "start_ns", page->start_ns, false);
	line_field(line, "socks_seen", page->socks_seen, false);
	line_field(line, "socks_attached", page->socks_attached, false);
	line_field(line, "unlisted", page->unlisted, false);
	line_text(line, ",\"totals\":{");
#define X(name)                                                                                    \
	line_field(line, #name, sum.name, first);                                                  \
	first = false;
	TT_STAT_COUNTERS(X)
#undef X
	line_text(line, "},\"reasons\":{");
	first = true;
	for (unsigned int r = 0; r < TT_REASON_COUNT; r++) {
		if (page->fallbacks[r] == 0)
			continue;
		line_field(line, tt_reason_word(r), page->fallbacks[r], first);
		first = false;
	}
	line_text(line, "}}\n");
}

/* False where the write could kill the program (SIGXFSZ, SIGPIPE) or hang it. */
static bool file_takes(int fd, size_t bytes)
{
	struct rlimit lim;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return false;
	if (S_ISCHR(st.st_mode))
		return true;
	if (!S_ISREG(st.st_mode) || getrlimit(RLIMIT_FSIZE, &lim) < 0)
		return false;
	return lim.rlim_cur == RLIM_INFINITY || (uint64_t)st.st_size + bytes <= lim.rlim_cur;
}

void tt_stat_dump(const char *path)
{
	static char text[DUMP_BYTES]; /* a signal handler's stack may be small */
	static int busy;
	struct line line = {.text = text, .size = sizeof(text)};
	int saved = errno;
	int fd;

	/* Acquire and release: one writer of text at a time; a handler that interrupted one leaves.
	 */
	if (__atomic_exchange_n(&busy, 1, __ATOMIC_ACQUIRE))
		return;
	line_page(&line, tt_stat);
	fd = tt_raw_open(
	    path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0644);
	if (fd >= 0) {
		if (line.len <= line.size && file_takes(fd, line.len))
			(void)tt_raw_write(fd, text, line.len);
		tt_raw_close(fd);
	}
	__atomic_store_n(&busy, 0, __ATOMIC_RELEASE);
	errno = saved;
}
