/* SPDX-License-Identifier: MIT
 *
 * Several threads run out of memory together, again and again: each allocates random sizes until it is refused, frees
 * part of what it has, and goes on; blocks are also freed by the neighbour. Nothing crashes, hangs or is lost: in the
 * end one thread can have as much as all had.
 */
#include "testing.h"

#include <sys/resource.h>

enum { THREADS = 4, BLOCKS = 20000, ROUNDS = 6, LIMIT_KIB = 400000 };

typedef struct block {
    unsigned char *address;
    size_t size;
    uint64_t seed;
} block_t;

static block_t *tables[THREADS];
static pthread_barrier_t barrier;

static size_t fill_up(block_t *table, uint64_t *random) {
    size_t taken = 0;
    for (unsigned i = 0; i < BLOCKS; i++) {
        block_t *b = &table[i];
        if (b->address != NULL)
            continue;
        b->size = test_random_log_size(random, i % 32 == 0 ? 8 * TEST_MIB : 60000);
        errno = 0;
        b->address = (unsigned char *)(i % 4 ? malloc(b->size) : calloc(1, b->size));
        if (b->address == NULL) {
            CHECK(errno == ENOMEM);
            if (b->size < 4096)
                break;
            continue;
        }
        b->seed = test_random(random);
        test_fill(b->address, b->size, b->seed);
        taken += b->size;
    }
    return taken;
}

static void give_back(block_t *table, unsigned step) {
    for (unsigned i = 0; i < BLOCKS; i += step)
        if (table[i].address != NULL) {
            CHECK(test_holds(table[i].address, table[i].size, table[i].seed));
            free(table[i].address);
            table[i].address = NULL;
        }
}

static void *run(void *argument) {
    size_t t = (size_t)(uintptr_t)argument;
    uint64_t random = t + 1;
    for (unsigned round = 0; round < ROUNDS; round++) {
        fill_up(tables[t], &random);
        pthread_barrier_wait(&barrier);
        give_back(tables[(t + 1) % THREADS], 1 + round % 3);
        pthread_barrier_wait(&barrier);
    }
    give_back(tables[t], 1);
    return NULL;
}

int main(int argc, char **argv) {
    test_require_hakmem();
    test_alarm(100);
    if (argc == 1) {
        char under[] = "under";
        char *const again[] = {argv[0], under, NULL};
        struct rlimit limit = {LIMIT_KIB * 1024, LIMIT_KIB * 1024};
        CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
        execv("/proc/self/exe", again);
        return TEST_FAIL;
    }
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (unsigned t = 0; t < THREADS; t++)
        tables[t] = (block_t *)test_pages(BLOCKS * sizeof(block_t));
    pthread_t threads[THREADS];
    for (unsigned t = 0; t < THREADS; t++)
        threads[t] = test_thread(run, (void *)(uintptr_t)t);
    for (unsigned t = 0; t < THREADS; t++)
        test_join(threads[t]);
    CHECK_HEAP();
    uint64_t random = 77;
    size_t taken = fill_up(tables[0], &random);
    test_say("in the end one thread gets %zu MiB\n", taken / TEST_MIB);
    CHECK(taken > (size_t)LIMIT_KIB * 1024 / 4);
    give_back(tables[0], 1);
    CHECK_HEAP();
    return TEST_PASS;
}
