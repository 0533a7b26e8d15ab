/* SPDX-License-Identifier: MIT */
#include "heap/wipe.h"

#include "base/bits.h"
#include "core/panic.h"
#include "heap/seal.h"
#include "region/region.h"
#include "superslab/residency.h"
#include "sys/sys.h"

#include <stdatomic.h>
#include <string.h>

/* For each power of two, how many runs are given back before the kernel is asked. Hints, so no order matters. */
static _Atomic uint8_t unasked[64];

static bool is_filled(const char *run, size_t size) {
    _Atomic uint8_t *left = &unasked[hk_msb64(size)];
    unsigned before = atomic_load_explicit(left, memory_order_relaxed);
    bool filled = before == 0 && residency_of(run, hk_min(size, HK_SUPERSLAB_SIZE)) == RESIDENCY_FULL;
    if (!filled)
        atomic_store_explicit(left, (uint8_t)(before == 0 ? WIPE_ASKS - 1 : before - 1), memory_order_relaxed);
    return filled;
}

bool wipe_run(char *run, size_t size) {
    hk_assert((uintptr_t)run % HK_SLOT_SIZE == 0 && size % sys_page_size() == 0 && size > 0);
    if (size > WIPE_BYTES_MAX || !is_filled(run, size)) {
        sys_purge(run, size);
        return sys_purge_refused(); /* then zeros were written over it */
    }
    hk_zero_long(run, size);
    return true;
}

/* Offset of the first byte in [from, to), at most a superslab's size, that is not 0; `to` when there is none. */
static size_t find_in_part(const char *block, size_t from, size_t to) {
    hk_assert(from < to && to - from <= HK_SUPERSLAB_SIZE);
    unsigned char pages[HK_SUPERSLAB_SIZE / 4096 + 1];
    const size_t page = sys_page_size(), before = (uintptr_t)(block + from) & (page - 1);
    const size_t bytes = hk_align_up(before + to - from, page), count = bytes >> hk_log2_ceil(page);
    const bool known = sys_resident(block + from - before, bytes, pages) == 0;
    for (size_t i = 0; (i = known ? seal_find_other(pages, i, count, 0) : i) < count; i++) {
        size_t at = i == 0 ? from : from - before + i * page, end = hk_min(to, from - before + (i + 1) * page);
        if (!seal_long_is_zero(block + at, end - at))
            return seal_find_other(block, at, end, 0);
    }
    return to;
}

static size_t find_written(const char *block, size_t from, size_t to) {
    for (size_t end; from < to; from = end) {
        end = hk_min(to, from + HK_SUPERSLAB_SIZE);
        size_t found = find_in_part(block, from, end);
        if (found < end)
            return found;
    }
    return to;
}

bool wipe_is_untouched(const char *block, size_t size) { return find_written(block, 0, size) == size; }

void wipe_report_if_written(char *run, size_t size, const void *caller) {
    size_t found = find_written(run, 0, size);
    if (hk_likely(found == size))
        return;
    seal_report_written_at(run, size, found, caller);
    sys_purge(run, size);
}

/* Where the page ends that the slack begins in. */
static size_t fill_end(size_t size, size_t slack) {
    hk_assert(size % sys_page_size() == 0 && slack <= size);
    return hk_align_up(size - slack, sys_page_size());
}

void wipe_fill_slack(char *run, size_t size, size_t slack) {
    memset(run + size - slack, SEAL_SLACK, fill_end(size, slack) - (size - slack));
}

void wipe_clear_slack(char *run, size_t size, size_t slack) {
    memset(run + size - slack, 0, fill_end(size, slack) - (size - slack));
}

size_t wipe_find_in_slack(const char *run, size_t size, size_t slack) {
    size_t end = fill_end(size, slack), found = seal_find_other(run, size - slack, end, SEAL_SLACK);
    return found < end ? found : find_written(run, end, size);
}
