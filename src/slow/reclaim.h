/* SPDX-License-Identifier: MIT
 *
 * reclaim.h: memory goes back because somebody asks for it, or because none is left.
 */
#pragma once

#include "base/base.h"

/* Empties magazines and gives free pages back to the kernel; returns the bytes given back. */
size_t hk_trim_all(void);

/* Limits were set: they are looked at with the next memory that is taken. */
void hk_limit_changed(void);

/* Out of memory: gives back what can be given and waits for what a purge holds; true when it is worth to try again.
 * `tries` attempts were made after the first. */
HK_COLD bool heap_reclaim(unsigned tries);
