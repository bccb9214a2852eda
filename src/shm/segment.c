/* SPDX-License-Identifier: BSD-3-Clause */
#include "shm/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/raw.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

#define TMPFS_MAGIC 0x01021994
/* More than one would ever be made of. */
#define SEG_BYTES_MOST (96u << 20)

#define TT_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static size_t page_round(size_t n)
{
	return (n + TT_PAGE - 1) & ~(size_t)(TT_PAGE - 1);
}

static size_t slots_offset(const struct tt_seg_geo *geo)
{
	return TT_SEG_HEAD_BYTES + (geo->seg == 0 ? TT_GROUPS_BYTES : 0);
}

static size_t rings_offset(const struct tt_seg_geo *geo)
{
	return page_round(slots_offset(geo) + geo->slots * sizeof(struct tt_slot));
}

size_t tt_seg_bytes(const struct tt_seg_geo *geo)
{
	size_t bytes;

	if (geo->seg >= TT_LINK_SEGS_MAX || geo->slots == 0 || geo->slots > TT_LINK_SLOTS_MAX ||
	    geo->first_slot > TT_LINK_SLOTS_MAX - geo->slots)
		return 0;
	if (geo->ring_bytes < TT_RING_BYTES_MIN || geo->ring_bytes > TT_RING_BYTES_MAX ||
	    (geo->ring_bytes & (geo->ring_bytes - 1)) != 0)
		return 0;
	bytes = rings_offset(geo) + (size_t)geo->slots * 2 * geo->ring_bytes;
	return bytes <= SEG_BYTES_MOST ? bytes : 0;
}

static int seg_map(struct tt_seg *seg, const struct tt_seg_geo *geo, int fd, size_t bytes)
{
	long base = tt_raw6(SYS_mmap, 0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);

	if (base < 0 && base > -4096)
		return (int)base;
	seg->geo = *geo;
	seg->base = (uint8_t *)base;
	seg->bytes = bytes;
	return 0;
}

int tt_seg_fill(const struct tt_seg *seg, size_t offset, size_t bytes)
{
	size_t from = offset & ~(size_t)(TT_PAGE - 1);
	long err = tt_raw3(SYS_madvise, seg->base + from, page_round(offset + bytes) - from,
	    MADV_POPULATE_WRITE);

	/* Kernels before 5.14: tt_seg_create() has allocated everything already. */
	if (err == -EINVAL)
		return 0;
	return err == -EFAULT ? -ENOMEM : (int)err;
}

/* Kernels before 5.14 can't fill a part of a mapping: take all the memory now, where it can be refused. */
static int fill_all_if_old(const struct tt_seg *seg, int fd)
{
	if (tt_raw3(SYS_madvise, seg->base, TT_PAGE, MADV_POPULATE_WRITE) != -EINVAL)
		return 0;
	return (int)tt_raw4(SYS_fallocate, fd, 0, 0, seg->bytes);
}

