/* SPDX-License-Identifier: MIT
 *
 * sizes.c: the calls of hakmem.h that say how large a block is, and those of many blocks.
 */
#include "slow/sizes.h"

#include "front/calls.h"
#include "front/front.h"
#include "hakmem.h"

HK_EXPORT void *hak_malloc_at_least(size_t size, size_t *actual) {
    void *block = front_malloc(size);
    if (actual != NULL)
        *actual = block != NULL ? front_usable_size(block) : 0;
    return block;
}

HK_EXPORT size_t hak_good_size(size_t size) { return heap_good_size(size); }

HK_EXPORT size_t hak_expand(void *ptr, size_t size) { return heap_expand(ptr, size, __builtin_return_address(0)); }

HK_EXPORT size_t hak_malloc_batch(size_t size, size_t count, void **out) {
    size_t got = 0;
    while (got < count && (out[got] = front_malloc(size)) != NULL)
        got++;
    return got;
}

HK_EXPORT void hak_free_batch(void **blocks, size_t count) {
    for (size_t i = 0; i < count; i++)
        front_free(blocks[i]);
}
