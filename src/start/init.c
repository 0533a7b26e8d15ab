/* SPDX-License-Identifier: MIT */
#include "start/init.h"

#include "core/lock.h"
#include "core/options.h"
#include "heap/heap.h"
#include "heap/quarantine.h"
#include "helper/helper.h"
#include "limit/limit.h"
#include "region/region.h"
#include "superslab/superslab.h"
#include "sys/sys.h"

enum { INIT_NONE = 0, INIT_DONE = 1 };

static hk_lock_t init_lock = HK_LOCK_INIT(HK_RANK_INIT);
static _Atomic uint32_t init_state; /* written under init_lock */
static bool options_are_read;       /* guarded by init_lock */

static void follow_options(void) {
    if (hk_option(HK_OPT_SAFE) >= 2)
        hardened_init((int)hk_option(HK_OPT_SAFE), (size_t)hk_option(HK_OPT_QUARANTINE));
    superslab_set_floor((size_t)hk_option(HK_OPT_WARMUP));
    /* A limit of the program's own may be lower than where limits are looked for. */
    if (hk_option(HK_OPT_LIMIT) != 0)
        atomic_store_explicit(&hk_limit_check_at, 0, memory_order_relaxed);
}

static bool init_locked(void) {
    helper_init();
    if (!options_are_read)
        hk_options_init(sys_environment());
    options_are_read = true;
    if (region_init() != 0 || !heap_cover(HK_OWNER_SHARED))
        return false;
    map_init();
    classes_init();
    follow_options();
    heap_prepare(heap_shared(), HK_OWNER_SHARED, HK_RANK_SHARED_HEAP);
    return true;
}

bool init_ensure(void) {
    /* Acquire: pairs with the release below; whoever sees INIT_DONE sees everything that init_locked wrote. */
    if (hk_likely(atomic_load_explicit(&init_state, memory_order_acquire) == INIT_DONE))
        return true;
    hk_lock(&init_lock);
    bool done = atomic_load_explicit(&init_state, memory_order_relaxed) == INIT_DONE || init_locked();
    if (done)
        atomic_store_explicit(&init_state, INIT_DONE, memory_order_release);
    hk_unlock(&init_lock);
    return done;
}

bool heap_system_has_started(void) { return atomic_load_explicit(&init_state, memory_order_acquire) == INIT_DONE; }

bool heap_system_is_starting(void) { return atomic_load_explicit(&init_lock.word, memory_order_relaxed) != 0; }
