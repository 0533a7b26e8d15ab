/* SPDX-License-Identifier: MIT
 *
 * systemd's protocol for memory pressure, with a pipe: a byte in it, and what the process has cached goes back although the purge
 * delay is an hour. The data asked for is written to the pipe first.
 */
#include "testing.h"

#include <sys/stat.h>

static hak_stats_t stats;

static void run(const char *path) {
    int pipe_end = open(path, O_RDWR | O_NONBLOCK);
    CHECK(pipe_end >= 0);
    static void *blocks[100000];
    for (unsigned i = 0; i < 100000; i++) {
        blocks[i] = malloc(1000);
        memset(blocks[i], 1, 1000);
    }
    for (unsigned i = 0; i < 100000; i++)
        free(blocks[i]);
    test_sleep_us(300000);
    long before = test_rss_kib();
    CHECK_SAY(before > 80 * 1024, "only %ld KiB left to give back", before);
    CHECK(write(pipe_end, "!", 1) == 1);
    for (unsigned i = 0; i < 30 && test_rss_kib() > before / 4; i++)
        test_sleep_us(100000);
    CHECK_SAY(test_rss_kib() <= before / 4, "%ld KiB of %ld after the notice", test_rss_kib(), before);
    CHECK(test_stats(&stats) == 0 && stats.pressure_events >= 1);
    CHECK(unlink(path) == 0);
}

int main(int argc, char **argv) {
    test_require_hakmem();
    test_alarm(60);
    if (argc > 1) {
        run(argv[1]);
        return TEST_PASS;
    }
    static char path[64];
    snprintf(path, sizeof path, "/tmp/hakmem-pressure-%d", (int)getpid());
    CHECK(mkfifo(path, 0600) == 0);
    setenv("MEMORY_PRESSURE_WATCH", path, 1);
    setenv("HAKMEM_PURGE_DELAY", "3600000", 1);
    execl("/proc/self/exe", argv[0], path, (char *)NULL);
    return TEST_FAIL;
}
