/* SPDX-License-Identifier: MIT
 *
 * Magazines of large classes: for a thread that uses a class again and again, within a budget; whoever else frees such
 * a run takes it out of the magazines' way, and a thread that ends leaves none behind.
 */
#include "core/panic.h"
#include "heap_places.h"
#include "superslab_totals.h"

#include <pthread.h>

enum { SIZE = 300 * 1024 };

static heap_t *h, *worker_heap;
static void *of_main, *of_worker;

static uint32_t entry(const void *block) { return map_lookup(block); }

/* Until the class has a magazine. */
static unsigned use(heap_t *heap, unsigned cls, size_t size) {
    unsigned times = 0;
    while (bin_capacity(heap, cls) == 0 && times++ < 40)
        release(heap_malloc_slow(size));
    return times;
}

static void after_a_few(void) {
    unsigned cls = class_of(SIZE);
    char *block = heap_malloc_slow(SIZE);
    CHECK_EQ(entry(block), HK_MAP_RUN_HEAD);
    release(block);
    CHECK(use(h, cls, SIZE) <= 32);
    CHECK_EQ(bin_capacity(h, cls), hk_class_info[cls].magazine_max);
    block = heap_malloc_slow(SIZE);
    CHECK_EQ(entry(block), h->front.tag | cls);
    CHECK_EQ(entry(block + HK_SLOT_SIZE), HK_MAP_RUN_BODY);
    CHECK_EQ(heap_usable_size(block, NULL), 5 * HK_SLOT_SIZE);
    memset(block, 1, SIZE);
    push(h, cls, block);
    CHECK(bin_count(h, cls) >= 1 && heap_block_is_free(block, cls));
    CHECK(heap_malloc_slow(SIZE) == block);
    CHECK(!heap_block_is_free(block, cls));
    push(h, cls, block);
    /* Zeroed memory out of a magazine is zeroed by hand. */
    CHECK(heap_calloc_slow(SIZE) == block && all_zeros(block, SIZE));
    /* Another size takes the run out of the magazines' way. */
    memset(block, 3, SIZE);
    char *larger = heap_realloc(block, 2 * SIZE, NULL);
    CHECK(larger != NULL && larger[0] == 3 && larger[SIZE - 1] == 3);
    CHECK(larger != block || entry(larger) == HK_MAP_RUN_HEAD);
    release(larger);
}

static void within_budget(void) {
    for (unsigned cls = HK_CLASS_COUNT; cls < HK_MAGAZINE_COUNT; cls++) {
        h->asked = 0; /* as if nothing else had been asked for */
        (void)use(h, cls, hk_class_info[cls].block_size);
        CHECK(h->magazine_bytes <= 5 * HK_MIB);
    }
}

/* So long that the heap keeps no slots of it: the class need not be a quarter of what is asked for. */
static void the_longest_by_themselves(void) {
    enum { LONGEST = 3 * HK_MIB };
    for (unsigned i = 0; i < 8; i++) {
        CHECK_EQ(bin_capacity(h, class_of(LONGEST)), 0);
        release(heap_malloc_slow(LONGEST));
        release(heap_malloc_slow(SIZE + i % 2 * SIZE));
    }
    CHECK(bin_capacity(h, class_of(LONGEST)) > 0);
}

static void *frees_and_leaves(void *unused) {
    (void)unused;
    unsigned cls = class_of(SIZE);
    worker_heap = heap_current();
    release(of_main);
    CHECK_EQ(bin_count(worker_heap, cls), 0);
    (void)use(worker_heap, cls, SIZE);
    void *blocks[3];
    for (unsigned i = 0; i < 3; i++)
        blocks[i] = heap_malloc_slow(SIZE);
    of_worker = blocks[0];
    push(worker_heap, cls, blocks[1]);
    push(worker_heap, cls, blocks[2]);
    CHECK_EQ(bin_count(worker_heap, cls), 2);
    return NULL;
}

static void of_two_threads(void) {
    unsigned cls = class_of(SIZE);
    (void)use(h, cls, SIZE);
    of_main = heap_malloc_slow(SIZE);
    CHECK_EQ(entry(of_main), h->front.tag | cls);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, frees_and_leaves, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_EQ(bin_count(worker_heap, cls), 0);
    CHECK_EQ(heap_usable_size(of_worker, NULL), 5 * HK_SLOT_SIZE);
    release(of_worker);
    all_is_well();
}

static void twice(void) {
    h = start_heap();
    unsigned cls = class_of(SIZE);
    (void)use(h, cls, SIZE);
    void *block = heap_malloc_slow(SIZE);
    CHECK_EQ(entry(block), h->front.tag | cls);
    push(h, cls, block);
    heap_free_suspect(block, cls);
}

/* What several threads count needs atomic steps. */
static void counts_of_whom(void) {
    CHECK(h->large.of_one_thread);
    CHECK(!heap_shared()->large.of_one_thread);
}

int main(void) {
    char text[1024];
    int status = check_child(twice, 2, text, sizeof text);
    CHECK(WIFSIGNALED(status));
    CHECK_HAS(text, "hakmem: double free of 0x");
    h = start_heap();
    counts_of_whom();
    in_child(the_longest_by_themselves);
    after_a_few();
    within_budget();
    of_two_threads();
    magazine_drop_all(h);
    CHECK(hk_trim_all() > 0);
    CHECK_EQ(superslab_totals().dirty_slots, 0);
    all_is_well();
    CHECK_EQ(hk_misuse_count(), 0);
    return CHECK_PASS;
}
