/* SPDX-License-Identifier: MIT
 *
 * Between any two instructions of a round that gives back pages inside slabs, each free block is in its slab, or held
 * by somebody, whom who finds no memory waits for.
 */
#include "heap_places.h"
#include "steps.h"
#include "superslab/superslab.h"
#include "upkeep/sparse.h"

enum { CLS = HK_TINY_CLASSES - 1, SIZE = HK_TINY_MAX, BLOCKS = 64 * 40, KEEP = 16 };

static unsigned char *blocks[BLOCKS];
static heap_t *h;
static size_t all;
static unsigned long steps, held;

/* Of the slabs that the first and every KEEP-th block after it lie in. */
static size_t free_blocks(void) {
    size_t sum = 0;
    const slab_t *last = NULL;
    for (unsigned i = 0; i < BLOCKS; i += KEEP) {
        const slab_t *slab = slab_at((slot_t)map_slot(blocks[i]));
        if (slab != last)
            sum += slab->free_count;
        last = slab;
    }
    return sum;
}

static void step(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    if (++steps % STEPS_EACH != 0)
        return;
    if (atomic_load(&hk_slots_holders) > 0)
        held++;
    else if (atomic_load(&h->lock.word) == 0)
        CHECK_EQ(free_blocks(), all);
}

int main(void) {
    steps_init(step);
    h = start_heap();
    for (unsigned i = 0; i < BLOCKS; i++)
        CHECK((blocks[i] = magazine_alloc(h, CLS)) != NULL && memset(blocks[i], 1, SIZE) != NULL);
    for (unsigned i = 0; i < BLOCKS; i++)
        if (i % KEEP != 0)
            release(blocks[i]);
    magazine_drop_all(h);
    all = free_blocks();
    steps_begin();
    size_t bytes = sparse_trim();
    steps_end();
    CHECK(bytes > 0);
    CHECK_SAY(steps > 1000 && held > 100, "%lu steps, blocks held in %lu", steps, held);
    CHECK_EQ(atomic_load(&hk_slots_holders), 0);
    CHECK_EQ(free_blocks(), all);
    return CHECK_PASS;
}
