/* SPDX-License-Identifier: MIT
 *
 * info.c: the names by which glibc programs ask malloc how it is doing. docs/compatibility.md says what each number
 * means here. The structures are declared here because musl's <malloc.h> has none; their layout is that of glibc.
 */
#include "api/stats.h"
#include "base/bits.h"
#include "core/print.h"
#include "slow/reclaim.h"
#include "map/map.h"
#include "report/figures.h"
#include "sys/sys.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>

struct mallinfo2 {
    size_t arena;    /* bytes of the heap, in use or free */
    size_t ordblks;  /* free slots that are not given back yet */
    size_t smblks;   /* free blocks in magazines */
    size_t hblks;    /* blocks with a mapping of their own */
    size_t hblkhd;   /* their bytes: 0, they are part of `arena` and `uordblks` */
    size_t usmblks;  /* unused, as in glibc */
    size_t fsmblks;  /* bytes in magazines and in quarantine */
    size_t uordblks; /* bytes in use */
    size_t fordblks; /* bytes free, resident or not; arena = uordblks + fordblks */
    size_t keepcost; /* bytes that malloc_trim could give back now */
};

/* The fields of mallinfo2, of half the width. */
struct mallinfo {
    int arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};

/* Parameters of mallopt, with glibc's numbers. */
enum { OPT_PERTURB = -6, OPT_MXFAST = 1 };

enum { OPT_MXFAST_MAX = 80 * sizeof(size_t) / 4 }; /* glibc refuses more */

enum { INFO_XML_MAX = 32 * 1024 }; /* 128 classes, 100 characters each, and the rest */

HK_EXPORT struct mallinfo2 mallinfo2(void) {
    struct mallinfo2 info = {0};
    hak_stats_t *stats = hk_snapshot_take(false);
    if (stats == NULL)
        return info;
    info.uordblks = stats->live;
    info.fordblks = stats->cached + stats->fragmented + stats->retained;
    info.arena = info.uordblks + info.fordblks;
    info.ordblks = stats->retained / HK_SLOT_SIZE;
    info.smblks = stats_class_sum(stats).cached_blocks;
    info.hblks = stats->huge_allocs - stats->huge_frees;
    info.fsmblks = stats->cached;
    info.keepcost = stats->retained;
    hk_snapshot_release(stats);
    return info;
}

HK_EXPORT struct mallinfo mallinfo(void) {
    union {
        struct mallinfo2 whole;
        size_t fields[sizeof(struct mallinfo2) / sizeof(size_t)];
    } from = {.whole = mallinfo2()};
    union {
        struct mallinfo whole;
        int fields[sizeof(struct mallinfo) / sizeof(int)];
    } to;
    for (size_t i = 0; i < sizeof to.fields / sizeof to.fields[0]; i++)
        to.fields[i] = (int)hk_min(from.fields[i], INT_MAX);
    return to.whole;
}

/* glibc's parameters steer mechanisms that hakmem does not have: they are accepted and without effect. M_PERTURB asks
 * for an effect that a program may rely on, so the answer is the truth: it is not honoured. */
HK_EXPORT int mallopt(int parameter, int value) {
    switch (parameter) {
    case OPT_MXFAST:
        return value >= 0 && value <= OPT_MXFAST_MAX;
    case OPT_PERTURB:
        return value == 0;
    default:
        return 1;
    }
}

HK_EXPORT int malloc_trim(size_t pad) {
    (void)pad; /* what is to stay at the top of the heap: there is no top */
    return hk_trim_all() > 0;
}

HK_EXPORT void malloc_stats(void) {
    struct mallinfo2 info = mallinfo2();
    char buffer[HK_OUT_BUFFER];
    hk_out_t out;
    hk_out_to_fd(&out, 2, buffer, sizeof buffer);
    hk_print(&out, "Arena 0:\nsystem bytes     = %10zu\nin use bytes     = %10zu\n", info.arena, info.uordblks);
    hk_print(&out, "Total (incl. mmap):\nsystem bytes     = %10zu\nin use bytes     = %10zu\n", info.arena,
             info.uordblks);
    hk_print(&out, "max mmap regions = %10zu\nmax mmap bytes   = %10zu\n", info.hblks, info.hblkhd);
    hk_out_flush(&out);
}

/* One <size> per class with blocks in magazines; `from` is where the class below ends. */
static void xml_sizes(hk_out_t *out, const hak_stats_t *stats) {
    hk_print(out, "<sizes>\n");
    for (uint32_t i = 0; i < stats->class_count; i++) {
        const hak_class_stats_t *c = &stats->classes[i];
        size_t from = i > 0 ? stats->classes[i - 1].block_size + 1 : 1;
        if (c->cached_blocks > 0)
            hk_print(out, "  <size from=\"%zu\" to=\"%zu\" total=\"%zu\" count=\"%lu\"/>\n", from, c->block_size,
                     c->block_size * c->cached_blocks, c->cached_blocks);
    }
    hk_print(out, "</sizes>\n");
}

/* What glibc repeats in each <heap> and in the whole. */
static void xml_totals(hk_out_t *out, const hak_stats_t *s) {
    uint64_t rest = s->fragmented + s->retained;
    hk_print(out, "<total type=\"fast\" count=\"%lu\" size=\"%lu\"/>\n", stats_class_sum(s).cached_blocks, s->cached);
    hk_print(out, "<total type=\"rest\" count=\"%lu\" size=\"%lu\"/>\n", s->retained / HK_SLOT_SIZE, rest);
}

static void xml_system(hk_out_t *out, const hak_stats_t *s) {
    hk_print(out, "<system type=\"current\" size=\"%lu\"/>\n", s->live + s->cached + s->fragmented + s->retained);
    hk_print(out, "<system type=\"max\" size=\"%lu\"/>\n", s->peak_mapped);
    hk_print(out, "<aspace type=\"total\" size=\"%lu\"/>\n<aspace type=\"mprotect\" size=\"%lu\"/>\n", s->mapped,
             s->resident);
}

static void write_xml(hk_out_t *out, const hak_stats_t *stats) {
    hk_print(out, "<malloc version=\"1\">\n<heap nr=\"0\">\n");
    xml_sizes(out, stats);
    xml_totals(out, stats);
    xml_system(out, stats);
    hk_print(out, "</heap>\n");
    xml_totals(out, stats);
    hk_print(out, "<total type=\"mmap\" count=\"%lu\" size=\"0\"/>\n", stats->huge_allocs - stats->huge_frees);
    xml_system(out, stats);
    hk_print(out, "</malloc>\n");
}

/* The stream is the caller's, and may allocate its buffer by our malloc; the text is complete before it is touched. */
HK_EXPORT int malloc_info(int options, FILE *stream) {
    if (options != 0)
        return EINVAL;
    size_t xml_bytes = hk_align_up(INFO_XML_MAX, sys_page_size());
    char *xml = sys_map(xml_bytes);
    hak_stats_t *stats = hk_snapshot_take(true);
    int result = ENOMEM;
    if (xml != NULL && stats != NULL) {
        hk_out_t out;
        hk_out_to_memory(&out, xml, xml_bytes);
        write_xml(&out, stats);
        result = fputs(xml, stream) < 0 ? EIO : 0;
    }
    hk_snapshot_release(stats);
    if (xml != NULL)
        sys_unmap(xml, xml_bytes);
    return result;
}
