/* SPDX-License-Identifier: MIT
 *
 * usdt.c: for usdt.py. For each line of its input it allocates 64 MiB in blocks of 100 to 20,000 bytes, a few of which
 * live at a time, frees them all, and prints how many bytes that were.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { BYTES = 64 << 20, KEPT = 16, SIZE_MIN = 100, SIZE_SPREAD = 19901 };

static size_t round_of_blocks(void) {
    static void *kept[KEPT];
    size_t bytes = 0;
    uint32_t random = 1;
    for (unsigned at = 0; bytes < BYTES; at = (at + 1) % KEPT) {
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

int main(void) {
    char line[16];
    while (fgets(line, sizeof line, stdin) != NULL) {
        printf("%zu\n", round_of_blocks());
        fflush(stdout);
    }
    return 0;
}
