/* SPDX-License-Identifier: MIT
 *
 *   narrow MIB    RLIMIT_AS of so much, in an address space that is as small as one of 39 or 42 bits (aarch64): places
 *                 of hakmem's choice do not exist there, and the limit is less than the smallest hole that it asks for
 *
 * A filter of system calls refuses addresses in the middle, as the kernel refuses those that there are not.
 */
#include "testing.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>

enum { BLOCK = 100000, LOWEST = 0x80, HIGHEST = 0x5000, OTHERS_MIB = 16 }; /* the upper halves of addresses */

static int become_narrow(char **argv) {
    const unsigned upper_half = (unsigned)(offsetof(struct seccomp_data, args) + sizeof(uint32_t));
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, upper_half),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, LOWEST, 0, 2),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, HIGHEST, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOMEM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof code[0], code};
    struct rlimit limit = {strtoul(argv[1], NULL, 10) * TEST_MIB, strtoul(argv[1], NULL, 10) * TEST_MIB};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        test_skip("no filters here");
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    execl("/proc/self/exe", argv[0], argv[1], "under", (char *)NULL);
    return TEST_FAIL;
}

static void *one_block(void *unused) {
    char *block = (char *)malloc(100);
    CHECK(block != NULL);
    free(test_opaque(block));
    return unused;
}

/* All is to be had but what is mapped already, what size classes round up, and records. */
static void reach(size_t limit) {
    void **last = NULL, **block;
    size_t got = 0;
    for (; (block = (void **)malloc(BLOCK)) != NULL; last = block, got += BLOCK)
        *block = last;
    CHECK_SAY(errno == ENOMEM && got >= limit / 4 * 3 - OTHERS_MIB * TEST_MIB, "%zu KiB of %zu", got / 1024,
              limit / 1024);
    for (void **next; last != NULL; last = next) {
        next = (void **)*last;
        free(last);
    }
}

int main(int argc, char **argv) {
    test_alarm(60);
    CHECK(argc > 1);
    if (argc == 2)
        return become_narrow(argv);
    test_require_hakmem();
    for (unsigned round = 0; round < 2; round++) {
        reach(strtoul(argv[1], NULL, 10) * TEST_MIB);
        test_join(test_thread(one_block, NULL));
    }
    CHECK_HEAP();
    return TEST_PASS;
}
