/* SPDX-License-Identifier: MIT */
#include "heap/seal.h"

#include "base/bits.h"
#include "base/wide.h"
#include "core/panic.h"
#include "sys/sys.h"

enum {
    PAGE_BYTES = 4096, /* or a part of a page */
    LOOK_BYTES = 1024,
    LINE_BYTES = 64,
    SPOTS = 16, /* for each of them a byte of two random words */
    HEAD_BYTES = 256,
};

uint64_t hk_seal_secret[2];
bool hk_seal_is_wide;
static bool looks_at_all; /* constant after the start */

void seal_init(int level) {
    hk_seal_is_wide = hk_has_wide();
    looks_at_all = level >= 3;
    sys_random(hk_seal_secret, sizeof hk_seal_secret);
    hk_seal_secret[1] |= 1;
}

size_t seal_find_other(const void *bytes, size_t from, size_t to, unsigned char byte) {
    const unsigned char *at = bytes;
    const uint64_t all = byte * UINT64_C(0x0101010101010101);
    while (from < to && ((uintptr_t)(at + from) % sizeof all != 0 || to - from < sizeof all)) {
        if (at[from] != byte)
            return from;
        from++;
    }
    for (; to - from >= sizeof all; from += sizeof all) {
        uint64_t word;
        memcpy(&word, at + from, sizeof word);
        if (word != all)
            return from + hk_ctz64(word ^ all) / 8;
    }
    return from < to ? seal_find_other(bytes, from, to, byte) : to;
}

/* Looks at a little at a time: what a program has written to is seldom zeros at its beginning. */
static HK_WIDE HK_NOINLINE bool is_zero_wide(const char *from, size_t bytes) {
    const char *end = from + bytes / LOOK_BYTES * LOOK_BYTES;
    while (from < end) {
        seal_seen_t seen = {0};
        for (const char *part = from + LOOK_BYTES; from < part; from += SEAL_PART)
            seal_look_at_part(&seen, from, true);
        if (!seal_saw_zeros(&seen, true))
            return false;
    }
    return bytes % LOOK_BYTES == 0 || seal_is_zero_wide(from, bytes % LOOK_BYTES);
}

static bool is_zero_soon(const char *from, size_t bytes) {
    for (size_t at = 0; at < bytes; at += LOOK_BYTES)
        if (!seal_is_zero(from + at, hk_min(LOOK_BYTES, bytes - at)))
            return false;
    return true;
}

bool seal_long_is_zero(const void *from, size_t bytes) {
    return hk_seal_is_wide ? is_zero_wide(from, bytes) : is_zero_soon(from, bytes);
}

/* A line in each 16th of the block, at the place that a byte of `random` says. */
static bool lines_are_zero(const char *block, size_t block_size, uint64_t random[2]) {
    const size_t part = block_size / SPOTS, lines = part / LINE_BYTES;
    hk_assert(lines > 0 && part % LINE_BYTES == 0);
    seal_pair_t some = {0};
    for (size_t i = 0; i < SPOTS; i++, random[i % 2] >>= 8) {
        const size_t line = (random[i % 2] & 0xff) * lines >> 8;
        const seal_pair_t *at = (const seal_pair_t *)(block + i * part + line * LINE_BYTES);
        some |= at[0] | at[1] | at[2] | at[3];
    }
    return (some[0] | some[1]) == 0;
}

bool seal_spots_are_zero(const void *block, size_t block_size) {
    if (block_size <= SEAL_SPOTS || looks_at_all)
        return seal_long_is_zero(block, block_size);
    uint64_t first = seal_secret_of(block), random[2] = {first, seal_secret_of((const uint64_t *)(uintptr_t)first)};
    return seal_is_zero(block, HEAD_BYTES) && seal_is_zero((const char *)block + block_size - LINE_BYTES, LINE_BYTES) &&
           lines_are_zero(block, block_size, random);
}

static HK_WIDE HK_NOINLINE void clear_wide(char *at, size_t bytes) { seal_clear_short(at, bytes); }

/* Without wide registers the string instruction is faster than a loop. */
void seal_clear_long(void *from, size_t bytes) {
    if (hk_seal_is_wide)
        clear_wide(from, bytes);
    else
        hk_zero_long(from, bytes);
}

void seal_clear_pages(void *from, size_t bytes) {
    char *at = from;
    for (size_t part; bytes > 0; at += part, bytes -= part) {
        part = hk_min(bytes, PAGE_BYTES - (uintptr_t)at % PAGE_BYTES);
        if (!seal_long_is_zero(at, part))
            hk_zero_long(at, part);
    }
}

void seal_clear(void *block, size_t block_size) {
    const size_t bytes = block_size - sizeof(seal_pair_t);
    if (block_size >= SEAL_PAGES)
        seal_clear_pages(block, bytes);
    else
        seal_clear_long(block, bytes);
    seal_clear_last(block, block_size);
}

void seal_fill_slack(void *block, size_t block_size, size_t size) {
    memset((char *)block + size, SEAL_SLACK, block_size - SEAL_BYTES - size);
}

size_t seal_find_in_slack(const void *block, size_t block_size, size_t size) {
    size_t end = block_size - SEAL_BYTES;
    if (seal_slack_is_short(end - size, size) && seal_short_is_whole(block, block_size, end - size))
        return block_size;
    size_t found = seal_find_other(block, size, end, SEAL_SLACK);
    return found < end ? found : block_size;
}

void seal_report_written_at(void *block, size_t block_size, size_t at, const void *caller) {
    const hk_misuse_t misuse = {
        .what = "write after free of",
        .address = block,
        .caller = caller,
        .block = block,
        .block_size = block_size,
        .wrong = (const char *)block + at,
        .state = HK_MISUSE_FREE,
    };
    hk_misuse(&misuse, "%zu-byte block, offset %zu", block_size, at);
}

void seal_report_written(void *block, size_t block_size, const void *caller) {
    size_t at = seal_find_other(block, 0, block_size, 0);
    if (at < block_size)
        seal_report_written_at(block, block_size, at, caller);
    memset(block, 0, block_size);
}

void seal_report_below(void *block, size_t block_size, const void *caller) {
    char *below = (char *)block - block_size;
    const hk_misuse_t misuse = {
        .what = "underflow of",
        .address = block,
        .caller = caller,
        .block = block,
        .block_size = block_size,
        .wrong = seal_place(below, block_size),
        .state = HK_MISUSE_ALLOCATED,
    };
    hk_misuse(&misuse, "%zu-byte block, or overflow of the one below it at %p", block_size, (void *)below);
    const uint64_t tags = tags_pause();
    seal_set(below, block_size, block_size - SEAL_BYTES);
    tags_resume(tags);
}
