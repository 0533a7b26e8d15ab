/* SPDX-License-Identifier: MIT */
#include "watch/foreign.h"

#include "core/print.h"
#include "sys/sys.h"

#include <string.h>

enum { FOREIGN_READ_MAX = 1024 };

/* One line of the list: 7f1c2000-7f1c4000 rw-p 0001a000 08:01 1234   /usr/lib/libc.so.6 */
typedef struct mapping {
    uintptr_t start;
    uintptr_t end;
    bool writable;
    const char *name; /* empty when it has none */
} mapping_t;

/* Source of the format: proc(5), /proc/pid/maps. */
static uintptr_t parse_hex(const char **text) {
    uintptr_t value = 0;
    for (;; (*text)++) {
        char c = **text;
        if (c >= '0' && c <= '9')
            value = value * 16 + (uintptr_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            value = value * 16 + (uintptr_t)(c - 'a' + 10);
        else
            return value;
    }
}

static const char *skip_field(const char *text) {
    text += strcspn(text, " ");
    return text + strspn(text, " ");
}

static mapping_t mapping_parse(const char *line) {
    mapping_t mapping;
    mapping.start = parse_hex(&line);
    line += *line == '-';
    mapping.end = parse_hex(&line);
    const char *permissions = skip_field(line);
    mapping.writable = strncmp(permissions, "rw", 2) == 0;
    const char *offset = skip_field(permissions);
    const char *device = skip_field(offset);
    const char *inode = skip_field(device);
    mapping.name = skip_field(inode);
    return mapping;
}

static bool starts_with(const char *text, const char *prefix) { return strncmp(text, prefix, strlen(prefix)) == 0; }

static bool is_anonymous(const mapping_t *mapping) {
    return mapping->name[0] == '\0' || starts_with(mapping->name, "[anon");
}

/* A file, or a page that the kernel lends: [vdso], [vvar]. */
static bool is_file(const mapping_t *mapping) {
    return !is_anonymous(mapping) && !starts_with(mapping->name, "[stack") && !starts_with(mapping->name, "[heap]");
}

static void path_copy(char to[FOREIGN_PATH_MAX], const char *from) {
    size_t length = strnlen(from, FOREIGN_PATH_MAX - 1);
    memcpy(to, from, length);
    to[length] = '\0';
}

static foreign_kind_t mapping_kind(const foreign_scan_t *scan, const mapping_t *mapping) {
    if (starts_with(mapping->name, "[stack"))
        return FOREIGN_STACK;
    if (starts_with(mapping->name, "[heap]"))
        return FOREIGN_BRK;
    if (is_file(mapping))
        return FOREIGN_FILE;
    if (scan->stack_pointer >= mapping->start && scan->stack_pointer < mapping->end)
        return FOREIGN_STACK;
    if (mapping->writable && mapping->name[0] == '\0' && mapping->start == scan->bss)
        return FOREIGN_FILE;
    return FOREIGN_ANONYMOUS;
}

static void scan_mapping(foreign_scan_t *scan, const mapping_t *mapping) {
    if (mapping->start > scan->address) { /* the list is in order: nothing is there */
        scan->done = true;
        return;
    }
    if (scan->address < mapping->end) {
        scan->found.kind = mapping_kind(scan, mapping);
        if (scan->found.kind == FOREIGN_FILE)
            path_copy(scan->found.path, is_file(mapping) ? mapping->name : scan->bss_path);
        scan->done = true;
        return;
    }
    scan->bss = 0;
    if (mapping->writable && mapping->name[0] == '/') {
        scan->bss = mapping->end;
        path_copy(scan->bss_path, mapping->name);
    }
}

void foreign_scan_init(foreign_scan_t *scan, const void *address, const void *stack_pointer) {
    *scan = (foreign_scan_t){.address = (uintptr_t)address, .stack_pointer = (uintptr_t)stack_pointer};
    scan->found.kind = FOREIGN_UNMAPPED;
}

bool foreign_scan_feed(foreign_scan_t *scan, const char *text, size_t length) {
    for (size_t i = 0; i < length && !scan->done; i++) {
        if (text[i] != '\n') {
            if (scan->length + 1 < sizeof scan->line)
                scan->line[scan->length++] = text[i];
            continue;
        }
        scan->line[scan->length] = '\0';
        scan->length = 0;
        mapping_t mapping = mapping_parse(scan->line);
        scan_mapping(scan, &mapping);
    }
    return !scan->done;
}

void foreign_classify(const void *ptr, foreign_t *out) {
    foreign_scan_t scan;
    foreign_scan_init(&scan, ptr, __builtin_frame_address(0));
    long maps = sys_open_read("/proc/self/maps");
    char text[FOREIGN_READ_MAX];
    long got = maps;
    if (maps >= 0) {
        while ((got = sys_read(maps, text, sizeof text)) > 0 && foreign_scan_feed(&scan, text, (size_t)got)) {
        }
        sys_close(maps);
    }
    *out = scan.found;
    if (got < 0)
        out->kind = FOREIGN_UNKNOWN;
}

void foreign_describe(const void *ptr, char text[FOREIGN_TEXT_MAX]) {
    static const char *const names[] = {
        [FOREIGN_UNKNOWN] = "memory not from hakmem",
        [FOREIGN_UNMAPPED] = "not mapped",
        [FOREIGN_STACK] = "stack",
        [FOREIGN_FILE] = "mapped file ",
        [FOREIGN_ANONYMOUS] = "anonymous memory not from hakmem",
        [FOREIGN_BRK] = "anonymous memory not from hakmem",
    };
    foreign_t found;
    foreign_classify(ptr, &found);
    hk_out_t out;
    hk_out_to_memory(&out, text, FOREIGN_TEXT_MAX);
    hk_print(&out, "%s%s", names[found.kind], found.kind == FOREIGN_FILE ? found.path : "");
}
