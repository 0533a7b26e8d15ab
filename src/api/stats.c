/* SPDX-License-Identifier: MIT */
#include "api/stats.h"

#include "api/heaps.h"
#include "api/stats_format.h"
#include "base/bits.h"
#include "report/stats.h"
#include "sys/sys.h"

#include <errno.h>
#include <string.h>

enum {
    STAT_TEXT_MAX = 64,            /* of one number with its name, in either form */
    STATS_TEXT_MAX = 128 * HK_KIB, /* of all; what is not written is not resident */
    STATS_WAIT_MS = 1000           /* for the reader of a pipe that does not wait by itself */
};
_Static_assert(sizeof(hak_stats_t) / sizeof(uint64_t) * STAT_TEXT_MAX < STATS_TEXT_MAX, "all statistics fit");

static size_t snapshot_bytes(void) { return hk_align_up(sizeof(hak_stats_t), sys_page_size()); }

hak_stats_t *stats_take(bool with_residency) {
    hak_stats_t *stats = sys_map(snapshot_bytes());
    if (stats == NULL)
        return NULL;
    stats->struct_size = sizeof *stats;
    hk_snapshot(stats, with_residency);
    return stats;
}

void stats_release(hak_stats_t *stats) { sys_unmap(stats, snapshot_bytes()); }

/* --- One figure --------------------------------------------------------------------------------------------------- */

static const char HEAP_PATH[] = "heap/", THREAD_PATH[] = "thread/";

static const stat_place_t *stat_find(const char *name) {
    for (size_t i = 0; i < STAT_COUNT; i++)
        if (strcmp(hk_stat_places[i].name, name) == 0)
            return &hk_stat_places[i];
    return NULL;
}

/* Whether the kernel has to be asked about every page. */
static bool is_of_residency(const stat_place_t *place) {
    return (place->offset >= offsetof(hak_stats_t, resident) && place->offset < offsetof(hak_stats_t, peak_mapped)) &&
           place->offset != offsetof(hak_stats_t, live);
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
    const stat_place_t *place = stat_find(name);
    if (place == NULL)
        return ENOENT;
    hak_stats_t *stats = stats_take(is_of_residency(place));
    if (stats == NULL)
        return ENOMEM;
    bool known = stats->class_count > 0;
    if (known)
        memcpy(value, (const char *)stats + place->offset, sizeof *value);
    stats_release(stats);
    return known ? 0 : EAGAIN;
}

HK_EXPORT int hak_stats_get(hak_stats_t *stats) {
    if (stats == NULL || !hk_is_record_size(stats->struct_size, sizeof *stats))
        return EINVAL;
    if (stats->struct_size == sizeof *stats) {
        hk_snapshot(stats, true);
        return stats->class_count > 0 ? 0 : EAGAIN;
    }
    hak_stats_t *all = stats_take(true);
    if (all == NULL)
        return ENOMEM;
    const bool known = all->class_count > 0;
    all->struct_size = stats->struct_size;
    memcpy(stats, all, all->struct_size);
    stats_release(all);
    return known ? 0 : EAGAIN;
}

/* A snapshot without classes is empty. */
static void write_snapshot(hk_out_t *out, hak_format_t format) {
    hak_stats_t *stats = stats_take(true);
    if (stats != NULL && stats->class_count > 0) {
        stats_write(out, stats, format);
    } else {
        bool stranded = sys_process_mark() == SYS_MARK_STRANDED;
        const char *why = stranded ? "it was made while a thread of its parent held a lock of hakmem's" : "no memory";
        hk_print(out,
                 format == HAK_FORMAT_JSON ? "{\"process\": %u, \"no_statistics\": \"%s\"}\n"
                                           : "hakmem: no statistics of process %u: %s\n",
                 sys_process_id(), why);
    }
    if (stats != NULL)
        stats_release(stats);
}

/* In one write(2), so that in a file those of several processes do not mix; piece by piece where there is no memory for
 * that. */
HK_EXPORT void hak_stats_print(int fd, hak_format_t format) {
    char buffer[HK_OUT_BUFFER];
    hk_out_t out;
    char *text = sys_map(STATS_TEXT_MAX);
    if (text == NULL) {
        hk_out_to_fd(&out, fd, buffer, sizeof buffer);
        write_snapshot(&out, format);
        hk_out_flush(&out);
        return;
    }
    hk_out_to_memory(&out, text, STATS_TEXT_MAX);
    write_snapshot(&out, format);
    sys_write_all_within(fd, text, hk_min(out.total, (size_t)STATS_TEXT_MAX - 1), STATS_WAIT_MS);
    sys_unmap(text, STATS_TEXT_MAX);
}

HK_EXPORT size_t hak_stats_format(char *buffer, size_t buffer_size, hak_format_t format) {
    hk_out_t out;
    hk_out_to_memory(&out, buffer, buffer_size);
    write_snapshot(&out, format);
    return out.total;
}
