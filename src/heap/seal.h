/* SPDX-License-Identifier: MIT
 *
 * seal.h: what the memory of blocks looks like at HAKMEM_SAFE=2 and 3 (docs/adr/0037).
 *
 * A block that is with the program ends in a word that nobody can guess, its seal: a function of its address, of the
 * size that was asked for and of a secret of the process. Who frees or resizes the block looks at it, and at the one
 * before the block: a write behind a block or before one breaks one of them. A free block is all zeros.
 *
 *   with the program   | what was asked for | slack | seal |      level 3: each byte of the slack is SEAL_SLACK
 *   free               | zeros                             |
 *
 * SEAL-1 What is free in a slab, and slots that are nobody's, read as zeros unless the program wrote there.
 * SEAL-2 The last word of each block of a slab is 0 when the block is free, its seal when it is not. It changes by one
 *        store, and others may read it at any time: atomically.
 * SEAL-3 The lowest byte of a seal, the one behind the block, is never 0: a string's end does not pass for it.
 */
#pragma once

#include "base/base.h"
#include "base/bits.h"
#include "base/relaxed.h"
#include "base/wide.h"
#include "slab/size_class.h"
#include "sys/tags.h"

#include <string.h>

enum {
    SEAL_BYTES = 8,
    SEAL_SLACK = 0xca,
    SEAL_SHORT = 16,   /* slack of less bytes is looked at as words */
    SEAL_PAGES = 8192, /* from here on a block has pages that may be zeros: those are read and stay as they are */
    SEAL_SPOTS = 8192, /* above that, level 2 looks at some lines of a block that is handed out */
};

/* Drawn once, at the start; the second is odd. */
extern uint64_t hk_seal_secret[2] HK_HIDDEN;

/* Constant after the start: hk_has_wide. */
extern bool hk_seal_is_wide HK_HIDDEN;

void seal_init(int level);

#define SEAL_FACTOR  UINT64_C(0x9e3779b97f4a7c15)
#define SEAL_INVERSE UINT64_C(0xf1de83e19937733d)
_Static_assert(SEAL_FACTOR *SEAL_INVERSE == 1, "modulo 2^64");

HK_INLINE uint64_t *seal_place(const void *block, size_t block_size) {
    return (uint64_t *)((uintptr_t)block + block_size - SEAL_BYTES);
}

/* Of a place of a seal. Odd, as every seal then is. */
HK_INLINE uint64_t seal_secret_of(const uint64_t *place) {
    return hk_fold64((uintptr_t)place ^ hk_seal_secret[0], hk_seal_secret[1]) | 1;
}

/* The size is in the upper 56 bits, so scattered that another value of them is hardly ever one of a size. */
HK_INLINE uint64_t seal_of(const uint64_t *place, size_t size) {
    return seal_secret_of(place) + size * (SEAL_FACTOR << 8);
}

/* The size that `word` says was asked for, or a number above each size of a block: a lowest byte that is another comes
 * out on top. */
HK_INLINE size_t seal_size(const uint64_t *place, uint64_t word) {
    uint64_t size = (word - seal_secret_of(place)) * SEAL_INVERSE;
    return (size_t)(size >> 8 | size << 56);
}

HK_INLINE void seal_set(const void *block, size_t block_size, size_t size) {
    uint64_t *place = seal_place(block, block_size);
    hk_write(*place, seal_of(place, size));
}

/* What was asked for, or a number above the block's size when the seal is broken. */
HK_INLINE size_t seal_asked(const void *block, size_t block_size) {
    const uint64_t *place = seal_place(block, block_size);
    return seal_size(place, hk_read(*place));
}

/* A word that may be of a block that is with the program. */
HK_INLINE uint64_t seal_read(const uint64_t *place) {
    const uint64_t tags = tags_pause();
    uint64_t word = hk_read(*place);
    tags_resume(tags);
    return word;
}

/* Whether the word before the block at `offset` of a slab is what the block below left there: SEAL-2. */
HK_INLINE bool seal_below_is_whole(const void *block, size_t offset, size_t block_size) {
    const uint64_t *place = (const uint64_t *)block - 1;
    HK_OPAQUE(place); /* what the look at the block's own seal found out needs no register until here */
    HK_OPAQUE(block_size);
    if (offset == 0)
        return true;
    uint64_t word = seal_read(place);
    return word == 0 || seal_size(place, word) <= block_size - SEAL_BYTES;
}

