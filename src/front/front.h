/* SPDX-License-Identifier: MIT
 *
 * front.h: malloc and free on one screen each.
 *
 * Everything the fast path reads: hk_front (thread-local), the heap's first line, the magazine of one class, the slot
 * table's entry and the class's 16-byte record. No call, no loop, no frame; every other case is one tail call away.
 */
#ifndef HK_FRONT_H
#define HK_FRONT_H

#include "base/base.h"
#include "heap/alloc.h"
#include "heap/heap.h"

/* Magazine and class record of the class whose number times 16 is `offset`. */
_Static_assert(sizeof(bin_t) == 16 && sizeof(size_class_t) == 16, "one offset serves both");
HK_INLINE bin_t *front_bin(heap_front_t *front, size_t offset) { return (bin_t *)((char *)front->bins + offset); }
HK_INLINE const size_class_t *front_class_record(size_t offset) {
    return (const size_class_t *)((const char *)hk_classes + offset);
}

/* Takes the top block of a magazine, or leaves for the slow path: the magazine is empty or the countdown ran out. */
HK_INLINE void *front_pop(heap_front_t *front, bin_t *bin, size_t size, bool mid, void *(*slow)(size_t)) {
    HK_OPAQUE(bin);
    uint64_t state = atomic_load_explicit(&bin->state, memory_order_relaxed);
    size_t count = BIN_COUNT(state);
    if (hk_unlikely(count == 0))
        return slow(size);
    int64_t cost = mid ? HEAP_TICK_MID_BYTES : (int64_t)size;
    if (mid)
        HK_OPAQUE(cost);
    if (hk_unlikely((front->countdown -= cost) < 0))
        return slow(size);
    void **block = bin->slots[count - 1];
    atomic_store_explicit(&bin->state, state + BIN_POP, memory_order_relaxed);
    block[1] = NULL; /* the key of a free block */
    if (mid)
        HK_KEEP_APART("mid", block);
    return block;
}

/* malloc whose every other case is a tail call of `slow`. */
HK_INLINE void *front_malloc_or(size_t size, void *(*slow)(size_t)) {
    heap_front_t *front = hk_front;
    size_t size_minus_1 = size - 1; /* 0 becomes the largest size: the slow path knows it */
    if (hk_likely(size_minus_1 < HK_TINY_MAX))
        return front_pop(front, front_bin(front, size_minus_1 & ~(size_t)15), size, false, slow);
    if (hk_likely(size_minus_1 < HK_BIN_MAX))
        return front_pop(front, front_bin(front, (size_t)class_of_mid(size_minus_1) << 4), size, true, slow);
    return slow(size);
}

HK_INLINE void *front_malloc(size_t size) { return front_malloc_or(size, heap_malloc_slow); }

/* Class of a block that the thread's heap owns; above HK_MAP_CLASS_MAX for anything else. */
HK_INLINE uint32_t front_class(const heap_front_t *front, const void *block) {
    size_t slot = map_slot(block);
    return hk_likely(slot < map_count()) ? map_entry(slot) ^ front->tag : UINT32_MAX;
}

/* The checks and the push of an own block. */
HK_INLINE void front_push(heap_front_t *front, void *block, uint32_t cls) {
    size_t offset = (size_t)cls << 4;
    HK_OPAQUE(offset);
    uint64_t key = block_key(front, block);
    if (hk_unlikely(!class_is_block(front_class_record(offset), block) || ((uint64_t *)block)[1] == key)) {
        heap_free_suspect(block, (uint32_t)(offset >> 4));
        return;
    }
    ((uint64_t *)block)[1] = key;
    bin_t *bin = front_bin(front, offset);
    HK_OPAQUE(bin);
    uint64_t state = atomic_load_explicit(&bin->state, memory_order_relaxed);
    if (hk_unlikely(BIN_ROOM(state) == 0)) {
        heap_free_full(block, (uint32_t)(offset >> 4));
        return;
    }
    bin->slots[BIN_COUNT(state)] = block;
    /* For the child of a fork: the block is in place before it counts. */
    atomic_signal_fence(memory_order_release);
    atomic_store_explicit(&bin->state, state - BIN_PUSH, memory_order_relaxed);
}

HK_INLINE void front_free(void *block) {
    heap_front_t *front = hk_front;
    uint32_t cls = front_class(front, block);
    if (hk_likely(cls <= HK_MAP_CLASS_MAX))
        front_push(front, block, cls);
    else
        heap_free_other(block);
}

/* `verb` names the function in reports. Only a tiny block of just that class takes the fast path. */
HK_INLINE void front_free_sized(void *block, size_t size, const char *verb) {
    heap_front_t *front = hk_front;
    uint32_t cls = front_class(front, block);
    if (hk_likely(cls < HK_TINY_CLASSES && (size - 1) >> 4 == cls))
        front_push(front, block, cls);
    else
        heap_free_sized(block, HK_ALIGNMENT, size, verb, __builtin_return_address(0));
}

HK_INLINE void front_free_aligned_sized(void *block, size_t align, size_t size, const char *verb) {
    heap_free_sized(block, align, size, verb, __builtin_return_address(0));
}

HK_INLINE void *front_aligned(size_t align, size_t size) { return heap_aligned(align, size); }

HK_INLINE void *front_calloc(size_t count, size_t size) {
    size_t total;
    if (hk_unlikely(__builtin_mul_overflow(count, size, &total)))
        total = SIZE_MAX; /* refused as too large */
    return heap_calloc_slow(total);
}

#endif
