/* SPDX-License-Identifier: MIT
 *
 * Memory of hakmem has names in /proc/PID/maps, with a kernel that has such: what holds blocks, what holds a block
 * above 1 GiB, and records and tables. Names cost no mappings: neighbours are one, as they were without. A filter that
 * kills for the call that gives names, installed later, never meets it.
 */
#include "testing.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>

#ifndef PR_SET_VMA
#define PR_SET_VMA           0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif

enum { BLOCKS = 40000, SIZE = 5000, LINE = 512 };

static void *blocks[BLOCKS];

static void grow(void) {
    for (unsigned i = 0; i < BLOCKS; i++)
        memset(blocks[i] = malloc(SIZE), 1, SIZE);
}

/* Kills for prctl; all else is as before. */
static void forbid(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof code[0], code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        _exit(TEST_SKIP);
}

static void in_filter(void) {
    forbid();
    grow();
    for (unsigned i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    void *large = malloc(2 * TEST_GIB);
    free(large);
    _exit(TEST_PASS);
}

static void filtered(void) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        in_filter();
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_SAY(WIFEXITED(status) && (WEXITSTATUS(status) == TEST_PASS || WEXITSTATUS(status) == TEST_SKIP), "status %d",
              status);
}

typedef struct line {
    uintptr_t from, to;
    char rights[8], name[64];
} line_t;

static bool next_line(FILE *maps, line_t *line) {
    char text[LINE];
    if (fgets(text, sizeof text, maps) == NULL)
        return false;
    line->name[0] = 0;
    CHECK(sscanf(text, "%zx-%zx %7s %*s %*s %*s %63s", &line->from, &line->to, line->rights, line->name) >= 3);
    return true;
}

/* The name of what the address lies in. */
static void name_of(const void *address, char name[64]) {
    FILE *maps = fopen("/proc/self/maps", "re");
    CHECK(maps != NULL);
    line_t line = {0};
    while (next_line(maps, &line) && !((uintptr_t)address >= line.from && (uintptr_t)address < line.to))
        ;
    CHECK((uintptr_t)address >= line.from && (uintptr_t)address < line.to);
    strcpy(name, line.name);
    fclose(maps);
}

static void is_named(const void *address, const char *wanted) {
    char name[64];
    name_of(address, name);
    CHECK_SAY(strcmp(name, wanted) == 0, "%s, not %s", name, wanted);
}

/* Neighbours of one name and one kind, which the kernel would have made one; and how many mappings have the name. */
static unsigned count(const char *name, unsigned *apart) {
    FILE *maps = fopen("/proc/self/maps", "re");
    CHECK(maps != NULL);
    unsigned found = 0;
    line_t line, before = {0};
    for (*apart = 0; next_line(maps, &line); before = line) {
        if (strcmp(line.name, name) != 0)
            continue;
        found++;
        *apart += strcmp(before.name, name) == 0 && before.to == line.from && strcmp(before.rights, line.rights) == 0;
    }
    fclose(maps);
    return found;
}

static bool kernel_has_names(void) {
    void *page = test_pages(4096);
    bool has = prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, page, 4096, "test") == 0;
    CHECK(munmap(page, 4096) == 0);
    return has;
}

int main(void) {
    test_alarm(60);
    test_require_hakmem();
    filtered();
    grow();
    unsigned apart;
    if (!kernel_has_names()) {
        CHECK_EQ(count("[anon:hakmem-heap]", &apart), 0);
        test_skip("this kernel has no names for anonymous memory");
    }
    void *large = malloc(TEST_GIB + TEST_GIB / 4), *run = malloc(3 * TEST_MIB);
    is_named(blocks[0], "[anon:hakmem-heap]");
    is_named(blocks[BLOCKS - 1], "[anon:hakmem-heap]");
    is_named(run, "[anon:hakmem-heap]");
    if (large != NULL) /* the kernel may refuse more than the machine has */
        is_named(large, "[anon:hakmem-large]");
    unsigned heap = count("[anon:hakmem-heap]", &apart);
    CHECK_SAY(apart == 0, "%u neighbours that are not one", apart);
    CHECK_SAY(heap <= 4, "%u mappings for %d MiB of blocks", heap, BLOCKS * SIZE >> 20);
    CHECK(count("[anon:hakmem-records]", &apart) > 0 && apart == 0);
    CHECK(count("[anon:hakmem-tables]", &apart) > 0 && apart == 0);
    free(run);
    free(large);
    return TEST_PASS;
}
