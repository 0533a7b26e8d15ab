/* SPDX-License-Identifier: MIT
 *
 * systemd's protocol for memory pressure: a byte in a pipe or from a socket, and what the process has cached goes back
 * although the purge delay is an hour. The data asked for is written first. Of /dev/null nothing comes, and nothing
 * goes back.
 *
 *   pressure pipe|socket|null
 */
#include "testing.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

static hak_stats_t stats;

static void fill_and_free(void) {
    static void *blocks[100000];
    for (unsigned i = 0; i < 100000; i++) {
        blocks[i] = malloc(1000);
        memset(blocks[i], 1, 1000);
    }
    for (unsigned i = 0; i < 100000; i++)
        free(blocks[i]);
    test_sleep_us(300000);
}

/* `end` is where events are written to; -1: none will be. */
static void run(int end) {
    fill_and_free();
    long before = test_rss_kib();
    CHECK_SAY(before > 80 * 1024, "only %ld KiB left to give back", before);
    if (end >= 0)
        CHECK(write(end, "!", 1) == 1);
    for (test_wait_t wait = test_wait_for(end >= 0 ? 3000 : 500); test_rss_kib() > before / 4 && test_wait_more(&wait);)
        ;
    CHECK(test_stats(&stats) == 0);
    if (end < 0) {
        CHECK_SAY(test_rss_kib() > before * 3 / 4, "%ld KiB of %ld without a notice", test_rss_kib(), before);
        CHECK(stats.pressure_events == 0);
        return;
    }
    CHECK_SAY(test_rss_kib() <= before / 4, "%ld KiB of %ld after the notice", test_rss_kib(), before);
    CHECK(stats.pressure_events >= 1);
}

static int listen_at(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, 4) == 0);
    return fd;
}

/* The peer of hakmem's connection, after what it says first. */
static int accept_at(int listens) {
    char first[32] = "";
    fill_and_free(); /* from 32 MiB on there is somebody who connects */
    int peer = accept(listens, NULL, NULL);
    CHECK(peer >= 0 && read(peer, first, sizeof first) == 14 && memcmp(first, "some 200000 2", 14) == 0);
    return peer;
}

/* The writing end of the pipe, after what hakmem wrote to it has come back to it as a first notice. */
static int open_pipe(const char *path) {
    int end = open(path, O_RDWR | O_NONBLOCK);
    CHECK(end >= 0);
    fill_and_free();
    do
        CHECK(test_stats(&stats) == 0);
    while (stats.pressure_events == 0);
    return end;
}

static void run_as(const char *kind, const char *path, int listens) {
    if (strcmp(kind, "pipe") == 0)
        run(open_pipe(path));
    else if (strcmp(kind, "socket") == 0)
        run(accept_at(listens));
    else
        run(-1);
    CHECK(strcmp(kind, "null") == 0 || unlink(path) == 0);
}

int main(int argc, char **argv) {
    test_require_hakmem();
    test_alarm(60);
    if (argc > 3) {
        run_as(argv[1], argv[2], atoi(argv[3]));
        return TEST_PASS;
    }
    static char path[64], number[16];
    const char *kind = argc > 1 ? argv[1] : "pipe";
    int listens = -1;
    snprintf(path, sizeof path, strcmp(kind, "null") == 0 ? "/dev/null" : "/tmp/hakmem-pressure-%s-%d", kind,
             (int)getpid());
    if (strcmp(kind, "pipe") == 0)
        CHECK(mkfifo(path, 0600) == 0);
    if (strcmp(kind, "socket") == 0)
        listens = listen_at(path);
    snprintf(number, sizeof number, "%d", listens);
    setenv("MEMORY_PRESSURE_WATCH", path, 1);
    setenv("MEMORY_PRESSURE_WRITE", "c29tZSAyMDAwMDAgMgA=", 1);
    setenv("HAKMEM_PURGE_DELAY", "3600000", 1);
    execl("/proc/self/exe", argv[0], kind, path, number, (char *)NULL);
    return TEST_FAIL;
}
