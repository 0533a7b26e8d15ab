/* SPDX-License-Identifier: MIT
 *
 * Preloaded beside the allocator, before or after it in LD_PRELOAD: allocates in its constructor, which may run before
 * the allocator's own, and wraps a function of libc that allocates.
 */
#include "testing.h"

static void *blocks[100];

void **early_library_blocks(unsigned *count);

__attribute__((constructor(101))) static void construct(void) {
    for (unsigned i = 0; i < 100; i++) {
        blocks[i] = malloc(10 + i * 100);
        test_fill(blocks[i], 10 + i * 100, i);
    }
    free(strdup("from a preloaded library"));
}

void **early_library_blocks(unsigned *count) {
    *count = 100;
    return blocks;
}

__attribute__((destructor)) static void destruct(void) { free(malloc(5000)); }
