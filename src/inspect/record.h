/* SPDX-License-Identifier: MIT
 *
 * record.h: what a reader from outside needs to understand this process: where things lie and how they are laid out.
 *
 * The note .note.hakmem, which is in the memory of every process that has hakmem, leads to `hk_inspect`. That is
 * constant: addresses, strides, offsets and names. The figures are where the allocator itself keeps them, and the
 * reader takes them from there (process_vm_readv), whatever the threads do meanwhile. So nothing is kept, written or
 * started for a reader; the child of a fork has a record that is true without being touched; and what the kernel knows
 * (process id, time of start) is not here.
 *
 * INSPECT-1  magic, struct_size, layout, version and build are in every layout. Words are appended without a new
 *            layout; a layout is new only when a word means something else.
 */
#pragma once

#include "base/base.h"

#define INSPECT_LAYOUT 1 /* in the note too, as digits */

enum {
#define HK_WORD(name, ...) INSPECT_##name,
#define HK_ADDRESS         HK_WORD
#define HK_NUMBER          HK_WORD
#define HK_FIELD           HK_WORD
#include "inspect/record.def"
#undef HK_FIELD
#undef HK_NUMBER
#undef HK_ADDRESS
#undef HK_WORD
    INSPECT_WORDS
};

typedef union inspect_word {
    uint64_t number;
    const volatile void *address;
} inspect_word_t;

typedef struct inspect_record {
    char magic[8]; /* "hakmem", NULs */
    uint32_t struct_size;
    uint32_t layout;
    inspect_word_t words[INSPECT_WORDS];
} inspect_record_t;

_Static_assert(sizeof(inspect_word_t) == 8, "a word is 64 bits");

extern const inspect_record_t hk_inspect HK_HIDDEN;
