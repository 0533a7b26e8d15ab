/* SPDX-License-Identifier: MIT
 *
 * visit.h: the live blocks of an explicit heap, one after the other, while others may use it.
 */
#pragma once

#include "heap/heap.h"

/* Calls `visit` for each live block until it returns false; no lock is held meanwhile. What is allocated or freed
 * meanwhile may be visited or not. Returns 0, ENOMEM, or ECANCELED after a false. */
int visit_blocks(heap_t *h, bool visit(void *block, size_t size, void *context), void *context);
