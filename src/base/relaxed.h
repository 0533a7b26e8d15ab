/* SPDX-License-Identifier: MIT
 *
 * relaxed.h: counters with one writer at a time (a lock's holder, or a thread of its own) and readers that need no order.
 * A plain load and a plain store in machine code, without the data race.
 */
#ifndef HK_RELAXED_H
#define HK_RELAXED_H

#define hk_read(place)       __atomic_load_n(&(place), __ATOMIC_RELAXED)
#define hk_write(place, now) __atomic_store_n(&(place), (now), __ATOMIC_RELAXED)
#define hk_add(place, by)    hk_write(place, hk_read(place) + (by))

/* The same on the fast path, where an operand in memory does; GCC takes more instructions for the above. */
#define hk_read_in_place(place)    (HK_TSAN ? hk_read(place) : (place))
#define hk_add_in_place(place, by) (HK_TSAN ? (void)hk_add(place, by) : (void)((place) += (by)))

#endif
