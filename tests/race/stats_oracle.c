/* SPDX-License-Identifier: MIT
 *
 * Statistics against an oracle: known numbers of allocations, local frees and remote frees per class, made by one
 * thread and by several. After the threads have joined every figure of hak_stats_get matches exactly.
 *
 * Sizes are chosen among those that the C library does not use for itself while threads start and end.
 */
#include "testing.h"

enum { SIZES = 6, SHORT = 4, THREADS = 4, PER_THREAD = 3000 };

static size_t seal; /* levels 2 and 3 put so many bytes behind a block: all sizes are of the same class at all levels */

/* The first of a long class may have runs of their own: those are counted as large. */
static const size_t sizes[SIZES] = {80, 176, 1000, 3000, 20000, 150000};
static hak_stats_t before, after;
static void *blocks[THREADS][SIZES][PER_THREAD];
static pthread_barrier_t barrier;

static unsigned count_of(unsigned s) { return s < SHORT ? PER_THREAD : PER_THREAD / 30; }

static const hak_class_stats_t *class_of(const hak_stats_t *stats, size_t size) {
    const hak_class_stats_t *best = NULL;
    for (unsigned i = 0; i < stats->class_count; i++) {
        const hak_class_stats_t *c = &stats->classes[i];
        if (c->block_size >= size && (best == NULL || c->block_size < best->block_size))
            best = c;
    }
    CHECK_SAY(best != NULL, "no class for %zu bytes", size);
    return best;
}

#define EXPECT_DELTA(what, field, expected)                                                                            \
    do {                                                                                                               \
        long long got = (long long)(now->field - then->field);                                                         \
        CHECK_SAY(got == (long long)(expected), "%s: %zu-byte class, " #field " changed by %lld, not %lld", what,      \
                  size, got, (long long)(expected));                                                                   \
    } while (0)

static uint64_t remote_of_classes(const hak_stats_t *stats) {
    uint64_t sum = 0;
    for (unsigned i = 0; i < stats->class_count; i++)
        sum += stats->classes[i].free_remote;
    return sum;
}

/* Of the long classes and the runs only the sums are known. */
static void compare_long(const char *what, unsigned makers, unsigned freed_halves) {
    uint64_t made = 0, freed = 0, allocs = after.large_allocs - before.large_allocs,
             frees = after.large_frees - before.large_frees;
    for (unsigned s = SHORT; s < SIZES; s++) {
        const hak_class_stats_t *then = class_of(&before, sizes[s]), *now = class_of(&after, sizes[s]);
        made += makers * count_of(s);
        freed += makers * count_of(s) / 2 * freed_halves;
        allocs += now->alloc_count - then->alloc_count;
        frees += now->free_local - then->free_local + now->free_remote - then->free_remote;
    }
    CHECK_SAY(allocs == made && frees == freed, "%s: %llu long blocks allocated, %llu freed, not %llu and %llu", what,
              (unsigned long long)allocs, (unsigned long long)frees, (unsigned long long)made,
              (unsigned long long)freed);
}

/* Compares class by class; `local` and `remote` of a size are given as frees per allocation, in halves. A free is local
 * when the thread owns the slab: where slabs changed hands meanwhile (a waiting thread's are adopted on a busy
 * machine), a thread may free its own block remotely, and only the sum of both is known. */
static void compare(const char *what, unsigned makers, unsigned local_halves, unsigned remote_halves) {
    CHECK(test_stats(&after) == 0);
    bool settled = after.slabs_adopted == before.slabs_adopted;
    compare_long(what, makers, local_halves + remote_halves);
    for (unsigned s = 0; s < SHORT; s++) {
        size_t size = sizes[s];
        const hak_class_stats_t *then = class_of(&before, size), *now = class_of(&after, size);
        unsigned made = makers * count_of(s), half = made / 2;
        EXPECT_DELTA(what, alloc_count, made);
        EXPECT_DELTA(what, live_blocks, made - half * (local_halves + remote_halves));
        uint64_t freed = now->free_local - then->free_local + now->free_remote - then->free_remote;
        CHECK_SAY(freed == half * (local_halves + remote_halves), "%s: %zu-byte class, %llu freed", what, size,
                  (unsigned long long)freed);
        if (settled) {
            EXPECT_DELTA(what, free_local, half * local_halves);
            EXPECT_DELTA(what, free_remote, half * remote_halves);
        }
    }
    uint64_t remote = remote_of_classes(&after) - remote_of_classes(&before);
    CHECK_SAY(after.remote_frees - before.remote_frees == remote, "%s: remote_frees %llu, classes say %llu", what,
              (unsigned long long)(after.remote_frees - before.remote_frees), (unsigned long long)remote);
    /* A batch may carry what was freed before the first snapshot: only the totals bound each other. */
    CHECK(after.remote_batches <= after.remote_frees);
}

