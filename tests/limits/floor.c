/* SPDX-License-Identifier: MIT
 *
 * Programs that allocate little: what do they cost? Prints two numbers of KiB: what is the process's alone, and the
 * size of hakmem's code and constants, as if all were resident. floor.py compares.
 *
 *   floor one       one block of 100 bytes
 *   floor sizes     32 blocks of 32 sizes from 16 B to 768 KiB, first and last byte written
 *   floor threads   32 threads that live, each with 100 blocks of 16 B to 2 KiB, written in full
 */
#include "testing.h"

enum { SIZES = 32, THREADS = 32, BLOCKS = 100 };

static pthread_barrier_t barrier;

/* The mappings of hakmem's file that nobody writes to; 0 on another malloc. */
static long library_kib(void) {
    unsigned long from, to, sum = 0;
    char line[4096], mode[8];
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps != NULL);
    while (fgets(line, sizeof line, maps) != NULL)
        if (strstr(line, "/libhakmem.so") != NULL && sscanf(line, "%lx-%lx %7s", &from, &to, mode) == 3 &&
            mode[1] == '-')
            sum += to - from;
    fclose(maps);
    return (long)(sum / TEST_KIB);
}

static void report(void) {
    long own = test_anonymous_kib(); /* before the file's buffer */
    CHECK(own > 0);
    test_say("%ld %ld\n", own, library_kib());
}

static void one(void) {
    char *p = (char *)malloc(100);
    memset(test_opaque(p), 1, 100);
    report();
}

static void sizes(void) {
    double size = 16, factor = 1.41685; /* 31 steps from 16 to 786,432 */
    for (unsigned i = 0; i < SIZES; i++, size *= factor) {
        size_t bytes = i == SIZES - 1 ? 768 * TEST_KIB : (size_t)size;
        char *p = (char *)malloc(bytes);
        p[0] = p[bytes - 1] = 1;
    }
    report();
}

static void *thread(void *argument) {
    uint64_t random = (uintptr_t)argument;
    for (unsigned i = 0; i < BLOCKS; i++) {
        size_t size = 16 + test_random_below(&random, 2033);
        memset(malloc(size), 1, size);
    }
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return NULL;
}

static void threads(void) {
    pthread_t ids[THREADS];
    pthread_barrier_init(&barrier, NULL, THREADS + 1);
    for (unsigned t = 0; t < THREADS; t++)
        ids[t] = test_thread(thread, (void *)(uintptr_t)t);
    pthread_barrier_wait(&barrier);
    report();
    pthread_barrier_wait(&barrier);
    for (unsigned t = 0; t < THREADS; t++)
        test_join(ids[t]);
}

int main(int argc, char **argv) {
    const char *what = argc == 2 ? argv[1] : "";
    if (strcmp(what, "one") == 0)
        one();
    else if (strcmp(what, "sizes") == 0)
        sizes();
    else if (strcmp(what, "threads") == 0)
        threads();
    else
        return TEST_FAIL;
    return TEST_PASS;
}
