/* SPDX-License-Identifier: MIT
 *
 * A thread builds much, frees most of it at random and ends; the main thread builds as much again at once. It must find
 * the room in the slabs that the thread left, however many there are, and not take new ones beside them.
 */
#include "testing.h"

#include <string.h>

enum { BLOCKS = 300000, SIZE_MIN = 64, SIZE_SPAN = 448, LEFT = 10 /* one of so many stays */, PERCENT_MAX = 125 };

static char *blocks[BLOCKS];
static uint64_t seed = 42;

static size_t build(unsigned char filling) {
    size_t built = 0;
    for (unsigned i = 0; i < BLOCKS; i++) {
        if (blocks[i] != NULL)
            continue;
        size_t size = SIZE_MIN + test_random_below(&seed, SIZE_SPAN);
        CHECK((blocks[i] = malloc(size)) != NULL);
        memset(blocks[i], filling, size);
        built += size;
    }
    return built;
}

static void *lives(void *built) {
    *(size_t *)built = build(1);
    for (unsigned i = 0; i < BLOCKS; i++) {
        if (test_random_below(&seed, LEFT) == 0)
            continue;
        free(blocks[i]);
        blocks[i] = NULL;
    }
    return NULL;
}

int main(void) {
    test_require_hakmem();
    test_alarm(60);
    const long before = test_rss_kib();
    size_t built;
    test_join(test_thread(lives, &built));
    (void)build(2);
    const long now = test_rss_kib() - before, lives_kib = (long)(built / TEST_KIB);
    CHECK_SAY(now < lives_kib * PERCENT_MAX / 100, "%ld KiB resident for %ld KiB of blocks", now, lives_kib);
    return 0;
}
