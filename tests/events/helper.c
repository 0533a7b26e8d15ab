/* SPDX-License-Identifier: MIT
 *
 * The helper thread among the program's doings.
 *
 *   helper files   it has no descriptor in the program's table and none of the program's in its own
 *   helper fork    it comes back after a fork, to what was freed before
 *   helper vfork   a child of vfork starts none, which would be one of the child's, and the parent gives back what it
 *                  freed
 *   helper other   (also with HAKMEM_SAFE=2) it comes when a thread that only frees has freed another thread's blocks
 *
 * In each case the process makes no call after what it freed.
 */
#include "testing.h"

#include <dirent.h>
#include <limits.h>
#include <sys/wait.h>

enum { COUNT = 200000, SIZE = 1000, KEPT_SHARE = 16, WAIT_MS = 4000 };

static void *blocks[COUNT];

static void *fill(void *unused) {
    for (unsigned i = 0; i < COUNT; i++) {
        blocks[i] = malloc(SIZE);
        CHECK(blocks[i] != NULL);
        memset(blocks[i], 1, SIZE);
    }
    return unused;
}

static void drop(unsigned first, unsigned end) {
    for (unsigned i = first; i < end; i++)
        if (i % KEPT_SHARE != 0)
            free(blocks[i]);
}

static void comes_back(long full_kib) {
    long least = full_kib / 2;
    test_wait_t wait = test_wait_for(WAIT_MS);
    while (test_rss_kib() > least && test_wait_more(&wait))
        ;
    CHECK_SAY(test_rss_kib() <= least, "%ld of %ld KiB after %u ms", test_rss_kib(), full_kib, test_waited_ms(&wait));
}

/* Entries of a directory but for "." and ".."; -1 when there is none. */
static int entries(const char *path) {
    DIR *directory = opendir(path);
    if (directory == NULL)
        return -1;
    int count = -2;
    while (readdir(directory) != NULL)
        count++;
    closedir(directory);
    return count;
}

/* Number of the thread that is called hakmem; 0 when there is none. */
static long helper_id(void) {
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks != NULL);
    long id = 0;
    for (struct dirent *task; id == 0 && (task = readdir(tasks)) != NULL;) {
        char path[300], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        FILE *file = fopen(path, "r");
        if (file != NULL && fgets(name, sizeof name, file) != NULL && strcmp(name, "hakmem\n") == 0)
            id = atol(task->d_name);
        if (file != NULL)
            fclose(file);
    }
    closedir(tasks);
    return id;
}

/* The fewest descriptors that the helper had while it was there, INT_MAX when it left before anybody looked: it may
 * have a file of its own open at one moment or another. */
static int fewest_files(void) {
    long id = 0;
    drop(0, COUNT);
    for (test_wait_t wait = test_wait_for(WAIT_MS); (id = helper_id()) == 0 && test_wait_more(&wait);)
        ;
    if (id == 0)
        test_skip("no helper, as under a sanitizer");
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%ld/fd", id);
    int least = INT_MAX;
    for (int now; least != 0 && (now = entries(path)) >= 0; test_sleep_us(1000))
        least = now < least ? now : least;
    return least;
}

static void files(void) {
    int least;
    while ((least = fewest_files()) == INT_MAX)
        fill(NULL);
    CHECK_SAY(least == 0, "the helper shares %d descriptors", least);
}

static void forks(long full_kib) {
    drop(0, COUNT);
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    CHECK(child > 0 && waitpid(child, NULL, 0) == child);
    comes_back(full_kib);
}

static void vforks(long full_kib) {
    static volatile long threads_of_child;
    CHECK(test_status_kib("Threads:") == 1);
    pid_t child = vfork();
    if (child == 0) {
        drop(0, COUNT / 10);
        threads_of_child = test_status_kib("Threads:");
        _exit(0);
    }
    CHECK(child > 0 && waitpid(child, NULL, 0) == child);
    CHECK_SAY(threads_of_child == 1, "%ld threads in the child", threads_of_child);
    drop(COUNT / 10, COUNT);
    comes_back(full_kib);
}

int main(int argc, char **argv) {
    test_require_hakmem();
    test_alarm(60);
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "other") == 0)
        test_join(test_thread(fill, NULL));
    else
        fill(NULL);
    long full = test_rss_kib();
    if (strcmp(what, "files") == 0) {
        files();
    } else if (strcmp(what, "fork") == 0) {
        forks(full);
    } else if (strcmp(what, "vfork") == 0) {
        vforks(full);
    } else {
        for (unsigned i = 0; i < COUNT; i++)
            free(blocks[i]);
        comes_back(full);
    }
    return TEST_PASS;
}
