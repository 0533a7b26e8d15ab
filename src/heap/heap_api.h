/* SPDX-License-Identifier: MIT
 *
 * heap_api.h: what api/ and shim/ ask of the whole allocator, in one place. Nothing here is on a fast path; every
 * function may be called by any thread at any time, also before the first allocation.
 */
#ifndef HK_HEAP_API_H
#define HK_HEAP_API_H

#include "base/base.h"
#include "hakmem.h"
#include "watch/describe.h"

/* Fills every field of `stats` but struct_size, with zeros in a stranded process (heap/fork.h) and where the allocator cannot start.
 * Other threads may go on allocating meanwhile. */
void hk_snapshot(hak_stats_t *stats);

/* Empties caches and gives free pages back to the kernel; returns the bytes given back. */
size_t hk_trim_all(void);

/* Limits were set: they are looked at with the next memory that is taken. */
void hk_limit_changed(void);

/* Between the two the process has no thread that the program did not start. Called without locks; cheap when there is none. */
void hk_threads_pause(void);
void hk_threads_resume(void);

/* From here on hakmem makes no system calls but those of sys/confined.h. */
void hk_confine(void);

/* True when `ptr` lies inside a block that is not known to be free. Reads nothing that `ptr` points to. */
bool hk_owns(const void *ptr);

/* Verifies every invariant of the heap; returns the violations found, each one line on stderr. */
size_t hk_check_all(void);

/* What is known of `ptr`; false when it is not ours. Lock-free, reads nothing that `ptr` points to, safe in a signal
 * handler. */
bool hk_describe(const void *ptr, hk_description_t *out);

#endif
