/* SPDX-License-Identifier: MIT
 *
 * fence.h: pages around a large block that nobody may touch. A hardened heap asks for them.
 *
 * They are the whole pages of the run behind what was asked for, and the slot in front of the run if that is free.
 * (What else lies in front is another such block with its own end, a slab, or nothing.) They belong to the run until
 * its block changes its size or the run goes back to the pool: large.c opens them first. So a program that allocates
 * and frees one size pays no system call for them, and what is freed stays fenced as long as it waits.
 *
 * For who has the block; no lock is held but that of a heap.
 */
#pragma once

#include "base/base.h"

/* A touch outside of the pages of the block's first `size` bytes faults from now on. Nothing is fenced where the kernel
 * has no means. */
void large_fence(void *block, size_t size);

/* False when the kernel has no memory to open the pages behind the block: they stay fenced. */
bool large_unfence(void *block);

/* Bytes from the block's start that the program may touch: whole pages up to a fence, or what the class of a block
 * alone has. */
size_t large_open_size(const void *block);
