/* SPDX-License-Identifier: MIT
 *
 * mlockall(MCL_CURRENT | MCL_FUTURE): every mapping is made resident and cannot be given back by MADV_DONTNEED. The
 * allocator must not lock address space it only reserves, must still return zeros from calloc for reused memory, and
 * must answer ENOMEM at RLIMIT_MEMLOCK.
 *
 *   locked        churns, and reaches a limit of 64 MiB
 *   locked KIB    mlockall(MCL_FUTURE) under so small a limit: most of it is to be had, and again when all is freed
 *   locked once   what is freed when nothing is locked any more goes back, also where the kernel takes no locked pages
 */
#include "testing.h"

#include "old_kernel.h"

#include <sys/resource.h>

enum { BLOCKS = 3000 };

static void *blocks[BLOCKS];

static size_t size_of(unsigned i) { return 1 + (size_t)i * 7919 % (i % 100 == 0 ? 1500000 : 12000); }

static void churn(void) {
    for (unsigned round = 0; round < 4; round++) {
        for (unsigned i = 0; i < BLOCKS; i++) {
            blocks[i] = i % 2 ? malloc(size_of(i)) : calloc(1, size_of(i));
            CHECK(blocks[i] != NULL);
            CHECK(i % 2 || test_is_zero(blocks[i], size_of(i)));
            memset(blocks[i], 0xff, size_of(i));
        }
        for (unsigned i = 0; i < BLOCKS; i++)
            free(blocks[i]);
        if (round % 2)
            test_trim();
        test_sleep_us(700000); /* purging by time must cope as well */
    }
    free(malloc(200 * TEST_MIB));
    void *zeros = calloc(1, 20 * TEST_MIB);
    CHECK(zeros != NULL && test_is_zero(zeros, 20 * TEST_MIB));
    free(zeros);
}

static void limit_locked(size_t size) {
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_MEMLOCK, &limit) == 0);
    limit.rlim_cur = limit.rlim_max < size ? limit.rlim_max : size;
    CHECK(setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
    CHECK(setresuid(65534, 65534, 65534) == 0); /* without CAP_IPC_LOCK the limit counts */
}

static void until_refused(void) {
    limit_locked(64 * TEST_MIB);
    for (unsigned round = 0; round < 2; round++) {
        unsigned count = 0;
        errno = 0;
        while (count < BLOCKS && (blocks[count] = malloc(100000)) != NULL)
            memset(blocks[count++], 1, 100000);
        CHECK_SAY(count < BLOCKS && errno == ENOMEM, "%u blocks", count);
        while (count > 0)
            free(blocks[--count]);
    }
}

/* What the library itself maps later counts as well: records, a magazine's array. They are less than an eighth. */
static int little(size_t limit) {
    enum { SIZE = 1000 };
    limit_locked(limit);
    if (mlockall(MCL_FUTURE) != 0)
        test_skip("mlockall is not allowed");
    for (unsigned round = 0; round < 3; round++) {
        size_t got = 0;
        void *last = NULL;
        for (void **block; (block = (void **)malloc(SIZE)) != NULL; last = block, got += SIZE)
            *block = last;
        CHECK(errno == ENOMEM && got <= limit);
        CHECK_SAY(got >= limit / 8 * 7, "round %u: %zu KiB of %zu", round, got / 1024, limit / 1024);
        for (void *next; last != NULL; last = next) {
            next = *(void **)last;
            free(last);
        }
        void *half = malloc(limit / 2);
        CHECK_SAY(half != NULL, "round %u: all is free, and there is no half of %zu KiB", round, limit / 1024);
        free(half);
    }
    CHECK_HEAP();
    return TEST_PASS;
}

static int start_once(char **argv) {
    if (!become_old(MADV_DONTNEED_LOCKED))
        test_skip("no filters here");
    execl("/proc/self/exe", argv[0], "once", "more", (char *)NULL);
    return TEST_FAIL;
}

static void burst(size_t size) {
    void **last = NULL;
    for (size_t got = 0; got < size; got += 3000) {
        void **block = (void **)malloc(3000);
        CHECK(block != NULL);
        memset(block, 1, 3000);
        *block = last;
        last = block;
    }
    for (void **next; last != NULL; last = next) {
        next = (void **)*last;
        free(last);
    }
}

static int once(void) {
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
        test_skip("mlockall is not allowed");
    burst(16 * TEST_MIB);
    test_sleep_us(1500000); /* the helper comes to it, and is refused */
    CHECK(munlockall() == 0);
    test_sleep_us(1500000); /* it has left, and the refusal is old */
    burst(64 * TEST_MIB);
    for (test_wait_t wait = test_wait_for(5000); test_rss_kib() > 40 * 1024;)
        CHECK_SAY(test_wait_more(&wait), "%ld KiB are resident after %u ms", test_rss_kib(), test_waited_ms(&wait));
    CHECK_HEAP();
    return TEST_PASS;
}

int main(int argc, char **argv) {
    test_require_hakmem();
    test_alarm(60);
    if (geteuid() != 0)
        test_skip("needs root");
    if (argc > 1 && strcmp(argv[1], "once") == 0)
        return argc == 2 ? start_once(argv) : once();
    if (argc == 2)
        return little(strtoul(argv[1], NULL, 10) * 1024);
    free(malloc(100));
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
        test_skip("mlockall is not allowed");
    long locked_kib = test_status_kib("VmLck:"), resident_kib = test_rss_kib();
    churn();
    CHECK_HEAP();
    test_say("resident %ld KiB at first, %ld at the end (%ld KiB locked address space at first)\n", resident_kib,
             test_rss_kib(), locked_kib);
    CHECK(test_rss_kib() < resident_kib + 400 * 1024);
    until_refused();
    CHECK_HEAP();
    return TEST_PASS;
}
