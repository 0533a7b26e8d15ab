/* SPDX-License-Identifier: MIT
 *
 * places.h: where the window and the areas are to lie: at random, or where the kernel has a hole.
 */
#pragma once

#include "region/window.h"

/* Finds the window, and begins each area with what the superslab `*first`, picked at random, will need. Returns 0 or
 * ENOMEM: then nothing of ours is mapped, and it may be tried again. */
int places_find(size_t *first);
