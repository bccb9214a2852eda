/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * segment.h - sealed shared memory: make, check, map, and the places inside it.
 *
 * A segment is a memfd sealed against growing, shrinking and further sealing, so that no peer can pull a page from under
 * a mapping (SIGBUS). It is filled before use, so that a full machine shows as an error code. The descriptor is closed
 * as soon as both ends have mapped it: nothing named stays behind, and the memory goes with the last mapping.
 */
#ifndef TT_SHM_SEGMENT_H
#define TT_SHM_SEGMENT_H

#include "shm/layout.h"

/* Geometry, agreed in the offer message and checked by the acceptor. */
struct tt_seg_geo {
	uint32_t seg;	     /* index in the link; 0 carries the groups */
	uint32_t first_slot; /* index in the link of this segment's first slot */
	uint32_t slots;
	uint32_t ring_bytes; /* of each ring; a power of two */
};

struct tt_seg {
	struct tt_seg_geo geo;
	uint8_t *base; /* NULL: not mapped */
	size_t bytes;
};

#define TT_RING_BYTES_MIN 4096u
#define TT_RING_BYTES_MAX (16u << 20)

/* 0 where the geometry is not one that this code would make. */
size_t tt_seg_bytes(const struct tt_seg_geo *geo);

/* Offerer: makes and maps; *fd is to be passed and closed. -EFBIG where RLIMIT_FSIZE would kill us. */
tt_must_check int tt_seg_create(struct tt_seg *seg, const struct tt_seg_geo *geo, int *fd);
/* Acceptor: checks seals and size of a passed descriptor and maps it. fd stays the caller's. */
tt_must_check int tt_seg_map(struct tt_seg *seg, const struct tt_seg_geo *geo, int fd);
void tt_seg_unmap(struct tt_seg *seg);
/* Makes sure that [offset, offset + bytes) has memory behind it; -ENOMEM instead of a later SIGBUS. */
tt_must_check int tt_seg_fill(const struct tt_seg *seg, size_t offset, size_t bytes);

struct tt_slot *tt_seg_slot(const struct tt_seg *seg, uint32_t index);
uint8_t *tt_seg_ring(const struct tt_seg *seg, uint32_t index, unsigned int dir);
/* Only of segment 0. */
struct tt_group *tt_seg_group(const struct tt_seg *seg, unsigned int dir, uint32_t group);
/* Fills the memory of one slot (control block and the first dirs rings) and zeroes the control block. Offerer. */
tt_must_check int tt_seg_slot_prepare(const struct tt_seg *seg, uint32_t index, unsigned int dirs);

#endif
