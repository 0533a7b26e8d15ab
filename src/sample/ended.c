/* SPDX-License-Identifier: MIT */
#include "sample/ended.h"

#include "core/panic.h"
#include "sample/blocks.h"

/* The last ENDED_KEPT, the oldest of which is the next to go. Under hk_sample_lock. */
static profile_sample_t ended[ENDED_KEPT];
static unsigned next;

void ended_note_locked(const profile_sample_t *sample) {
    hk_assert(hk_lock_is_held(&hk_sample_lock));
    hk_assert(sample->address != 0);
    ended[next++ % ENDED_KEPT] = *sample;
}

void ended_clear_locked(void) {
    hk_assert(hk_lock_is_held(&hk_sample_lock));
    for (unsigned i = 0; i < ENDED_KEPT; i++)
        ended[i].address = 0;
}

/* That of the block, or else the youngest that ended there; NULL: none. */
static const profile_sample_t *find_locked(const void *block) {
    hk_assert(hk_lock_is_held(&hk_sample_lock));
    hk_assert(block != NULL);
    const uint32_t live = block_find(block);
    if (live != 0)
        return block_at(live);
    for (unsigned i = 1; i <= ENDED_KEPT; i++)
        if (ended[(next - i) % ENDED_KEPT].address == (uintptr_t)block)
            return &ended[(next - i) % ENDED_KEPT];
    return NULL;
}

static void copy_locked(const profile_sample_t *sample, stack_trace_t *out) {
    hk_assert(hk_lock_is_held(&hk_sample_lock));
    uint32_t at = ((const profile_site_t *)table_at(PROFILE_SITES, sample->site))->stack;
    hk_assert(sample->site < table_count(PROFILE_SITES));
    *out = (stack_trace_t){.thread = sample->thread, .why = UNWIND_COMPLETE};
    for (; at != 0 && out->count < STACK_FRAMES_MAX; out->count++) {
        const profile_stack_t *node = table_at(PROFILE_STACKS, at);
        if (node->pc < PROFILE_STACK_CODE_MIN) {
            out->why = UNWIND_NO_RULE;
            return;
        }
        out->pcs[out->count] = (uintptr_t)node->pc;
        at = node->parent;
    }
    if (at != 0)
        out->why = UNWIND_FULL;
}

bool ended_or_live_find(const void *block, size_t *asked, stack_trace_t *allocated) {
    if (!hk_try_lock(&hk_sample_lock))
        return false;
    const profile_sample_t *sample = find_locked(block);
    if (sample != NULL) {
        *asked = sample->size;
        copy_locked(sample, allocated);
    }
    hk_unlock(&hk_sample_lock);
    return sample != NULL;
}
