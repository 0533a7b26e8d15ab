/* SPDX-License-Identifier: MIT
 *
 * Memory that went back within slabs in use comes again page by page, and of that nothing is counted. A process that
 * fills it again while other memory lies free stays below its hard limit all the same: the free memory goes back first.
 */
#include "testing.h"

#include <hakmem.h>

enum {
    LIMIT_MIB = 128,
    FILLED_MIB = 88, /* of each size, most of it freed again */
    STRETCH = 64 * 1024,
    KEPT = 8 * 1024, /* of each stretch */
    BLOCKS_MAX = FILLED_MIB * 1024,
    ROUNDS = 4,
};

typedef struct filling {
    size_t size;
    void *blocks[BLOCKS_MAX];
} filling_t;

static bool is_kept(const filling_t *f, size_t at) { return at * f->size % STRETCH < KEPT; }

static void fill(filling_t *f) {
    for (size_t i = 0; i < FILLED_MIB * TEST_MIB / f->size; i++) {
        if (f->blocks[i] != NULL)
            continue;
        f->blocks[i] = test_opaque(malloc(f->size));
        CHECK(f->blocks[i] != NULL && memset(f->blocks[i], 1, f->size) != NULL);
    }
}

static void thin(filling_t *f) {
    for (size_t i = 0; i < FILLED_MIB * TEST_MIB / f->size; i++)
        if (!is_kept(f, i)) {
            free(f->blocks[i]);
            f->blocks[i] = NULL;
        }
}

int main(void) {
    static filling_t one = {.size = 1024}, other = {.size = 3072};
    test_alarm(100);
    CHECK(hak_limit_set(LIMIT_MIB * TEST_MIB, LIMIT_MIB * TEST_MIB) == 0);
    for (unsigned round = 0; round < ROUNDS; round++) {
        fill(&one);
        thin(&one);
        fill(&other);
        thin(&other);
    }
    const long most = test_status_kib("VmHWM:") - test_status_kib("RssFile:");
    test_say("%ld KiB at the most\n", most);
    CHECK(most <= LIMIT_MIB * 1024);
    return TEST_PASS;
}
