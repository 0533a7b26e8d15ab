/* SPDX-License-Identifier: MIT
 *
 * The emergency arena against a model: blocks never overlap, keep what is written into them, are as large and as
 * aligned as asked for, and what was freed serves again. With its lock taken, no call waits, and nothing is lost but
 * what is freed then.
 */
#include "start/emergency.h"

#include "check.h"
#include "core/lock.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum { BLOCKS = 400, STEPS = 60000 };

static struct live {
    unsigned char *at;
    size_t size;
    unsigned char seed;
} lives[BLOCKS];

static uint64_t state = 7;

static uint64_t next_random(void) {
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return state >> 33;
}

static void verify(const struct live *live) {
    for (size_t i = 0; i < live->size; i += live->size / 64 + 1)
        CHECK_EQ(live->at[i], live->seed);
    CHECK(emergency_size(live->at) >= live->size);
}

static void replace(struct live *live) {
    if (live->at != NULL) {
        verify(live);
        emergency_free(live->at);
    }
    size_t align = (size_t)16 << next_random() % 8;
    live->size = 1 + next_random() % ((size_t)1 << (4 + next_random() % 15));
    live->seed = (unsigned char)next_random();
    live->at = emergency_alloc(live->size, align);
    CHECK(live->at != NULL && (uintptr_t)live->at % align == 0);
    memset(live->at, live->seed, live->size);
}

static void against_a_model(void) {
    for (unsigned i = 0; i < STEPS; i++)
        replace(&lives[next_random() % BLOCKS]);
    for (unsigned i = 0; i < BLOCKS; i++)
        if (lives[i].at != NULL)
            verify(&lives[i]);
}

/* 60,000 blocks came and went; the stretch would not hold them side by side if none had served twice. */
static void serves_again(void) {
    void *run = emergency_alloc(3 << 20, 16);
    emergency_free(run);
    CHECK(emergency_alloc(3 << 20, 16) != NULL);
    for (unsigned i = 0; i < 100000; i++) {
        void *block = emergency_alloc(1 << 20, 16);
        CHECK(block != NULL); /* 100 GiB in all */
        emergency_free(block);
    }
}

static void is_none_of_it(void) {
    char *block = emergency_alloc(100, 16), *run = emergency_alloc(200000, 16);
    CHECK_EQ(emergency_size(block), 128);
    CHECK_EQ(emergency_size(block + 16), 0);
    CHECK_EQ(emergency_size(run + 65536), 0);
    CHECK_EQ(emergency_size(&block), 0);
    emergency_free(run);
    CHECK_EQ(emergency_size(run), 0);
    emergency_free(block);
    emergency_free(block); /* once more */
    CHECK(emergency_alloc(100, 16) == block);
    CHECK(emergency_alloc(100, 16) != block);
}

static void too_much(void) {
    CHECK(emergency_alloc((size_t)1 << 40, 16) == NULL);
    CHECK(emergency_alloc(SIZE_MAX - 100, 16) == NULL);
}

static void never_waits(void) {
    void *before = emergency_alloc(100, 16);
    CHECK(hk_try_lock(&hk_emergency_lock));
    char *block = emergency_alloc(100, 16), *other = emergency_alloc(100000, 65536);
    CHECK(block != NULL && other != NULL && (uintptr_t)other % 65536 == 0);
    emergency_free(before);
    emergency_free(block);
    emergency_free(other);
    hk_unlock(&hk_emergency_lock);
    CHECK(emergency_alloc(100, 16) != NULL);
}

/* As much address space as there is. Where there is none to be had (a sanitizer takes all), the pool stays empty. */
static void little_space(void) {
    struct rlimit limit = {(rlim_t)1 << 30, (rlim_t)1 << 30};
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    void *some = mmap(NULL, 200 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    bool has_room = some != MAP_FAILED && munmap(some, 200 << 20) == 0;
    CHECK(emergency_alloc(100, 16) == NULL); /* not open yet */
    emergency_open();
    CHECK((emergency_alloc(100 << 20, 16) != NULL) == has_room);
}

int main(void) {
    char text[200];
    if (!HK_TSAN) /* which does not live on under such a limit */
        CHECK_EQ(check_child(little_space, 2, text, sizeof text), 0);
    emergency_open();
    emergency_open();
    is_none_of_it();
    against_a_model();
    serves_again();
    too_much();
    never_waits();
    return CHECK_PASS;
}
