/* SPDX-License-Identifier: MIT
 *
 * cgroup.c: the control groups of the process, v2 and v1, read without libc.
 *
 * A line of /proc/self/cgroup is "id:controllers:path"; that of v2 has no controllers. A limit holds for every group
 * below too, so the way goes from the process's group up to the root of what is mounted: in a container the path may be
 * the host's, of which only the root is there.
 */
#include "sys/cgroup.h"

#include "base/bits.h"
#include "sys/confined.h"
#include "sys/file.h"
#include "sys/memory.h"
#include "sys/process.h"
#include "sys/raw_call.h"

#include <string.h>

enum {
    PATH_MAX_BYTES = 512,
    MEMBERSHIP_MAX = 4096, /* v1 has a dozen lines, of 100 bytes each in a container */
    TEXT_MAX = 64,
    CPU_WORDS = 64, /* 4,096 processors */
};

/* v1 says so, rounded down to pages, where v2 says "max". */
#define V1_NO_LIMIT (UINT64_C(1) << 62)

/* A group's directory; cut at `length` it is the one above, down to `top`, the root. */
typedef struct group {
    char directory[PATH_MAX_BYTES];
    size_t top, length;
} group_t;

/* --- Text --------------------------------------------------------------------------------------------------------- */

static bool has_word(const char *list, size_t length, const char *word) {
    size_t size = strlen(word);
    for (size_t at = 0; size > 0 && at + size <= length; at++) {
        bool begins = at == 0 || list[at - 1] == ',', ends = at + size == length || list[at + size] == ',';
        if (begins && ends && memcmp(list + at, word, size) == 0)
            return true;
    }
    return size == 0 && length == 0;
}

/* Length of the path in the line of `controller` ("" is v2), its start in `*path`; 0 when there is none. */
static size_t find_path(const char *text, const char *controller, const char **path) {
    for (const char *line = text; *line != '\0'; line += *line == '\n') {
        const char *list = line + strcspn(line, ":\n");
        list += *list == ':';
        const size_t length = strcspn(list, ":\n");
        line = list + strcspn(list, "\n");
        if (list[length] != ':' || !has_word(list, length, controller))
            continue;
        *path = list + length + 1;
        return (size_t)(line - *path);
    }
    return 0;
}

/* --- Groups ------------------------------------------------------------------------------------------------------- */

/* The group of the process in the hierarchy of `controller`, which is mounted at `root``mount`. */
static bool find_group(group_t *group, const char *membership, const char *root, const char *mount,
                       const char *controller) {
    char text[MEMBERSHIP_MAX];
    const char *path = NULL;
    (void)sys_read_text(membership, text, sizeof text);
    size_t length = find_path(text, controller, &path);
    size_t of_root = strlen(root), of_mount = strlen(mount);
    group->top = of_root + of_mount;
    group->length = group->top + length;
    if (length == 0 || group->length >= sizeof group->directory)
        return false;
    memcpy(group->directory, root, of_root);
    memcpy(group->directory + of_root, mount, of_mount);
    memcpy(group->directory + group->top, path, length);
    while (group->length > group->top && group->directory[group->length - 1] == '/')
        group->length--;
    return true;
}

/* Moves to the group above; false behind the root. */
static bool group_up(group_t *group) {
    if (group->length == group->top)
        return false;
    do
        group->length--;
    while (group->length > group->top && group->directory[group->length] != '/');
    return true;
}

/* The text of a file of the group. False, and an empty text, when there is none. */
static bool read_of(const group_t *group, const char *name, char text[TEXT_MAX]) {
    char path[PATH_MAX_BYTES];
    text[0] = '\0';
    if (group->length + strlen(name) + 1 > sizeof path)
        return false;
    memcpy(path, group->directory, group->length);
    memcpy(path + group->length, name, strlen(name) + 1);
    return sys_read_text(path, text, TEXT_MAX) > 0;
}

static uint64_t number_of(const group_t *group, const char *name, bool *known) {
    char text[TEXT_MAX];
    const char *at = text;
    *known |= read_of(group, name, text);
    return sys_parse_number(&at);
}

