/* SPDX-License-Identifier: MIT
 *
 * Children that are made without libc's fork handlers, by _Fork and by clone, as sandboxes and container tools make
 * them, in a process of one thread whose helper is at work. None may hang. Each allocates, starts a thread, gives
 * memory back when it rests, as a child of fork does, and makes children of its own. So does the child of a process
 * that never had a helper.
 */
#include "testing.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { FORKS = 600, BLOCKS = 20000, LARGE = 60, REST_MS = 20000, TRIES = 5, LEFT_KIB = 24 * 1024, HANG_SECONDS = 170 };

static void *blocks[BLOCKS];

static pid_t raw_fork(unsigned kind) {
    if (kind % 2 == 0)
        return (pid_t)syscall(SYS_clone, (unsigned long)SIGCHLD, 0UL, 0UL, 0UL, 0UL);
    pid_t (*forks)(void);
    TEST_SYMBOL(forks, "_Fork"); /* glibc 2.34, POSIX 2024 */
    return forks != NULL ? forks() : raw_fork(0);
}

static void wait_for(pid_t pid) {
    int status = 1;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    CHECK_SAY(status == 0, "status %d", status);
}

/* Leaves work for the helper. */
static void churn(uint64_t *random) {
    for (unsigned i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
        blocks[i] = malloc(200 + test_random_below(random, 3000));
        CHECK(blocks[i] != NULL);
        *(char *)blocks[i] = 1;
    }
    for (unsigned i = 0; i < BLOCKS; i++)
        if (test_random_below(random, 4) != 0) {
            free(blocks[i]);
            blocks[i] = NULL;
        }
}

static void *allocates(void *unused) {
    for (unsigned i = 0; i < 300; i++) {
        void *small = malloc(100 + i * 211), *large = malloc(300000 + i * 5000);
        CHECK(small != NULL && large != NULL);
        *(char *)small = 1;
        free(small);
        free(large);
    }
    return unused;
}

static void in_child(unsigned i) {
    test_alarm(HANG_SECONDS);
    (void)allocates(NULL);
    free(blocks[i]);
    if (i % 16 == 0)
        test_join(test_thread(allocates, NULL));
    if (i % 16 == 1) {
        pid_t grandchild = raw_fork(i / 16);
        if (grandchild == 0) {
            (void)allocates(NULL);
            _exit(TEST_PASS);
        }
        wait_for(grandchild);
        grandchild = fork();
        if (grandchild == 0) {
            (void)allocates(NULL);
            _exit(TEST_PASS);
        }
        wait_for(grandchild);
    }
    _exit(TEST_PASS);
}

static void storm(void) {
    uint64_t random = 5;
    for (unsigned i = 0; i < FORKS; i++) {
        if (i % 8 == 0)
            churn(&random);
        pid_t pid = raw_fork(i);
        if (pid == 0)
            in_child(i);
        wait_for(pid);
    }
}

static void take_and_free(void) {
    static char *large[LARGE];
    for (unsigned i = 0; i < LARGE; i++) {
        CHECK((large[i] = malloc(TEST_MIB)) != NULL);
        memset(large[i], 1, TEST_MIB);
    }
    for (unsigned i = 0; i < LARGE; i++)
        free(large[i]);
    for (unsigned i = 0; i < BLOCKS; i++) {
        CHECK((blocks[i] = malloc(1000)) != NULL);
        memset(blocks[i], 1, 1000);
    }
    for (unsigned i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
        blocks[i] = NULL;
    }
}

static bool child_rests(unsigned kind) {
    pid_t pid = raw_fork(kind);
    if (pid == 0) {
        test_alarm(HANG_SECONDS);
        take_and_free();
        long left = test_rss_kib();
        for (unsigned waited = 0; left > LEFT_KIB && waited < REST_MS; waited += 100) {
            test_sleep_us(100000);
            left = test_rss_kib();
        }
        _exit(left <= LEFT_KIB ? TEST_PASS : TEST_FAIL);
    }
    int status = 1;
    CHECK(waitpid(pid, &status, 0) == pid);
    return status == 0;
}

/* The helper was there when the child was made: in the child it is not. A child that is made while the helper has a
 * lock is stranded, and keeps what its parent had: one in a thousand, more of them where a busy machine takes the
 * processor from the helper just then. All of them is a child that never gives anything back. */
static void rests(unsigned kind, bool had_helper) {
    bool rest = false;
    for (unsigned tries = had_helper ? TRIES : 1; tries > 0 && !rest; tries--) {
        if (had_helper) {
            take_and_free();
            test_sleep_us(30000);
        }
        rest = child_rests(kind);
    }
    CHECK_SAY(rest, "a child kept its memory (kind %u, helper %d)", kind, had_helper);
}

/* The kernel, and no filter keeps it from telling. */
static bool tells_memories_apart(void) {
    enum { MEMORY = 1 /* KCMP_VM */ };
    pid_t self = getpid();
    return prctl(PR_GET_SECCOMP) == 0 && syscall(SYS_kcmp, self, self, MEMORY, 0, 0) == 0;
}

int main(void) {
    test_require_hakmem();
    test_alarm(HANG_SECONDS);
    if (tells_memories_apart()) {
        rests(0, false);
        rests(1, false);
    }
    storm();
    for (unsigned i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    memset(blocks, 0, sizeof blocks);
    rests(0, true);
    rests(1, true);
    CHECK_HEAP();
    return TEST_PASS;
}
