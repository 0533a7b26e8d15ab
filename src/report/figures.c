/* SPDX-License-Identifier: MIT */
#include "report/figures.h"

#include "base/bits.h"
#include "core/print.h"
#include "report/stats.h"
#include "sys/sys.h"

static size_t snapshot_bytes(void) { return hk_align_up(sizeof(hak_stats_t), sys_page_size()); }

hak_stats_t *hk_snapshot_take(bool with_residency) {
    hak_stats_t *stats = sys_map(snapshot_bytes());
    if (stats == NULL)
        return NULL;
    stats->struct_size = sizeof *stats;
    hk_snapshot(stats, with_residency);
    return stats;
}

void hk_snapshot_release(hak_stats_t *stats) {
    if (stats != NULL)
        (void)sys_unmap(stats, snapshot_bytes());
}

static void write_lines(hk_out_t *out, const hak_stats_t *stats) {
#define LINE(field) hk_print(out, #field "=%lu\n", (unsigned long)stats->field)
    LINE(resident);
    LINE(live);
    LINE(untouched);
    LINE(cached);
    LINE(fragmented);
    LINE(retained);
    LINE(metadata);
    LINE(purged_bytes);
#undef LINE
}

size_t hk_figures_text(char *text, size_t size) {
    hak_stats_t *stats = hk_snapshot_take(true);
    hk_out_t out;
    hk_out_to_memory(&out, text, size);
    if (stats != NULL && stats->class_count > 0)
        write_lines(&out, stats);
    hk_snapshot_release(stats);
    return hk_min(out.total, size - 1);
}