typedef uint64_t __attribute__((vector_size(16), may_alias)) seal_pair_t;

/* What one instruction takes in a function marked HK_WIDE, and two in another: where it is more than zeros to store, a
 * compiler keeps it in memory there. */
typedef hk_wide_t seal_four_t;

enum { SEAL_PART = 4 * sizeof(seal_four_t) };

/* The words that were looked at, or-ed: four together in a function marked HK_WIDE, else two and two. */
typedef struct seal_seen {
    seal_four_t four;
    seal_pair_t low, high;
} seal_seen_t;

HK_INLINE void seal_look(seal_seen_t *seen, const char *one, const char *other, bool is_wide) {
    const seal_pair_t *a = (const seal_pair_t *)one, *b = (const seal_pair_t *)other;
    if (is_wide) {
        seen->four |= *(const seal_four_t *)one | *(const seal_four_t *)other;
    } else {
        seen->low |= a[0] | b[0];
        seen->high |= a[1] | b[1];
    }
}

HK_INLINE void seal_look_at_part(seal_seen_t *seen, const char *at, bool is_wide) {
    const size_t step = sizeof(seal_four_t);
    seal_look(seen, at, at + step, is_wide);
    seal_look(seen, at + 2 * step, at + 3 * step, is_wide);
}

HK_INLINE bool seal_saw_zeros(const seal_seen_t *seen, bool is_wide) {
    const seal_pair_t pair = seen->low | seen->high;
    return is_wide ? hk_wide_is_zero(&seen->four) : (pair[0] | pair[1]) == 0;
}

/* Sizes of blocks are multiples of 16. A few steps for each of a few spans of sizes, of which the last ones reach back
 * into what the first ones saw: a loop that ends elsewhere for each size is a wrong guess of the processor a block. */
HK_INLINE bool seal_is_zero_by(const void *block, size_t block_size, bool is_wide) {
    const char *at = block, *end = at + block_size;
    const size_t step = sizeof(seal_four_t);
    seal_seen_t seen = {0};
    if (block_size > SEAL_PART) {
        for (; at < end - SEAL_PART; at += SEAL_PART)
            seal_look_at_part(&seen, at, is_wide);
        seal_look_at_part(&seen, end - SEAL_PART, is_wide);
    } else if (block_size > SEAL_PART / 2) {
        seal_look(&seen, at, at + step, is_wide);
        seal_look(&seen, end - 2 * step, end - step, is_wide);
    } else if (block_size > sizeof(seal_pair_t)) {
        seal_look(&seen, at, end - step, is_wide);
    } else {
        const uint64_t *words = block;
        return (words[0] | words[1]) == 0;
    }
    return seal_saw_zeros(&seen, is_wide);
}

HK_INLINE bool seal_is_zero(const void *block, size_t block_size) { return seal_is_zero_by(block, block_size, false); }

/* In a function marked HK_WIDE. */
HK_INLINE bool seal_is_zero_wide(const void *block, size_t block_size) {
    return seal_is_zero_by(block, block_size, true);
}

HK_INLINE void seal_clear_part(char *at) {
    seal_four_t *part = (seal_four_t *)at;
    part[0] = part[1] = part[2] = part[3] = (seal_four_t){0};
    HK_OPAQUE(part); /* no call */
}

/* Multiples of 16; in steps as above. */
HK_INLINE void seal_clear_short(char *at, size_t bytes) {
    char *end = at + bytes;
    if (bytes > SEAL_PART) {
        for (; at < end - SEAL_PART; at += SEAL_PART)
            seal_clear_part(at);
        seal_clear_part(end - SEAL_PART);
    } else if (bytes > SEAL_PART / 2) {
        seal_four_t *first = (seal_four_t *)at, *last = (seal_four_t *)end;
        first[0] = first[1] = last[-2] = last[-1] = (seal_four_t){0};
    } else if (bytes > sizeof(seal_pair_t)) {
        *(seal_four_t *)at = *((seal_four_t *)end - 1) = (seal_four_t){0};
    } else if (bytes > 0) {
        *(seal_pair_t *)at = (seal_pair_t){0};
    }
}

