/* SPDX-License-Identifier: MIT
 *
 * HAKMEM_LIMIT and hak_limit_set.
 *
 *   limit hard   (HAKMEM_LIMIT=0:200M) small and large requests fail with ENOMEM near 200 MiB, and work again after a
 *                free
 *   limit soft   (HAKMEM_LIMIT=100M, HAKMEM_PURGE_DELAY=3600000) what is freed near the limit comes back at once, until
 *                use is at 80 MiB
 *   limit set    hak_limit_set, its refusals and its reading back
 *   limit late   hak_limit_set when nothing but a block with a mapping of its own has been taken
 *   limit again  (HAKMEM_LIMIT=100M:100M) what was free at the limit serves other requests: calloc, and all at safety
 *                level 2
 *   limit files  (HAKMEM_LIMIT=0:200M) pages of mapped files do not count
 *   limit warmed (RLIMIT_AS of 128 MiB, HAKMEM_WARMUP=200M) a quarter of the address space is left
 *   limit warm   (HAKMEM_LIMIT=0:100M, HAKMEM_WARMUP=200M) warmed memory stays below the limit and is given up for
 *                requests
 */
#include "testing.h"

#include <fcntl.h>
#include <sys/mman.h>

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
    for (test_wait_t wait = test_wait_for(1000); test_rss_kib() > 80 * 1024 && test_wait_more(&wait);)
        ;
    CHECK_SAY(test_rss_kib() <= 80 * 1024, "%ld KiB a second after everything was freed", test_rss_kib());
}

static int limit_set(size_t soft, size_t hard) {
    int (*call)(size_t, size_t) = (int (*)(size_t, size_t))dlsym(RTLD_DEFAULT, "hak_limit_set");
    CHECK(call != NULL);
    return call(soft, hard);
}

static void late(void) {
    void *mapping = malloc(1500 * TEST_MIB);
    CHECK(mapping != NULL && limit_set(0, 60 * TEST_MIB) == 0);
    unsigned count = fill(1000, 150 * TEST_MIB);
    CHECK_SAY(test_rss_kib() < 68 * 1024, "%ld KiB resident", test_rss_kib());
    drop(count);
    free(mapping);
}

static void again(void) {
    for (unsigned round = 0; round < 5; round++) {
        drop(fill(round % 2 == 0 ? 20000 : TEST_MIB, 150 * TEST_MIB));
        void *zeros = calloc(1, 100000), *block = malloc(30000);
        CHECK_SAY(zeros != NULL && block != NULL, "round %u", round);
        CHECK(test_is_zero(zeros, 100000));
        free(zeros);
        free(block);
    }
}

/* A file of holes will do: its pages are the page cache's. */
static void files(void) {
    enum { BYTES = 250 << 20 };
    char path[] = "/var/tmp/hakmem-limit-XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0 && unlink(path) == 0 && ftruncate(fd, BYTES) == 0);
    const volatile char *file = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0);
    CHECK(file != MAP_FAILED);
    for (size_t at = 0; at < BYTES; at += 4096)
        (void)file[at];
    CHECK_SAY(test_rss_kib() > 240 * 1024, "%ld KiB resident", test_rss_kib());
    unsigned count = fill(5000, 150 * TEST_MIB);
    CHECK_SAY(count * (size_t)5000 >= 150 * TEST_MIB, "refused after %zu bytes", count * (size_t)5000);
    drop(count);
    close(fd);
}

static void warmed(void) {
    CHECK_SAY(test_rss_kib() > 50 * 1024 && test_rss_kib() < 100 * 1024, "%ld KiB resident at start", test_rss_kib());
}

static void warm(void) {
    warmed();
    unsigned count = fill(1000, 150 * TEST_MIB);
    CHECK_SAY(count * (size_t)1000 > 80 * TEST_MIB, "refused after %zu bytes", count * (size_t)1000);
    CHECK_SAY(test_rss_kib() < 106 * 1024, "%ld KiB resident", test_rss_kib());
    drop(count);
}

static void set(void) {
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
    const char *what = argc > 1 ? argv[1] : "";
    if (strncmp(what, "warm", 4) != 0)
        memset(blocks, 1, sizeof blocks);
    if (strcmp(what, "hard") == 0) {
        hard(1000);
        hard(TEST_MIB);
        hard(1000);
    } else if (strcmp(what, "soft") == 0) {
        soft();
    } else if (strcmp(what, "late") == 0) {
        late();
    } else if (strcmp(what, "again") == 0) {
        again();
    } else if (strcmp(what, "files") == 0) {
        files();
    } else if (strcmp(what, "warmed") == 0) {
        warmed();
    } else if (strcmp(what, "warm") == 0) {
        warm();
    } else {
        set();
    }
    return TEST_PASS;
}
