/* SPDX-License-Identifier: MIT
 *
 * Every block is sampled while eight threads allocate, free each other's blocks and resize, two load and unload a
 * library and throw, and signals come a thousand times a second; and the process forks. No crash, no deadlock, no
 * misuse reported, and a whole heap.
 *
 *   storm LIBRARY [SECONDS]
 */
#include "profile.h"

#include <stdatomic.h>
#include <sys/time.h>
#include <sys/wait.h>

enum { THREADS = 8, SHARED = 512, STARTS_EACH = 50 };

static atomic_bool over;
static _Atomic(void *) shared[SHARED];
static atomic_uint signals;
static const char *library;

static void on_signal(int number) {
    (void)number;
    signals++;
}

static void *allocate(void) { return malloc(100); }

static void *churn(void *seed) {
    unsigned state = (unsigned)(uintptr_t)seed * 2654435761u + 1;
    while (!over) {
        state = state * 1664525 + 1013904223;
        size_t size = state >> 8 & 0xff;
        size = (state & 31) == 0 ? size * 4096 + 1 : size * ((state & 7) == 0 ? 64 : 4);
        void *block = (state & 64) != 0 ? calloc(1, size) : malloc(size);
        if ((state & 128) != 0)
            block = realloc(block, size + (state >> 20) + 1);
        free(atomic_exchange(&shared[state >> 16 & (SHARED - 1)], block));
    }
    return NULL;
}

static void *load(void *unused) {
    while (!over) {
        void *handle = dlopen(library, RTLD_NOW);
        CHECK(handle != NULL);
        void *(*call)(void *(*)(void)) = (void *(*)(void *(*)(void)))dlsym(handle, "storm_call");
        CHECK(call != NULL);
        for (int i = 0; i < 20; i++)
            free(call(allocate));
        dlclose(handle);
    }
    return unused;
}

static void fork_one(void) {
    int status;
    pid_t made = fork();
    if (made == 0) {
        for (int i = 0; i < 100; i++)
            free(malloc(1000));
        profile_image_t image = profile_take();
        profile_drop(&image);
        _exit(test_heap_violations() == 0 ? 0 : 1);
    }
    CHECK(waitpid(made, &status, 0) == made);
    CHECK_EQ(status, 0);
}

static uint64_t samples_taken(void) {
    profile_image_t image = profile_take();
    uint64_t samples = profile_header(&image)->samples;
    profile_drop(&image);
    return samples;
}

int main(int argc, char **argv) {
    test_require_hakmem();
    library = argv[1];
    const int seconds = argc > 2 ? atoi(argv[2]) : 3;
    const struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    const struct itimerval each = {{0, 1000}, {0, 1000}};
    CHECK_EQ(hak_profile_start(1), 0);
    CHECK_EQ(setitimer(ITIMER_REAL, &each, NULL), 0);
    pthread_t threads[THREADS + 2];
    uint64_t samples = 0;
    for (uintptr_t i = 0; i < THREADS + 2; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, i < THREADS ? churn : load, (void *)i), 0);
    const uint64_t end = test_now_ns() + (uint64_t)seconds * 1000000000u;
    for (unsigned turn = 0; test_now_ns() < end; turn++) {
        fork_one();
        if (turn % STARTS_EACH == STARTS_EACH - 1) {
            samples += samples_taken();
            hak_profile_reset();
        }
        if (turn % STARTS_EACH == STARTS_EACH / 2)
            CHECK_EQ(hak_profile_start(turn % 3 == 0 ? 4096 : 1), 0);
    }
    over = true;
    for (int i = 0; i < THREADS + 2; i++)
        pthread_join(threads[i], NULL);
    const struct itimerval none = {0};
    setitimer(ITIMER_REAL, &none, NULL);
    for (int i = 0; i < SHARED; i++)
        free(shared[i]);
    hak_profile_stop();
    CHECK(samples + samples_taken() > 1000);
    CHECK_HEAP();
    CHECK(signals > 100);
    return TEST_PASS;
}
