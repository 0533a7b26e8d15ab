/* SPDX-License-Identifier: MIT */
#include "watch/foreign.h"

#include "core/print.h"

#include <string.h>

static bool starts_with(const char *text, const char *prefix) { return strncmp(text, prefix, strlen(prefix)) == 0; }

static bool is_anonymous(const hk_mapping_t *mapping) {
    return mapping->name[0] == '\0' || starts_with(mapping->name, "[anon");
}

/* A file, or a page that the kernel lends: [vdso], [vvar]. */
static bool is_file(const hk_mapping_t *mapping) {
    return !is_anonymous(mapping) && !starts_with(mapping->name, "[stack") && !starts_with(mapping->name, "[heap]");
}

static foreign_kind_t mapping_kind(const foreign_scan_t *scan, const hk_mapping_t *mapping) {
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

bool foreign_visit(const hk_mapping_t *mapping, void *scan) {
    foreign_scan_t *s = scan;
    if (mapping->start > s->address) /* the list is in order: nothing is there */
        return false;
    if (s->address < mapping->end) {
        s->found.kind = mapping_kind(s, mapping);
        if (s->found.kind == FOREIGN_FILE)
            hk_mapping_name_copy(s->found.path, is_file(mapping) ? mapping->name : s->bss_path);
        return false;
    }
    s->bss = 0;
    if (mapping->writable && mapping->name[0] == '/') {
        s->bss = mapping->end;
        hk_mapping_name_copy(s->bss_path, mapping->name);
    }
    return true;
}

void foreign_scan_init(foreign_scan_t *scan, const void *address, const void *stack_pointer) {
    *scan = (foreign_scan_t){.address = (uintptr_t)address, .stack_pointer = (uintptr_t)stack_pointer};
    scan->found.kind = FOREIGN_UNMAPPED;
}

void foreign_classify(const void *ptr, foreign_t *out) {
    foreign_scan_t scan;
    foreign_scan_init(&scan, ptr, __builtin_frame_address(0));
    bool read = hk_mappings_read(foreign_visit, &scan);
    *out = scan.found;
    if (!read)
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