/* As seal_clear_short, by the widest instructions at hand. */
void seal_clear_long(void *from, size_t bytes);

/* Makes zeros of what is none: pages that nobody touched stay so. Multiples of 16. */
void seal_clear_pages(void *from, size_t bytes);

/* As seal_is_zero, by the widest instructions at hand. */
bool seal_long_is_zero(const void *from, size_t bytes);

/* As far as is looked at a free block before it serves again: all of it, or at level 2, above SEAL_SPOTS, both ends and
 * a line in each 16th of it, which nobody can guess. */
bool seal_spots_are_zero(const void *block, size_t block_size);

/* The last 16 bytes, with the seal. */
HK_INLINE void seal_clear_last(void *block, size_t block_size) {
    HK_OPAQUE(block); /* as in seal_below_is_whole */
    uint64_t *place = seal_place(block, block_size);
    place[-1] = 0;
    hk_write(*place, 0);
}

/* The block, which has a seal, is one of a free block from here on. Without a call, and with one. */
HK_INLINE void seal_clear_tiny(void *block, size_t block_size) {
    seal_clear_short(block, block_size - sizeof(seal_pair_t));
    seal_clear_last(block, block_size);
}

void seal_clear(void *block, size_t block_size);

#define SEAL_SLACK_WORD (SEAL_SLACK * UINT64_C(0x0101010101010101))

/* The bits of the slack, of up to 15 bytes: in the word that it begins in, `place`, and in the last before the seal,
 * which may be the same. No branch: slacks of all lengths come in no order. */
typedef struct seal_slack {
    uint64_t *place, *last, in_place, in_last;
} seal_slack_t;

HK_INLINE seal_slack_t seal_slack_of(const void *block, size_t block_size, size_t slack) {
    const bool two = slack >= sizeof(uint64_t);
    uint64_t *last = seal_place(block, block_size) - 1;
    uint64_t begin = ~UINT64_C(0) << (63 - slack % sizeof *last * 8) << 1;
    return (seal_slack_t){last - two, last, begin, begin | (0 - (uint64_t)two)};
}

/* Up to 15 bytes; up to 7 of them have a word of what was asked for in front. */
HK_INLINE bool seal_slack_is_short(size_t slack, size_t size) { return slack < SEAL_SHORT && size > 0; }

/* Fills up to 15 bytes of slack in a block of zeros, of which a byte at least was asked for. */
HK_INLINE void seal_fill_short(void *block, size_t block_size, size_t slack) {
    seal_slack_t in = seal_slack_of(block, block_size, slack);
    *in.place = SEAL_SLACK_WORD & in.in_place;
    *in.last = SEAL_SLACK_WORD & in.in_last;
}

/* Whether up to 15 bytes of slack are as they were filled. */
HK_INLINE bool seal_short_is_whole(const void *block, size_t block_size, size_t slack) {
    seal_slack_t in = seal_slack_of(block, block_size, slack);
    return (((*in.place ^ SEAL_SLACK_WORD) & in.in_place) | ((*in.last ^ SEAL_SLACK_WORD) & in.in_last)) == 0;
}

/* Fills the slack of a block at level 3, and tells the offset of its first byte that is another now; `block_size` when
 * none is. */
void seal_fill_slack(void *block, size_t block_size, size_t size);
size_t seal_find_in_slack(const void *block, size_t block_size, size_t size);

/* A free block of a slab was written to: reports that, and makes it zeros again. */
HK_COLD void seal_report_written(void *block, size_t block_size, const void *caller);

/* Reports a free block whose byte at `at` is not 0. */
HK_COLD void seal_report_written_at(void *block, size_t block_size, size_t at, const void *caller);

/* Offset in [from, to) of the first byte that is not `byte`; `to` when there is none. */
size_t seal_find_other(const void *bytes, size_t from, size_t to, unsigned char byte);

/* The seal before the block is broken: reports that, and mends it. */
HK_COLD void seal_report_below(void *block, size_t block_size, const void *caller);
