/* SPDX-License-Identifier: MIT
 *
 * relaxed.h: counters with one writer at a time (a lock's holder, or a thread of its own) and readers that need no
 * order. A plain load and a plain store in machine code, without the data race.
 */
#pragma once

#include "base/base.h"

#define hk_read(place)       __atomic_load_n(&(place), __ATOMIC_RELAXED)
#define hk_write(place, now) __atomic_store_n(&(place), (now), __ATOMIC_RELAXED)
#define hk_add(place, by)    hk_write(place, hk_read(place) + (by))

/* A store that comes after all that its thread read and wrote before, and a load that comes before all that its thread
 * reads and writes later: for readers without a lock, and for the child of a fork, which finds what other threads had
 * stored at that moment. On x86-64 the instructions of hk_write and hk_read (docs/adr/0032). */
#define hk_write_release(place, now) __atomic_store_n(&(place), (now), __ATOMIC_RELEASE)
#define hk_read_acquire(place)       __atomic_load_n(&(place), __ATOMIC_ACQUIRE)

/* What was written before comes before what is written later; without an instruction on x86-64. ThreadSanitizer knows
 * no fences. */
HK_INLINE void hk_write_barrier(void) {
    if (HK_TSAN)
        __atomic_signal_fence(__ATOMIC_RELEASE);
    else
        __atomic_thread_fence(__ATOMIC_RELEASE);
}

/* hk_read and hk_add on the fast path, with an operand in memory: GCC takes more instructions for those. */
#define hk_read_in_place(place)    (HK_TSAN ? hk_read(place) : (place))
#define hk_add_in_place(place, by) (HK_TSAN ? (void)hk_add(place, by) : (void)((place) += (by)))

/* Reads the byte and writes it back, so that its page is there to be written. One instruction does both: the fault is
 * one of writing, where a load and a store would have two. Elsewhere than on x86-64 all that reads and writes reads
 * first, and nothing is done. */
#if HK_X86_64
HK_INLINE void hk_touch(char *byte) { __asm__ volatile("orb $0, %0" : "+m"(*byte)); }
#else
HK_INLINE void hk_touch(char *byte) { (void)byte; }
#endif
