/* SPDX-License-Identifier: MIT */
#include "heap/heap.h"

#include "core/panic.h"

heap_front_t hk_no_heap = {.tag = HK_MAP_NO_TAG};

/* The fast path's heap. Touched by its thread alone. */
_Thread_local heap_front_t *hk_front __attribute__((tls_model("initial-exec"), visibility("hidden"))) = &hk_no_heap;

int hk_hardened_level;

hk_lock_t hk_heap_list_lock = HK_LOCK_INIT(HK_RANK_HEAP_LIST);
_Atomic uint32_t hk_heap_id_limit = HK_OWNER_FIRST; /* written under it, read also without */

_Atomic uint32_t hk_explicit_id_limit = HK_OWNER_EXPLICIT; /* as well */

heap_t *heap_by_id_by_call(uint32_t id) { return heap_by_id_here(id); }

bool heap_has_id(uint32_t id) {
    return id >= HK_OWNER_EXPLICIT ? id < heap_explicit_limit() : id >= HK_OWNER_SHARED && id < heap_limit();
}

void heap_prepare(heap_t *h, uint32_t id, hk_rank_t rank) {
    hk_assert(id >= HK_OWNER_SHARED && id < HK_OWNER_LIMIT);
    h->front.tag = hardened_is_on() ? HK_MAP_NO_TAG : map_tag(id); /* hardened: no free takes the fast path */
    h->front.id = id;
    h->large.of_one_thread = id >= HK_OWNER_FIRST && id < HK_OWNER_EXPLICIT;
    h->countdown_set = HEAP_TICK_BYTES;
    hk_write(h->front.countdown, HEAP_TICK_BYTES);
    h->lock = (hk_lock_t)HK_LOCK_INIT(rank);
}

bool heap_cover(uint32_t id) {
    size_t from = heap_place(id);
    return region_area_cover_part(REGION_AREA_HEAPS, from, from + HEAP_STRIDE) == 0;
}

heap_t *heap_make_locked(void) {
    hk_assert(hk_lock_is_held(&hk_heap_list_lock));
    uint32_t id = heap_limit();
    if (id >= HK_OWNER_EXPLICIT || heap_place(id + 1) > heap_place(HK_OWNER_EXPLICIT) || !heap_cover(id))
        return NULL;
    heap_t *h = heap_by_id(id);
    heap_prepare(h, id, HK_RANK_HEAP);
    atomic_store_explicit(&h->life, HEAP_LIVE, memory_order_relaxed);
    /* Release: pairs with the acquire in heap_limit; who sees the limit sees a prepared heap. */
    atomic_store_explicit(&hk_heap_id_limit, id + 1, memory_order_release);
    return h;
}
