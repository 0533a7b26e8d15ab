/* SPDX-License-Identifier: MIT
 *
 * stats_format.h: statistics as text and as JSON.
 */
#pragma once

#include "base/base.h"
#include "core/print.h"
#include "hakmem.h"

/* The figures of hak_stats_t, in its order. */
enum { STAT_COUNT = (offsetof(hak_stats_t, classes) - offsetof(hak_stats_t, mapped)) / sizeof(uint64_t) };
typedef struct stat_place {
    char name[sizeof "superslabs_reused"];
    uint16_t offset;
} stat_place_t;
extern HK_HIDDEN const stat_place_t hk_stat_places[STAT_COUNT];

/* Sums of all classes; block_size is 0. */
hak_class_stats_t stats_class_sum(const hak_stats_t *stats);

void stats_write(hk_out_t *out, const hak_stats_t *stats, hak_format_t format);

/* Notes what the program is called: the C library's name for it lies in memory that is the program's. Once, before
 * there are threads. */
void hk_stats_note_program(void);
