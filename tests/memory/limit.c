/* SPDX-License-Identifier: MIT
 *
 * HAKMEM_LIMIT and hak_limit_set.
 *
 *   limit hard   (HAKMEM_LIMIT=0:200M) small and large requests fail with ENOMEM near 200 MiB, and work again after a free
 *   limit soft   (HAKMEM_LIMIT=100M, HAKMEM_PURGE_DELAY=3600000) what is freed near the limit comes back at once, until
 *                use is at 80 MiB
 *   limit set    hak_limit_set, its refusals and its reading back
 */
#include "testing.h"

enum { COUNT = 1 << 18 };

static void *blocks[COUNT];
static hak_stats_t stats;

/* Takes blocks until a request fails or `most` bytes are there; returns how many. */
static unsigned fill(size_t size, size_t most) {
    unsigned count = 0;
    for (size_t bytes = 0; bytes < most && count < COUNT; bytes += size, count++) {
        errno = 0;
        blocks[count] = malloc(size);
        if (blocks[count] == NULL) {
            CHECK(errno == ENOMEM);
            break;
        }
        memset(blocks[count], 1, size);
    }
    return count;
}

static void drop(unsigned count) {
    while (count > 0)
        free(blocks[--count]);
}

static void hard(size_t size) {
    unsigned count = fill(size, 400 * TEST_MIB);
    long kib = test_rss_kib();
    CHECK_SAY(kib < 208 * 1024, "%ld KiB resident with blocks of %zu", kib, size);
    CHECK_SAY(count * size > 150 * TEST_MIB, "refused after %zu bytes", count * size);
    CHECK(malloc(300 * TEST_MIB) == NULL && errno == ENOMEM);
    drop(count);
    CHECK(test_stats(&stats) == 0 && stats.limit_refusals > 0 && stats.limit_hard == 200 * TEST_MIB);
}

static void soft(void) {
    unsigned count = fill(1000, 98 * TEST_MIB);
    CHECK(test_stats(&stats) == 0 && stats.limit_nears == 1 && stats.limit_soft == 100 * TEST_MIB);
    drop(count);
    for (unsigned i = 0; i < 10 && test_rss_kib() > 80 * 1024; i++)
        test_sleep_us(100000);
    CHECK_SAY(test_rss_kib() <= 80 * 1024, "%ld KiB a second after everything was freed", test_rss_kib());
}

static void set(void) {
    int (*limit_set)(size_t, size_t) = (int (*)(size_t, size_t))dlsym(RTLD_DEFAULT, "hak_limit_set");
    CHECK(limit_set != NULL);
    CHECK(limit_set(2 * TEST_GIB, TEST_GIB) == EINVAL);
    CHECK(limit_set(0, 100 * TEST_MIB) == 0);
    CHECK(malloc(150 * TEST_MIB) == NULL);
    void *block = malloc(50 * TEST_MIB);
    CHECK(block != NULL);
    CHECK(realloc(block, 150 * TEST_MIB) == NULL && errno == ENOMEM);
    CHECK(limit_set(0, 0) == 0);
    block = realloc(block, 150 * TEST_MIB);
    CHECK(block != NULL);
    free(block);
}

int main(int argc, char **argv) {
    test_require_hakmem();
    test_alarm(60);
    memset(blocks, 1, sizeof blocks);
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "hard") == 0) {
        hard(1000);
        hard(TEST_MIB);
        hard(1000);
    } else if (strcmp(what, "soft") == 0) {
        soft();
    } else {
        set();
    }
    return TEST_PASS;
}
