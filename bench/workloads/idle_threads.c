// SPDX-License-Identifier: MIT
// idle_threads COUNT KIB SECONDS: COUNT threads each once use KIB of 16 - 1,024 bytes, free all of it and go to sleep.
// After SECONDS without a call from anyone: resident memory per thread, stack included.
#include "common.h"

static pthread_barrier_t filled;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static size_t bytes_each;

static void *use_and_sleep(void *argument) {
    bench_rng rng = bench_rng_make((uint64_t)(uintptr_t)argument);
    void *head = NULL;
    for (size_t bytes = 0; bytes < bytes_each;) {
        size_t size = bench_rng_range(&rng, 16, 1024);
        void **block = bench_malloc(size);
        memset(block, 0, size);
        *block = head;
        head = block;
        bytes += size;
    }
    while (head) {
        void *next = *(void **)head;
        free(head);
        head = next;
    }
    pthread_barrier_wait(&filled);
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    return NULL;
}

int main(int argc, char **argv) {
    size_t count = bench_arg(argc, argv, 1, 1000);
    bytes_each = bench_arg(argc, argv, 2, 1024) * KIB;
    size_t seconds = bench_arg(argc, argv, 3, 3);
    bench_begin();
    pthread_t *ids = bench_map(count * sizeof *ids);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 * KIB);
    pthread_barrier_init(&filled, NULL, (unsigned)count + 1);
    size_t base = bench_rss_kib();
    pthread_mutex_lock(&gate);
    uint64_t begin = bench_now_ns();
    for (size_t i = 0; i < count; i++)
        if (pthread_create(&ids[i], &attributes, use_and_sleep, (void *)(uintptr_t)(i + 1)) != 0)
            bench_fail("pthread_create failed");
    pthread_barrier_wait(&filled);
    uint64_t elapsed = bench_now_ns() - begin;
    size_t at_once = bench_rss_kib() - base;
    bench_sleep_ms((unsigned)seconds * 1000);
    size_t rested = bench_rss_kib() - base;
    pthread_mutex_unlock(&gate);
    for (size_t i = 0; i < count; i++)
        pthread_join(ids[i], NULL);
    bench_open_result();
    bench_speed_fields((double)count, elapsed);
    bench_field("kib_per_thread", (double)rested / (double)count);
    bench_field("kib_per_thread_at_once", (double)at_once / (double)count);
    bench_field("kib_after_exit", (double)(bench_rss_kib() - base));
    bench_close_result();
    return 0;
}
