/* SPDX-License-Identifier: MIT
 *
 * life.h: what the rest of heap/ and the rooms above need of life.c besides heap_current and heap_limit.
 */
#ifndef HK_HEAP_LIFE_H
#define HK_HEAP_LIFE_H

#include "base/base.h"
#include "core/lock.h"
#include "heap/heap.h"

/* Birth and death of heaps; for fork. */
extern hk_lock_t hk_heap_list_lock;

/* Starts the allocator if need be; false when there is no address space for it, and in a stranded process (heap/fork.h). */
bool heap_system_ready(void);

/* False before the first allocation. Starts nothing. */
bool heap_system_has_started(void);

/* Somebody is at the start. */
bool heap_system_is_starting(void);

/* Registers for fork and for the end of threads with libc, at the first allocation: handlers for fork that others register come
 * later, so theirs run before ours have taken a lock, and after ours have given it back. Holds no lock of an allocation. */
void heap_ensure_hooks(void);

/* For unnoticed.c. Takes a live heap upon the caller when its thread is gone, which is asked for under the heap-list lock; then empties
 * it, without a lock. */
bool heap_claim_gone(heap_t *h, bool (*is_gone)(const heap_t *));
void heap_retire_gone(heap_t *h);

/* In the child of a fork, by its only thread or under the list lock: heaps whose threads do not exist here wait for adoption: those that
 * were theirs, those that they were retiring, or both. */
typedef enum heap_orphans { HEAP_ORPHANS_LIVE = 1, HEAP_ORPHANS_RETIRING = 2, HEAP_ORPHANS_ALL = 3 } heap_orphans_t;
void heap_orphan_others(heap_orphans_t which);

/* Empties one heap that waits for adoption. */
void heap_adopt_orphan(void);

/* Empties the heaps that rest since `until_ms` or longer. */
void heap_retire_resting(uint64_t until_ms);

/* Gives back the records of heaps that have been unused since `until_ms` or longer. */
void heap_strip_unused(uint64_t until_ms);

/* What heaps without a thread may hold: slabs and magazines of those that rest, records of the unused. */
size_t heap_ended_bytes(void);

/* HAKMEM_WARMUP: makes `bytes` of slots resident and fills the calling thread's magazines. */
void heap_warm_up(size_t bytes);

/* Last checks of the calling thread's heap when the process exits. */
void heap_at_exit(void);

/* With more heaps than this each keeps less in its magazines: a few for each processor that the process may keep busy. */
uint32_t heap_crowd_of(uint64_t cpus);

/* One past the highest id in use: what heap_limit returns, for who looks at the process from outside. */
extern _Atomic uint32_t hk_heap_id_limit;

/* Heaps with a live thread. */
size_t heap_live_count(void);

#endif
