/* SPDX-License-Identifier: MIT
 *
 * The memory of the group comes near its memory.high. What the process does about that ends when the limit is raised,
 * and when the process has less. The group is made up: a file system over /sys/fs/cgroup that this process alone sees.
 *
 *   raised LIMIT    the limit is raised to that
 *   raised less     the process frees most of what it has
 */
#include "testing.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

enum { BLOCKS = 190, PAIRS = 50, PAIR_BYTES = 5 << 20, WAIT_MS = 5000 };

static char *blocks[BLOCKS];

static void set_high(const char *text) {
    int fd = open("/sys/fs/cgroup/memory.high", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    CHECK(fd >= 0 && fchmod(fd, 0644) == 0); /* for our threads, which have no rights of root */
    CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

static hak_stats_t stats(void) {
    hak_stats_t now = {.struct_size = sizeof now};
    int (*get)(hak_stats_t *) = NULL;
    *(void **)&get = dlsym(RTLD_DEFAULT, "hak_stats_get");
    CHECK(get != NULL && get(&now) == 0);
    return now;
}

static long faults(void) {
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    return usage.ru_minflt;
}

/* Whether runs that are freed serve again with their pages: near a limit these go at once. */
static bool runs_are_kept(void) {
    long before = faults();
    for (unsigned i = 0; i < PAIRS; i++) {
        char *block = (char *)malloc(PAIR_BYTES);
        CHECK(block != NULL);
        block[0] = 1;
        free(test_opaque(block));
    }
    return faults() - before < PAIRS;
}

int main(int argc, char **argv) {
    test_require_hakmem();
    test_alarm(60);
    CHECK(argc == 2);
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", "/sys/fs/cgroup", "tmpfs", 0, "size=1m") != 0)
        test_skip("no file system can be mounted");
    set_high("209715200\n");
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = (char *)malloc(TEST_MIB);
        CHECK(blocks[i] != NULL);
        memset(blocks[i], 1, TEST_MIB);
    }
    if (stats().limit_soft != 200 * TEST_MIB)
        test_skip("the group cannot be read");
    CHECK(stats().limit_nears > 0 && !runs_are_kept());
    bool less = strcmp(argv[1], "less") == 0;
    for (unsigned i = 20; less && i < BLOCKS; i++)
        free(blocks[i]);
    if (!less)
        set_high(argv[1]);
    for (test_wait_t wait = test_wait_for(WAIT_MS); !runs_are_kept();)
        CHECK_SAY(test_wait_more(&wait), "still near after %u ms", test_waited_ms(&wait));
    return TEST_PASS;
}
