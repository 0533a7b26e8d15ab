/* SPDX-License-Identifier: MIT */
#include "slow/reclaim.h"

#include "heap/lease.h"
#include "heap/magazine.h"
#include "heap/quarantine.h"
#include "heap/remote.h"
#include "heap/wake.h"
#include "limit/limit.h"
#include "start/init.h"
#include "start/start.h"
#include "superslab/superslab.h"
#include "upkeep/round.h"

enum { RECLAIM_TRIES = 8 }; /* out of memory is the answer when so many attempts found nothing */

size_t hk_trim_all(void) {
    if (!heap_system_ready())
        return 0;
    heap_t *h = heap_current();
    if (h != NULL) {
        if (hardened_is_on())
            quarantine_drain(h);
        lease_end(h);
        magazine_drop_all(h);
        heap_remote_post_all(h);
    }
    return heap_trim();
}

/* The first time it always is worth it: who held slots may have let go since the attempt that failed. */
bool heap_reclaim(unsigned tries) {
    bool waited = superslab_wait_for_held();
    bool came_back = hk_trim_all() > 0;
    return tries == 0 || ((came_back || waited) && tries < RECLAIM_TRIES);
}

void hk_limit_changed(void) {
    if (!heap_system_has_started())
        return; /* and this must not start it: options are closed by that */
    (void)limit_look(0);
    if (atomic_load_explicit(&hk_limit_near, memory_order_relaxed))
        heap_memory_freed_much();
}
