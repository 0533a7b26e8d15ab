/* SPDX-License-Identifier: MIT
 *
 * Heaps that have ended, of the program's and of threads, cost a fork nothing: their records are not copied into the
 * child, and parent and child use them again.
 */
#include "testing.h"

#include <sys/wait.h>

enum { HEAPS = 2000, THREADS = 100, CHILDREN = 20, COPIED_KIB_MAX = 2048 };

static hak_heap_t *heaps[HEAPS];
static pthread_t threads[THREADS];
static pthread_barrier_t together;

static void *one_block(void *barrier) {
    hak_free(test_opaque(hak_malloc(100)));
    if (barrier != NULL)
        pthread_barrier_wait((pthread_barrier_t *)barrier);
    return NULL;
}

static void *sleep_long(void *unused) {
    (void)one_block(NULL);
    pause();
    return unused;
}

static void use_heaps(unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        heaps[i] = hak_heap_new(NULL);
        CHECK(heaps[i] != NULL && hak_heap_malloc(heaps[i], 64) != NULL);
    }
    for (unsigned i = 0; i < count; i++)
        hak_heap_destroy(heaps[i]);
}

static void use_threads(unsigned count) {
    CHECK(pthread_barrier_init(&together, NULL, count) == 0);
    for (unsigned i = 0; i < count; i++)
        CHECK(pthread_create(&threads[i], NULL, one_block, &together) == 0);
    for (unsigned i = 0; i < count; i++)
        test_join(threads[i]);
}

static void child(long before) {
    test_alarm(20);
    long copied = test_figure_of("/proc/self/smaps_rollup", "Private_Dirty:");
    CHECK_SAY(copied < COPIED_KIB_MAX, "%ld KiB are the child's own at once; of the parent were %ld", copied, before);
    use_heaps(100);
    use_threads(10);
    CHECK_HEAP();
    _exit(TEST_PASS);
}

int main(void) {
    test_alarm(60);
    pthread_t sleeper;
    CHECK(pthread_create(&sleeper, NULL, sleep_long, NULL) == 0);
    use_heaps(HEAPS);
    use_threads(THREADS);
    long before = test_figure_of("/proc/self/smaps_rollup", "Private_Dirty:");
    for (unsigned i = 0; i < CHILDREN; i++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0)
            child(before);
        int status = 0;
        CHECK(waitpid(pid, &status, 0) == pid);
        CHECK_SAY(WIFEXITED(status) && WEXITSTATUS(status) == TEST_PASS, "status %d", status);
        use_heaps(100);
        use_threads(10);
    }
    CHECK_HEAP();
    return TEST_PASS;
}
