/* SPDX-License-Identifier: MIT
 *
 * idle_threads [MOST [together]]: 1,000 threads that each once used 1 MiB, in blocks of up to 1,024 bytes or MOST, and
 * then sleep keep at most 64 KiB each, stack included, after three seconds without a call from any of them. All have a
 * heap before any uses its memory: who is done before there are many threads keeps more in magazines, and how many
 * those are is the scheduler's choice.
 *
 * Together, all have their memory at the same time. Then slabs change threads, and most blocks are freed by a thread
 * that does not own their slab. They keep at most 128 KiB each: the records of 1.3 GiB are part of it.
 */
#include "testing.h"

enum { THREADS = 1000, LIMIT_KIB = 64, LIMIT_TOGETHER_KIB = 128, OTHER_KIB = 4096 };

static uint64_t most = 1024;
static bool together;
static pthread_barrier_t here, filled;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void *use_and_sleep(void *argument) {
    uint64_t random = (uintptr_t)argument;
    void **head = NULL;
    free(test_opaque(malloc(16)));
    pthread_barrier_wait(&here);
    for (size_t bytes = 0; bytes < TEST_MIB;) {
        size_t size = 16 + test_random_below(&random, most - 15);
        void **block = (void **)malloc(size);
        CHECK(block != NULL);
        memset(block, 0, size);
        *block = head;
        head = block;
        bytes += size;
    }
    if (together)
        pthread_barrier_wait(&here);
    while (head != NULL) {
        void **next = (void **)*head;
        free(head);
        head = next;
    }
    pthread_barrier_wait(&filled);
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    return NULL;
}

int main(int count, char **arguments) {
    test_require_hakmem();
    test_alarm(60);
    most = count > 1 ? strtoull(arguments[1], NULL, 10) : most;
    together = count > 2 && strcmp(arguments[2], "together") == 0;
    CHECK_SAY(count <= 2 || together, "'%s' is not \"together\"", arguments[2]);
    CHECK_SAY(most >= 16, "MOST is %llu, not a size from 16 on", (unsigned long long)most);
    static pthread_t ids[THREADS];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 * TEST_KIB);
    pthread_barrier_init(&here, NULL, THREADS);
    pthread_barrier_init(&filled, NULL, THREADS + 1);
    pthread_mutex_lock(&gate);
    long base = test_rss_kib();
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_create(&ids[i], &attributes, use_and_sleep, (void *)(uintptr_t)(i + 1)) == 0);
    pthread_barrier_wait(&filled);
    long enough = THREADS * (together ? LIMIT_TOGETHER_KIB : LIMIT_KIB) + OTHER_KIB, kib;
    test_wait_t wait = test_wait_for(3000);
    while ((kib = test_rss_kib() - base) > enough && test_wait_more(&wait))
        ;
    test_say("%ld KiB a thread after %u ms\n", kib / THREADS, test_waited_ms(&wait));
    CHECK_SAY(kib <= enough, "%ld KiB for %d threads", kib, THREADS);
    pthread_mutex_unlock(&gate);
    for (unsigned i = 0; i < THREADS; i++)
        test_join(ids[i]);
    return TEST_PASS;
}
