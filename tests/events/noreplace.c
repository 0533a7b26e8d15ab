/* SPDX-License-Identifier: MIT
 *
 * A filter, or a kernel in user space, that does not take MAP_FIXED_NOREPLACE, with any error: an address is asked for
 * without it, and what the kernel gave is looked at.
 */
#include "testing.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

enum { FLAGS_ARGUMENT = 3, BLOCKS = 20000, SIZE = 3000 };

static void filter_and_start(char **argv, unsigned error) {
    const unsigned flags = (unsigned)(offsetof(struct seccomp_data, args) + FLAGS_ARGUMENT * sizeof(uint64_t));
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, flags),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MAP_FIXED_NOREPLACE, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof code[0], code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0)
        test_skip("no filters here");
    execl("/proc/self/exe", argv[0], "filtered", (char *)NULL);
    _exit(TEST_FAIL);
}

static int use(void) {
    char *at = (char *)test_pages(4096);
    CHECK(mmap(at, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED);
    CHECK(errno != EEXIST); /* it is the filter that answers */
    test_require_hakmem();
    static char *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = (char *)malloc(SIZE);
        CHECK(blocks[i] != NULL);
        memset(blocks[i], i, SIZE);
    }
    char *large = (char *)calloc(1, 100 * TEST_MIB);
    CHECK(large != NULL && test_is_zero(large, 100 * TEST_MIB));
    free(large);
    for (int i = 0; i < BLOCKS; i++) {
        CHECK(blocks[i][0] == (char)i && blocks[i][SIZE - 1] == (char)i);
        free(blocks[i]);
    }
    CHECK_HEAP();
    return TEST_PASS;
}

int main(int argc, char **argv) {
    static const unsigned errors[] = {EINVAL, EPERM, ENOSYS, EOPNOTSUPP, EACCES};
    test_alarm(60);
    if (argc > 1)
        return use();
    for (unsigned i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0)
            filter_and_start(argv, errors[i]);
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child);
        if (WIFEXITED(status) && WEXITSTATUS(status) == TEST_SKIP)
            return TEST_SKIP;
        CHECK_SAY(WIFEXITED(status) && WEXITSTATUS(status) == TEST_PASS, "status %d with errno %u", status, errors[i]);
    }
    return TEST_PASS;
}
