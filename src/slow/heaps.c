/* SPDX-License-Identifier: MIT */
#include "slow/heaps.h"

#include "base/bits.h"
#include "heap/explicit.h"
#include "heap/lease.h"
#include "heap/visit.h"
#include "heap/wake.h"
#include "large/huge.h"
#include "map/pointer.h"
#include "slow/blocks.h"
#include "slow/hardened.h"
#include "slow/malloc.h"
#include "slow/reclaim.h"
#include "start/fork.h"
#include "start/start.h"
#include "upkeep/record.h"

#include <string.h>

/* What a block is asked for with. */
typedef struct request {
    size_t align, size; /* with room for the seal */
    unsigned cls;       /* HK_CLASS_COUNT: it has no slab */
    bool zero;          /* it shall read as zeros */
    bool zeroed;        /* the block reads as zeros */
    const void *beside; /* as in explicit_take */
} request_t;

static request_t request_for(size_t align, size_t size) {
    size_t inner = hk_max(hardened_is_on() ? hardened_room(size) : size, 1);
    unsigned cls = inner > HK_MID_MAX      ? HK_CLASS_COUNT
                   : align <= HK_ALIGNMENT ? class_of(inner)
                                           : class_of_aligned(inner, align);
    return (request_t){.align = hk_max(align, HK_ALIGNMENT), .size = inner, .cls = cls};
}

static void *try_alloc(heap_t *h, request_t *request) {
    block_past_t past = BLOCK_USED;
    void *block = NULL;
    if (request->cls < HK_CLASS_COUNT) {
        block = explicit_take(h, request->cls, request->align, request->beside, &past);
        request->zeroed = past == BLOCK_ZEROED;
        return block;
    }
    if (request->size <= HK_LARGE_MAX && request->align <= HK_LARGE_MAX)
        block = runs_take(h, request->size, request->align, request->beside, request->zero ? &request->zeroed : NULL);
    if (block != NULL)
        return block;
    request->zeroed = true;
    return runs_take_huge(h, request->size, request->align, request->beside);
}

/* A heap at its limit gets nothing from what others give back. */
static void *alloc_or_reclaim(heap_t *h, request_t *request) {
    size_t least =
        request->cls < HK_CLASS_COUNT ? (size_t)hk_class_info[request->cls].slab_slots << HK_SLOT_SHIFT : request->size;
    void *block = try_alloc(h, request);
    for (unsigned tries = 0; hk_unlikely(block == NULL) && runs_fit(h, least) && heap_reclaim(tries); tries++)
        block = try_alloc(h, request);
    return block;
}

/* It reads as zeros then. False when the kernel has no memory to open it. */
static HK_COLD bool harden(void *block, const request_t *request, size_t size, const void *caller) {
    bool double_free;
    if (request->cls < HK_CLASS_COUNT) {
        hardened_begin_block(block, request->cls, request->zeroed, size, caller);
        return true;
    }
    if (hardened_begin_big(block, size, caller))
        return true;
    (void)runs_give(block, &double_free);
    return false;
}

static void *alloc_leased(heap_t *h, unsigned cls) {
    if (cls >= HK_CLASS_COUNT)
        return NULL;
    void *block = lease_take(h, hk_class_info[cls].block_size);
    heap_t *thread = block == NULL ? heap_current() : NULL;
    return thread != NULL ? explicit_refill(thread, h, cls) : block;
}

static void *alloc(heap_t *h, size_t align, size_t size, bool zero, const void *beside, const void *caller) {
    if (hk_unlikely(!fork_attend()))
        return heap_alloc_stranded(align, size);
    if (size > HEAP_SIZE_POSSIBLE)
        return heap_fail();
    request_t request = request_for(align, size);
    request.beside = beside;
    request.zero = zero && !hardened_is_on(); /* what is hardened is looked at first */
    bool leased = beside == NULL && align <= HK_ALIGNMENT && !hardened_is_on();
    /* Large blocks of slabs may be known to be zeros, those of a lease are not. */
    void *block = leased && !(zero && size > HK_TINY_MAX) ? alloc_leased(h, request.cls) : NULL;
    if (block == NULL)
        block = alloc_or_reclaim(h, &request);
    if (hk_unlikely(block == NULL || (hardened_is_on() && !harden(block, &request, size, caller))))
        return heap_fail();
    if (zero && !request.zeroed && !hardened_is_on())
        hk_libc_memset(block, 0, size);
    return pointer_to(block);
}

void *heaps_alloc(heap_t *h, size_t align, size_t size, bool zero, const void *caller) {
    return alloc(h, align, size, zero, NULL, caller);
}

void *heaps_alloc_beside(const void *block, size_t align, size_t size, const void *caller) {
    for (heap_t *h; (h = heaps_of(block)) != NULL;) {
        void *other = alloc(h, align, size, false, block, caller);
        if (other != NULL || heaps_of(block) == h)
            return other;
    }
    return heap_aligned_by(align, size, caller);
}

heap_t *heaps_of(const void *block) {
    uint32_t entry = map_lookup(block), owner = entry >> 8;
    if (entry == 0 && fork_attend())
        owner = huge_owner(block);
    else if (!map_is_explicit(entry) || !class_is_block(&hk_classes[entry & HK_MAP_CLASS_MAX], block) ||
             !map_is_live(map_granule(block)))
        return NULL;
    return owner != HK_OWNER_NONE ? heap_by_id(owner) : NULL;
}

typedef struct visitor {
    bool (*visit)(void *block, size_t size, void *context);
    void *context;
} visitor_t;

static bool visit_hardened(void *block, size_t size, void *context) {
    const visitor_t *visitor = context;
    return visitor->visit(pointer_to(block), hardened_size(block, size), visitor->context);
}

int heaps_visit(heap_t *h, bool visit(void *block, size_t size, void *context), void *context) {
    if (hk_likely(!hardened_is_on()))
        return visit_blocks(h, visit, context);
    visitor_t visitor = {visit, context};
    return visit_blocks(h, visit_hardened, &visitor);
}

/* --- The end ------------------------------------------------------------------------------------------------------ */

static void end(heap_t *h) {
    hk_lock(&hk_heap_list_lock);
    hk_lock(&hk_record_lock);
    explicit_end_locked(h);
    hk_unlock(&hk_record_lock);
    hk_unlock(&hk_heap_list_lock);
}

/* Of what ends with its heap, as a free would. */
static bool look_at(void *block, size_t size, void *caller) {
    (void)size;
    (void)hardened_is_whole(block, heap_block_size(block), caller);
    return true;
}

size_t heaps_reset(heap_t *h, const void *caller) {
    if (!fork_attend())
        return 0;
    if (hk_unlikely(hardened_is_on()))
        (void)visit_blocks(h, look_at, (void *)(uintptr_t)caller);
    size_t bytes = explicit_close_all(h);
    heap_memory_freed(NULL);
    return bytes;
}

void heaps_destroy(heap_t *h, const void *caller) {
    if (!fork_attend())
        return;
    (void)heaps_reset(h, caller);
    end(h);
}

void heaps_release(heap_t *h) {
    if (!fork_attend())
        return;
    hk_lock(&hk_record_lock);
    explicit_hand_over_locked(h);
    hk_unlock(&hk_record_lock);
    end(h);
    heap_memory_freed(heap_shared());
}