/* --- Memory ------------------------------------------------------------------------------------------------------- */

sys_memory_limits_t sys_cgroup_limits(const char *membership, const char *root) {
    sys_memory_limits_t limits = {UINT64_MAX, UINT64_MAX, false};
    group_t group;
    for (bool more = find_group(&group, membership, root, "", ""); more; more = group_up(&group)) {
        limits.high = hk_min(limits.high, number_of(&group, "/memory.high", &limits.known));
        limits.max = hk_min(limits.max, number_of(&group, "/memory.max", &limits.known));
    }
    for (bool more = find_group(&group, membership, root, "/memory", "memory"); more; more = group_up(&group)) {
        uint64_t max = number_of(&group, "/memory.limit_in_bytes", &limits.known);
        limits.max = hk_min(limits.max, max < V1_NO_LIMIT ? max : UINT64_MAX);
    }
    return limits;
}

size_t sys_anonymous_bytes(void) {
    char text[TEXT_MAX];
    const char *at = text;
    (void)sys_read_text("/proc/self/statm", text, sizeof text);
    (void)sys_parse_number(&at);
    uint64_t resident = sys_parse_number(&at), shared = sys_parse_number(&at);
    return shared == UINT64_MAX || shared > resident ? 0 : (size_t)(resident - shared) * sys_page_size();
}

size_t sys_address_space_room(void) {
    char text[TEXT_MAX];
    const char *at = text;
    const size_t limit = sys_address_space_limit();
    if (limit == SIZE_MAX)
        return SIZE_MAX;
    (void)sys_read_text("/proc/self/statm", text, sizeof text);
    uint64_t pages = sys_parse_number(&at), used = pages == UINT64_MAX ? 0 : pages * sys_page_size();
    return used < limit ? limit - (size_t)used : 0;
}

size_t sys_available_bytes(void) {
    char text[4 * TEXT_MAX];
    (void)sys_read_text("/proc/meminfo", text, sizeof text);
    const char *at = sys_text_behind(text, "MemAvailable:"); /* the third line */
    uint64_t kib = at != NULL ? sys_parse_number(&at) : UINT64_MAX;
    return kib > SIZE_MAX / HK_KIB ? SIZE_MAX : (size_t)kib * HK_KIB;
}

/* --- Processors --------------------------------------------------------------------------------------------------- */

/* Whole processors that a quota of `quota` microseconds in each `period` comes to; at least one. */
static uint64_t cpus_of(uint64_t quota, uint64_t period) {
    if (quota == UINT64_MAX || period == UINT64_MAX || period == 0)
        return UINT64_MAX;
    return hk_max(quota / period + (quota % period != 0), 1);
}

static uint64_t quota_v2(const group_t *group) {
    char text[TEXT_MAX];
    const char *at = text;
    (void)read_of(group, "/cpu.max", text);
    uint64_t quota = sys_parse_number(&at);
    return cpus_of(quota, sys_parse_number(&at));
}

uint64_t sys_cgroup_cpus(const char *membership, const char *root) {
    uint64_t cpus = UINT64_MAX;
    group_t group;
    for (bool more = find_group(&group, membership, root, "", ""); more; more = group_up(&group))
        cpus = hk_min(cpus, quota_v2(&group));
    bool known = false;
    for (bool more = find_group(&group, membership, root, "/cpu", "cpu"); more; more = group_up(&group)) {
        uint64_t quota = number_of(&group, "/cpu.cfs_quota_us", &known);
        cpus = hk_min(cpus, cpus_of(quota, number_of(&group, "/cpu.cfs_period_us", &known)));
    }
    return cpus;
}

uint64_t sys_affinity_cpus(void) {
    uint64_t mask[CPU_WORDS] = {0};
    if (!sys_passage_begin())
        return UINT64_MAX;
    long got = sys_call3(SYS_sched_getaffinity, (long)sys_process_id(), sizeof mask, (long)mask);
    sys_passage_end();
    uint64_t count = 0;
    for (unsigned word = 0; !sys_failed(got) && word < CPU_WORDS; word++)
        count += hk_popcount64(mask[word]);
    return count > 0 ? count : UINT64_MAX;
}
