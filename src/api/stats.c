/* SPDX-License-Identifier: MIT */
#include "api/stats.h"

#include "api/heaps.h"
#include "base/bits.h"
#include "base/build.h"
#include "core/print.h"
#include "report/figures.h"
#include "report/stats.h"
#include "sys/libc_doors.h"
#include "sys/sys.h"

#include <errno.h>
#include <string.h>

typedef enum stat_unit { UNIT_BYTES, UNIT_COUNT } stat_unit_t;

enum {
    STAT_SHORT_MAX = 24,           /* of "1024.0 MiB" and "100 %" */
    PROGRAM_NAME_MAX = 64,         /* a longer one is cut */
    STAT_TEXT_MAX = 64,            /* of one number with its name, in either form */
    STATS_TEXT_MAX = 128 * HK_KIB, /* of all; what is not written is not resident */
    STATS_WAIT_MS = 1000           /* for the reader of a pipe that does not wait by itself */
};
_Static_assert(sizeof(hak_stats_t) / sizeof(uint64_t) * STAT_TEXT_MAX < STATS_TEXT_MAX, "all statistics fit");

#define HK_STAT_GROUP(title)
#define HK_STAT(field, ...) {#field, offsetof(hak_stats_t, field)},
static const struct stat_place {
    char name[sizeof "superslabs_reused"];
    uint16_t offset;
} stat_places[] = {
#include "api/stats.def"
};
#undef HK_STAT
#undef HK_STAT_GROUP
enum { STAT_COUNT = sizeof stat_places / sizeof stat_places[0] };
_Static_assert(offsetof(hak_stats_t, mapped) + STAT_COUNT * sizeof(uint64_t) == offsetof(hak_stats_t, classes),
               "stats.def lists every scalar of hak_stats_t");

static uint64_t figure(const hak_stats_t *s, size_t i) {
    return *(const uint64_t *)(const void *)((const char *)s + stat_places[i].offset);
}

enum { CLASS_STAT_COUNT = sizeof(hak_class_stats_t) / sizeof(uint64_t) };
static const struct class_stat {
    char name[sizeof "cached_blocks"], heading[sizeof "freed remote"];
} class_stats[] = {
#define HK_CLASS_STAT(field, heading) {#field, heading},
#include "api/class_stats.def"
#undef HK_CLASS_STAT
};
_Static_assert(sizeof class_stats / sizeof class_stats[0] == CLASS_STAT_COUNT,
               "class_stats.def lists every field of hak_class_stats_t");

static uint64_t class_figure(const hak_class_stats_t *c, size_t i) { return ((const uint64_t *)c)[i]; }

static char program_name[PROGRAM_NAME_MAX];

/* In characters that need no escape in JSON. */
void hk_stats_note_program(void) {
    const char *name = libc_program_name(), *slash = name != NULL ? strrchr(name, '/') : NULL;
    const char *from = slash != NULL ? slash + 1 : name;
    size_t length = from != NULL ? strnlen(from, PROGRAM_NAME_MAX - 1) : 0;
    for (size_t i = 0; i < length; i++)
        program_name[i] = from[i] < ' ' || from[i] > '~' || from[i] == '"' || from[i] == '\\' ? '?' : from[i];
}

/* --- Text --------------------------------------------------------------------------------------------------------- */

/* "11.8 MiB", to the nearest tenth, and of two as near to the even one, as `hakmem stats` has it. Nothing below 1 KiB,
 * where the plain number says it. */
static void format_bytes(char text[STAT_SHORT_MAX], uint64_t bytes) {
    static const char units[][sizeof "KiB"] = {"KiB", "MiB", "GiB", "TiB"};
    hk_out_t out;
    hk_out_to_memory(&out, text, STAT_SHORT_MAX);
    if (bytes < HK_KIB)
        return;
    size_t i = 0;
    uint64_t unit = HK_KIB;
    for (; i + 1 < sizeof units / sizeof units[0] && bytes / unit >= HK_KIB; i++)
        unit *= HK_KIB;
    const uint64_t rest = bytes % unit * 10, odd = rest / unit % 2;
    const uint64_t tenths = bytes / unit * 10 + (rest + unit / 2 - 1 + odd) / unit;
    hk_print(&out, "%lu.%lu %s", tenths / 10, tenths % 10, units[i]);
}

/* "90 %"; nothing when there is no whole. */
static void format_share(char text[STAT_SHORT_MAX], uint64_t part, uint64_t whole) {
    hk_out_t out;
    hk_out_to_memory(&out, text, STAT_SHORT_MAX);
    if (whole == 0)
        return;
    uint64_t percent = (part * 100 + whole / 2) / whole;
    if (percent == 0 && part != 0)
        hk_print(&out, "<1 %%");
    else
        hk_print(&out, "%lu %%", percent);
}