/* In every class: what was allocated is freed or live; and the kinds of memory add up to what is resident. */
static void check_sums(const char *what) {
    CHECK(test_stats(&after) == 0);
    uint64_t live_bytes = 0;
    for (unsigned i = 0; i < after.class_count; i++) {
        const hak_class_stats_t *c = &after.classes[i];
        CHECK_SAY(c->alloc_count == c->free_local + c->free_remote + c->live_blocks,
                  "%s: %zu-byte class: %llu allocated, %llu + %llu freed, %llu live", what, c->block_size,
                  (unsigned long long)c->alloc_count, (unsigned long long)c->free_local,
                  (unsigned long long)c->free_remote, (unsigned long long)c->live_blocks);
        live_bytes += c->live_blocks * c->block_size;
    }
    CHECK(after.live >= live_bytes);
    uint64_t sum = after.live - after.untouched + after.cached + after.fragmented + after.metadata + after.retained;
    CHECK_SAY(after.resident == sum, "%s: resident %llu, parts add up to %llu (%llu %llu %llu %llu %llu)", what,
              (unsigned long long)after.resident, (unsigned long long)sum, (unsigned long long)after.live,
              (unsigned long long)after.cached, (unsigned long long)after.fragmented,
              (unsigned long long)after.metadata, (unsigned long long)after.retained);
    CHECK(after.resident <= after.mapped && after.mapped <= after.peak_mapped);
}

static void make(unsigned t) {
    for (unsigned s = 0; s < SIZES; s++)
        for (unsigned i = 0; i < count_of(s); i++) {
            blocks[t][s][i] = hak_malloc(sizes[s] - seal);
            CHECK(blocks[t][s][i] != NULL);
            memset(blocks[t][s][i], 1, 16);
        }
}

static void drop(unsigned t, unsigned odd) {
    for (unsigned s = 0; s < SIZES; s++)
        for (unsigned i = odd; i < count_of(s); i += 2)
            hak_free(blocks[t][s][i]);
}

static void one_thread(void) {
    CHECK(test_stats(&before) == 0);
    make(0);
    compare("one thread, made", 1, 0, 0);
    drop(0, 0);
    compare("one thread, half freed", 1, 1, 0);
    check_sums("one thread, half freed");
    drop(0, 1);
    compare("one thread, all freed", 1, 2, 0);
    check_sums("one thread, all freed");
}

static void *exchange(void *argument) {
    unsigned t = (unsigned)(uintptr_t)argument;
    make(t);
    pthread_barrier_wait(&barrier);
    drop(t, 0);
    drop((t + 1) % THREADS, 1);
    pthread_barrier_wait(&barrier);
    return NULL;
}

static void several_threads(void) {
    CHECK(test_stats(&before) == 0);
    pthread_t threads[THREADS];
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (unsigned t = 0; t < THREADS; t++)
        threads[t] = test_thread(exchange, (void *)(uintptr_t)t);
    for (unsigned t = 0; t < THREADS; t++)
        test_join(threads[t]);
    compare("several threads", THREADS, 1, 1);
    check_sums("several threads");
    CHECK_SAY(after.heaps_total - before.heaps_total == THREADS, "%llu heaps started",
              (unsigned long long)(after.heaps_total - before.heaps_total));
    CHECK(after.heaps_now == before.heaps_now);
}

static void large_and_huge(void) {
    void *large[50], *huge[5];
    CHECK(test_stats(&before) == 0);
    for (unsigned i = 0; i < 50; i++)
        large[i] = hak_malloc(TEST_MIB + i * 4096);
    for (unsigned i = 0; i < 5; i++)
        huge[i] = hak_malloc(3 * TEST_GIB);
    CHECK(test_stats(&after) == 0);
    CHECK(after.large_allocs - before.large_allocs == 50 && after.huge_allocs - before.huge_allocs == 5);
    CHECK(after.live - before.live >= 50 * TEST_MIB + 15 * TEST_GIB);
    for (unsigned i = 0; i < 50; i++)
        hak_free(large[i]);
    for (unsigned i = 0; i < 5; i++)
        hak_free(huge[i]);
    CHECK(test_stats(&after) == 0);
    CHECK(after.large_frees - before.large_frees == 50 && after.huge_frees - before.huge_frees == 5);
    CHECK_SAY(after.live == before.live, "live %llu, then %llu", (unsigned long long)before.live,
              (unsigned long long)after.live);
}

int main(void) {
    test_alarm(90);
    char level[8] = "";
    CHECK(hak_option_get("SAFE", level, sizeof level) == 0);
    seal = level[0] >= '2' ? 8 : 0;
    hak_free(hak_malloc(10));
    check_sums("at start");
    one_thread();
    several_threads();
    large_and_huge();
    (void)hak_trim(); /* slabs that changed hands come back */
    one_thread();
    CHECK(after.errors == 0);
    CHECK_HEAP();
    return TEST_PASS;
}
