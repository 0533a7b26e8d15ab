/* SPDX-License-Identifier: MIT
 *
 * blocks.h: the sampled blocks that the program has, by address. Under hk_sample_lock but for blocks_may_have.
 */
#pragma once

#include "sample/chance.h"
#include "sample/tables.h"

void blocks_clear(void);

/* Without the lock: false only if no sampled block is at `address`, by what the caller knows of. */
bool blocks_may_have(const void *address);

/* 0 when there is none. */
uint32_t block_find(const void *address);

HK_INLINE profile_sample_t *block_at(uint32_t block) { return table_at(PROFILE_SAMPLES, block); }

/* How many there are. */
uint32_t blocks_count(void);

/* `sample` says all but `next`. False when memory is out. */
bool block_add(const profile_sample_t *sample);
void block_remove(uint32_t block);

/* The weight that the block counts with. */
chance_weight_t block_weight(const profile_sample_t *sample);