static void text_line(hk_out_t *out, const char *label, uint64_t value, stat_unit_t unit, uint64_t whole,
                      const char *whole_name) {
    char bytes[STAT_SHORT_MAX] = "";
    char share[STAT_SHORT_MAX];
    if (unit == UNIT_BYTES)
        format_bytes(bytes, value);
    format_share(share, value, whole);
    hk_print(out, "  %-22s %16lu", label, value);
    if (bytes[0] != '\0' || share[0] != '\0')
        hk_print(out, " %11s", bytes);
    if (share[0] != '\0')
        hk_print(out, " %6s %s", share, whole_name);
    hk_print(out, "\n");
}

static bool class_is_empty(const hak_class_stats_t *c) {
    return c->alloc_count == 0 && c->slab_count == 0 && c->live_blocks == 0 && c->cached_blocks == 0;
}

/* The last column: allocations that found a block in the magazine. */
static void text_class(hk_out_t *out, const hak_class_stats_t *c, bool is_sum) {
    char hits[STAT_SHORT_MAX];
    if (is_sum)
        hk_print(out, "  %10s", "all");
    else
        hk_print(out, "  %10zu", c->block_size);
    for (size_t i = 1; i < CLASS_STAT_COUNT; i++)
        hk_print(out, " %12lu", class_figure(c, i));
    uint64_t hit_count = c->alloc_count > c->refill_count ? c->alloc_count - c->refill_count : 0;
    format_share(hits, hit_count, c->alloc_count);
    hk_print(out, " %9s\n", hits);
}

static void text_class_headings(hk_out_t *out) {
    hk_print(out, "\nclasses\n  %10s", class_stats[0].heading);
    for (size_t i = 1; i < CLASS_STAT_COUNT; i++)
        hk_print(out, " %12s", class_stats[i].heading);
    hk_print(out, " %9s\n", "hits");
}

static void text_classes(hk_out_t *out, const hak_stats_t *s, const hak_class_stats_t *sum) {
    text_class_headings(out);
    for (uint32_t i = 0; i < s->class_count; i++)
        if (!class_is_empty(&s->classes[i]))
            text_class(out, &s->classes[i], false);
    text_class(out, sum, true);
}

hak_class_stats_t stats_class_sum(const hak_stats_t *stats) {
    hak_class_stats_t sum = {0};
    for (size_t i = 0; i < stats->class_count * CLASS_STAT_COUNT; i++)
        ((uint64_t *)&sum)[i % CLASS_STAT_COUNT] += class_figure(stats->classes, i);
    sum.block_size = 0;
    return sum;
}

