/* SPDX-License-Identifier: MIT
 *
 * A process with a heap of MIB mebibytes, all touched, of blocks of 32 bytes and SIZES - 1 times twice as much. It is
 * sampled each INTERVAL bytes. A second thread allocates and frees, and knows how long it was kept waiting: by the
 * clock, less what it ran and what it waited for a processor. A byte on standard input is a question, to which a line
 * is the answer:
 *
 *     w  waited MICROSECONDS allocations COUNT, both since the last time
 *     p  samples LIVE tables BYTES allocated BYTES held BYTES resident BYTES
 *
 * `held` is the most that the second thread may have besides.
 *
 *     sample_large MIB INTERVAL SIZES
 */
#include "profile.h"

#include <stdatomic.h>

enum {
    HELD = 64,
    DOUBLINGS = 12,
    HELD_BYTES_MAX = HELD * (HELD + 1) / 2 << (DOUBLINGS - 1), /* what the second thread has at a time */
};

typedef struct account {
    uint64_t waited_us, allocations;
} account_t;

static _Atomic bool is_asked;
static account_t answer; /* of the worker, while is_asked goes from true to false */

/* Not CPU time alone: what it waited for a processor is not what a reader took from it. */
static uint64_t kept_waiting_us(void) {
    unsigned long long ran = 0, queued = 0;
    struct timespec used;
    FILE *file = fopen("/proc/thread-self/schedstat", "r");
    if (file == NULL || fscanf(file, "%llu %llu", &ran, &queued) != 2) {
        puts("skipped: the kernel has no /proc/PID/schedstat");
        _exit(TEST_SKIP);
    }
    fclose(file);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (test_now_ns() - (uint64_t)used.tv_sec * 1000000000u - (uint64_t)used.tv_nsec - queued) / 1000;
}

static void *work(void *unused) {
    void *held[HELD] = {NULL};
    account_t last = {kept_waiting_us(), 0};
    for (uint64_t i = 0;; i++) {
        const size_t place = i % HELD;
        free(held[place]);
        held[place] = malloc((place + 1) << (i / HELD % DOUBLINGS));
        *(char *)held[place] = 1;
        if (!atomic_load(&is_asked))
            continue;
        const account_t now = {kept_waiting_us(), i};
        answer = (account_t){now.waited_us - last.waited_us, now.allocations - last.allocations};
        last = (account_t){kept_waiting_us(), i};
        atomic_store(&is_asked, false);
    }
    return unused;
}

static uint64_t table_bytes(const profile_image_t *image) {
    uint64_t bytes = 0;
    for (unsigned i = 0; i < profile_header(image)->section_count; i++)
        bytes += profile_section(image, i)->bytes;
    return bytes;
}

static uint64_t resident_bytes(void) {
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file != NULL && fscanf(file, "%*u %lu", &pages) == 1);
    fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t allocate(uint64_t bytes, unsigned sizes) {
    uint64_t sum = 0;
    for (unsigned i = 0; sum < bytes; i++) {
        const size_t size = (size_t)32 << i % sizes;
        memset(malloc(size), 1, size);
        sum += size;
    }
    return sum;
}

static void tell_wait(void) {
    atomic_store(&is_asked, true);
    while (atomic_load(&is_asked))
        test_sleep_us(100);
    printf("waited %llu allocations %llu\n", (unsigned long long)answer.waited_us,
           (unsigned long long)answer.allocations);
}

static void tell_profile(uint64_t allocated) {
    profile_image_t image = profile_take();
    printf("samples %llu tables %llu allocated %llu held %llu resident %llu\n",
           (unsigned long long)profile_live_samples(&image), (unsigned long long)table_bytes(&image),
           (unsigned long long)allocated, (unsigned long long)HELD_BYTES_MAX, (unsigned long long)resident_bytes());
    profile_drop(&image);
}

int main(int count, char **words) {
    pthread_t worker;
    test_require_hakmem();
    CHECK(count == 4);
    CHECK_EQ(hak_profile_start((size_t)strtoul(words[2], NULL, 10)), 0);
    const uint64_t allocated = allocate(strtoul(words[1], NULL, 10) * TEST_MIB, (unsigned)strtoul(words[3], NULL, 10));
    CHECK_EQ(pthread_create(&worker, NULL, work, NULL), 0);
    char byte;
    while (read(STDIN_FILENO, &byte, 1) == 1) {
        if (byte == 'w')
            tell_wait();
        else
            tell_profile(allocated);
        fflush(stdout);
    }
    return TEST_PASS;
}
