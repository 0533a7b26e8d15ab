/* SPDX-License-Identifier: MIT
 *
 * heaps.c: the hak_heap_ calls of hakmem.h. A hak_heap_t is the heap_t of an explicit heap.
 */
#include "slow/heaps.h"

#include "api/heaps.h"
#include "base/bits.h"
#include "front/front.h"
#include "hakmem.h"
#include "heap/explicit.h"
#include "heap/lease.h"
#include "slow/realloc.h"
#include "start/start.h"
#include "sys/tags.h"
#include "watch/misuse.h"

#include <errno.h>
#include <string.h>

_Static_assert(HAK_HEAP_NAME_MAX == HEAP_NAME_MAX, "one name");

#define CALLER() __builtin_return_address(0)

/* NULL and a report when it is no heap. */
static heap_t *checked(const char *verb, hak_heap_t *heap, const void *caller) {
    if (hk_likely(explicit_is_one(heap)))
        return (heap_t *)heap;
    misuse_no_heap(verb, heap, caller);
    errno = ENOMEM;
    return NULL;
}

HK_EXPORT hak_heap_t *hak_heap_new(const hak_heap_options_t *options) {
    int error = ENOMEM;
    heap_t *h = NULL;
    hak_heap_options_t known = {0};
    if (options != NULL && hk_is_record_size(options->struct_size, sizeof known))
        memcpy(&known, options, options->struct_size);
    else if (options != NULL)
        error = EINVAL;
    if (error != EINVAL && heap_system_ready())
        h = explicit_make(known.name, known.limit, &error);
    if (h == NULL)
        errno = error;
    return (hak_heap_t *)h;
}

static HK_NOINLINE void *alloc(const char *verb, hak_heap_t *heap, size_t align, size_t size, bool zero,
                               const void *caller) {
    heap_t *h = checked(verb, heap, caller);
    return hk_likely(h != NULL) ? heaps_alloc(h, align, size, zero, caller) : NULL;
}

HK_EXPORT void *hak_heap_malloc(hak_heap_t *heap, size_t size) {
    void *block = lease_take(heap, size);
    return hk_likely(block != NULL) ? block : alloc("hak_heap_malloc", heap, HK_ALIGNMENT, size, false, CALLER());
}

HK_EXPORT void *hak_heap_calloc(hak_heap_t *heap, size_t count, size_t size) {
    return alloc("hak_heap_calloc", heap, HK_ALIGNMENT, front_array_size(count, size), true, CALLER());
}

HK_EXPORT void *hak_heap_aligned_alloc(hak_heap_t *heap, size_t alignment, size_t size) {
    if (alignment > SIZE_MAX / 2 + 1) {
        errno = EINVAL;
        return NULL;
    }
    size_t align = alignment <= HK_ALIGNMENT ? HK_ALIGNMENT : (size_t)1 << hk_log2_ceil(alignment);
    return alloc("hak_heap_aligned_alloc", heap, align, size, false, CALLER());
}

HK_EXPORT void *hak_heap_realloc(hak_heap_t *heap, void *ptr, size_t size) {
    heap_t *h = checked("hak_heap_realloc", heap, CALLER());
    return h != NULL ? heap_realloc_to(h, ptr, size, CALLER()) : NULL;
}

HK_EXPORT size_t hak_heap_reset(hak_heap_t *heap) {
    heap_t *h = checked("hak_heap_reset", heap, CALLER());
    return h != NULL ? heaps_reset(h, CALLER()) : 0;
}

HK_EXPORT void hak_heap_destroy(hak_heap_t *heap) {
    heap_t *h = heap != NULL ? checked("hak_heap_destroy", heap, CALLER()) : NULL;
    if (h != NULL)
        heaps_destroy(h, CALLER());
}

HK_EXPORT void hak_heap_release(hak_heap_t *heap) {
    heap_t *h = heap != NULL ? checked("hak_heap_release", heap, CALLER()) : NULL;
    if (h != NULL)
        heaps_release(h);
}

HK_EXPORT hak_heap_t *hak_heap_of(const void *block) { return (hak_heap_t *)heaps_of(tags_strip(block)); }

static void fill(heap_t *h, hak_heap_stats_t *stats) {
    heap_totals_t totals;
    explicit_totals(h, &totals);
    *stats = (hak_heap_stats_t){
        .struct_size = sizeof *stats,
        .live = totals.live_bytes,
        .live_blocks = totals.live_blocks,
        .allocs = totals.alloc_count,
        .taken = totals.taken_bytes,
        .peak_taken = totals.peak_bytes,
        .limit = totals.limit_bytes,
    };
    memcpy(stats->name, h->own.name, sizeof stats->name);
}

HK_EXPORT int hak_heap_stats_get(hak_heap_t *heap, hak_heap_stats_t *stats) {
    heap_t *h = checked("hak_heap_stats_get", heap, CALLER());
    if (h == NULL || stats == NULL || !hk_is_record_size(stats->struct_size, sizeof *stats) || !heap_system_ready())
        return EINVAL;
    hak_heap_stats_t all;
    fill(h, &all);
    all.struct_size = stats->struct_size;
    memcpy(stats, &all, all.struct_size);
    return 0;
}

HK_EXPORT int hak_heap_visit(hak_heap_t *heap, bool (*visit)(void *block, size_t size, void *context), void *context) {
    heap_t *h = checked("hak_heap_visit", heap, CALLER());
    if (h == NULL || visit == NULL || !heap_system_ready())
        return EINVAL;
    return heaps_visit(h, visit, context);
}

/* --- By name ------------------------------------------------------------------------------------------------------ */

static const struct field {
    char name[sizeof "live_blocks"];
    uint8_t offset;
} fields[] = {
#define FIELD(name)                                                                                                    \
    { #name, offsetof(hak_heap_stats_t, name) }
    FIELD(live), FIELD(live_blocks), FIELD(allocs), FIELD(taken), FIELD(peak_taken), FIELD(limit),
#undef FIELD
};

int heaps_stat_read(const char *path, uint64_t *value) {
    const char *slash = strrchr(path, '/');
    heap_t *h = slash != NULL && heap_system_ready() ? explicit_named(path, (size_t)(slash - path)) : NULL;
    for (size_t i = 0; h != NULL && i < sizeof fields / sizeof fields[0]; i++) {
        if (strcmp(fields[i].name, slash + 1) != 0)
            continue;
        hak_heap_stats_t stats;
        fill(h, &stats);
        memcpy(value, (const char *)&stats + fields[i].offset, sizeof *value);
        return 0;
    }
    return ENOENT;
}
