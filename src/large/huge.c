/* SPDX-License-Identifier: MIT */
#include "large/huge.h"

#include "base/bits.h"
#include "base/relaxed.h"
#include "core/counters.h"
#include "core/events.h"
#include "core/panic.h"
#include "map/map.h"
#include "map/meta.h"
#include "region/scarce.h"
#include "sys/sys.h"

#include <stdatomic.h>
#include <string.h>

enum { FREED_REMEMBERED = 16, HUGE_LOOK = 8 };

hk_lock_t hk_huge_lock = HK_LOCK_INIT(HK_RANK_HUGE);

/* Guarded by hk_huge_lock; hk_huge_count and hk_huge_total are also read without it. */
huge_block_t *hk_huge_blocks;
static size_t capacity;
static huge_block_t freed[FREED_REMEMBERED] HK_RARE; /* a ring, for reports only */
static size_t freed_next;
_Atomic size_t hk_huge_count;
_Atomic size_t hk_huge_total;

static bool reserve_entry_locked(void) {
    hk_assert(hk_lock_is_held(&hk_huge_lock));
    hk_assert(atomic_load_explicit(&hk_huge_count, memory_order_relaxed) <= capacity);
    size_t count = atomic_load_explicit(&hk_huge_count, memory_order_relaxed);
    if (count < capacity)
        return true;
    size_t wanted = capacity == 0 ? 64 : capacity * 2;
    huge_block_t *larger = meta_alloc(wanted * sizeof *larger);
    if (larger == NULL)
        return false;
    if (hk_huge_blocks != NULL)
        memcpy(larger, hk_huge_blocks, count * sizeof *larger);
    meta_free(hk_huge_blocks, capacity * sizeof *hk_huge_blocks);
    hk_huge_blocks = larger;
    capacity = wanted;
    return true;
}

/* Index of the block that holds `address`, or SIZE_MAX. */
static size_t find_locked(const void *address) {
    hk_assert(hk_lock_is_held(&hk_huge_lock));
    size_t count = atomic_load_explicit(&hk_huge_count, memory_order_relaxed);
    for (size_t i = 0; i < count; i++)
        if ((uintptr_t)address - (uintptr_t)hk_huge_blocks[i].start < hk_huge_blocks[i].size)
            return i;
    return SIZE_MAX;
}

static void count_locked(size_t more) {
    hk_assert(hk_lock_is_held(&hk_huge_lock));
    scarce_beside(atomic_fetch_add_explicit(&hk_huge_total, more, memory_order_relaxed) + more);
}

static void add_locked(char *start, size_t size) {
    hk_assert(hk_lock_is_held(&hk_huge_lock));
    hk_assert(atomic_load_explicit(&hk_huge_count, memory_order_relaxed) < capacity);
    hk_assert((uintptr_t)start % sys_page_size() == 0 && size % sys_page_size() == 0);
    size_t count = atomic_load_explicit(&hk_huge_count, memory_order_relaxed);
    hk_huge_blocks[count] = (huge_block_t){start, size, HK_OWNER_NONE};
    atomic_store_explicit(&hk_huge_count, count + 1, memory_order_relaxed);
    count_locked(size);
    event_map(size);
}

/* A process at its limit of mappings cannot make two out of one: then just the pages go back, and we lose the
 * addresses. */
static void unmap(char *start, size_t size) {
    hk_assert(size % sys_page_size() == 0);
    if (!sys_unmap(start, size))
        sys_purge(start, size);
}

/* Maps `size` bytes at a multiple of `align`: what sticks out of an aligned piece is unmapped at once. */
static char *map_aligned(size_t size, size_t align) {
    hk_assert(size % sys_page_size() == 0);
    size_t page = sys_page_size();
    hk_count(map_calls);
    if (align <= page)
        return sys_map(size);
    if (size + align < size)
        return NULL;
    char *whole = sys_map(size + align);
    if (whole == NULL)
        return NULL;
    char *start = (char *)hk_align_up((uintptr_t)whole, align);
    if (start > whole)
        unmap(whole, (size_t)(start - whole));
    if (start + size < whole + size + align)
        unmap(start + size, (size_t)(whole + size + align - (start + size)));
    return start;
}

void *huge_alloc(size_t size, size_t align) {
    size = hk_align_up(size, sys_page_size());
    char *start = size == 0 ? NULL : map_aligned(size, align);
    if (start == NULL)
        return NULL;
    sys_name(start, size, "hakmem-large");
    hk_lock(&hk_huge_lock);
    bool room = reserve_entry_locked();
    if (room)
        add_locked(start, size);
    hk_unlock(&hk_huge_lock);
    if (!room) {
        unmap(start, size);
        return NULL;
    }
    hk_count(huge_allocs);
    return start;
}

bool huge_free(void *block) {
    if (atomic_load_explicit(&hk_huge_count, memory_order_relaxed) == 0)
        return false;
    hk_lock(&hk_huge_lock);
    size_t index = find_locked(block);
    huge_block_t found = {0};
    if (index != SIZE_MAX && hk_huge_blocks[index].start == block) {
        found = hk_huge_blocks[index];
        size_t last = atomic_load_explicit(&hk_huge_count, memory_order_relaxed) - 1;
        hk_huge_blocks[index] = hk_huge_blocks[last];
        freed[freed_next++ % FREED_REMEMBERED] = found;
        atomic_store_explicit(&hk_huge_count, last, memory_order_relaxed);
        count_locked(-found.size);
    }
    hk_unlock(&hk_huge_lock);
    if (found.start == NULL)
        return false;
    unmap(found.start, found.size);
    hk_count(huge_frees);
    return true;
}

/* --- Owners ------------------------------------------------------------------------------------------------------- */

