/* SPDX-License-Identifier: MIT */
#include "report/figures.h"

#include "base/bits.h"
#include "core/print.h"
#include "report/stats.h"
#include "sys/sys.h"

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
    const size_t bytes = hk_align_up(sizeof(hak_stats_t), sys_page_size());
    hak_stats_t *stats = sys_map(bytes); /* too much for a small stack */
    hk_out_t out;
    if (stats == NULL)
        return 0;
    stats->struct_size = sizeof *stats;
    hk_snapshot(stats, true);
    hk_out_to_memory(&out, text, size);
    if (stats->class_count > 0)
        write_lines(&out, stats);
    (void)sys_unmap(stats, bytes);
    return hk_min(out.total, size - 1);
}
