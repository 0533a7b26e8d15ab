/* SPDX-License-Identifier: MIT
 *
 * Heaps of threads that are over do not stay: neither when the program has taken all thread-specific keys, nor when the
 * library was opened by a thread that ends.
 *
 *   ended keys               all keys are taken before the second thread
 *   ended late LIBRARY       a thread that ends has opened the library
 *   ended late_keys LIBRARY  all keys are taken before it is opened
 *   ended last_round         threads first allocate in the last round but one of key destructors
 */
#include "testing.h"

#include <limits.h>
#include <stdatomic.h>

enum {
    THREADS = 600,
    AT_ONCE = 3,
    BLOCKS = 3000,
    BURST = 20000,
    WAIT_MS = 5000,
    HEAPS_MAX = 40,
    GROWTH_MAX_KIB = 16 * 1024
};

static const char *library_path;
static void *(*allocate)(size_t) = malloc;
static void (*release)(void *) = free;
static int (*get_stats)(hak_stats_t *);

static void use(unsigned count) {
    void **blocks = (void **)test_pages(count * sizeof *blocks);
    for (unsigned i = 0; i < count; i++)
        blocks[i] = memset(allocate(500 + i % 500), 1, 500);
    for (unsigned i = 0; i < count; i++)
        release(blocks[i]);
    CHECK(munmap(blocks, count * sizeof *blocks) == 0);
}

static uint64_t heaps_now(void) {
    hak_stats_t *stats = (hak_stats_t *)test_pages(sizeof *stats);
    stats->struct_size = sizeof *stats;
    CHECK(get_stats(stats) == 0);
    uint64_t now = stats->heaps_now;
    CHECK(munmap(stats, sizeof *stats) == 0);
    return now;
}

static void take_all_keys(void) {
    pthread_key_t key;
    unsigned count = 0;
    while (pthread_key_create(&key, NULL) == 0)
        count++;
    CHECK(count >= 100);
}

static void *symbol(void *library, const char *name) {
    void *found = dlsym(library, name);
    CHECK_SAY(found != NULL, "%s", name);
    return found;
}

/* Uses the library, and ends. What libc's malloc gave before goes back to it. */
static void *open_library(void *unused) {
    void *before = test_opaque(malloc(100));
    void *library = dlopen(library_path, RTLD_NOW | RTLD_LOCAL), *found[3];
    if (library == NULL)
        test_fail("failed: %s\n", dlerror());
    found[0] = symbol(library, "hak_malloc");
    found[1] = symbol(library, "hak_free");
    found[2] = symbol(library, "hak_stats_get");
    memcpy(&allocate, &found[0], sizeof found[0]);
    memcpy(&release, &found[1], sizeof found[1]);
    memcpy(&get_stats, &found[2], sizeof found[2]);
    release(before);
    use(BURST);
    return unused;
}

static void *use_some(void *unused) {
    use(BLOCKS);
    return unused;
}

/* A key's value is the rounds that are left before the thread uses the library. */
static pthread_key_t rounds_key;

static void use_in_last_round(void *rounds) {
    if (rounds == (void *)1)
        use(BLOCKS);
    else
        CHECK(pthread_setspecific(rounds_key, (char *)rounds - 1) == 0);
}

static void *use_when_over(void *unused) {
    CHECK(pthread_setspecific(rounds_key, (void *)(PTHREAD_DESTRUCTOR_ITERATIONS - 1L)) == 0);
    return unused;
}

static void *(*thread_body)(void *) = use_some;

static void come_and_go(void) {
    pthread_t threads[AT_ONCE];
    for (unsigned i = 0; i < AT_ONCE; i++)
        threads[i] = test_thread(thread_body, NULL);
    for (unsigned i = 0; i < AT_ONCE; i++)
        test_join(threads[i]);
}

/* The last ones end in a round of the helper, which comes when there is something to give back. */
static void check_heaps_end(uint64_t most) {
    uint64_t now = heaps_now();
    for (unsigned waited = 0; waited < WAIT_MS && now > most; waited += 50, now = heaps_now()) {
        test_join(test_thread(use_some, NULL));
        test_sleep_us(50000);
    }
    CHECK_SAY(now <= most, "%llu heaps", (unsigned long long)now);
}

int main(int argc, char **argv) {
    test_alarm(100);
    CHECK(argc >= 2);
    library_path = argc > 2 ? argv[2] : NULL;
    if (library_path == NULL)
        test_require_hakmem();
    const bool last_round = strcmp(argv[1], "last_round") == 0;
    if (last_round) {
        free(malloc(1)); /* its own key comes before, and so does its destructor in each round */
        CHECK(pthread_key_create(&rounds_key, use_in_last_round) == 0);
        thread_body = use_when_over;
    } else if (strcmp(argv[1], "late") != 0) {
        take_all_keys();
    }
    if (library_path == NULL)
        TEST_SYMBOL(get_stats, "hak_stats_get");
    else
        test_join(test_thread(open_library, NULL));
    for (unsigned i = 0; i < THREADS / 4; i += AT_ONCE)
        come_and_go();
    long before = test_rss_kib();
    for (unsigned i = 0; i < THREADS; i += AT_ONCE) {
        come_and_go();
        uint64_t now = heaps_now();
        CHECK_SAY(now < HEAPS_MAX, "%llu heaps after %u threads", (unsigned long long)now, i);
    }
    CHECK_SAY(test_rss_kib() < before + GROWTH_MAX_KIB, "%ld KiB, and %ld before", test_rss_kib(), before);
    bool told = strcmp(argv[1], "late") == 0; /* of each end at once; main asks for statistics */
    if (!last_round)                          /* the next threads with the same places end those */
        check_heaps_end(told ? 1 : library_path == NULL ? 1 + AT_ONCE : AT_ONCE);
    return TEST_PASS;
}
