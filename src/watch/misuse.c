/* SPDX-License-Identifier: MIT */
#include "watch/misuse.h"

#include "core/options.h"
#include "core/panic.h"
#include "sys/tags.h"
#include "watch/foreign.h"

#include <string.h>

/* Whether the function gives the block back: the others are told of a freed block. */
static bool frees(const char *verb) { return strstr(verb, "free") != NULL || strstr(verb, "delete") != NULL; }

/* A call with the address of a block that is free. */
static hk_misuse_t of_freed(const char *verb, const void *address, const void *caller) {
    if (frees(verb))
        return (hk_misuse_t){.what = "double free of", .address = address, .caller = caller};
    return (hk_misuse_t){.verb = verb, .what = " of freed block", .address = address, .caller = caller};
}

void misuse_double_free(const char *verb, const void *block, size_t block_size, const void *caller) {
    hk_misuse_t misuse = of_freed(verb, block, caller);
    misuse.block = block;
    misuse.block_size = block_size;
    misuse.state = HK_MISUSE_FREE;
    hk_misuse(&misuse, "%zu-byte block, free", block_size);
}

void misuse_interior(const char *verb, const void *address, const void *block, size_t block_size, const void *caller) {
    bool misaligned = (uintptr_t)address % 16 != 0;
    const hk_misuse_t misuse = {
        .verb = verb,
        .what = misaligned ? " of misaligned pointer" : " of interior pointer",
        .address = address,
        .caller = caller,
        .block = block,
        .block_size = block_size,
    };
    hk_misuse(&misuse, "%zu-byte block at %p, offset %zu", block_size, block,
              (size_t)((uintptr_t)address - (uintptr_t)block));
}

void misuse_no_block(const char *verb, const void *address, const void *caller) {
    const hk_misuse_t misuse = of_freed(verb, address, caller);
    hk_misuse(&misuse, "no live block here, memory was freed");
}

static unsigned tag_of(const void *pointer) { return (unsigned)((uintptr_t)pointer >> TAG_SHIFT); }

void misuse_stale(const char *verb, const void *pointer, const void *right, size_t block_size, const void *caller) {
    const hk_misuse_t misuse = {
        .verb = verb,
        .what = " of stale pointer",
        .address = tags_strip(right),
        .caller = caller,
        .block = tags_strip(right),
        .block_size = block_size,
        .state = HK_MISUSE_ALLOCATED,
    };
    hk_misuse(&misuse, "%zu-byte block with tag %u, the pointer has tag %u: its block was freed", block_size,
              tag_of(right), tag_of(pointer));
}

void misuse_foreign(const char *verb, const void *address, const void *caller) {
    if (!hk_misuse_is_watched()) /* what lies there takes long to find */
        return;
    char detail[FOREIGN_TEXT_MAX];
    foreign_describe(address, detail);
    const hk_misuse_t misuse = {.verb = verb, .what = " of foreign pointer", .address = address, .caller = caller};
    hk_misuse(&misuse, "%s", detail);
}

void misuse_wrong_size(const char *verb, const void *block, size_t block_size, size_t size, const void *caller) {
    const hk_misuse_t misuse = {
        .verb = verb,
        .what = " of wrong size",
        .address = block,
        .caller = caller,
        .block = block,
        .block_size = block_size,
        .state = HK_MISUSE_ALLOCATED,
        .harmless = hk_option(HK_OPT_SAFE) == 1 && size < block_size && strstr(verb, "delete") != NULL,
    };
    hk_misuse(&misuse, "%zu-byte block, size %zu given", block_size, size);
}

void misuse_no_heap(const char *verb, const void *heap, const void *caller) {
    const hk_misuse_t misuse = {.verb = verb, .what = " of", .address = heap, .caller = caller};
    hk_misuse(&misuse, "no heap, or one that has ended");
}
