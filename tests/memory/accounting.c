/* SPDX-License-Identifier: MIT
 *
 * The kinds of memory in the statistics add up to what the kernel has resident in the heap, within 2 % (and 256 KiB),
 * through growth, scattered frees, rest, large blocks of which only a part was touched, and a trim. mallinfo2, which
 * does not ask the kernel, tells no less. The peak of address space does not fall when a huge block goes.
 */
#include "testing.h"

#include <dlfcn.h>

enum { BLOCKS = 300000, LARGE = 40, SLACK_KIB = 256 };

#define HUGE_BYTES ((size_t)3 << 30)

static void *blocks[BLOCKS];
static char *large[LARGE];
static hak_stats_t stats;

/* KiB resident in mappings of the heap's window: above 32 TiB, below programs, libraries and stacks. */
static long window_kib(void) {
    static char line[4096];
    FILE *maps = fopen("/proc/self/smaps", "r");
    CHECK(maps != NULL);
    static char buffer[1 << 16];
    setvbuf(maps, buffer, _IOFBF, sizeof buffer);
    long sum = 0, kib;
    unsigned long from, to;
    bool inside = false;
    while (fgets(line, sizeof line, maps) != NULL) {
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
            inside = from >= 32ul << 40 && from < 85ul << 40;
        else if (inside && sscanf(line, "Rss: %ld kB", &kib) == 1)
            sum += kib;
    }
    fclose(maps);
    return sum;
}

/* What the kernel has while nothing is on its way back to it: statistics before and after are the same. */
static long window_kib_at_rest(void) {
    for (test_wait_t wait = test_wait_for(10000);;) {
        CHECK(test_stats(&stats) == 0);
        const hak_stats_t before = stats;
        const long kernel = window_kib();
        CHECK(test_stats(&stats) == 0);
        if (stats.resident == before.resident && stats.sparse_bytes == before.sparse_bytes)
            return kernel;
        CHECK(test_wait_more(&wait));
    }
}

static void compare(const char *when) {
    long kernel = window_kib_at_rest(), ours = (long)(stats.resident / 1024);
    test_say(
        "%s: kernel %ld KiB, statistics %ld: live %ld (%ld untouched) cached %ld fragmented %ld retained %ld metadata "
        "%ld\n",
        when, kernel, ours, (long)(stats.live / 1024), (long)(stats.untouched / 1024), (long)(stats.cached / 1024),
        (long)(stats.fragmented / 1024), (long)(stats.retained / 1024), (long)(stats.metadata / 1024));
    uint64_t sum = stats.live - stats.untouched + stats.cached + stats.fragmented + stats.retained + stats.metadata;
    CHECK(sum == stats.resident);
    long apart = kernel > ours ? kernel - ours : ours - kernel;
    CHECK_SAY(apart <= kernel / 50 + SLACK_KIB, "%s: %ld KiB apart", when, apart);
}

/* glibc's structure, which musl's headers and those of an old glibc do not have. */
typedef struct info {
    size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
} info_t;

/* Nothing is on its way back to the kernel when both look alike. */
static void compare_info(const char *when) {
    info_t (*call)(void) = (info_t(*)(void))dlsym(RTLD_DEFAULT, "mallinfo2");
    CHECK(call != NULL);
    info_t info, again = call();
    test_wait_t wait = test_wait_for(10000);
    do {
        CHECK(test_wait_more(&wait));
        info = again;
        CHECK(test_stats(&stats) == 0);
        again = call();
    } while (again.fordblks != info.fordblks);
    size_t resident = stats.cached + stats.fragmented + stats.retained;
    test_say("%s: mallinfo2 has %zu KiB free, %zu KiB are resident\n", when, info.fordblks / 1024, resident / 1024);
    CHECK_EQ(info.uordblks, stats.live);
    CHECK_EQ(info.arena, info.uordblks + info.fordblks);
    CHECK(info.fordblks + SLACK_KIB * 1024 >= resident && info.keepcost <= info.fordblks);
    CHECK(info.arena <= stats.mapped);
}

int main(void) {
    test_require_hakmem();
    test_alarm(60);
    uint64_t random = 42;
    for (unsigned i = 0; i < BLOCKS; i++) {
        size_t size = test_random_log_size(&random, 4000);
        blocks[i] = malloc(size);
        CHECK(blocks[i] != NULL);
        memset(blocks[i], 1, size);
    }
    compare("grown");
    compare_info("grown");
    for (unsigned i = 0; i < LARGE; i++) {
        large[i] = (char *)malloc(TEST_MIB);
        CHECK(large[i] != NULL);
        memset(large[i], 1, TEST_MIB / 4);
    }
    compare("with large blocks");
    compare_info("with large blocks");
    CHECK(stats.untouched > LARGE * TEST_MIB / 2);
    for (unsigned i = 0; i < BLOCKS; i++)
        if (test_random_below(&random, 10) != 0) {
            free(blocks[i]);
            blocks[i] = NULL;
        }
    for (unsigned i = 0; i < LARGE; i += 2)
        free(large[i]);
    compare("freed");
    compare_info("freed");
    uint64_t before = stats.sparse_bytes;
    for (test_wait_t wait = test_wait_for(3000); stats.sparse_bytes == before && test_wait_more(&wait);)
        CHECK(test_stats(&stats) == 0);
    CHECK(stats.sparse_bytes > before);
    compare("rested");
    compare_info("rested");
    test_trim();
    compare("trimmed");
    compare_info("trimmed");
    free(malloc(HUGE_BYTES));
    CHECK(test_stats(&stats) == 0);
    CHECK_SAY(stats.peak_mapped >= HUGE_BYTES, "the peak is %llu bytes", (unsigned long long)stats.peak_mapped);
    return TEST_PASS;
}
