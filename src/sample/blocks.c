/* SPDX-License-Identifier: MIT */
#include "sample/blocks.h"

#include "base/relaxed.h"
#include "core/panic.h"

enum { RECENTS_LOG2 = 6, RECENTS = 1 << RECENTS_LOG2 };

static uint32_t unused; /* entries of blocks that have gone, by `next` */
static uint32_t count;

static uint64_t hash_of_address(uint64_t address) { return (address >> 4) * UINT64_C(0x9e3779b97f4a7c15); }

static uint64_t hash_of_block(const void *entry) { return hash_of_address(((const profile_sample_t *)entry)->address); }

/* Four buckets for each entry: most frees of large blocks find an empty one. */
static chains_t blocks = {
    .kind = PROFILE_SAMPLES, .hash = hash_of_block, .next_offset = offsetof(profile_sample_t, next), .spare_log2 = 2};

void blocks_clear(void) {
    chains_clear(&blocks);
    unused = count = 0;
}

bool blocks_may_have(const void *address) { return chains_first(&blocks, hash_of_address((uintptr_t)address)) != 0; }

uint32_t block_find(const void *address) {
    hk_assert(address != NULL);
    uint32_t at = chains_first(&blocks, hash_of_address((uintptr_t)address));
    while (at != 0 && block_at(at)->address != (uintptr_t)address)
        at = chains_next(&blocks, at);
    return at;
}

uint32_t blocks_count(void) { return count; }

/* The address last: an entry without one is unused. */
static void fill(profile_sample_t *block, const profile_sample_t *sample) {
    hk_write(block->size, sample->size);
    hk_write(block->time_us, sample->time_us);
    hk_write(block->site, sample->site);
    hk_write(block->slack, sample->slack);
    hk_write(block->thread, sample->thread);
    hk_write(block->heap, sample->heap);
    hk_write(block->interval_log2, sample->interval_log2);
    hk_write(block->flags, sample->flags);
    hk_write_release(block->address, sample->address);
}

bool block_add(const profile_sample_t *sample) {
    const bool again = unused != 0;
    uint32_t at = unused;
    if (!again && !table_append(PROFILE_SAMPLES, &at))
        return false;
    const uint32_t next_unused = again ? block_at(at)->next : 0;
    fill(block_at(at), sample);
    if (!chains_put(&blocks, at)) {
        hk_write(block_at(at)->address, 0);
        return false;
    }
    if (again)
        unused = next_unused;
    else
        table_commit(PROFILE_SAMPLES);
    count++;
    return true;
}

void block_remove(uint32_t at) {
    profile_sample_t *block = block_at(at);
    chains_remove(&blocks, at);
    hk_write(block->address, 0);
    hk_write(block->next, unused);
    unused = at;
    count--;
}

/* Weights that were asked for lately: a program has few sizes at a time, and each block asks again when it is freed. */
static struct recent {
    uint64_t size; /* 0: none */
    uint64_t log2;
    chance_weight_t weight;
} recents[RECENTS] HK_RARE;

chance_weight_t block_weight(const profile_sample_t *sample) {
    const uint64_t size = hk_max(sample->size, 1), log2 = sample->interval_log2;
    struct recent *known = &recents[(size * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - RECENTS_LOG2)];
    if (known->size != size || known->log2 != log2)
        *known = (struct recent){.size = size, .log2 = log2, .weight = chance_weight(size, (unsigned)log2)};
    return known->weight;
}
