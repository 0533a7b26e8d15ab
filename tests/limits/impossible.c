/* SPDX-License-Identifier: MIT
 *
 * What memory there is lies free in pieces, and a request comes that cannot be met with them either: nothing is
 * unmapped for it, as each piece would take a mapping. Then one that can be met is.
 *
 *   impossible kernel   it is larger than the limit of address space
 *   impossible limit    the pieces would do, but it is larger than a limit of hakmem's
 */
#include "testing.h"

#include <sys/resource.h>

enum {
    SIZE = 4096,
    BLOCKS = 65536,
    MORE_MAX = 8 /* mappings: the kernel joins and splits a few of its own accord; pieces would be a thousand */
};
#define ROOM  (192 * TEST_MIB)
#define LIMIT (64 * TEST_MIB)
#define LESS  (32 * TEST_MIB) /* than the half of it that is free */

static long mappings(void) {
    static char text[65536];
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    long lines = 0;
    for (ssize_t n; (n = read(fd, text, sizeof text)) > 0;)
        for (ssize_t i = 0; i < n; i++)
            lines += text[i] == '\n';
    close(fd);
    return lines;
}

/* Blocks that fill the limit, less those of every second slot. */
static void fill_and_free(void) {
    static void *blocks[BLOCKS];
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_AS, &limit) == 0);
    limit.rlim_cur = (rlim_t)test_status_kib("VmSize:") * TEST_KIB + ROOM;
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    unsigned count = 0;
    while (count < BLOCKS && (blocks[count] = malloc(SIZE)) != NULL)
        count++;
    CHECK_SAY(count > ROOM / SIZE / 2 && count < BLOCKS, "%u blocks", count);
    for (unsigned i = 0; i < count; i++)
        if ((uintptr_t)blocks[i] >> 16 & 1)
            free(blocks[i]);
}

static void set_limit(size_t bytes) {
    int (*set)(size_t, size_t) = (int (*)(size_t, size_t))dlsym(RTLD_DEFAULT, "hak_limit_set");
    CHECK(set != NULL && set(0, bytes) == 0);
}

int main(int argc, char **argv) {
    test_require_hakmem();
    test_alarm(30);
    CHECK(argc == 2);
    bool limited = strcmp(argv[1], "limit") == 0;
    fill_and_free();
    if (limited)
        set_limit(LIMIT);
    long before = mappings();
    CHECK(malloc(limited ? LIMIT + LESS / 2 : 4 * ROOM) == NULL && errno == ENOMEM);
    long after = mappings();
    CHECK_SAY(after <= before + MORE_MAX, "%ld mappings, %ld before", after, before);
    CHECK_SAY(malloc(LESS) != NULL, "%s", "no memory though more lies free in pieces");
    CHECK_HEAP();
    return TEST_PASS;
}
