/* SPDX-License-Identifier: MIT
 *
 * nallocx against the blocks that come: a program writes as many bytes to them, or frees them with that size. At each
 * level, of ordinary memory and of an arena, from mallocx and from rallocx.
 */
#include "testing.h"

#include "../../bindings/jemalloc/names.h"

enum { ARENA_SHIFT = 20, ZERO = 0x40, TCACHE_NONE = 0x100, LG_MASK = 0x3f, NEIGHBOURS = 256 };

static int arena_bits;

/* Whether blocks have what nallocx says, and never more: not where one of a larger class may be lent. */
static bool is_exact;

static size_t align_of(int bits) { return (size_t)1 << (bits & LG_MASK); }

/* Uses the block as far as nallocx says, and frees it with that size. */
static void use(char *block, size_t size, int bits, const char *what) {
    size_t foretold = nallocx(size, bits), has = sallocx(block, 0);
    CHECK(block != NULL && ((uintptr_t)block & (align_of(bits) - 1)) == 0);
    CHECK_SAY(foretold >= size && foretold <= has, "%s, %zu bytes, flags %x: nallocx %zu, sallocx %zu", what, size,
              (unsigned)bits, foretold, has);
    memset(block + size, 0x5a, foretold - size);
    sdallocx(block, foretold, bits);
}

static void foretold(int bits) {
    for (int lg = 0; lg <= 22; lg++)
        for (size_t size = 1; size < 3000000; size += 1 + size / 7) {
            char *block = mallocx(size, bits | lg);
            CHECK_SAY(!is_exact || nallocx(size, bits | lg) == sallocx(block, 0),
                      "%zu bytes at 2^%d: nallocx %zu, sallocx %zu", size, lg, nallocx(size, bits | lg),
                      sallocx(block, 0));
            use(block, size, bits | lg, "mallocx");
        }
}

/* Alignments of more than a run, whose blocks have pages of their own, as those above 1 GiB. */
static void of_pages(int bits) {
    for (size_t size = 1; size < 2000000; size += 1 + size / 3)
        use(mallocx(size, bits | 31), size, bits | 31, "2 GiB");
    for (int lg = 0; lg <= 21; lg += 7) {
        size_t small = ((size_t)300 << 20) + 1;
        char *block = mallocx((size_t)2 << 30, bits | 21);
        if (block == NULL) /* no room for it */
            return;
        block[0] = block[small - 1] = 7;
        CHECK((block = rallocx(block, small, bits | lg)) != NULL && block[0] == 7 && block[small - 1] == 7);
        use(block, small, bits | lg, "2 GiB that shrink");
    }
}

static void resize(size_t old, int old_bits, size_t size, int bits) {
    char *block = mallocx(old, old_bits);
    memset(block, 7, old);
    size_t had = sallocx(block, 0), kept = old < size ? old : size;
    block = rallocx(block, size, bits);
    for (size_t i = 0; i < kept; i += 1 + kept / 16)
        CHECK_EQ(block[i], 7);
    if ((bits & ZERO) != 0 && sallocx(block, 0) > had)
        CHECK(test_is_zero(block + had, sallocx(block, 0) - had));
    use(block, size, bits, "rallocx");
}

/* What has the alignment already may stay, by chance: each pair comes more than once. */
static void resized(int bits) {
    for (int from = 0; from <= 15; from += 3)
        for (int to = from; to <= 15; to++)
            for (size_t old = 8; old < 500000; old += 1 + old * 3 / 5)
                for (size_t size = old / 4 + 1; size < 4 * old + 100; size += 1 + size / 2)
                    resize(old, bits | from, size, bits | to | (int)(size % 2) * ZERO);
    for (unsigned i = 0; i < 200; i++)
        resize(4096, bits | 12, 4096, bits | 13 | TCACHE_NONE);
    resize(100, bits, 5000, 1 << ARENA_SHIFT | 13);
    resize(5000, 1 << ARENA_SHIFT, 4096, bits | 14 | ZERO);
}

static void neighbours(int bits) {
    char *blocks[NEIGHBOURS], *others[NEIGHBOURS];
    for (unsigned i = 0; i < NEIGHBOURS; i++)
        blocks[i] = mallocx(16, bits);
    for (unsigned i = 0; i < NEIGHBOURS; i++)
        blocks[i] = rallocx(blocks[i], 16, bits | 5);
    for (unsigned i = 0; i < NEIGHBOURS; i++)
        memset(others[i] = mallocx(16, bits), 0x55, 16);
    for (unsigned i = 0; i < NEIGHBOURS; i++)
        memset(blocks[i], 0xee, nallocx(16, bits | 5));
    for (unsigned i = 0; i < NEIGHBOURS; i++) {
        CHECK_EQ(others[i][0], 0x55);
        sdallocx(others[i], 16, bits);
        sdallocx(blocks[i], nallocx(16, bits | 5), bits | 5);
    }
}

static void impossible(void) {
    char *block = mallocx(100, 0);
    CHECK_EQ(nallocx((size_t)1 << 50, 0), 0);
    CHECK_EQ(nallocx((size_t)1 << 50, 12), 0);
    CHECK_EQ(nallocx(SIZE_MAX, 12), 0);
    CHECK_EQ(nallocx(1, 62), 0);
    CHECK(mallocx((size_t)1 << 50, 0) == NULL && mallocx((size_t)1 << 50, 12) == NULL);
    CHECK(mallocx(SIZE_MAX, 12) == NULL && mallocx(1, 62) == NULL);
    CHECK(rallocx(block, (size_t)1 << 50, 0) == NULL && rallocx(block, SIZE_MAX, 12) == NULL);
    CHECK(rallocx(block, 100, 62) == NULL);
    dallocx(block, 0);
}

int main(int argc, char **argv) {
    unsigned arena = 0;
    size_t size = sizeof arena;
    test_alarm(120);
    CHECK_EQ(mallctl("arenas.create", &arena, &size, NULL, 0), 0);
    arena_bits = (int)((arena + 1) << ARENA_SHIFT);
    is_exact = argc > 1 && strcmp(argv[1], "exact") == 0;
    for (int i = 0; i < 2; i++) {
        int bits = i == 0 ? 0 : arena_bits;
        foretold(bits);
        resized(bits);
        neighbours(bits);
        of_pages(bits);
    }
    impossible();
    CHECK_EQ(hak_check(), 0);
    return TEST_PASS;
}
