/* SPDX-License-Identifier: MIT
 *
 * emergency.h: memory of a stranded process (start/fork.h).
 *
 * A stretch of address space of its own, in chunks of 64 KiB. A chunk holds blocks of one size, a power of two, or a
 * part of a run. Its lock is only tried: a call that does not get it takes a fresh run, or drops what it frees. So no
 * call ever waits, whatever it has interrupted. Blocks outlive the need: they are freed like all others later.
 *
 * Any thread; what it returns is aligned by 16 at the least.
 */
#pragma once

#include "base/base.h"
#include "core/lock.h"

/* Takes the address space, once; before the process is known as stranded, by its only thread that is at it. */
void emergency_open(void);

/* `align` is a power of two. NULL when memory is out. */
void *emergency_alloc(size_t size, size_t align);

/* Usable bytes of the block; 0 when `address` is none. */
size_t emergency_size(const void *address);

/* `block` is one: emergency_size says so. */
void emergency_free(void *block);

/* Only tried; for tests. */
extern hk_lock_t hk_emergency_lock HK_HIDDEN;
