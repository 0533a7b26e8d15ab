/* SPDX-License-Identifier: MIT
 *
 * tables.h: what the profile of this process has: stacks, sites, sampled blocks, points of time and threads, in the
 * layout of format.h.
 *
 * A table is an array in up to 20 pieces, each made when it is needed and as large as all before it. So entries never
 * move. Chains find entries by what is in them: one a bucket, linked by the entries' own field `next`.
 *
 * All is written under hk_sample_lock, and read from outside without it (FORMAT-1).
 */
#pragma once

#include "core/lock.h"
#include "sample/format.h"

#include <stdatomic.h>

/* All zeros until the first profile. Read from outside by inspect/record.def. */
extern profile_t hk_profile HK_HIDDEN;

/* Guards everything in this room but where it says otherwise. */
extern hk_lock_t hk_sample_lock;

/* Of entries of `kind`: stacks, samples, sites, timeline or threads. */
void *table_at(profile_kind_t kind, uint32_t index);
uint32_t table_count(profile_kind_t kind); /* one past the last */
uint32_t table_most(profile_kind_t kind);  /* of the first three: what it has places for */

/* The next entry, all zeros, which table_commit makes one of the table; false when memory is out. */
bool table_append(profile_kind_t kind, uint32_t *index);
void table_commit(profile_kind_t kind);

/* The first entry of an empty table, which is none (FORMAT-2). False when memory is out. */
bool table_begin(profile_kind_t kind);

/* Entries from `count` on go. */
void table_cut(profile_kind_t kind, uint32_t count);

/* Empties all tables; the memory goes back. */
void tables_clear(void);

/* --- Chains ------------------------------------------------------------------------------------------------------- */

typedef struct chains {
    _Atomic uintptr_t buckets; /* address | log2 of their number; 0: none */
    uint32_t used;
    profile_kind_t kind;
    uint64_t (*hash)(const void *entry);
    size_t next_offset;  /* of the entries' field */
    unsigned spare_log2; /* buckets for each entry, at least */
} chains_t;

/* Index of the first entry in the chain of this hash, 0 when there is none. Also without the lock: not 0 if an entry of
 * the hash was put in before, by what the caller knows of that. */
uint32_t chains_first(const chains_t *chains, uint64_t hash);
uint32_t chains_next(const chains_t *chains, uint32_t entry);

/* False when memory is out. The entry has its contents. */
bool chains_put(chains_t *chains, uint32_t entry);
void chains_remove(chains_t *chains, uint32_t entry);
void chains_clear(chains_t *chains);
