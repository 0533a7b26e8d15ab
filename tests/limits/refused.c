/* SPDX-License-Identifier: MIT
 *
 * A limit of the kernel's is reached, everything is freed, and the program itself needs address space at once: for a
 * thread's stack. And threads under a limit that leaves them a fraction get what they need, in whatever slabs it lies.
 *
 *   refused as KIB | data KIB     a limit, reached with blocks of several sizes
 *   refused threads KIB           four threads under a limit on data, each with little live at any time
 */
#include "testing.h"

#include <sys/resource.h>

enum { THREADS = 4, SLOTS = 200, STEPS = 20000, BIG_SHARE = 97 };

static void *one_block(void *unused) {
    char *p = (char *)malloc(100);
    CHECK(p != NULL);
    free(test_opaque(p));
    return unused;
}

/* A stack of the usual size, which is never what decides whether the limit is near: a quarter of the limit must be
 * free. */
static void start_thread(size_t size, size_t got) {
    pthread_t thread;
    pthread_attr_t attributes;
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setstacksize(&attributes, 8 * TEST_MIB) == 0);
    int error = pthread_create(&thread, &attributes, one_block, NULL);
    CHECK_SAY(error == 0, "no thread when %zu KiB in blocks of %zu were freed: errno %d", got / 1024, size, error);
    test_join(thread);
}

static void reach(size_t size) {
    void **head = NULL, **block;
    size_t got = 0;
    while ((block = (void **)malloc(size)) != NULL) {
        memset(block, 1, size);
        *block = head;
        head = block;
        got += size;
    }
    CHECK_SAY(errno == ENOMEM && got >= 16 * TEST_MIB, "%zu KiB in blocks of %zu", got / 1024, size);
    while (head != NULL) {
        block = (void **)*head;
        free(head);
        head = block;
    }
    start_thread(size, got);
}

static void *little(void *argument) {
    uint64_t random = (uintptr_t)argument + 1;
    char *blocks[SLOTS] = {0};
    for (int i = 0; i < STEPS; i++) {
        size_t at = test_random_below(&random, SLOTS);
        bool big = test_random_below(&random, BIG_SHARE) == 0;
        size_t size = 1 + test_random_below(&random, big ? 200000 : 2000);
        free(blocks[at]);
        blocks[at] = (char *)malloc(size);
        CHECK_SAY(blocks[at] != NULL, "no %zu bytes at step %d", size, i);
        blocks[at][0] = blocks[at][size - 1] = 1;
    }
    for (int i = 0; i < SLOTS; i++)
        free(blocks[i]);
    return NULL;
}

/* Stacks are small, so that the limit is the heap's. */
static void threads(void) {
    pthread_t ids[THREADS];
    pthread_attr_t attributes;
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setstacksize(&attributes, 256 * TEST_KIB) == 0);
    for (size_t t = 0; t < THREADS; t++)
        CHECK(pthread_create(&ids[t], &attributes, little, (void *)t) == 0);
    for (size_t t = 0; t < THREADS; t++)
        test_join(ids[t]);
    CHECK(little((void *)THREADS) == NULL);
    CHECK_HEAP();
}

int main(int argc, char **argv) {
    test_require_hakmem();
    test_alarm(100);
    CHECK(argc >= 3);
    if (argc == 3) {
        char under[] = "under";
        char *const again[] = {argv[0], argv[1], argv[2], under, NULL};
        struct rlimit limit = {strtoull(argv[2], NULL, 10) * 1024, strtoull(argv[2], NULL, 10) * 1024};
        int resource = strcmp(argv[1], "as") == 0 ? RLIMIT_AS : RLIMIT_DATA;
        CHECK(setrlimit((__rlimit_resource_t)resource, &limit) == 0);
        execv("/proc/self/exe", again);
        return TEST_FAIL;
    }
    if (strcmp(argv[1], "threads") == 0) {
        threads();
        return TEST_PASS;
    }
    static const size_t sizes[] = {100, 3000, 100000, 1000000, 40};
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        reach(sizes[i]);
    return TEST_PASS;
}
