/* SPDX-License-Identifier: MIT
 *
 * index.h: which superslabs are whose, two bits each, and where the runs of those are that may be handed out.
 *
 *   claimed  available
 *      0         0      UNKNOWN    nobody has looked, or somebody else's mapping was there
 *      0         1      UNCLAIMED  nothing was mapped there when the region looked last
 *      1         1      FREE       mapped by us, reads as zeros
 *      1         0      USED       handed out
 *
 * 64 superslabs are a word. Above the words of `available` stand two floors of sums: one for 64 words (8 GiB), one for
 * 64 of those (512 GiB). A sum says how long the run is that a part begins with, the one that it ends with, and the
 * longest in it. So the first run of any length is found by some 160 looks at the most in a window of 16 TiB, and by a
 * few in a heap of 8 GiB.
 *
 * A third bit is the pool's: a USED superslab is *vacant* when all its slots are free for anything. superslab/bins.h
 * writes it, superslab/place.h reads it.
 *
 * The words lie where index_init says, and are zeros at first: only those of superslabs below every `limit`, and those
 * of what is set with all others of their lower sums, are touched. The caller holds the region lock; for vacancy it
 * holds the pool's.
 *
 * INDEX-1  a sum is that of the words below it.
 */
#pragma once

#include "base/base.h"

typedef struct index_word {
    uint64_t available, claimed;
    uint64_t vacant;
} index_word_t;

enum {
    INDEX_WORD_SHIFT = 6, /* superslabs of a word, */
    INDEX_SUM_SHIFT = 12, /* ... and of a lower sum */
};
#define INDEX_SUPERSLABS_MAX ((size_t)1 << 23)

typedef enum index_kind { INDEX_UNKNOWN, INDEX_UNCLAIMED, INDEX_FREE, INDEX_USED, INDEX_AVAILABLE } index_kind_t;

/* `words` has room for as many superslabs as there will be, and is zeroed. */
void index_init(index_word_t *words);

/* What index_set of superslabs [first, end) reads of the words, in bytes from the first word on: it adds up anew each
 * lower sum that one of them is in, with all words of it. */
HK_INLINE size_t index_begin_bytes(size_t first) {
    return (first >> INDEX_SUM_SHIFT << (INDEX_SUM_SHIFT - INDEX_WORD_SHIFT)) * sizeof(index_word_t);
}
HK_INLINE size_t index_end_bytes(size_t end) { return index_begin_bytes(end + ((size_t)1 << INDEX_SUM_SHIFT) - 1); }

/* What the `count` superslabs from `first` on are from now on; not INDEX_AVAILABLE. */
void index_set(size_t first, size_t count, index_kind_t kind);

/* The first superslab in [from, limit) that is of the kind, or the first that is not; `limit` when there is none. */
size_t index_next(size_t from, size_t limit, index_kind_t kind);
size_t index_end(size_t from, size_t limit, index_kind_t kind);

/* The next run of superslabs of the kind in [*end, limit), as [*first, *end). False when there is none. */
bool index_next_run(size_t *first, size_t *end, size_t limit, index_kind_t kind);

/* The first of `count` neighbours in [from, limit) that are all available; 0 when there are none. */
size_t index_find(size_t from, size_t limit, size_t count);

/* Long stretches of free slots are found by these bits, 2 MiB each, without a look at any record. */
void index_set_vacant(size_t superslab, bool vacant);

/* The first superslab in [from, limit) that is not vacant, or `limit`; and one past the last in [0, to) that is not, or
 * 0. */
size_t index_vacant_end(size_t from, size_t limit);
size_t index_vacant_begin(size_t to);

/* Verifies INDEX-1 for the superslabs below `limit`. */
bool index_check(size_t limit);