static void write_text(hk_out_t *out, const hak_stats_t *s) {
    hak_class_stats_t sums = stats_class_sum(s);
    const hak_class_stats_t *sum = &sums;
    hk_print(out, "hakmem " HK_VERSION_TEXT " statistics of process %u (%s)\n", sys_process_id(), program_name);
#define HK_STAT_GROUP(title)                           hk_print(out, "\n%s\n", title);
#define HK_STAT(field, unit, label, whole, whole_name) text_line(out, label, s->field, UNIT_##unit, whole, whole_name);
#include "api/stats.def"
#undef HK_STAT
#undef HK_STAT_GROUP
    text_classes(out, s, sum);
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

static void json_class(hk_out_t *out, const hak_class_stats_t *c) {
    for (size_t i = 0; i < CLASS_STAT_COUNT; i++)
        hk_print(out, "%s\"%s\": %lu", i == 0 ? "{" : ", ", class_stats[i].name, class_figure(c, i));
    hk_print(out, "}");
}

static void write_json(hk_out_t *out, const hak_stats_t *s) {
    hk_print(out, "{\n  \"version\": \"" HK_VERSION_TEXT "\",\n  \"process\": %u,\n  \"program\": \"%s\"",
             sys_process_id(), program_name);
    for (size_t i = 0; i < STAT_COUNT; i++)
        hk_print(out, ",\n  \"%s\": %lu", stat_places[i].name, figure(s, i));
    hk_print(out, ",\n  \"classes\": [");
    const char *separator = "\n    ";
    for (uint32_t i = 0; i < s->class_count; i++) {
        if (class_is_empty(&s->classes[i]))
            continue;
        hk_print(out, "%s", separator);
        json_class(out, &s->classes[i]);
        separator = ",\n    ";
    }
    hk_print(out, "\n  ]\n}\n");
}

/* --- One figure --------------------------------------------------------------------------------------------------- */

static const char HEAP_PATH[] = "heap/", THREAD_PATH[] = "thread/";

/* STAT_COUNT when there is none. */
static size_t stat_find(const char *name) {
    size_t i = 0;
    while (i < STAT_COUNT && strcmp(stat_places[i].name, name) != 0)
        i++;
    return i;
}

/* Whether the kernel has to be asked about every page. */
static bool is_of_residency(size_t offset) {
    return offset >= offsetof(hak_stats_t, resident) && offset < offsetof(hak_stats_t, peak_mapped) &&
           offset != offsetof(hak_stats_t, live);
}

static int thread_stat_read(const char *name, uint64_t *value) {
    uint64_t allocated, freed;
    bool is_freed = strcmp(name, "freed") == 0;
    if (!is_freed && strcmp(name, "allocated") != 0)
        return ENOENT;
    if (!hk_thread_snapshot(&allocated, &freed))
        return EAGAIN;
    *value = is_freed ? freed : allocated;
    return 0;
}

_Static_assert(offsetof(hak_stats_t, huge_page_waste) + sizeof(uint64_t) == offsetof(hak_stats_t, peak_mapped),
               "between the two lie live and what is known by residency");

HK_EXPORT int hak_stat_read(const char *name, uint64_t *value) {
    if (name == NULL || value == NULL)
        return EINVAL;
    if (strncmp(name, HEAP_PATH, sizeof HEAP_PATH - 1) == 0)
        return heaps_stat_read(name + sizeof HEAP_PATH - 1, value);
    if (strncmp(name, THREAD_PATH, sizeof THREAD_PATH - 1) == 0)
        return thread_stat_read(name + sizeof THREAD_PATH - 1, value);
    const size_t found = stat_find(name);
    if (found == STAT_COUNT)
        return ENOENT;
    hak_stats_t *stats = hk_snapshot_take(is_of_residency(stat_places[found].offset));
    if (stats == NULL)
        return ENOMEM;
    bool known = stats->class_count > 0;
    if (known)
        *value = figure(stats, found);
    hk_snapshot_release(stats);
    return known ? 0 : EAGAIN;
}

HK_EXPORT int hak_stats_get(hak_stats_t *stats) {
    if (stats == NULL || !hk_is_record_size(stats->struct_size, sizeof *stats))
        return EINVAL;
    if (stats->struct_size == sizeof *stats) {
        hk_snapshot(stats, true);
        return stats->class_count > 0 ? 0 : EAGAIN;
    }
    hak_stats_t *all = hk_snapshot_take(true);
    if (all == NULL)
        return ENOMEM;
    const bool known = all->class_count > 0;
    all->struct_size = stats->struct_size;
    memcpy(stats, all, all->struct_size);
    hk_snapshot_release(all);
    return known ? 0 : EAGAIN;
}

/* --- The whole ---------------------------------------------------------------------------------------------------- */

/* A snapshot without classes is empty. */
static void write_snapshot(hk_out_t *out, hak_format_t format) {
    hak_stats_t *stats = hk_snapshot_take(true);
    const bool known = stats != NULL && stats->class_count > 0;
    if (known && format == HAK_FORMAT_JSON) {
        write_json(out, stats);
    } else if (known) {
        write_text(out, stats);
    } else {
        bool stranded = sys_process_mark() == SYS_MARK_STRANDED;
        const char *why = stranded ? "it was made while a thread of its parent held a lock of hakmem's" : "no memory";
        hk_print(out,
                 format == HAK_FORMAT_JSON ? "{\"process\": %u, \"no_statistics\": \"%s\"}\n"
                                           : "hakmem: no statistics of process %u: %s\n",
                 sys_process_id(), why);
    }
    hk_snapshot_release(stats);
}

/* In one write(2), so that in a file those of several processes do not mix; piece by piece where there is no memory for
 * that. */
int stats_write(int fd, hak_format_t format) {
    char buffer[HK_OUT_BUFFER];
    hk_out_t out;
    char *text = sys_map(STATS_TEXT_MAX);
    if (text == NULL) {
        hk_out_to_fd(&out, fd, buffer, sizeof buffer);
        write_snapshot(&out, format);
        hk_out_flush(&out);
        return 0;
    }
    hk_out_to_memory(&out, text, STATS_TEXT_MAX);
    write_snapshot(&out, format);
    int error = sys_write_whole(fd, text, hk_min(out.total, (size_t)STATS_TEXT_MAX - 1), STATS_WAIT_MS);
    sys_unmap(text, STATS_TEXT_MAX);
    return error;
}

HK_EXPORT void hak_stats_print(int fd, hak_format_t format) { (void)stats_write(fd, format); }

HK_EXPORT size_t hak_stats_format(char *buffer, size_t buffer_size, hak_format_t format) {
    hk_out_t out;
    hk_out_to_memory(&out, buffer, buffer_size);
    write_snapshot(&out, format);
    return out.total;
}
