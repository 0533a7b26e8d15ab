/* SPDX-License-Identifier: MIT
 *
 * Blocks of size 0 at HAKMEM_SAFE=2 and 3: each has an address of its own that nobody can read, none is handed out
 * twice, and a free knows which are the program's.
 */
#include "check.h"
#include "heap/nothing.h"
#include "report/describe.h"
#include "rooms.h"
#include "sys/sys.h"

static char *blocks[NOTHING_COUNT];

static int by_address(const void *a, const void *b) {
    char *const *left = a, *const *right = b;
    return *left < *right ? -1 : *left > *right;
}

/* For the report of a crash; none of its bytes is the program's. */
static void is_described(const char *block, bool is_free) {
    hk_description_t found;
    CHECK(hk_describe(block + 5, &found) && found.where == HK_WHERE_APART && found.block == block);
    CHECK(found.block_size == 0 && found.offset == 5 && found.is_free == is_free && !hk_owns(block + 5));
}

/* As many as there are of such addresses. */
static void aligned_ones(size_t align) {
    unsigned count = 0;
    for (char *p; (p = nothing_alloc(align)) != NULL; blocks[count++] = p)
        CHECK((uintptr_t)p % align == 0 && nothing_is_live(p) && count < NOTHING_COUNT);
    CHECK_EQ(count, NOTHING_COUNT * NOTHING_STEP / align);
    while (count > 0)
        CHECK(nothing_free(blocks[--count]));
}

int main(void) {
    CHECK(!nothing_holds(blocks) && !nothing_free(blocks) && !nothing_holds(NULL));
    for (size_t align = NOTHING_STEP; align <= NOTHING_ALIGN_MAX; align *= 2)
        aligned_ones(align);
    for (unsigned i = 0; i < NOTHING_COUNT; i++)
        CHECK((blocks[i] = nothing_alloc(1)) != NULL && nothing_is_live(blocks[i]));
    CHECK(nothing_alloc(1) == NULL);
    CHECK(!sys_is_readable((uintptr_t)blocks[7]));
    CHECK(nothing_holds(blocks[7] + 3) && !nothing_is_live(blocks[7] + 3) && !nothing_free(blocks[7] + 3));
    is_described(blocks[7], false);
    CHECK(nothing_free(blocks[7]) && !nothing_is_live(blocks[7]) && !nothing_free(blocks[7]));
    is_described(blocks[7], true);
    CHECK(nothing_alloc(1) == blocks[7]);
    qsort(blocks, NOTHING_COUNT, sizeof *blocks, by_address);
    for (unsigned i = 1; i < NOTHING_COUNT; i++)
        CHECK(blocks[i] - blocks[i - 1] == NOTHING_STEP);
    for (unsigned i = 0; i < NOTHING_COUNT; i++)
        CHECK(nothing_free(blocks[i]));
    CHECK(!nothing_free(blocks[0] - NOTHING_STEP) && !nothing_free(blocks[NOTHING_COUNT - 1] + NOTHING_STEP));
    return CHECK_PASS;
}
