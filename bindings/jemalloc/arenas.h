/* SPDX-License-Identifier: MIT
 *
 * arenas.h: jemalloc's arenas by their numbers. 0 is ordinary memory, every other one a heap (hak_heap_new) that
 * `arenas.create` has made. The number of one that was destroyed goes to the next.
 *
 * Any thread may call these; who destroys or resets an arena sees to it that nobody uses it meanwhile, as with
 * jemalloc.
 */
#ifndef HAKMEM_JEMALLOC_ARENAS_H
#define HAKMEM_JEMALLOC_ARENAS_H

#include "hakmem.h"

enum { ARENAS_MAX = 4095, ARENAS_ALL = 4096 }; /* MALLCTL_ARENAS_ALL is the number of all of them */

/* The new arena's number, or 0 with errno ENOMEM or EAGAIN. */
unsigned arenas_create(void);

/* NULL when it is none, or 0. */
hak_heap_t *arenas_heap(size_t number);

bool arenas_exists(size_t number);

/* The same, and it is one no longer. */
hak_heap_t *arenas_take(size_t number);

/* One past the highest number ever. */
unsigned arenas_count(void);

#endif
