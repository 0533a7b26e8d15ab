/* SPDX-License-Identifier: MIT
 *
 * Large blocks at every alignment up to 1 GiB, fresh and used before.
 */
#include "large/large.h"
#include "rooms.h"
#include "superslab_totals.h"
#include "sys/sys.h"

static large_counts_t counts;

int main(void) {
    start_slab();
    for (size_t align = 1; align <= HK_GIB; align *= 2) {
        bool zeroed;
        char *block = large_alloc(&counts, 400 * HK_KIB, align, &zeroed);
        CHECK(block != NULL && (uintptr_t)block % align == 0);
        CHECK(!zeroed || all_zeros(block, 400 * HK_KIB));
        memset(block, 1, 400 * HK_KIB);
        CHECK(large_free(&counts, block, true));
        char *again = large_alloc(&counts, 400 * HK_KIB, align, &zeroed);
        CHECK(again == block);
        CHECK(large_free(&counts, again, true));
    }
    bool zeroed;
    char *largest = large_alloc(&counts, HK_LARGE_MAX, 1, &zeroed);
    CHECK(largest != NULL && zeroed);
    largest[0] = largest[HK_LARGE_MAX - 1] = 1;
    CHECK(large_start(largest + HK_LARGE_MAX - 1) == largest);
    CHECK(large_free(&counts, largest, true));
    superslab_totals_t totals = superslab_totals();
    CHECK_EQ(totals.superslab_count * HK_SLOTS_PER_SUPERSLAB, totals.free_slots);
    CHECK_EQ(superslab_check(), 0);
    return CHECK_PASS;
}
