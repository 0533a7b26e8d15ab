/* SPDX-License-Identifier: MIT
 *
 * Metadata memory: rounded to powers of two, aligned, without overlap, used again, refused above 16 MiB.
 */
#include "map/meta.h"
#include "rooms.h"

#include <pthread.h>

enum { PIECES = 300, THREADS = 2, TURNS = 3000, HELD = 16 };

static void sizes(void) {
    CHECK_EQ(meta_good_size(0), 64);
    CHECK_EQ(meta_good_size(1), 64);
    CHECK_EQ(meta_good_size(64), 64);
    CHECK_EQ(meta_good_size(65), 128);
    CHECK_EQ(meta_good_size(4097), 8192);
    CHECK_EQ(meta_good_size(16 * HK_MIB), 16 * HK_MIB);
    CHECK(meta_alloc(16 * HK_MIB + 1) == NULL);
    CHECK(meta_alloc(SIZE_MAX) == NULL);
    char *largest = meta_alloc(16 * HK_MIB);
    CHECK(largest != NULL);
    largest[0] = largest[16 * HK_MIB - 1] = 1;
    meta_free(largest, 16 * HK_MIB);
    CHECK(meta_alloc(9 * HK_MIB) == largest);
    meta_free(NULL, 64);
}

static size_t size_of(unsigned i) { return (size_t)1 + (i * 2654435761u) % (i % 7 == 0 ? 20000 : 700); }

static void distinct(void) {
    static unsigned char *pieces[PIECES];
    for (unsigned i = 0; i < PIECES; i++) {
        pieces[i] = meta_alloc(size_of(i));
        CHECK(pieces[i] != NULL);
        size_t good = meta_good_size(size_of(i));
        CHECK_EQ((uintptr_t)pieces[i] % hk_min(good, 4096), 0);
        CHECK_EQ(map_lookup(pieces[i]), 0);
        memset(pieces[i], (int)i, good);
    }
    for (unsigned i = 0; i < PIECES; i++)
        for (size_t k = 0; k < meta_good_size(size_of(i)); k++)
            CHECK_EQ(pieces[i][k], (unsigned char)i);
    size_t before = region_area_bytes();
    for (unsigned turn = 0; turn < 10; turn++) {
        for (unsigned i = 0; i < PIECES; i++)
            meta_free(pieces[i], size_of(i));
        for (unsigned i = PIECES; i-- > 0;)
            pieces[i] = meta_alloc(size_of(i));
    }
    CHECK_EQ(region_area_bytes(), before);
    meta_free(pieces[0], 100);
    CHECK(meta_alloc(128) == pieces[0]);
}

static void *exchange(void *seed) {
    uint64_t random = (uintptr_t)seed, *held[HELD] = {NULL};
    for (unsigned i = 0; i < TURNS; i++) {
        uint64_t **at = &held[next_random(&random) % HELD];
        if (*at != NULL) {
            CHECK(**at == (uintptr_t)at);
            meta_free(*at, 64);
        }
        *at = meta_alloc(64);
        CHECK(*at != NULL);
        **at = (uintptr_t)at;
    }
    return NULL;
}

/* With huge pages earned, a new piece lies at the border of one; what was there before is used again first. */
static void huge_pages(void) {
    char *small = meta_alloc(64);
    CHECK((uintptr_t)small % HK_SUPERSLAB_SIZE != 0);
    meta_free(small, 64);
    region_earn_huge_records(true);
    CHECK(meta_alloc(64) == small);
    char *first = meta_alloc(4096), *second = meta_alloc(4096);
    CHECK_EQ((uintptr_t)first % HK_SUPERSLAB_SIZE, 0);
    CHECK(second == first + 4096);
    memset(first, 1, 8192);
    CHECK_EQ(region_area_size(REGION_AREA_META) % HK_SUPERSLAB_SIZE, 512 * HK_KIB);
}

int main(void) {
    start_map();
    in_child(huge_pages);
    sizes();
    distinct();
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, exchange, (void *)(i + 1)) == 0);
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    return CHECK_PASS;
}
