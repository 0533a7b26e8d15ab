/* SPDX-License-Identifier: MIT
 *
 * A service that is started under a filter of system calls which kills at those that lists like systemd's
 * @system-service leave out (mincore), and at those of its groups @privileged and @resources, which services are
 * commonly denied. It is not confined: the helper runs, and memory comes back.
 *
 *   filtered old     under a list of 2020, which has no calls that came later either
 */
#include "testing.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum { BLOCKS = 20000, SIZE = 3000, WAIT_MS = 5000 };

enum { CLOSE_RANGE = 436, PROCESS_MADVISE = 440, NO_CALL = 100000 };

#define KILL_AT_NUMBER(number)                                                                                         \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
#define KILL_AT(call) KILL_AT_NUMBER(SYS_##call)

static void filter_and_start(char **argv, bool is_old) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        KILL_AT(mincore),
        KILL_AT(capget),
        KILL_AT(capset),
        KILL_AT(chroot),
        KILL_AT(setgroups),
        KILL_AT(setresgid),
        KILL_AT(setresuid),
        KILL_AT(setpriority),
        KILL_AT(sched_setscheduler),
        KILL_AT(sched_setaffinity),
        KILL_AT(sched_setattr),
        KILL_AT_NUMBER(is_old ? CLOSE_RANGE : NO_CALL),
        KILL_AT_NUMBER(is_old ? PROCESS_MADVISE : NO_CALL),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof code[0], code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0)
        test_skip("no filters here");
    execl("/proc/self/exe", argv[0], "under", "filter", (char *)NULL);
    test_fail("failed: exec, errno %d\n", errno);
}

static void use_large_blocks(void) {
    char *grown = NULL;
    for (size_t size = TEST_MIB; size <= 64 * TEST_MIB; size += TEST_MIB) {
        grown = (char *)realloc(grown, size);
        CHECK(grown != NULL);
        memset(grown + size - TEST_MIB, 1, TEST_MIB);
    }
    free(grown);
    for (int i = 0; i < 20; i++) {
        char *zeros = (char *)calloc(1, 8 * TEST_MIB);
        CHECK(zeros != NULL && test_is_zero(zeros, 8 * TEST_MIB));
        memset(zeros, 1, 8 * TEST_MIB);
        free(zeros);
    }
}

int main(int argc, char **argv) {
    test_alarm(60);
    if (argc < 3)
        filter_and_start(argv, argc == 2);
    long base = test_rss_kib();
    static void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = memset(malloc(SIZE), 1, SIZE);
    use_large_blocks();
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    long most = test_rss_kib(), now = most;
    for (test_wait_t wait = test_wait_for(WAIT_MS); now > base + (most - base) / 4 && test_wait_more(&wait);)
        now = test_rss_kib();
    CHECK_SAY(now <= base + (most - base) / 4, "%ld KiB, before %ld, %ld at first", now, most, base);
    hak_stats_t *stats = (hak_stats_t *)test_pages(sizeof *stats);
    if (test_stats(stats) == 0)
        CHECK_SAY(stats->resident / 1024 <= (uint64_t)now + 4096, "%llu bytes resident",
                  (unsigned long long)stats->resident);
    CHECK_HEAP();
    return TEST_PASS;
}
