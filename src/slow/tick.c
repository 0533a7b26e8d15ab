/* SPDX-License-Identifier: MIT */
#include "slow/tick.h"

#include "heap/magazine.h"
#include "heap/remote.h"
#include "heap/wake.h"
#include "helper/helper.h"
#include "start/fork.h"

void heap_tick(heap_t *h) {
    bool in_run = h->run_countdown == h->front.countdown;
    h->front.countdown = HEAP_TICK_BYTES;
    if (!fork_attend())
        return;
    magazine_tick(h);
    if (h->remote_pending_bytes > 0)
        heap_remote_post_all(h);
    heap_lock(h);
    heap_drain_locked(h);
    heap_unlock(h);
    heap_memory_freed(h);
    helper_watch();
    if (in_run) /* of frees, which a tick does not end */
        h->run_countdown = h->front.countdown;
}
