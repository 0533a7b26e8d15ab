/* SPDX-License-Identifier: MIT
 *
 * The limits of a cgroup and of those above it, read from a made-up hierarchy.
 */
#include "check.h"
#include "sys/sys.h"

#include <stdint.h>
#include <sys/stat.h>

static char root[] = "/tmp/hakmem-cgroup-XXXXXX";

static void put(const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", root, name);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    fputs(text, file);
    fclose(file);
}

static void make(const char *name) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", root, name);
    CHECK(mkdir(path, 0700) == 0);
}

static sys_memory_limits_t read_as(const char *membership) {
    char path[256];
    put("membership", membership);
    snprintf(path, sizeof path, "%s/membership", root);
    return sys_cgroup_limits(path, root);
}

int main(void) {
    CHECK(mkdtemp(root) != NULL);
    make("a");
    make("a/b");
    make("c");
    put("a/memory.max", "1000000\n");
    put("a/memory.high", "max\n");
    put("a/b/memory.max", "max\n");
    put("a/b/memory.high", "500000\n");
    sys_memory_limits_t limits = read_as("4:memory:/old\n0::/a/b\n");
    CHECK_EQ(limits.max, 1000000);
    CHECK_EQ(limits.high, 500000);
    limits = read_as("0::/c\n");
    CHECK(limits.max == UINT64_MAX && limits.high == UINT64_MAX);
    limits = read_as("0::/\n");
    CHECK(limits.max == UINT64_MAX);
    limits = read_as("4:memory:/old\n");
    CHECK(limits.max == UINT64_MAX);
    limits = sys_cgroup_limits("/nowhere", root);
    CHECK(limits.max == UINT64_MAX);
    CHECK(sys_resident_bytes() > 100000);
    char command[300];
    snprintf(command, sizeof command, "rm -r %s", root);
    CHECK(system(command) == 0);
    return CHECK_PASS;
}
