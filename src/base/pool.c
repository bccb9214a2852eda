/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/pool.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/atomic.h"
#include "base/raw.h"

static void *reserve(size_t bytes)
{
	long p = tt_raw6(SYS_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p < 0 && p > -4096 ? NULL : (void *)p;
}

static void release(void *p, size_t bytes)
{
	if (p)
		tt_raw3(SYS_munmap, (long)p, (long)bytes, 0);
}

int tt_pool_init(struct tt_pool *pool, const char *name, size_t object_size, uint32_t limit)
{
	TT_ASSERT(limit > 0 && limit <= TT_POOL_OBJECTS_MAX && object_size > 0);
	memset(pool, 0, sizeof(*pool));
	pool->name = name;
	pool->limit = limit;
	pool->object_size = (object_size + TT_CACHE_LINE - 1) & ~(size_t)(TT_CACHE_LINE - 1);
	pool->objects = reserve(pool->object_size * limit);
	pool->next = reserve(sizeof(*pool->next) * limit);
	if (!pool->objects || !pool->next) {
		tt_pool_done(pool);
		return -ENOMEM;
	}
	return 0;
}

void tt_pool_done(struct tt_pool *pool)
{
	release(pool->objects, pool->object_size * pool->limit);
	release(pool->next, sizeof(*pool->next) * pool->limit);
	pool->objects = NULL;
	pool->next = NULL;
	pool->limit = 0;
}

/* Takes the first of the free list, or UINT32_MAX. */
static uint32_t take_freed(struct tt_pool *pool)
{
	/* Acquire: the object's contents as whoever freed it left them, and its link. */
	uint64_t list = tt_load_acquire(&pool->free_list);

	while ((uint32_t)list != 0) {
		uint32_t index = (uint32_t)list - 1;
		/* May be stale if another thread takes this object first: then the count in the
		 * high half has moved on. */
		uint32_t next = tt_load_relaxed(&pool->next[index]);
		uint64_t want = ((list >> 32) + 1) << 32 | next;

		if (tt_cas_acquire(&pool->free_list, &list, want))
			return index;
	}
	return UINT32_MAX;
}

static uint32_t take_fresh(struct tt_pool *pool)
{
	/* Relaxed: hands out numbers; the memory behind is still the kernel's zeros. */
	uint32_t index = tt_load_relaxed(&pool->fresh);

	while (index < pool->limit)
		if (tt_cas_relaxed(&pool->fresh, &index, index + 1))
			return index;
	return UINT32_MAX;
}

void *tt_pool_get(struct tt_pool *pool)
{
	uint32_t index = take_freed(pool);
	uint32_t used, most;

	if (index == UINT32_MAX)
		index = take_fresh(pool);
	/* An object may have come back while the fresh ones ran out. */
	if (index == UINT32_MAX)
		index = take_freed(pool);
	if (index == UINT32_MAX) {
		tt_add_relaxed(&pool->refused, 1);
		return NULL;
	}
	/* Relaxed: these are figures to show. */
	used = tt_add_relaxed(&pool->in_use, 1) + 1;
	most = tt_load_relaxed(&pool->most_in_use);
	while (used > most && !tt_cas_relaxed(&pool->most_in_use, &most, used))
		;
	return tt_pool_at(pool, index);
}

void tt_pool_put(struct tt_pool *pool, void *object)
{
	uint32_t index = tt_pool_index(pool, object);
	uint64_t list = tt_load_relaxed(&pool->free_list);
	uint64_t want;

	do {
		tt_store_relaxed(&pool->next[index], (uint32_t)list);
		want = ((list >> 32) + 1) << 32 | (index + 1);
		/* Release: contents and link before the object can be taken. */
	} while (!tt_cas_release(&pool->free_list, &list, want));
	tt_sub_relaxed(&pool->in_use, 1);
}

uint32_t tt_pool_index(const struct tt_pool *pool, const void *object)
{
	size_t offset = (size_t)((const unsigned char *)object - pool->objects);

	TT_ASSERT(offset < pool->object_size * pool->limit && offset % pool->object_size == 0);
	return (uint32_t)(offset / pool->object_size);
}

void *tt_pool_at(const struct tt_pool *pool, uint32_t index)
{
	TT_ASSERT(index < pool->limit);
	return pool->objects + pool->object_size * index;
}
