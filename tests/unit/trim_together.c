/* SPDX-License-Identifier: MIT
 *
 * Two threads trim at the same time: what one of them had freed before is gone when its call returns, whichever of the
 * two did the work.
 */
#include "heap_places.h"
#include "slow/reclaim.h"
#include "superslab/superslab.h"

#include <pthread.h>

enum { ROUNDS = 2000 };

static _Atomic bool is_over;

static void *trims(void *unused) {
    (void)unused;
    while (!atomic_load(&is_over))
        (void)hk_trim_all();
    return NULL;
}

int main(void) {
    pthread_t thread;
    (void)start_heap();
    CHECK(pthread_create(&thread, NULL, trims, NULL) == 0);
    for (unsigned i = 0; i < ROUNDS; i++) {
        char *block = heap_malloc_slow(3 * HK_MIB);
        CHECK(block != NULL);
        block[0] = 1;
        release(block);
        (void)hk_trim_all();
        CHECK_EQ(superslab_dirty_bytes(), 0);
    }
    atomic_store(&is_over, true);
    CHECK(pthread_join(thread, NULL) == 0);
    return CHECK_PASS;
}
