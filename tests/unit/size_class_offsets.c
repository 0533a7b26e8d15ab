/* SPDX-License-Identifier: MIT
 *
 * Is an address the start of a block, and of which? Every offset of a slab of every class, against counting.
 */
#include "rooms.h"
#include "slab/slab.h"

/* Any address that is aligned as slabs are; nothing is read there. */
#define BASE ((char *)0x5a5ae00000)

enum { BLOCKS_NAIVE = 64 };

/* All offsets of the first blocks, of the last ones and of the tail; of those between, the bytes around each border. */
static bool is_looked_at(size_t offset, size_t size, size_t block, size_t count) {
    size_t within = offset - block * size;
    return block < BLOCKS_NAIVE || block + 2 >= count || within < 20 || within > size - 20 || within % 61 == 0;
}

static size_t check_class(unsigned cls) {
    const size_class_t *c = &hk_classes[cls];
    size_t size = hk_class_info[cls].block_size, count = hk_class_info[cls].block_count, looked_at = 0;
    size_t wrong = 0, block = 0;
    for (size_t offset = 0; offset <= c->mask; offset++) {
        if (offset == (block + 1) * size)
            block++;
        if (!is_looked_at(offset, size, block, count))
            continue;
        bool starts = offset == block * size && block < count;
        wrong += class_is_block(c, BASE + offset) != starts;
        wrong += class_block_index(c, BASE + offset) != block;
        looked_at++;
    }
    CHECK_EQ(wrong, 0);
    return looked_at;
}

int main(void) {
    classes_init();
    size_t looked_at = 0;
    for (unsigned cls = 0; cls < HK_CLASS_COUNT; cls++)
        looked_at += check_class(cls);
    CHECK(looked_at > 1000000);
    return CHECK_PASS;
}
