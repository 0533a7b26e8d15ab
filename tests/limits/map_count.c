/* SPDX-License-Identifier: MIT
 *
 * vm.max_map_count: the program itself uses up nearly all mappings that the kernel allows. Allocation then either works
 * or says ENOMEM, free never fails (an munmap that would have to split a mapping may), and when the mappings are back,
 * everything works and the heap is whole.
 */
#include "testing.h"

enum { HUGE_BLOCKS = 600, LARGE_BLOCKS = 2000, SPARE = 300 };

static void *blocks[HUGE_BLOCKS + LARGE_BLOCKS];

static long map_count_limit(void) {
    char text[32] = "";
    int fd = open("/proc/sys/vm/max_map_count", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (n <= 0)
        test_skip("max_map_count cannot be read");
    close(fd);
    return strtol(text, NULL, 10);
}

/* A buffer grows where what was freed before lies claimed and free: the kernel refuses to move its pages there. */
static void grow(void) {
    enum { FREED = 64 };
    static void *freed[FREED];
    for (unsigned i = 0; i < FREED; i++)
        freed[i] = calloc(1, 3 * TEST_MIB);
    size_t size = 5 * TEST_MIB;
    char *buffer = malloc(size);
    void *behind = malloc(3 * TEST_MIB);
    for (unsigned i = 0; i < FREED; i++)
        free(freed[i]);
    if (buffer != NULL)
        test_fill(buffer, size, 3);
    for (unsigned i = 0; i < 6 && buffer != NULL; i++) {
        char *larger = realloc(buffer, size * (i + 2));
        CHECK(larger != NULL || errno == ENOMEM);
        buffer = larger != NULL ? larger : buffer;
        CHECK(test_holds(buffer, size, 3));
    }
    free(buffer);
    free(behind);
}

/* One large mapping cut into as many as the kernel allows, by every second page's protection. */
static size_t use_up(char *base, size_t pages, bool all) {
    size_t cut = 0;
    for (size_t i = 1; i < pages; i += 2) {
        if (mprotect(base + i * 4096, 4096, PROT_READ) != 0)
            break;
        cut = i;
    }
    for (size_t i = cut; !all && i > cut - SPARE; i -= 2)
        mprotect(base + i * 4096, 4096, PROT_NONE);
    return cut;
}

static unsigned churn(uint64_t *random) {
    unsigned refused = 0;
    for (unsigned i = 0; i < HUGE_BLOCKS + LARGE_BLOCKS; i++) {
        size_t slot = test_random_below(random, HUGE_BLOCKS + LARGE_BLOCKS);
        size_t size = slot < HUGE_BLOCKS ? 1200 * TEST_MIB + slot * 4096 : 300000 + slot * 512;
        free(blocks[slot]);
        errno = 0;
        blocks[slot] = i % 3 ? malloc(size) : NULL;
        if (blocks[slot] != NULL)
            ((char *)blocks[slot])[0] = ((char *)blocks[slot])[size - 1] = 1;
        else if (i % 3) {
            CHECK(errno == ENOMEM);
            refused++;
        }
        void *small = malloc(100);
        if (small == NULL)
            refused++;
        free(small);
    }
    return refused;
}

int main(void) {
    test_require_hakmem();
    test_alarm(100);
    size_t pages = (size_t)map_count_limit() + 1000;
    if (pages > 2000000)
        test_skip("the limit is too high to be reached");
    char *base = (char *)mmap(NULL, pages * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(base != MAP_FAILED);
    uint64_t random = 5;
    CHECK_SAY(churn(&random) == 0, "%s", "refused with mappings to spare");
    for (int round = 0; round < 3; round++) {
        size_t cut = use_up(base, pages, round > 0);
        unsigned refused = churn(&random);
        grow();
        test_say("%zu mappings of ours: %u allocations refused\n", cut, refused);
        CHECK(mprotect(base, pages * 4096, PROT_NONE) == 0);
        CHECK_SAY(churn(&random) == 0, "%s", "refused though the mappings are back");
        CHECK_HEAP();
    }
    for (unsigned i = 0; i < HUGE_BLOCKS + LARGE_BLOCKS; i++)
        free(blocks[i]);
    CHECK_HEAP();
    return TEST_PASS;
}
