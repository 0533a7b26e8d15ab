/* SPDX-License-Identifier: MIT
 *
 * front.h: malloc and free on one screen each.
 *
 * Everything the fast path reads: hk_front (thread-local), the heap's first line, the magazine of one class and the
 * place in its array, and for free the slot table's entry; and a word of live bits, which it changes. The block itself
 * is touched by neither. No call, no loop, no frame (but for calloc, which calls memset); every other case is one tail
 * call away.
 */
#pragma once

#include "base/base.h"
#include "heap/heap.h"
#include "slow/free.h"
#include "slow/free_sized.h"
#include "slow/malloc.h"

#include <string.h>

/* Above it pays to ask whether a block reads as zeros already: heap_calloc_slow. With room for a seal: of longer blocks
 * malloc does not look at each byte. */
enum { FRONT_CALLOC_MAX = 8 * 1024 - 8 };

/* The front as if the magazine `offset` bytes behind the first were the first. Its address is an instruction of its
 * own: processors pass a store on to the next load without delay only where both have an address without index
 * (docs/adr/0002). */
HK_INLINE heap_front_t *front_moved(heap_front_t *front, size_t offset) {
    front = (heap_front_t *)((char *)front + offset);
    HK_OPAQUE(front);
    return front;
}

HK_INLINE heap_front_t *front_at(heap_front_t *front, size_t cls) {
    return front_moved(front, cls * sizeof(magazine_t));
}

HK_INLINE heap_front_t *front_at_tiny(heap_front_t *front, size_t size_minus_1) {
    _Static_assert(sizeof(magazine_t) == 2 * HK_ALIGNMENT, "twice the size without its lowest bits");
    return front_moved(front, 2 * (size_minus_1 & ~(size_t)(HK_ALIGNMENT - 1)));
}

/* Takes the top block of a magazine, or leaves for the slow path: what lies on top of an empty one has its live bit
 * set, and a countdown that ran out is below 0. Either way the request has been charged. `at` is the front moved to the
 * magazine. */
HK_INLINE void *front_pop(heap_front_t *front, heap_front_t *at, size_t size, bool mid, void *(*slow)(size_t)) {
    hk_add_in_place(front->countdown, -(int64_t)size);
    if (hk_unlikely(hk_read_in_place(front->countdown) < 0))
        return slow(size);
    granule_t granule = hk_read_in_place(at->magazines->top);
    map_live_t live;
    if (hk_unlikely(map_find_live(granule, &live)))
        return slow(size);
    granule_t next = *at->magazines->below;
    HK_OPAQUE(at); /* not what was read, less one: that takes an instruction more */
    hk_add_in_place(at->magazines->below, -1);
    /* Release: the child of a fork, which empties the magazine (magazine.c), may lose a block and never has one
     * twice. */
    hk_write_release(at->magazines->top, next);
    map_mark_live(&live);
    void *block = map_granule_address(granule);
    if (mid)
        HK_KEEP_APART("mid", block);
    return block;
}

/* malloc whose every other case is a tail call of `slow`. */
HK_INLINE void *front_malloc_or(size_t size, void *(*slow)(size_t)) {
    heap_front_t *front = hk_front;
    size_t size_minus_1 = size - 1; /* 0 becomes the largest size: the slow path knows it */
    if (hk_likely(size_minus_1 < HK_TINY_MAX))
        return front_pop(front, front_at_tiny(front, size_minus_1), size, false, slow);
    if (hk_likely(size_minus_1 < HK_MAGAZINE_SIZE_MAX))
        return front_pop(front, front_at(front, class_of_mid(size_minus_1)), size, true, slow);
    return slow(size);
}

HK_INLINE void *front_malloc(size_t size) { return front_malloc_or(size, heap_malloc_slow); }

/* Class of a block that the thread's heap owns; above HK_MAP_CLASS_MAX for anything else. */
HK_INLINE uint32_t front_class(const heap_front_t *front, granule_t granule) {
    size_t slot = map_granule_slot(granule);
    return hk_likely(slot < map_count()) ? map_entry(slot) ^ front->tag : UINT32_MAX;
}

/* The check and the push of an own block. */
HK_INLINE void front_push(heap_front_t *front, void *block, granule_t granule, uint32_t cls) {
    if (hk_unlikely(!map_clear_live(granule))) {
        heap_free_suspect(block, cls);
        return;
    }
    heap_front_t *at = front_at(front, cls);
    if (hk_unlikely(at->magazines->below == at->magazines->last))
        heap_free_full(block, at); /* not the class: to keep it takes an instruction */
    else
        magazine_push(at->magazines, granule);
}

HK_INLINE void front_free(void *block) {
    heap_front_t *front = hk_front;
    granule_t granule = map_granule(block);
    uint32_t cls = front_class(front, granule);
    if (hk_likely(cls <= HK_MAP_CLASS_MAX))
        front_push(front, block, granule, cls);
    else
        heap_free_other(block, cls, front, granule);
}

/* `verb` names the function in reports. Only a tiny block of just that class takes the fast path. */
HK_INLINE void front_free_sized(void *block, size_t size, const char *verb) {
    heap_front_t *front = hk_front;
    granule_t granule = map_granule(block);
    uint32_t cls = front_class(front, granule);
    if (hk_likely(cls < HK_TINY_CLASSES && (size - 1) >> 4 == cls))
        front_push(front, block, granule, cls);
    else
        heap_free_sized(block, HK_ALIGNMENT, size, verb);
}

/* Any alignment, as front_memalign takes any. */
HK_INLINE void front_free_aligned_sized(void *block, size_t align, size_t size, const char *verb) {
    unsigned shift = hk_log2_ceil(hk_max(align, HK_ALIGNMENT));
    heap_free_sized(block, (size_t)1 << hk_min(shift, 63), size, verb);
}

/* `align` is a power of two. When the countdown runs out, what is asked for matters: heap_aligned. */
HK_INLINE void *front_aligned(size_t align, size_t size) {
    heap_front_t *front = hk_front;
    size_t rounded = hk_align_up(size, align); /* any block of its class will do: class_of_aligned */
    if (hk_unlikely(rounded - 1 >= HK_MID_MAX || hk_read_in_place(front->countdown) < (int64_t)rounded))
        return heap_aligned(align, size);
    bool is_tiny = rounded <= HK_TINY_MAX;
    heap_front_t *at = is_tiny ? front_at_tiny(front, rounded - 1) : front_at(front, class_of_mid(rounded - 1));
    if (hk_likely(hk_read_in_place(at->magazines->top) != 0))
        return front_pop(front, at, rounded, !is_tiny, heap_aligned_slow);
    return heap_aligned(align, size);
}

/* Size of an array, or one that is refused as too large when it has none. */
HK_INLINE size_t front_array_size(size_t count, size_t size) {
    size_t total;
    return hk_unlikely(__builtin_mul_overflow(count, size, &total)) ? SIZE_MAX : total;
}

HK_INLINE void *front_calloc(size_t count, size_t size) {
    size_t total = front_array_size(count, size);
    if (hk_unlikely(total - 1 >= FRONT_CALLOC_MAX))
        return heap_calloc_slow(total);
    void *block = front_malloc(total);
    return hk_likely(block != NULL) ? memset(block, 0, total) : NULL;
}
