/* SPDX-License-Identifier: MIT */
#include "sample/ended.h"

#include "core/panic.h"
#include "sample/blocks.h"
#include "sys/sys.h"

#include <string.h>

typedef struct ended {
    profile_sample_t sample;
    uint32_t freed_stack, freed_thread; /* 0: not known */
} ended_t;

/* The last `kept`, a power of two, the oldest of which is the next to go. Under hk_sample_lock. */
static ended_t few[ENDED_KEPT] HK_RARE;
static ended_t *ended = few;
static unsigned kept = ENDED_KEPT, next;

static ended_t *ended_at(unsigned index) { return &ended[index % kept]; }

void ended_note_locked(const profile_sample_t *sample) {
    hk_assert(hk_lock_is_held(&hk_sample_lock));
    hk_assert(sample->address != 0);
    *ended_at(next++) = (ended_t){.sample = *sample};
}

void ended_clear_locked(void) {
    hk_assert(hk_lock_is_held(&hk_sample_lock));
    for (unsigned i = 0; i < kept; i++)
        ended_at(i)->sample.address = 0;
}

/* The youngest of the last `most` that ended there; NULL: none. */
static ended_t *find_locked(const void *block, unsigned most) {
    hk_assert(hk_lock_is_held(&hk_sample_lock));
    hk_assert(block != NULL && most <= kept);
    for (unsigned i = 1; i <= most; i++)
        if (ended_at(next - i)->sample.address == (uintptr_t)block)
            return ended_at(next - i);
    return NULL;
}

/* Mapped for good. Where memory is out all goes on with few. */
static void keep_many_locked(void) {
    hk_assert(hk_lock_is_held(&hk_sample_lock));
    ended_t *many = kept == ENDED_KEPT ? sys_map(ENDED_KEPT_LONG * sizeof *many) : NULL;
    if (many == NULL)
        return;
    for (unsigned i = next - ENDED_KEPT; i != next; i++)
        many[i % ENDED_KEPT_LONG] = *ended_at(i);
    ended = many;
    kept = ENDED_KEPT_LONG;
}

void ended_note_free_locked(const void *block, uint32_t stack, uint32_t thread) {
    hk_assert(hk_lock_is_held(&hk_sample_lock));
    keep_many_locked();
    ended_t *found = find_locked(block, ENDED_KEPT);
    if (found == NULL)
        return;
    found->freed_stack = stack;
    found->freed_thread = thread;
}

static void copy_locked(uint32_t stack, uint32_t thread, stack_trace_t *out) {
    hk_assert(hk_lock_is_held(&hk_sample_lock));
    *out = (stack_trace_t){.thread = thread, .why = UNWIND_COMPLETE};
    for (; stack != 0 && out->count < STACK_FRAMES_MAX; out->count++) {
        const profile_stack_t *node = table_at(PROFILE_STACKS, stack);
        if (node->pc < PROFILE_STACK_CODE_MIN) {
            out->why = UNWIND_NO_RULE;
            return;
        }
        out->pcs[out->count] = (uintptr_t)node->pc;
        stack = node->parent;
    }
    if (stack != 0)
        out->why = UNWIND_FULL;
}

static void copy_sample_locked(const profile_sample_t *sample, size_t *asked, stack_trace_t *allocated) {
    hk_assert(hk_lock_is_held(&hk_sample_lock));
    hk_assert(sample->site < table_count(PROFILE_SITES));
    *asked = sample->size;
    copy_locked(((const profile_site_t *)table_at(PROFILE_SITES, sample->site))->stack, sample->thread, allocated);
}

/* A block that is not sampled may have come to the address since. So not more than a few are looked at where there are
 * such. Not every report has a block, and NULL is the address in all places that are not used yet. */
bool ended_or_live_find(const void *block, size_t *asked, stack_trace_t *allocated, stack_trace_t *freed) {
    if (block == NULL || !hk_try_lock(&hk_sample_lock))
        return false;
    const uint32_t live = block_find(block);
    const ended_t *gone =
        live == 0 ? find_locked(block, hk_profile.header.interval_log2 == 0 ? kept : ENDED_KEPT) : NULL;
    if (live != 0)
        copy_sample_locked(block_at(live), asked, allocated);
    if (gone != NULL) {
        copy_sample_locked(&gone->sample, asked, allocated);
        copy_locked(gone->freed_stack, gone->freed_thread, freed);
    }
    hk_unlock(&hk_sample_lock);
    return live != 0 || gone != NULL;
}
