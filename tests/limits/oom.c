/* SPDX-License-Identifier: MIT
 *
 * Out of memory is an ordinary answer.
 *
 *   oom as KIB | oom data KIB     the limit is set, then the program starts itself anew under it
 *   oom late KIB                  the limit is set while the program runs, KIB above what it uses then
 *   oom none KIB                  no limit of ours: stops at KIB (for limits that a script has set)
 *
 * For each of several sizes: allocates until NULL (ENOMEM), tries every other call as well (each must say ENOMEM and
 * leave the old block alone), verifies contents, frees everything and must then get as much again. Free works all the
 * time.
 */
#include "testing.h"

#include <sys/resource.h>

enum { BLOCKS_MAX = 4000000 };

static void **blocks;
static size_t stop_bytes;

/* Stamps both ends, so that every page that was promised at the ends is there. */
static void stamp(void *p, size_t size, size_t i) {
    size_t n = size < 4096 ? size : 4096;
    test_fill(p, n, i);
    ((char *)p)[size - 1] = (char)i;
}

static void verify(void *p, size_t size, size_t i) {
    size_t n = size < 4096 ? size - 1 : 4096;
    CHECK_SAY(test_holds(p, n, i) && ((char *)p)[size - 1] == (char)i, "block %zu of %zu bytes changed", i, size);
}

static size_t fill_up(size_t size) {
    size_t count = 0;
    errno = 0;
    while (count < BLOCKS_MAX && count * size < stop_bytes) {
        void *p = malloc(size);
        if (p == NULL) {
            CHECK(errno == ENOMEM);
            break;
        }
        stamp(p, size, count);
        blocks[count++] = p;
    }
    return count;
}

/* With nothing left, everything that needs more says ENOMEM. */
static void others_fail(size_t size, size_t count) {
    size_t more = size * 8 + 32 * TEST_MIB;
    while (more < TEST_GIB) /* memory may be left for one more of a middling size: ask for more than that */
        more *= 2;
    void *last = blocks[count - 1], *p = last;
    errno = 0;
    CHECK(calloc(1, more) == NULL && errno == ENOMEM);
    errno = 0;
    CHECK(realloc(last, more) == NULL && errno == ENOMEM);
    verify(last, size, count - 1);
    errno = 0;
    CHECK(aligned_alloc(4096, more) == NULL && errno == ENOMEM);
    CHECK(posix_memalign(&p, 64, more) == ENOMEM && p == last);
    errno = 0;
    CHECK(reallocarray(last, 2, more) == NULL && errno == ENOMEM);
    verify(last, size, count - 1);
}

static void release(size_t size, size_t count) {
    for (size_t i = 0; i < count; i++) {
        verify(blocks[i], size, i);
        free(blocks[i]);
    }
}

static void rounds(size_t size, bool limited) {
    size_t first = fill_up(size);
    CHECK_SAY(first > 0, "not one block of %zu bytes", size);
    CHECK_SAY(!limited || first * size < stop_bytes, "no limit reached with %zu blocks of %zu bytes", first, size);
    if (limited)
        others_fail(size, first);
    /* A few given back make room for a few. */
    size_t few = first < 10 ? 1 : first / 10;
    for (size_t i = first - few; i < first; i++)
        free(blocks[i]);
    for (size_t i = first - few; i < first; i++) {
        blocks[i] = malloc(size);
        CHECK_SAY(blocks[i] != NULL, "block %zu of %zu bytes was free a moment ago", i, size);
        stamp(blocks[i], size, i);
    }
    release(size, first);
    size_t second = fill_up(size);
    CHECK_SAY(second >= first - first / 10, "%zu blocks of %zu bytes at first, then %zu", first, size, second);
    release(size, second);
    CHECK_HEAP();
}

static void all_rounds(bool limited) {
    static const size_t sizes[] = {100, 4000, 30000, 200 << 10, 700 << 10, 5 << 20, 40 << 20, 64};
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
        rounds(sizes[i], limited);
}

static void limit_to(int resource, size_t bytes) {
    struct rlimit limit = {bytes, bytes};
    CHECK(setrlimit((__rlimit_resource_t)resource, &limit) == 0);
}

int main(int argc, char **argv) {
    test_require_hakmem();
    test_alarm(120);
    CHECK(argc >= 3);
    size_t bytes = strtoull(argv[2], NULL, 10) * 1024;
    bool as = strcmp(argv[1], "as") == 0, data = strcmp(argv[1], "data") == 0, late = strcmp(argv[1], "late") == 0;
    if ((as || data) && argc == 3) {
        char under[] = "under";
        char *const again[] = {argv[0], argv[1], argv[2], under, NULL};
        limit_to(as ? RLIMIT_AS : RLIMIT_DATA, bytes);
        execv("/proc/self/exe", again);
        return TEST_FAIL;
    }
    blocks = (void **)test_pages(BLOCKS_MAX * sizeof *blocks);
    stop_bytes = as || data ? 4 * bytes : bytes;
    if (late) {
        free(malloc(100));
        limit_to(RLIMIT_AS, (size_t)test_status_kib("VmSize:") * 1024 + bytes / 4);
    }
    all_rounds(as || data);
    return TEST_PASS;
}
