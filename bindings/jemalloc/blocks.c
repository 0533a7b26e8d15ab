/* SPDX-License-Identifier: MIT
 *
 * blocks.c: mallocx and its kin. Of their flags, alignment, zeros and the arena count; a thread cache is passed over,
 * as nothing depends on which one serves.
 */
#include "arenas.h"
#include "names.h"

#include <stdint.h>
#include <string.h>

enum {
    LG_ALIGN_MASK = 0x3f,
    ZERO = 0x40,
    ARENA_SHIFT = 20, /* 1 + the arena's number, or 0 */
    ALIGNMENT = 16,   /* that every block has */
    CLASS_MAX = 256 * 1024,
    SLOT = 64 * 1024, /* longer blocks have whole ones */
};

static const size_t size_max = (size_t)1 << 48;

typedef struct flags {
    size_t align;
    bool zero, has_arena, is_valid;
    hak_heap_t *heap; /* NULL: ordinary memory */
} flags_t;

static flags_t flags_of(int bits) {
    unsigned arena = (unsigned)bits >> ARENA_SHIFT;
    flags_t flags = {
        .align = (size_t)1 << (bits & LG_ALIGN_MASK),
        .zero = (bits & ZERO) != 0,
        .has_arena = arena != 0,
        .is_valid = true,
    };
    if (arena > 0) {
        flags.heap = arenas_heap(arena - 1);
        flags.is_valid = arenas_exists(arena - 1);
    }
    return flags;
}

/* What is usable from `old` bytes on. */
static void zero_rest(void *block, size_t old) {
    size_t now = hak_malloc_usable_size(block);
    if (now > old)
        memset((char *)block + old, 0, now - old);
}

static void *alloc_aligned(const flags_t *flags, size_t size) {
    void *block = flags->heap != NULL ? hak_heap_aligned_alloc(flags->heap, flags->align, size)
                                      : hak_memalign(flags->align, size);
    return flags->zero && block != NULL ? memset(block, 0, size) : block;
}

static void *alloc_plain(const flags_t *flags, size_t size) {
    if (flags->heap != NULL)
        return flags->zero ? hak_heap_calloc(flags->heap, 1, size) : hak_heap_malloc(flags->heap, size);
    return flags->zero ? hak_calloc(1, size) : hak_malloc(size);
}

/* Zeros are asked for all that is usable: a program that grows the block finds them behind what it asked for. */
static void *alloc(const flags_t *flags, size_t size) {
    void *block = flags->align <= ALIGNMENT ? alloc_plain(flags, size) : alloc_aligned(flags, size);
    if (flags->zero && block != NULL)
        zero_rest(block, size);
    return block;
}

NAMES_EXPORT void *mallocx(size_t size, int bits) {
    flags_t flags = flags_of(bits);
    return flags.is_valid ? alloc(&flags, size) : NULL;
}

static bool is_aligned(const void *block, size_t align) { return ((uintptr_t)block & (align - 1)) == 0; }

static void *move(void *block, size_t old, size_t size, const flags_t *flags) {
    void *other = alloc(flags, size);
    if (other == NULL)
        return NULL;
    memcpy(other, block, old < size ? old : size);
    hak_free(block);
    return other;
}

/* Without an arena a block stays in that which it is of. */
static void *resize(void *block, size_t old, size_t size, const flags_t *flags) {
    hak_heap_t *heap = flags->has_arena ? flags->heap : hak_heap_of(block);
    bool stays = heap == hak_heap_of(block);
    if (stays && is_aligned(block, flags->align) && hak_expand(block, size) != 0)
        return block;
    flags_t to = *flags;
    to.heap = heap;
    if (flags->align > ALIGNMENT || (heap == NULL && !stays))
        return move(block, old, size, &to);
    return heap != NULL ? hak_heap_realloc(heap, block, size) : hak_realloc(block, size);
}

NAMES_EXPORT void *rallocx(void *block, size_t size, int bits) {
    flags_t flags = flags_of(bits);
    if (!flags.is_valid)
        return NULL;
    size_t old = hak_malloc_usable_size(block);
    void *now = resize(block, old, size > 0 ? size : 1, &flags);
    if (now != NULL && flags.zero)
        zero_rest(now, old);
    return now;
}

/* The largest size up to size + extra that it can have where it is: only these two are tried. What is between them
 * stays as it is when it cannot grow to the larger. */
NAMES_EXPORT size_t xallocx(void *block, size_t size, size_t extra, int bits) {
    flags_t flags = flags_of(bits);
    size_t old = hak_malloc_usable_size(block), most = size + extra < size ? SIZE_MAX : size + extra;
    if (!is_aligned(block, flags.align))
        return old;
    size_t now = hak_expand(block, most);
    if (now == 0 && old < size && extra > 0)
        now = hak_expand(block, size);
    if (now == 0)
        return old;
    if (flags.zero)
        zero_rest(block, old);
    return now;
}

NAMES_EXPORT size_t sallocx(const void *block, int bits) {
    (void)bits;
    return hak_malloc_usable_size(block);
}

NAMES_EXPORT void dallocx(void *block, int bits) {
    (void)bits;
    hak_free(block);
}

NAMES_EXPORT void sdallocx(void *block, size_t size, int bits) {
    size_t align = (size_t)1 << (bits & LG_ALIGN_MASK);
    if (align <= ALIGNMENT)
        hak_free_sized(block, size);
    else
        hak_free_aligned_sized(block, align, size);
}

/* Of the smallest class that holds `size` at a multiple of the alignment, or whole slots. */
static size_t aligned_size(size_t size, size_t align) {
    size_t least = (size + (size == 0) + align - 1) & ~(align - 1);
    if (least > CLASS_MAX)
        return size > CLASS_MAX ? hak_good_size(size) : (size + (size == 0) + SLOT - 1) / SLOT * SLOT;
    size_t class = hak_good_size(least);
    while (class % align != 0)
        class = hak_good_size(class + 1);
    return class;
}

/* Where sizes are exact (HAKMEM_SAFE, HAKMEM_GUARD) the smallest block is none of a class; an aligned one has no less
 * than any other there. */
NAMES_EXPORT size_t nallocx(size_t size, int bits) {
    flags_t flags = flags_of(bits);
    if (size > size_max || flags.align > size_max)
        return 0;
    bool by_class = hak_good_size(1) == ALIGNMENT;
    return flags.align <= ALIGNMENT || !by_class ? hak_good_size(size) : aligned_size(size, flags.align);
}
