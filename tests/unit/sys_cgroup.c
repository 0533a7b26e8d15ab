/* SPDX-License-Identifier: MIT
 *
 * The limits of a cgroup and of those above it, v2 and v1, read from made-up hierarchies.
 */
#include "check.h"
#include "sys/sys.h"

#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <sys/stat.h>
#include <unistd.h>

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

static uint64_t cpus_as(const char *membership) {
    char path[256];
    put("membership", membership);
    snprintf(path, sizeof path, "%s/membership", root);
    return sys_cgroup_cpus(path, root);
}

static void memory_v2(void) {
    make("a");
    make("a/b");
    make("c");
    put("a/memory.max", "1000000\n");
    put("a/memory.high", "max\n");
    put("a/b/memory.max", "max\n");
    put("a/b/memory.high", "500000\n");
    sys_memory_limits_t limits = read_as("4:memory:/old\n0::/a/b\n");
    CHECK(limits.known);
    CHECK_EQ(limits.max, 1000000);
    CHECK_EQ(limits.high, 500000);
    limits = read_as("0::/c\n");
    CHECK(limits.max == UINT64_MAX && limits.high == UINT64_MAX);
    limits = read_as("0::/\n");
    CHECK(limits.max == UINT64_MAX);
    /* A container sees its own group as the root, or is told a path of which it sees the root alone. */
    put("memory.max", "7000000\n");
    CHECK_EQ(read_as("0::/\n").max, 7000000);
    CHECK_EQ(read_as("0::/of/the/host\n").max, 7000000);
    CHECK_EQ(read_as("0::/a/b\n").max, 1000000);
    put("memory.max", "max\n");
}

static void memory_v1(void) {
    static const char host[] = "5:cpuset:/x\n4:hugetlb,memory:/d/e\n3:memoryx:/c\n1:name=systemd:/c\n";
    CHECK(read_as(host).max == UINT64_MAX);
    make("memory");
    put("memory/memory.limit_in_bytes", "9223372036854771712\n");
    CHECK(read_as(host).max == UINT64_MAX);
    make("memory/d");
    make("memory/d/e");
    put("memory/d/memory.limit_in_bytes", "3000000\n");
    put("memory/d/e/memory.limit_in_bytes", "9223372036854771712\n");
    CHECK_EQ(read_as(host).max, 3000000);
    CHECK(read_as(host).high == UINT64_MAX);
    CHECK(read_as("3:memoryx:/d\n2:xmemory:/d\n").max == UINT64_MAX);
    put("memory/memory.limit_in_bytes", "2000000");
    CHECK_EQ(read_as("4:memory:/docker/0123\n").max, 2000000);
    /* Both at once: the least counts. */
    CHECK_EQ(read_as("4:memory:/d/e\n0::/a/b\n").max, 1000000);
    CHECK_EQ(read_as("4:memory:/d/e\n0::/c\n").max, 2000000);
}

static void processors(void) {
    CHECK(cpus_as("0::/a/b\n") == UINT64_MAX);
    put("a/cpu.max", "250000 100000\n");
    put("a/b/cpu.max", "max 100000\n");
    CHECK_EQ(cpus_as("0::/a/b\n"), 3);
    put("a/b/cpu.max", "50000 100000\n");
    CHECK_EQ(cpus_as("0::/a/b\n"), 1);
    make("cpu");
    make("cpu/f");
    put("cpu/f/cpu.cfs_quota_us", "-1\n");
    put("cpu/f/cpu.cfs_period_us", "100000\n");
    CHECK(cpus_as("3:cpu,cpuacct:/f\n") == UINT64_MAX);
    put("cpu/f/cpu.cfs_quota_us", "400000\n");
    CHECK_EQ(cpus_as("3:cpu,cpuacct:/f\n"), 4);
    CHECK_EQ(cpus_as("3:cpu,cpuacct:/f\n0::/a\n"), 3);
    cpu_set_t one;
    CPU_ZERO(&one);
    CHECK(sys_affinity_cpus() >= 1 && sys_affinity_cpus() != UINT64_MAX);
    CHECK(sched_getaffinity(0, sizeof one, &one) == 0);
    CHECK_EQ(sys_affinity_cpus(), CPU_COUNT(&one));
    test_use_one_processor();
    CHECK_EQ(sys_affinity_cpus(), 1);
}

/* By the kernel: a sanitizer would make memory of its own resident with it. */
static void make_resident(char *memory, size_t size) {
    if (madvise(memory, size, 23 /* MADV_POPULATE_WRITE, Linux 5.14 */) != 0)
        memset(memory, 1, size);
}

/* As the kernel says it elsewhere: some of it is there, and no more than there is of memory. */
static void memory_is_available(void) {
    struct sysinfo machine;
    CHECK_EQ(sysinfo(&machine), 0);
    CHECK(sys_available_bytes() > 0 && sys_available_bytes() <= machine.totalram * (size_t)machine.mem_unit);
}

/* A mapped file does not count, anonymous memory does. */
static void counts_anonymous_memory(void) {
    enum { BYTES = 16 << 20 };
    size_t before = sys_anonymous_bytes();
    CHECK(before > 10000);
    char path[300];
    snprintf(path, sizeof path, "%s/mapped", root);
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0 && ftruncate(fd, BYTES) == 0);
    char *file = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(file != MAP_FAILED);
    make_resident(file, BYTES);
    CHECK(sys_anonymous_bytes() < before + BYTES / 4);
    char *anonymous = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(anonymous != MAP_FAILED);
    make_resident(anonymous, BYTES);
    CHECK(sys_anonymous_bytes() > before + BYTES / 4 * 3);
    munmap(file, BYTES);
    munmap(anonymous, BYTES);
    close(fd);
}

int main(void) {
    CHECK(mkdtemp(root) != NULL);
    memory_v2();
    memory_v1();
    processors();
    CHECK(sys_cgroup_limits("/nowhere", root).max == UINT64_MAX && !sys_cgroup_limits("/nowhere", root).known);
    CHECK(sys_cgroup_cpus("/nowhere", root) == UINT64_MAX);
    memory_is_available();
    counts_anonymous_memory();
    char command[300];
    snprintf(command, sizeof command, "rm -r %s", root);
    CHECK(system(command) == 0);
    return CHECK_PASS;
}
