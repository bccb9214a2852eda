/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pool.h - a fixed number of objects of one type, taken and given back by any thread.
 *
 * Type-stable: an object's memory stays mapped and stays an object of this pool for ever, also
 * while it is free, and the pool writes nothing into it. A thread that still reads one it has raced
 * for sees old or new contents, never a fault; what the contents mean is up to the caller (a
 * generation in the object, usually).
 *
 * The limit has a name, is checked, and is counted when hit (refused): style rule "a limit on
 * everything". Memory is reserved once and touched page by page as objects are first used, so a
 * generous limit costs address space only. Objects are handed out last in, first out (warm), and
 * zeroed only before their first use.
 *
 * get and put: lock-free, no system call, async-signal-safe, any thread. init: once, before.
 * After fork() each process has its own copy.
 */
#ifndef TT_BASE_POOL_H
#define TT_BASE_POOL_H

#include "base/base.h"

#define TT_POOL_OBJECTS_MAX (1u << 24)

struct tt_pool {
	tt_aligned(TT_CACHE_LINE)
	    uint64_t free_list; /* low half: index + 1 of the first, 0 none; high half: changes */
	uint32_t fresh;         /* objects at or above this index were never used */
	uint32_t in_use;
	uint32_t most_in_use;
	uint64_t refused;
	tt_aligned(TT_CACHE_LINE) const char *name;
	uint32_t limit;
	size_t object_size; /* rounded up to TT_CACHE_LINE */
	unsigned char *objects;
	uint32_t *next; /* per object: index + 1 of the next free one */
};

/* Reserves memory for `limit` objects. `name` is kept, not copied. 0 or -ENOMEM. */
tt_must_check int tt_pool_init(
    struct tt_pool *pool, const char *name, size_t object_size, uint32_t limit);
/* Gives the memory back. Nobody may use an object any more. */
void tt_pool_done(struct tt_pool *pool);

/* NULL at the limit, counted in refused. */
tt_must_check void *tt_pool_get(struct tt_pool *pool);
void tt_pool_put(struct tt_pool *pool, void *object);

/* 0 .. limit - 1, the same for the object's whole life. */
uint32_t tt_pool_index(const struct tt_pool *pool, const void *object);
/* The object of an index below the limit, used or not. */
void *tt_pool_at(const struct tt_pool *pool, uint32_t index);

#endif
