/* SPDX-License-Identifier: MIT
 *
 * crowd.h: how many threads have a heap, for so many processors: what each thread keeps adds up.
 *
 * Any thread, without a lock. The processors are looked at when threads start, now and then.
 */
#ifndef HK_HEAP_CROWD_H
#define HK_HEAP_CROWD_H

#include "base/base.h"

/* Threads that have one, about. */
uint32_t heap_thread_count(void);

/* True when so many threads have a heap that what each keeps in its magazines adds up, or when a limit is near. */
bool heap_is_crowded(void);

/* True when there are so many that most of them must be asleep: then what is kept counts more than a lock that nobody else wants. */
bool heap_is_throng(void);

/* Threads from which on there is a crowd. */
uint32_t heap_crowd(void);

/* With more heaps than this each keeps less in its magazines: a few for each processor that the process may keep busy. */
uint32_t heap_crowd_of(uint64_t cpus);

/* A thread has a heap from now on; has none any more; counted anew. */
void crowd_join(void);
void crowd_leave(void);
void crowd_set(uint32_t threads);

#endif
