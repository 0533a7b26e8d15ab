/* SPDX-License-Identifier: MIT
 *
 * cgroup.h: how much memory and how many processors the process may use, and what of it there is.
 */
#pragma once

#include "base/base.h"

/* The memory limits of the process's cgroup and of all above it, the least of each; UINT64_MAX is none. Those of v2 are
 * memory.high and memory.max, that of v1 (memory.limit_in_bytes) counts as a maximum.
 * `membership` is /proc/self/cgroup, `root` is where the hierarchies are mounted. */
typedef struct sys_memory_limits {
    uint64_t high, max;
    bool known; /* some group's file could be read */
} sys_memory_limits_t;

sys_memory_limits_t sys_cgroup_limits(const char *membership, const char *root);

/* How many processors the process may keep busy: by the quota of its cgroup (cpu.max, or v1's cpu.cfs_quota_us; whole
 * ones, rounded up), and by the affinity of its main thread: others may be bound to a processor each. UINT64_MAX is no
 * limit. */
uint64_t sys_cgroup_cpus(const char *membership, const char *root);
uint64_t sys_affinity_cpus(void);

/* What the process has resident of anonymous memory; 0 when it cannot be known. Pages of files are not counted: the
 * kernel takes them away before a limit kills (and shared memory is of no one process). Source: proc_pid_statm(5),
 * resident - shared. */
size_t sys_anonymous_bytes(void);

/* What is left of it: SIZE_MAX when there is no limit. */
size_t sys_address_space_room(void);

/* What the machine can give without paging: MemAvailable of proc_meminfo(5), SIZE_MAX when it cannot be read. */
size_t sys_available_bytes(void);
