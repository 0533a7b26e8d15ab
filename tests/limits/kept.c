/* SPDX-License-Identifier: MIT
 *
 * A block that has to shrink while memory is out stays where it is, and is of its new size from then on: what frees it
 * by that size, at each level, guarded or not, before a filter of system calls and behind one, makes no mistake.
 */
#include "testing.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

enum { LIMIT = 4 * TEST_MIB };

/* Until no request of any size is served. */
static void fill(void) {
    CHECK_EQ(hak_limit_set(0, LIMIT), 0);
    for (size_t size = LIMIT; size >= 16; size -= size / 4)
        while (test_opaque(hak_malloc(size)) != NULL)
            continue;
}

/* Where blocks are guarded it is one of these, which has no more than was asked for. */
static char *take(size_t size) {
    char *block = hak_malloc(size);
    for (unsigned i = 0; i < 1000 && size < 10000 && getenv("HAKMEM_GUARD") != NULL; i++) {
        if (hak_malloc_usable_size(block) == size)
            return block;
        hak_free(block);
        block = hak_malloc(size);
    }
    CHECK(block != NULL && (size > 10000 || getenv("HAKMEM_GUARD") == NULL));
    return block;
}

static void shrink(size_t from, size_t to) {
    char *block = take(from);
    memset(block, 1, from);
    fill();
    char *smaller = hak_realloc(block, to);
    CHECK(smaller != NULL && smaller[0] == 1 && smaller[to - 1] == 1);
    hak_free_sized(smaller, to);
    CHECK_HEAP();
}

static void small(void) { shrink(1000, 100); }
static void large_to_mid(void) { shrink(TEST_MIB, 100 * TEST_KIB); }
static void large(void) { shrink(1000000, 500000); }

static void filtered(void) {
    struct sock_filter allow[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {1, allow};
    char *block = hak_malloc(1000000);
    CHECK(block != NULL);
    memset(block, 1, 1000000);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    fill();
    char *smaller = hak_realloc(block, 500000);
    CHECK(smaller != NULL && smaller[499999] == 1);
    hak_free_sized(smaller, 500000);
}

int main(void) {
    static void (*const bodies[])(void) = {small, large_to_mid, large, filtered};
    static char text[65536];
    test_alarm(100);
    for (unsigned i = 0; i < 4; i++)
        CHECK_SAY(check_child(bodies[i], STDERR_FILENO, text, sizeof text) == 0, "%u: %s", i, text);
    return TEST_PASS;
}
