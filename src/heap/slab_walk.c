/* SPDX-License-Identifier: MIT */
#include "heap/slab_walk.h"

#include "core/panic.h"
#include "sys/sys.h"

void slab_walk_let_go(slab_walk_t *walk) {
    hk_assert(walk->held == NULL || hk_lock_is_held(&walk->held->lock));
    if (walk->held != NULL)
        hk_unlock(&walk->held->lock);
    walk->held = NULL;
}

/* Without waiting in line: nobody has to wake us up. */
static bool try_for_a_while(slab_walk_t *walk, heap_t *h) {
    while (!hk_try_lock(&h->lock)) {
        if (walk->tries == 0)
            return false;
        walk->tries--;
        sys_cpu_relax();
    }
    return true;
}

bool slab_walk_hold(slab_walk_t *walk, uint32_t owner) {
    hk_assert(walk->held == NULL || hk_lock_is_held(&walk->held->lock));
    if (walk->held != NULL && walk->held->front.id == owner)
        return true;
    slab_walk_let_go(walk);
    if (!heap_has_id(owner) || (!walk->all && owner >= HK_OWNER_EXPLICIT))
        return false;
    heap_t *h = heap_by_id(owner);
    if (walk->patient)
        hk_lock(&h->lock);
    else if (!try_for_a_while(walk, h))
        return false;
    walk->held = h;
    return true;
}

/* The region hands out a superslab before the map covers it; there is nothing in it then. */
slab_t *slab_walk_at(slab_walk_t *walk, slot_t slot) {
    uint32_t entry = slot < map_count() ? map_entry(slot) : 0;
    if (entry == 0 || map_is_run(entry))
        return NULL;
    if ((slot & (hk_class_info[entry & HK_MAP_CLASS_MAX].slab_slots - 1u)) != 0 || !slab_walk_hold(walk, entry >> 8))
        return NULL;
    slab_t *slab = slab_at(slot);
    return map_entry(slot) == entry && atomic_load_explicit(&slab->state, memory_order_relaxed) == SLAB_OPEN ? slab
                                                                                                             : NULL;
}
