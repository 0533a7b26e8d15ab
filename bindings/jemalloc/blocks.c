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
    SEAL = 8,         /* what HAKMEM_SAFE=2 has behind each block of a class */
    RUN_MAX = 1 << 30 /* longer blocks, and those of larger alignments, have mappings of their own */
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

/* --- Sizes -------------------------------------------------------------------------------------------------------- */

static size_t round_up(size_t size, size_t unit) { return (size + unit - 1) & ~(unit - 1); }

/* Whether a block has what was asked for and no more (level 3, HAKMEM_GUARD). Sizes that are rounded are never odd. */
static bool is_exact(size_t size) {
    size_t odd = (size - 1) | 1;
    return hak_good_size(odd) == odd;
}

static size_t seal_bytes(void) { return CLASS_MAX - hak_good_size(CLASS_MAX - SEAL); }

/* Of a block without a class: whole slots, pages where it has a mapping of its own or the level is 2. */
static size_t whole_size(size_t size, size_t align) {
    size_t most = size > RUN_MAX || align > RUN_MAX ? RUN_MAX : CLASS_MAX;
    return round_up(size, hak_good_size(most + 1) - most);
}

/* What a block is usable for at the least: a class is that of the size, with its seal, as a multiple of the alignment.
 * 0 when there can be none. */
static size_t size_foretold(size_t size, size_t align) {
    size_t plain = hak_good_size(size);
    if (align <= ALIGNMENT || plain == 0 || is_exact(size))
        return plain;
    size_t seal = seal_bytes(), rounded = round_up(size + (size == 0) + seal, align);
    return rounded <= CLASS_MAX ? hak_good_size(rounded - seal) : whole_size(size, align);
}

/* What to ask for. A block without a class may come as slots or as pages, whatever is at hand: it has what is foretold
 * when that is asked for. */
static size_t size_to_ask(size_t size, size_t align) {
    if (size <= CLASS_MAX && align <= CLASS_MAX && round_up(size + SEAL, align) <= CLASS_MAX)
        return size;
    size_t foretold = size <= size_max && align <= size_max ? size_foretold(size, align) : 0;
    return foretold > size ? foretold : size;
}

/* --- Blocks ------------------------------------------------------------------------------------------------------- */

/* What is usable from `old` bytes on. */
static void zero_rest(void *block, size_t old) {
    size_t now = hak_malloc_usable_size(block);
    if (now > old)
        memset((char *)block + old, 0, now - old);
}

static void *alloc_aligned(const flags_t *flags, size_t size) {
    if (flags->heap == NULL)
        return flags->zero ? hak_aligned_calloc(flags->align, 1, size) : hak_memalign(flags->align, size);
    void *block = hak_heap_aligned_alloc(flags->heap, flags->align, size);
    return flags->zero && block != NULL ? memset(block, 0, size) : block;
}

static void *alloc_plain(const flags_t *flags, size_t size) {
    if (flags->heap != NULL)
        return flags->zero ? hak_heap_calloc(flags->heap, 1, size) : hak_heap_malloc(flags->heap, size);
    return flags->zero ? hak_calloc(1, size) : hak_malloc(size);
}

/* Zeros are asked for all that is usable: a program that grows the block finds them behind what it asked for. */
static void *alloc(const flags_t *flags, size_t size) {
    size_t asked = size_to_ask(size, flags->align);
    void *block = flags->align <= ALIGNMENT ? alloc_plain(flags, asked) : alloc_aligned(flags, asked);
    if (flags->zero && block != NULL)
        zero_rest(block, asked);
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

/* Whether the block may stay where it is. A program uses what nallocx foretells: one that happens to lie well, but has
 * less, has it only when it grows by whole slots or pages, as without an alignment. */
static bool may_stay(const void *block, size_t old, size_t size, size_t align) {
    if (align <= ALIGNMENT)
        return true;
    size_t foretold = size_foretold(size, align);
    return is_aligned(block, align) && (old >= foretold || hak_good_size(size) >= foretold);
}

/* Without an arena a block stays in that which it is of. */
static void *resize(void *block, size_t old, size_t size, const flags_t *flags) {
    hak_heap_t *heap = flags->has_arena ? flags->heap : hak_heap_of(block);
    bool stays = heap == hak_heap_of(block);
    size_t asked = size_to_ask(size, flags->align);
    if (stays && may_stay(block, old, size, flags->align) && hak_expand(block, asked) != 0)
        return block;
    flags_t to = *flags;
    to.heap = heap;
    if (flags->align > ALIGNMENT || (heap == NULL && !stays))
        return move(block, old, size, &to);
    return heap != NULL ? hak_heap_realloc(heap, block, asked) : hak_realloc(block, asked);
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

NAMES_EXPORT size_t nallocx(size_t size, int bits) {
    size_t align = (size_t)1 << (bits & LG_ALIGN_MASK);
    return size > size_max || align > size_max ? 0 : size_foretold(size, align);
}
