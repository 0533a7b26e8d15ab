// SPDX-License-Identifier: MIT
// thread_churn TOTAL ABREAST BLOCKS: threads are born and die. TOTAL threads, ABREAST at a time; each allocates BLOCKS
// of 16 - 2,048 bytes, frees three quarters of them and leaves the rest to the main thread, which frees them after the
// join. One operation is one thread.
#include "common.h"

typedef struct {
    void **block;
    size_t count;
    uint64_t seed;
} life;

static void *live(void *argument) {
    life *self = argument;
    bench_rng rng = bench_rng_make(self->seed);
    for (size_t i = 0; i < self->count; i++) {
        size_t size = bench_rng_range(&rng, 16, 2048);
        self->block[i] = bench_malloc(size);
        bench_touch_ends(self->block[i], size);
    }
    for (size_t i = 0; i < self->count; i++) {
        if (i % 4 == 3)
            continue;
        free(self->block[i]);
        self->block[i] = NULL;
    }
    return NULL;
}

static void bury(const life *self) {
    for (size_t i = 0; i < self->count; i++)
        free(self->block[i]);
}

int main(int argc, char **argv) {
    size_t total = bench_arg(argc, argv, 1, 20000);
    size_t abreast = bench_arg(argc, argv, 2, 4);
    size_t blocks = bench_arg(argc, argv, 3, 100);
    bench_begin();
    pthread_t *ids = bench_map(abreast * sizeof *ids);
    life *lives = bench_map(abreast * sizeof *lives);
    for (size_t i = 0; i < abreast; i++)
        lives[i] = (life){bench_map(blocks * sizeof(void *)), blocks, i};
    uint64_t begin = bench_now_ns();
    for (size_t born = 0; born < total; born += abreast) {
        for (size_t i = 0; i < abreast; i++)
            if (pthread_create(&ids[i], NULL, live, &lives[i]) != 0)
                bench_fail("pthread_create failed");
        for (size_t i = 0; i < abreast; i++) {
            pthread_join(ids[i], NULL);
            bury(&lives[i]);
        }
    }
    bench_result((double)total, bench_now_ns() - begin);
    return 0;
}