int tt_seg_create(struct tt_seg *seg, const struct tt_seg_geo *geo, int *out_fd)
{
	size_t bytes = tt_seg_bytes(geo);
	struct tt_seg_head head = {.magic = "tautseg", .version = TT_SHM_VERSION};
	struct rlimit limit;
	int fd;
	int err;

	TT_ASSERT(bytes != 0);
	/* Growing a file past RLIMIT_FSIZE raises SIGXFSZ, which would kill the program. */
	if (tt_raw4(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, &limit) == 0 && limit.rlim_cur < bytes)
		return -EFBIG;
	fd = (int)tt_raw2(SYS_memfd_create, "taut-link", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
	if (fd == -EINVAL) /* before Linux 6.3 */
		fd = (int)tt_raw2(SYS_memfd_create, "taut-link", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0) /* or forbidden, or unknown */
		return fd == -EMFILE || fd == -ENFILE ? fd : -ENOMEM;
	err = (int)tt_raw2(SYS_ftruncate, fd, bytes);
	if (!err)
		err = (int)tt_raw3(SYS_fcntl, fd, F_ADD_SEALS, TT_SEALS);
	if (!err)
		err = seg_map(seg, geo, fd, bytes);
	if (err)
		goto out;
	err = fill_all_if_old(seg, fd);
	if (!err)
		err = tt_seg_fill(seg, 0, slots_offset(geo));
	if (err) {
		tt_seg_unmap(seg);
		goto out;
	}
	head.seg = geo->seg;
	head.slots = geo->slots;
	head.ring_bytes = geo->ring_bytes;
	memcpy(seg->base, &head, sizeof(head));
	*out_fd = fd;
	return 0;
out:
	(void)tt_raw1(SYS_close, fd);
	return err;
}

int tt_seg_map(struct tt_seg *seg, const struct tt_seg_geo *geo, int fd)
{
	size_t bytes = tt_seg_bytes(geo);
	struct statfs fs;
	struct stat st;
	long seals;

	if (bytes == 0)
		return -EPROTO;
	/* Huge pages can be sealed, too, but there may be none when one is touched. */
	if (tt_raw2(SYS_fstatfs, fd, &fs) < 0 || fs.f_type != TMPFS_MAGIC)
		return -EPROTO;
	seals = tt_raw2(SYS_fcntl, fd, F_GET_SEALS);
	if (seals < 0 || (seals & TT_SEALS) != TT_SEALS || (seals & F_SEAL_WRITE))
		return -EPROTO;
	if (tt_raw2(SYS_fstat, fd, &st) < 0 || st.st_size < 0 || (size_t)st.st_size != bytes)
		return -EPROTO;
	return seg_map(seg, geo, fd, bytes);
}

void tt_seg_unmap(struct tt_seg *seg)
{
	if (seg->base)
		(void)tt_raw2(SYS_munmap, seg->base, seg->bytes);
	seg->base = NULL;
}

struct tt_slot *tt_seg_slot(const struct tt_seg *seg, uint32_t index)
{
	TT_ASSERT(index < seg->geo.slots);
	return (struct tt_slot *)(void *)(seg->base + slots_offset(&seg->geo) +
	    index * sizeof(struct tt_slot));
}

uint8_t *tt_seg_ring(const struct tt_seg *seg, uint32_t index, unsigned int dir)
{
	TT_ASSERT(index < seg->geo.slots && dir < 2);
	return seg->base + rings_offset(&seg->geo) + ((size_t)index * 2 + dir) * seg->geo.ring_bytes;
}

struct tt_group *tt_seg_group(const struct tt_seg *seg, unsigned int dir, uint32_t group)
{
	TT_ASSERT(seg->geo.seg == 0 && dir < 2 && group < TT_LINK_GROUPS);
	return (struct tt_group *)(void *)(seg->base + TT_SEG_HEAD_BYTES +
	    (dir * TT_LINK_GROUPS + group) * sizeof(struct tt_group));
}

int tt_seg_slot_prepare(const struct tt_seg *seg, uint32_t index, unsigned int dirs)
{
	struct tt_slot *slot = tt_seg_slot(seg, index);
	size_t at = (size_t)((uint8_t *)slot - seg->base);
	size_t ring = (size_t)(tt_seg_ring(seg, index, 0) - seg->base);
	int err = tt_seg_fill(seg, at, sizeof(*slot));

	if (!err)
		err = tt_seg_fill(seg, ring, (size_t)dirs * seg->geo.ring_bytes);
	if (err)
		return err;
	memset(slot, 0, sizeof(*slot));
	slot->dir[0].word.v = 1; /* closed: the kernel path is the resting state */
	slot->dir[1].word.v = 1;
	if (dirs == 2) /* streams; a flow of datagrams counts from 0 */
		slot->dir[0].kpub = slot->dir[1].kpub = TT_KPUB_UNKNOWN;
	for (int i = 0; i < 2; i++)
		slot->dir[i].s_cpu = slot->dir[i].r_cpu = TT_CPU_UNKNOWN;
	slot->dir[0].inline_pos = slot->dir[1].inline_pos = TT_INLINE_NONE;
	return 0;
}