void huge_set_owner(const void *block, uint32_t owner) {
    hk_assert(owner < HK_OWNER_LIMIT);
    hk_lock(&hk_huge_lock);
    size_t index = find_locked(block);
    if (index != SIZE_MAX)
        hk_huge_blocks[index].owner = owner;
    hk_unlock(&hk_huge_lock);
}

uint32_t huge_owner(const void *block) {
    if (atomic_load_explicit(&hk_huge_count, memory_order_relaxed) == 0)
        return HK_OWNER_NONE;
    hk_lock(&hk_huge_lock);
    size_t index = find_locked(block);
    bool starts = index != SIZE_MAX && hk_huge_blocks[index].start == block;
    uint32_t owner = starts ? hk_huge_blocks[index].owner : HK_OWNER_NONE;
    hk_unlock(&hk_huge_lock);
    return owner;
}

huge_sum_t huge_of_owner(uint32_t owner) {
    huge_sum_t sum = {0, 0};
    hk_lock(&hk_huge_lock);
    size_t count = atomic_load_explicit(&hk_huge_count, memory_order_relaxed);
    for (size_t i = 0; i < count; i++) {
        bool is = hk_huge_blocks[i].owner == owner;
        sum.count += is;
        sum.bytes += is ? hk_huge_blocks[i].size : 0;
    }
    hk_unlock(&hk_huge_lock);
    return sum;
}

size_t huge_list(uint32_t owner, void **blocks, size_t most) {
    size_t found = 0;
    hk_lock(&hk_huge_lock);
    size_t count = atomic_load_explicit(&hk_huge_count, memory_order_relaxed);
    for (size_t i = 0; i < count && found < most; i++)
        if (hk_huge_blocks[i].owner == owner)
            blocks[found++] = hk_huge_blocks[i].start;
    hk_unlock(&hk_huge_lock);
    return found;
}

/* The lock is what keeps the memory: huge_free takes the block from the registry before it unmaps. */
bool huge_read(const uint64_t *place, uint64_t *word) {
    hk_lock(&hk_huge_lock);
    bool found = find_locked(place) != SIZE_MAX;
    if (found)
        *word = hk_read(*place);
    hk_unlock(&hk_huge_lock);
    return found;
}

/* --- For reports -------------------------------------------------------------------------------------------------- */

bool huge_was_freed(const void *block, size_t *size) {
    hk_lock(&hk_huge_lock);
    bool found = false, lives = find_locked(block) != SIZE_MAX;
    for (size_t i = 0; i < FREED_REMEMBERED && !found && !lives; i++) {
        found = freed[i].start != NULL && freed[i].start == block;
        *size = freed[i].size;
    }
    hk_unlock(&hk_huge_lock);
    return found;
}

static bool find_and_unlock(const void *address, void **start, size_t *size) {
    size_t index = find_locked(address);
    if (index != SIZE_MAX) {
        *start = hk_huge_blocks[index].start;
        *size = hk_huge_blocks[index].size;
    }
    hk_unlock(&hk_huge_lock);
    return index != SIZE_MAX;
}

static bool has_blocks(void) { return atomic_load_explicit(&hk_huge_count, memory_order_relaxed) != 0; }

bool huge_find(const void *address, void **start, size_t *size) {
    if (!has_blocks())
        return false;
    hk_lock(&hk_huge_lock);
    return find_and_unlock(address, start, size);
}

bool huge_find_try(const void *address, void **start, size_t *size) {
    return has_blocks() && hk_try_lock(&hk_huge_lock) && find_and_unlock(address, start, size);
}

static char *remap_here(char *start, size_t old_size, size_t size) {
    return sys_resize(start, old_size, size) ? start : NULL;
}

static char *remap(char *start, size_t old_size, size_t size) { return sys_remap(start, old_size, size); }

/* What a smaller block loses is nobody's once the lock is let go: unmapped without it, as that takes as long as there
 * are pages. */
static char *resize(void *block, size_t size, char *how(char *start, size_t old_size, size_t size)) {
    size = hk_align_up(size, sys_page_size());
    size_t old_size = 0;
    char *moved = NULL;
    hk_lock(&hk_huge_lock);
    size_t index = find_locked(block);
    if (size != 0 && index != SIZE_MAX && hk_huge_blocks[index].start == block) {
        old_size = hk_huge_blocks[index].size;
        moved = size < old_size ? block : how(block, old_size, size);
        if (moved != NULL) {
            count_locked(size - old_size);
            hk_huge_blocks[index] = (huge_block_t){moved, size, hk_huge_blocks[index].owner};
        }
    }
    hk_unlock(&hk_huge_lock);
    if (size < old_size)
        unmap(moved + size, old_size - size);
    return moved;
}

void *huge_resize(void *block, size_t size) { return resize(block, size, remap); }

bool huge_resize_here(void *block, size_t size) { return resize(block, size, remap_here) != NULL; }

void huge_for_each(void (*visit)(void *context, const void *start, size_t size), void *context, bool held) {
    huge_block_t some[HUGE_LOOK];
    for (size_t left = SIZE_MAX, count; left != 0; left -= count) {
        hk_lock(&hk_huge_lock);
        left = hk_min(left, atomic_load_explicit(&hk_huge_count, memory_order_relaxed));
        count = hk_min(left, HUGE_LOOK);
        if (count > 0)
            memcpy(some, &hk_huge_blocks[left - count], count * sizeof *some);
        if (!held)
            hk_unlock(&hk_huge_lock);
        for (size_t i = 0; i < count; i++)
            visit(context, some[i].start, some[i].size);
        if (held)
            hk_unlock(&hk_huge_lock);
    }
}
