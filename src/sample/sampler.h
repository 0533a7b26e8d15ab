/* SPDX-License-Identifier: MIT
 *
 * sampler.h: heap profiles: which allocations are sampled, and what becomes of them.
 *
 * Each thread counts the bytes that it allocates down to its next sample; the distances are random (chance.h). A heap
 * counts on its countdown (slow/tick.h), threads without a heap on one that they share. An allocation is charged once,
 * a free never.
 *
 *   state of the profile:   NEVER --start--> ACTIVE --stop--> PASSIVE --start--> ACTIVE
 *
 * In NEVER nothing here has memory; tables begin with the first sample. In PASSIVE nothing is sampled, and frees of
 * what was are still noted.
 *
 * A sampled block that could have a live bit (map/map.h) is with the program while its live bit is clear, and so its
 * free takes the path of suspects, which asks here first. That of a large or huge block without one always asks. So no
 * free of another block pays.
 *
 * SAMPLE-1  A block with a record has its live bit clear, but for this: a store of another heap's thread that is
 *           nanoseconds late may have set it again. Then the free is missed, and the record goes when the address is
 *           sampled again, or with the next image.
 * SAMPLE-2  What a record counts is a function of its own size and interval, so that what it adds is what it takes
 *           away.
 * SAMPLE-3  Tables hold at most 8 MiB, or 1/256 of what is live. When they are full the interval doubles, and each
 *           record stays with the probability that it would have been made with the longer one.
 */
#pragma once

#include "sample/draw.h"
#include "sample/tables.h"

/* Whether any thread had one since the profile began: then it is not known how likely a block was sampled. Relaxed: who
 * has a block knows of what was written before it was handed out. */
HK_INLINE bool sample_has_paces(void) { return hk_read(hk_profile.header.longest_log2) != 0; }

/* sample_is_due for all threads without a heap. */
bool sample_is_due_unowned(uint64_t size);

/* A block that is due, before the program has it. */
typedef struct sample_block {
    void *address;
    size_t size, usable;
    uint32_t heap;
    bool has_bit; /* it is clear from now on */
} sample_block_t;

/* `draw` is the thread's, NULL without a heap. Frames of the stack below the return address `caller` are left out. */
void sample_take(const sample_block_t *block, sample_draw_t *draw, const void *caller);

/* Whether the program has a sampled block at `address`, whose live bit was found clear. True also when the bit is set
 * by now: the record went at that moment. */
bool sample_has_suspect(const void *address);

/* The block is being freed by the thread of this draw (NULL: it has none): true when it had a record, which it has no
 * longer. */
bool sample_close(const void *address, const sample_draw_t *draw);

/* At HAKMEM_SAFE=3: the stack of the free, for reports, of a block that sample_close was true for a moment ago. */
void sample_keep_free(const void *address, const sample_draw_t *draw, const void *caller);

/* sample_close of a block whose live bit was found clear. True also when the bit is set by now, and then clears it: the
 * record went at that moment. */
bool sample_close_suspect(const void *address, const sample_draw_t *draw);

/* The block at `address` stays there and has another size now: for the sums, a free and an allocation. A smaller block
 * may lose its record (SAMPLE-3), and with `anew` each does. True when it has one still. */
bool sample_resize(const void *address, size_t size, size_t usable, bool anew);

/* --- The profile -------------------------------------------------------------------------------------------------- */

typedef enum sample_asker { SAMPLE_FOR_PROGRAM, SAMPLE_FOR_TOOL, SAMPLE_FOR_TRACER } sample_asker_t;

/* An interval in bytes, rounded up to a power of two. A thread learns of it when its countdown runs out. */
void sample_start(uint64_t interval, sample_asker_t asker);
void sample_stop(void);

/* A tracer came to the probes otel_memory:alloc and :free (sys/probe.h) while nobody sampled, or the last one left. */
bool sample_tracer_has_changed(void);

/* Then starts or stops. True when all draws are to be made anew at once. */
bool sample_follow_tracer(void);

/* Forgets all. Blocks that are live are no longer known. */
void sample_reset(void);

/* In the child. A sampling that a tool asked for ends there: the tool looks at the parent, and nobody would end the
 * child's. */
void sample_after_fork(void);

/* Whether it is a record that SAMPLE-1 speaks of: its block was freed. */
bool sample_is_gone(const profile_sample_t *block);

/* Since the start of the profile. */
uint64_t sample_now_us(void);

/* Before an image is taken, under hk_sample_lock: the time is that of the image, or of the stop, and records that
 * SAMPLE-1 speaks of go. False when there are no tables: there was never a profile, or memory is out. */
bool sample_settle_locked(void);
