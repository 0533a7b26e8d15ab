/* SPDX-License-Identifier: MIT */
#include "core/mappings.h"

#include "sys/sys.h"

#include <string.h>

enum { MAPPINGS_READ_MAX = 1024 };

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

static hk_mapping_t mapping_parse(const char *line) {
    hk_mapping_t mapping;
    mapping.start = parse_hex(&line);
    line += *line == '-';
    mapping.end = parse_hex(&line);
    const char *permissions = skip_field(line);
    mapping.readable = permissions[0] == 'r';
    mapping.writable = strncmp(permissions, "rw", 2) == 0;
    const char *offset = skip_field(permissions);
    const char *device = skip_field(offset);
    const char *inode = skip_field(device);
    mapping.offset = parse_hex(&offset);
    mapping.name = skip_field(inode);
    return mapping;
}

void hk_mapping_name_copy(char to[HK_MAPPING_NAME_MAX], const char *name) {
    size_t length = strnlen(name, HK_MAPPING_NAME_MAX - 1);
    memcpy(to, name, length);
    to[length] = '\0';
}

void hk_mappings_reader_init(hk_mappings_reader_t *reader, hk_mapping_visit_t *visit, void *argument) {
    reader->visit = visit;
    reader->argument = argument;
    reader->done = false;
    reader->length = 0;
}

bool hk_mappings_reader_feed(hk_mappings_reader_t *reader, const char *text, size_t length) {
    for (size_t i = 0; i < length && !reader->done; i++) {
        if (text[i] != '\n') {
            if (reader->length + 1 < sizeof reader->line)
                reader->line[reader->length++] = text[i];
            continue;
        }
        reader->line[reader->length] = '\0';
        reader->length = 0;
        hk_mapping_t mapping = mapping_parse(reader->line);
        reader->done = !reader->visit(&mapping, reader->argument);
    }
    return !reader->done;
}

bool hk_mappings_read(hk_mapping_visit_t *visit, void *argument) {
    long maps = sys_open_read("/proc/self/maps");
    if (maps < 0)
        return false;
    hk_mappings_reader_t reader;
    hk_mappings_reader_init(&reader, visit, argument);
    char text[MAPPINGS_READ_MAX];
    long got;
    while ((got = sys_read(maps, text, sizeof text)) > 0 && hk_mappings_reader_feed(&reader, text, (size_t)got)) {
    }
    sys_close_read(maps);
    return got >= 0;
}
