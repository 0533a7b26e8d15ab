/* SPDX-License-Identifier: MIT
 *
 * A trim steps over large runs, however long they are, and finds the holes of the slabs behind them.
 */
#include "heap_places.h"
#include "large/run.h"
#include "region/region.h"
#include "steps.h"
#include "upkeep/sparse.h"

enum {
    SIZE = 8192,
    BLOCKS = 64,
    KEEP = 4,
    SUPERSLABS = 128, /* of the long run: 256 MiB, which nobody writes to */
};

static unsigned char *blocks[BLOCKS];
static unsigned long steps;

static void step(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    steps++;
}

static size_t superslab_of(const void *address) { return map_slot(address) / HK_SLOTS_PER_SUPERSLAB; }

/* A run that ends with the first slot of a superslab, which slabs share. */
static void *run_that_ends_inside(void) {
    char *run = heap_malloc_slow(3 * HK_SUPERSLAB_SIZE + HK_SLOT_SIZE);
    CHECK(run != NULL && large_run(run)->slot_count == 3 * HK_SLOTS_PER_SUPERSLAB + 1);
    return run;
}

static unsigned fill_beside(const char *run, unsigned cls, heap_t *h) {
    const size_t last = superslab_of(run + 3 * HK_SUPERSLAB_SIZE);
    unsigned beside = 0;
    for (unsigned i = 0; i < BLOCKS; i++) {
        CHECK((blocks[i] = magazine_alloc(h, cls)) != NULL);
        memset(blocks[i], 1 + (int)i, SIZE);
        beside += superslab_of(blocks[i]) == last;
    }
    return beside;
}

static void holes_behind_a_run_go(heap_t *h) {
    const unsigned cls = class_of(SIZE);
    const char *run = run_that_ends_inside();
    CHECK_EQ(fill_beside(run, cls, h), BLOCKS);
    CHECK_EQ(sparse_trim(), 0);
    for (unsigned i = 0; i < BLOCKS; i++)
        if (i % KEEP != 0)
            release(blocks[i]);
    magazine_drop_all(h);
    CHECK(sparse_trim() >= BLOCKS / 2 * SIZE);
    for (unsigned i = 0; i < BLOCKS; i += KEEP)
        for (unsigned k = 0; k < SIZE; k++)
            CHECK_EQ(blocks[i][k], 1 + i);
    all_is_well();
}

static unsigned long steps_of_trim(void) {
    steps = 0;
    steps_begin();
    size_t bytes = sparse_trim();
    steps_end();
    CHECK_EQ(bytes, 0);
    return steps;
}

/* Counted, as a machine may be busy: not one instruction for each superslab more. */
static void a_run_is_one_step(void) {
    steps_init(step);
    const unsigned long before = steps_of_trim();
    CHECK(heap_malloc_slow((size_t)SUPERSLABS << HK_SUPERSLAB_SHIFT) != NULL);
    const unsigned long with_run = steps_of_trim();
    CHECK_SAY(before > 100 && with_run < before + 4 * SUPERSLABS, "%lu instructions, %lu with a run of %u superslabs",
              before, with_run, SUPERSLABS);
}

/* A round looks at as much as without: what it steps over counts. */
static void all_is_looked_at(void) {
    sparse_result_t found = sparse_round_within(1000, 400, 1);
    size_t used = 0;
    for (size_t index = region_next_used(0); index != 0; index = region_next_used(index + 1))
        used++;
    CHECK_EQ(found.looked_at_bytes, used << HK_SUPERSLAB_SHIFT);
}

int main(void) {
    heap_t *h = start_heap();
    holes_behind_a_run_go(h);
    all_is_looked_at();
    a_run_is_one_step();
    return CHECK_PASS;
}
