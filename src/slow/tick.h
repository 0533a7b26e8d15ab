/* SPDX-License-Identifier: MIT
 *
 * tick.h: everything periodic of a heap, by its thread: when the countdown ran out, each HEAP_TICK_BYTES.
 */
#ifndef HK_SLOW_TICK_H
#define HK_SLOW_TICK_H

#include "heap/heap.h"

void heap_tick(heap_t *h);

HK_INLINE void heap_tick_if_due(heap_t *h) {
    if (hk_unlikely(h->front.countdown < 0))
        heap_tick(h);
}

#endif
