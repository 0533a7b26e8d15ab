// SPDX-License-Identifier: MIT
// tiny: a small program. It allocates 32 objects, uses them, frees them and ends.
#include "common.h"

int main(void) {
    void *block[32];
    bench_begin();
    for (size_t i = 0; i < 32; i++) {
        block[i] = bench_malloc(16 + i * 8);
        bench_touch_ends(block[i], 16 + i * 8);
    }
    for (size_t i = 0; i < 32; i++)
        free(block[i]);
    bench_open_result();
    bench_close_result();
    return 0;
}
