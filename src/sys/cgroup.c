/* SPDX-License-Identifier: MIT */
#include "sys/sys.h"

#include <string.h>

enum { PATH_MAX_BYTES = 512, TEXT_MAX = 64 };

static uint64_t parse_bytes(const char *text, long length) {
    uint64_t value = 0;
    long i = 0;
    for (; i < length && text[i] >= '0' && text[i] <= '9'; i++)
        value = value * 10 + (uint64_t)(text[i] - '0');
    return i == 0 ? UINT64_MAX : value; /* "max" */
}

/* The number in `directory`/`name`; UINT64_MAX when there is none. `directory` has room for the name. */
static uint64_t read_limit(char *directory, size_t length, const char *name) {
    if (length + strlen(name) + 1 > PATH_MAX_BYTES)
        return UINT64_MAX;
    memcpy(directory + length, name, strlen(name) + 1);
    long fd = sys_open_read(directory);
    directory[length] = '\0';
    if (fd < 0)
        return UINT64_MAX;
    char text[TEXT_MAX];
    long got = sys_read(fd, text, sizeof text);
    sys_close(fd);
    return parse_bytes(text, got);
}

/* Length of the process's path in the text of /proc/self/cgroup, its start in `*path`: the line "0::/path". */
static size_t find_path(const char *text, size_t length, const char **path) {
    for (size_t at = 0; at + 3 < length; at++) {
        if ((at != 0 && text[at - 1] != '\n') || memcmp(text + at, "0::", 3) != 0)
            continue;
        size_t end = at + 3;
        while (end < length && text[end] != '\n')
            end++;
        *path = text + at + 3;
        return end - at - 3;
    }
    return 0;
}

sys_memory_limits_t sys_cgroup_limits(const char *membership, const char *root) {
    sys_memory_limits_t limits = {UINT64_MAX, UINT64_MAX};
    char text[PATH_MAX_BYTES], directory[PATH_MAX_BYTES];
    long fd = sys_open_read(membership);
    if (fd < 0)
        return limits;
    long got = sys_read(fd, text, sizeof text);
    sys_close(fd);
    const char *path = NULL;
    size_t length = got > 0 ? find_path(text, (size_t)got, &path) : 0, top = strlen(root);
    if (length == 0 || top + length >= sizeof directory)
        return limits;
    memcpy(directory, root, top);
    memcpy(directory + top, path, length);
    /* The limits of every group above count too. */
    for (size_t end = top + length; end > top; end--) {
        if (directory[end - 1] == '/' || (end != top + length && directory[end] != '/'))
            continue;
        directory[end] = '\0';
        uint64_t high = read_limit(directory, end, "/memory.high"), max = read_limit(directory, end, "/memory.max");
        limits.high = high < limits.high ? high : limits.high;
        limits.max = max < limits.max ? max : limits.max;
    }
    return limits;
}

size_t sys_resident_bytes(void) {
    char text[TEXT_MAX];
    long fd = sys_open_read("/proc/self/statm");
    if (fd < 0)
        return 0;
    long got = sys_read(fd, text, sizeof text), at = 0;
    sys_close(fd);
    while (at < got && text[at] != ' ')
        at++;
    return at + 1 < got ? (size_t)parse_bytes(text + at + 1, got - at - 1) * sys_page_size() : 0;
}
