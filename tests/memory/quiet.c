/* SPDX-License-Identifier: MIT
 *
 * The helper thread is there while there is memory to give back and leaves then; an idle process has no thread of ours
 * and is never woken up. A program that stays small never has one.
 */
#include "testing.h"

#include <dirent.h>

static unsigned thread_count(void) {
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks != NULL);
    unsigned count = 0;
    while (readdir(tasks) != NULL)
        count++;
    closedir(tasks);
    return count - 2;
}

static void burst(size_t bytes) {
    static void *blocks[1 << 17];
    unsigned count = 0;
    for (size_t done = 0; done < bytes; done += 1000, count++) {
        blocks[count] = malloc(1000);
        memset(blocks[count], 1, 1000);
    }
    while (count > 0)
        free(blocks[--count]);
}

/* A directory's buffer and its like are no reason for a thread. */
static void a_block_of_each_length(void) {
    for (size_t size = 20 * TEST_KIB; size < 200 * TEST_KIB; size *= 2) {
        char *block = malloc(size);
        CHECK(block != NULL);
        block[size - 1] = 1;
        free(block);
    }
}

int main(void) {
    test_require_hakmem();
    test_alarm(60);
    a_block_of_each_length();
    CHECK(thread_count() == 1);
    burst(500 * TEST_KIB);
    CHECK(thread_count() == 1);
    long small = test_rss_kib();
    burst(100 * TEST_MIB);
    /* Whoever comes here late may find that all was given back and the helper gone. */
    CHECK(thread_count() == 2 || test_rss_kib() < small + 10 * 1024);
    for (test_wait_t wait = test_wait_for(5000); thread_count() > 1 && test_wait_more(&wait);)
        ;
    CHECK_SAY(thread_count() == 1, "%u threads after five seconds", thread_count());
    long before = test_status_kib("voluntary_ctxt_switches:");
    test_sleep_us(2000000);
    long after = test_status_kib("voluntary_ctxt_switches:");
    CHECK_SAY(after - before <= 2, "%ld switches in two seconds", after - before);
    return TEST_PASS;
}
