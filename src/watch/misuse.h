/* SPDX-License-Identifier: MIT
 *
 * misuse.h: one function per bug of the program that free and its relatives can see, and the calls on heaps. Each
 * reports once, in the format of core/panic.h, and returns only when the program is to go on. At HAKMEM_SAFE=0 nothing
 * is reported.
 *
 * `verb` is the function that the program called: "free", "realloc", ...
 */
#pragma once

#include "base/base.h"

void misuse_double_free(const char *verb, const void *block, size_t block_size, const void *caller);

/* `address` lies in a block of ours, but does not start it. */
void misuse_interior(const char *verb, const void *address, const void *block, size_t block_size, const void *caller);

/* `address` lies in the window, where no block is now. */
void misuse_no_block(const char *verb, const void *address, const void *caller);

/* `pointer` has another tag than the block of `block_size` bytes there; `right` is one with its tag: sys/tags.h. */
void misuse_stale(const char *verb, const void *pointer, const void *right, size_t block_size, const void *caller);

void misuse_foreign(const char *verb, const void *address, const void *caller);

void misuse_wrong_size(const char *verb, const void *block, size_t block_size, size_t size, const void *caller);

/* `heap` is no hak_heap_t, or one that has ended. */
void misuse_no_heap(const char *verb, const void *heap, const void *caller);
