/* SPDX-License-Identifier: MIT
 *
 * At level 3 an address of a small block is one of its size for good: 2 MiB that once held blocks of a size class hold
 * no others, and no long block lies in them, whatever is freed, trimmed and grown by whichever thread. With
 * `tight`: near a limit of address space, where one size after another gets nearly all of it. With `again`: what is
 * taken again is resident.
 */
#include "testing.h"

#include "hakmem.h"

#include <stdatomic.h>
#include <sys/resource.h>

enum { THREADS = 4, ROUNDS = 60, BLOCKS_MAX = 3000, WINDOW = 1 << 23, SLOT = 64 * 1024, MANY = 150 * 1024 * 16 };
enum { NOBODY = 0, FIRST = 1, LONG = 100 };

/* Of a class each. */
static const size_t small_sizes[] = {8, 40, 200, 1000, 3000, 9000, 20000, 50000, 120000, 200000};
static const size_t long_sizes[] = {300000, 1 << 20, 3 << 20};

/* Whose each 2 MiB of the window are, which is of 16 TiB. Long blocks have no claim to them. */
static _Atomic unsigned char *owners;

static _Atomic unsigned char *owner_of(const char *address) {
    return &owners[(uintptr_t)address / (2 * TEST_MIB) % WINDOW];
}

static void must_belong(const char *block, size_t size, unsigned char owner) {
    for (size_t at = 0; at < size; at += SLOT) {
        _Atomic unsigned char *owned = owner_of(block + at);
        unsigned char before = atomic_load(owned);
        bool is_mine = before == owner;
        while (!is_mine && (before == NOBODY || before == LONG))
            is_mine = atomic_compare_exchange_weak(owned, &before, owner) || before == owner;
        CHECK_SAY(is_mine, "%p + %zu of %zu bytes: the 2 MiB were those of %u, and not of %u", (const void *)block, at,
                  size, before, owner);
    }
}

static void *churn(void *argument) {
    uint64_t state = (uintptr_t)argument;
    char **blocks = test_pages(BLOCKS_MAX * sizeof *blocks);
    for (unsigned round = 0; round < ROUNDS; round++) {
        bool is_long = test_random_below(&state, 3) == 0;
        unsigned i = (unsigned)test_random_below(&state, is_long ? 3 : 10);
        size_t size = is_long ? long_sizes[i] : small_sizes[i], count = 1 + 12 * TEST_MIB / size;
        unsigned char owner = is_long ? LONG : (unsigned char)(i + 1);
        count = count < BLOCKS_MAX ? count : BLOCKS_MAX;
        for (size_t b = 0; b < count; b++) {
            blocks[b] = malloc(size);
            CHECK(blocks[b] != NULL);
            blocks[b][0] = blocks[b][size - 1] = 1;
            must_belong(blocks[b], size, owner);
        }
        /* In place, where what follows is free. */
        for (size_t b = 0; is_long && b < count; b++) {
            blocks[b] = realloc(blocks[b], size + 4 * SLOT);
            CHECK(blocks[b] != NULL);
            must_belong(blocks[b], size + 4 * SLOT, owner);
        }
        for (size_t b = 0; b < count; b++)
            free(blocks[b]);
        if (round % 8 == 0)
            malloc_trim(0);
    }
    CHECK(munmap(blocks, BLOCKS_MAX * sizeof *blocks) == 0);
    return NULL;
}

static char *many[MANY];

/* Of each size some blocks stay. Their 2 MiB do not go; those of the first, which came before the limit was reached,
 * hold no others. */
static void use_all_for_each_size(void) {
    enum { SIZES = 5, LIMIT_MIB = 320, USED_MIB = 150, STAYS = 16 << 20 };
    static const size_t sizes[SIZES] = {64, 1000, 9000, 300000, 3000};
    static char *stay[SIZES][USED_MIB];
    const struct rlimit limit = {LIMIT_MIB * TEST_MIB, LIMIT_MIB * TEST_MIB};
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    for (unsigned i = 0; i < SIZES; i++) {
        size_t count = 0, stayed = 0;
        for (; count * sizes[i] < USED_MIB * TEST_MIB; count++) {
            many[count] = malloc(sizes[i]);
            CHECK_SAY(many[count] != NULL, "%zu of %zu bytes are all", count, sizes[i]);
            many[count][0] = 1;
            CHECK_SAY(atomic_load(owner_of(many[count])) == NOBODY, "%zu bytes among others", sizes[i]);
        }
        for (size_t b = 0; b < count; b++)
            if (b * sizes[i] / STAYS < (b + 1) * sizes[i] / STAYS)
                stay[i][stayed++] = many[b];
            else
                free(many[b]);
        for (size_t b = 0; i == 0 && b < stayed; b++)
            atomic_store(owner_of(stay[i][b]), FIRST);
        malloc_trim(0);
    }
    for (unsigned i = 0; i < SIZES; i++)
        for (size_t b = 0; b < USED_MIB; b++)
            free(stay[i][b]);
}

/* What was freed and is resident serves before what went back to the kernel. */
static void use_again(void) {
    enum { ONCE_MIB = 150, PHASE_MIB = 15, PHASES = 10, SIZE = 1000 };
    struct rusage first, last;
    for (unsigned phase = 0; phase <= PHASES; phase++) {
        size_t count = (phase == 0 ? ONCE_MIB : PHASE_MIB) * TEST_MIB / SIZE;
        for (size_t b = 0; b < count; b++) {
            many[b] = malloc(SIZE);
            CHECK(many[b] != NULL);
            memset(many[b], 1, SIZE);
        }
        for (size_t b = 0; b < count; b++)
            free(many[b]);
        if (phase == 0)
            malloc_trim(0);
        if (phase == 1)
            CHECK(getrusage(RUSAGE_SELF, &first) == 0);
    }
    CHECK(getrusage(RUSAGE_SELF, &last) == 0);
    long faults = last.ru_minflt - first.ru_minflt, phase = PHASE_MIB * TEST_MIB / 4096;
    CHECK_SAY(faults < 2 * phase, "%ld faults in %d phases of %ld pages each", faults, PHASES - 1, phase);
}

int main(int argc, char **argv) {
    pthread_t threads[THREADS];
    test_require_hakmem();
    test_alarm(60);
    owners = test_pages(WINDOW);
    if (argc > 1 && strcmp(argv[1], "tight") == 0) {
        use_all_for_each_size();
        CHECK(hak_check() == 0);
        return TEST_PASS;
    }
    if (argc > 1 && strcmp(argv[1], "again") == 0) {
        use_again();
        return TEST_PASS;
    }
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, churn, (void *)(i + 1)) == 0);
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(hak_check() == 0);
    return TEST_PASS;
}
