/* SPDX-License-Identifier: MIT
 *
 * Huge pages for blocks of every size, where a program fills them: a heap of 256 MiB of blocks of 2 KiB to 16 MiB has
 * most of it in them, and is at most an eighth larger than what is live. And none where it does not: buffers of which a
 * quarter is used, in a heap of small blocks that are filled.
 */
#include "testing.h"

#include <sys/wait.h>

enum { HEAP_MIB = 256, BUFFERS = 100 };

static void grow(size_t bytes, size_t low, size_t high) {
    uint64_t random = 42;
    for (size_t live = 0, size; live < bytes; live += size) {
        size = low + test_random_below(&random, high - low);
        char *block = test_opaque(malloc(size));
        CHECK(block != NULL);
        memset(block, 1, size);
    }
}

static void filled(size_t low, size_t high) {
    long base = test_rss_kib();
    grow(HEAP_MIB * TEST_MIB, low, high);
    long rss = test_rss_kib() - base, huge = test_huge_kib();
    test_say("%zu - %zu bytes: %ld KiB resident, %ld %% in huge pages\n", low, high, rss, huge * 100 / rss);
    CHECK(huge >= rss * 7 / 10);
    CHECK(rss <= HEAP_MIB * 1024 / 8 * 9);
}

/* Holes go back although it takes the huge pages around them apart. */
static void thinned(size_t low, size_t high) {
    enum { BLOCKS = 8000 };
    static struct {
        char *block;
        size_t size;
    } all[BLOCKS];
    uint64_t random = 42;
    size_t live = 0;
    long base = test_rss_kib();
    for (unsigned i = 0; i < BLOCKS; i++) {
        all[i].size = low + test_random_below(&random, high - low);
        all[i].block = test_opaque(malloc(all[i].size));
        CHECK(all[i].block != NULL);
        memset(all[i].block, 1, all[i].size);
        live += all[i].size;
    }
    long full = test_rss_kib() - base, huge = test_huge_kib();
    for (unsigned i = 0; i < BLOCKS; i++)
        if (test_random_below(&random, 4) == 0) {
            free(all[i].block);
            live -= all[i].size;
        }
    long rss = full, enough = (long)(live / 1024 / 100 * 118);
    for (test_wait_t wait = test_wait_for(1500); rss > enough && test_wait_more(&wait);)
        rss = test_rss_kib() - base;
    test_say("%ld KiB, %ld of them huge; a quarter freed: %ld KiB, %zu live\n", full, huge, rss, live / 1024);
    CHECK(rss <= enough);
}

static void used_here_and_there(size_t low, size_t high) {
    grow(64 * TEST_MIB, low, high);
    long before = test_rss_kib();
    for (unsigned i = 0; i < BUFFERS; i++)
        memset(test_opaque(malloc(TEST_MIB)), 1, TEST_MIB / 4);
    long rss = test_rss_kib() - before;
    test_say("%d buffers of 1 MiB, a quarter of each used: %ld KiB resident\n", BUFFERS, rss);
    CHECK(rss <= BUFFERS * 1024 / 4 * 5 / 4);
}

typedef struct heap_case {
    void (*body)(size_t low, size_t high);
    size_t low, high;
} heap_case_t;

/* A fresh heap for each. */
static bool in_child(const heap_case_t *it) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        it->body(it->low, it->high);
        _exit(TEST_PASS);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) && WEXITSTATUS(status) == TEST_PASS;
}

int main(void) {
    test_require_hakmem();
    test_alarm(100);
    test_require_huge_pages();
    static const heap_case_t cases[] = {
        {used_here_and_there, 64, 8 * TEST_KIB}, {thinned, 8 * TEST_KIB, 32 * TEST_KIB},
        {filled, 2 * TEST_KIB, 4 * TEST_KIB},    {filled, 4 * TEST_KIB, 32 * TEST_KIB},
        {filled, 256 * TEST_KIB, TEST_MIB},      {filled, TEST_MIB, 4 * TEST_MIB},
        {filled, 4 * TEST_MIB, 16 * TEST_MIB},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        long before = test_huge_refused();
        bool right = in_child(&cases[i]);
        if (!right && test_huge_refused() != before)
            test_skip("the kernel had no huge page at hand");
        CHECK(right);
    }
    return TEST_PASS;
}
