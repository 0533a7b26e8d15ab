/* SPDX-License-Identifier: MIT
 *
 * usdt.c: for usdt.py. For each line of its input, a number of MiB, it allocates so much in blocks of 100 to 20,000
 * bytes, a few of which live at a time, frees them all, and prints how many bytes that were. With an argument it takes
 * 64 MiB and gives it back, asks for 3 GiB, and frees a block twice, whose address it prints.
 */
#include "testing.h"

enum { BYTES = 64 << 20, KEPT = 16, SIZE_MIN = 100, SIZE_SPREAD = 19901 };

static size_t round_of_blocks(size_t wanted) {
    static void *kept[KEPT];
    size_t bytes = 0;
    uint32_t random = 1;
    for (unsigned at = 0; bytes < wanted; at = (at + 1) % KEPT) {
        random = random * 1664525 + 1013904223;
        size_t size = SIZE_MIN + (random >> 8) % SIZE_SPREAD;
        free(kept[at]);
        kept[at] = malloc(size);
        bytes += size;
    }
    for (unsigned at = 0; at < KEPT; at++) {
        free(kept[at]);
        kept[at] = NULL;
    }
    return bytes;
}

static void events(void) {
    static void *volatile blocks[BYTES / 4096];
    const long before = test_rss_kib();
    for (unsigned i = 0; i < BYTES / 4096; i++)
        memset(blocks[i] = malloc(4096), 1, 4096);
    for (unsigned i = 0; i < BYTES / 4096; i++)
        free(blocks[i]);
    malloc_trim(0);
    /* What the helper gives back at this moment is not waited for. */
    for (test_wait_t wait = test_wait_for(10000); test_rss_kib() > before + 2048 && test_wait_more(&wait);)
        ;
    test_sleep_us(20000);
    void *volatile more = malloc((size_t)3 << 30);
    free(more);
    void *volatile twice = malloc(100);
    free(twice);
    printf("%p\n", twice);
    free(twice);
}

int main(int argc, char **argv) {
    (void)argv;
    if (argc > 1) {
        events();
        return 0;
    }
    char line[16];
    while (fgets(line, sizeof line, stdin) != NULL) {
        printf("%zu\n", round_of_blocks(strtoul(line, NULL, 10) << 20));
        fflush(stdout);
    }
    return 0;
}
