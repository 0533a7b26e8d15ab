/* SPDX-License-Identifier: MIT */
#include "heap/quarantine.h"

#include "base/bits.h"
#include "base/relaxed.h"
#include "core/panic.h"
#include "heap/flush.h"
#include "map/meta.h"
#include "sys/sys.h"

#include <string.h>

enum {
    QUEUE_BLOCKS = 512,
    QUEUE_BYTES_MAX = 1 << 20,
    QUEUE_RUN_SHARE = 64, /* what a run counts of its size: it waits without pages */
    CLASS_OF_RUNS = UINT8_MAX,
    FREE_BYTE = 0xdf,
};

/* A ring of freed blocks, oldest at `first`; the heap's thread alone touches it. Kept in metadata memory. A fork may
 * come between any two steps, and the child must not find a place that holds nothing or a block that is elsewhere: so
 * places are written before they count, and stop counting at the far end before the near one moves on. It may lose
 * blocks. */
struct quarantine {
    uint32_t first, count;
    size_t bytes;
    void *blocks[QUEUE_BLOCKS];
    uint8_t classes[QUEUE_BLOCKS];
};

static uint64_t secret; /* constant after hardened_init */

void hardened_init(int level) {
    sys_random(&secret, sizeof secret);
    hk_hardened_level = level;
}

uint64_t quarantine_word(const void *address) { return secret ^ (uintptr_t)address; }

/* --- What a free block looks like --------------------------------------------------------------------------------- */

/* The first words of a free block: of what slab and class it was freed, and a secret. A head that an earlier slab in
 * the same place left behind is not taken for one. */
typedef struct free_head {
    uint64_t words[2];
} free_head_t;

static free_head_t free_head(const void *block, unsigned cls) {
    uint64_t kind = (uint64_t)slab_of(block, cls)->generation << 8 | cls;
    return (free_head_t){{~quarantine_word(block) + (kind + 1) * UINT64_C(0x9e3779b97f4a7c15), quarantine_word(block)}};
}

static void poison(void *block, unsigned cls) {
    memset(block, FREE_BYTE, hk_class_info[cls].block_size);
    free_head_t head = free_head(block, cls);
    memcpy(block, &head, sizeof head);
}

/* True when the block was freed as one of this class and its head is whole. */
static bool is_poisoned(const void *block, unsigned cls) {
    free_head_t head = free_head(block, cls);
    return memcmp(block, &head, sizeof head) == 0;
}

/* Whether all is FREE_BYTE behind the head; sizes are multiples of two words. */
static bool is_untouched(const void *block, size_t block_size) {
    const uint64_t free_word = FREE_BYTE * UINT64_C(0x0101010101010101);
    const uint64_t *words = block;
    uint64_t written = 0;
    for (size_t at = sizeof(free_head_t) / sizeof *words; at < block_size / sizeof *words; at += 2)
        written |= (words[at] ^ free_word) | (words[at + 1] ^ free_word);
    return written == 0;
}

static void report_if_written(const void *block, unsigned cls, const void *caller) {
    const unsigned char *bytes = block;
    size_t block_size = hk_class_info[cls].block_size;
    free_head_t head = free_head(block, cls);
    if (hk_likely(memcmp(block, &head, sizeof head) == 0 && is_untouched(block, block_size)))
        return;
    for (size_t at = 0; at < block_size; at++) {
        unsigned char expected = at < sizeof head ? ((const unsigned char *)&head)[at] : FREE_BYTE;
        if (bytes[at] == expected)
            continue;
        hk_misuse("write after free of", block, caller, "%zu-byte block, offset %zu", block_size, at);
        return;
    }
}

/* Runs are purged instead of filled: they must still read as zeros, which pages that nobody touched do unseen. */
static void report_if_part_written(const char *run, size_t from, size_t bytes, size_t run_size, const void *caller) {
    unsigned char pages[HK_SUPERSLAB_SIZE / 4096];
    size_t page = sys_page_size();
    bool known = sys_resident(run + from, bytes, pages) == 0;
    for (size_t at = from; at < from + bytes; at += sizeof(uint64_t)) {
        if (at % page == 0 && known && (pages[(at - from) / page] & 1) == 0) {
            at += page - sizeof(uint64_t);
            continue;
        }
        uint64_t word;
        memcpy(&word, run + at, sizeof word);
        if (hk_likely(word == 0))
            continue;
        hk_misuse("write after free of", run, caller, "%zu-byte block, offset %zu", run_size, at + hk_ctz64(word) / 8);
        return;
    }
}

static void report_if_run_written(const char *run, size_t size, const void *caller) {
    for (size_t from = 0; from < size; from += HK_SUPERSLAB_SIZE)
        report_if_part_written(run, from, hk_min(size - from, HK_SUPERSLAB_SIZE), size, caller);
}

void quarantine_look(const void *block, unsigned cls, const void *caller) {
    if (is_poisoned(block, cls))
        report_if_written(block, cls, caller);
}

/* --- The queue ---------------------------------------------------------------------------------------------------- */

static size_t weight(const void *block, unsigned cls) {
    return cls == CLASS_OF_RUNS ? large_size(block) / QUEUE_RUN_SHARE : hk_class_info[cls].block_size;
}

static void give_back(heap_t *h, void *block, unsigned cls) {
    if (cls == CLASS_OF_RUNS)
        large_let_go(block);
    else
        magazine_give_one(h, cls, block);
}

static void release_oldest(heap_t *h, struct quarantine *q, const void *caller) {
    void *block = q->blocks[q->first];
    unsigned cls = q->classes[q->first];
    q->bytes -= weight(block, cls);
    hk_write(q->count, q->count - 1);
    hk_write_release(q->first, (q->first + 1) % QUEUE_BLOCKS);
    if (cls == CLASS_OF_RUNS)
        report_if_run_written(block, large_size(block), caller);
    else
        report_if_written(block, cls, caller);
    /* Behind a lock, which the fork takes too: what is given back in the child has left the queue there. */
    give_back(h, block, cls);
}

static struct quarantine *queue_of(heap_t *h) {
    struct quarantine *q = h->quarantine;
    if (q != NULL || (q = meta_alloc(sizeof *q)) == NULL)
        return q;
    q->first = q->count = 0;
    q->bytes = 0;
    hk_write_release(h->quarantine, q);
    return q;
}

/* `h` may be NULL: then nothing waits. */
static void enqueue(heap_t *h, void *block, unsigned cls, const void *caller) {
    struct quarantine *q = h != NULL ? queue_of(h) : NULL;
    if (q == NULL) {
        give_back(h != NULL ? h : heap_shared(), block, cls);
        return;
    }
    size_t bytes = weight(block, cls);
    while (q->count > 0 && (q->count == QUEUE_BLOCKS || q->bytes + bytes > QUEUE_BYTES_MAX))
        release_oldest(h, q, caller);
    uint32_t at = (q->first + q->count) % QUEUE_BLOCKS;
    hk_write(q->blocks[at], block);
    hk_write(q->classes[at], (uint8_t)cls);
    q->bytes += bytes;
    hk_write_release(q->count, q->count + 1);
}

void quarantine_fill(void *block, unsigned cls) { poison(block, cls); }

void quarantine_put(heap_t *h, void *block, unsigned cls, const void *caller) {
    poison(block, cls);
    enqueue(h, block, cls, caller);
}

void quarantine_put_run(heap_t *h, void *block, const void *caller) {
    sys_purge(block, large_size(block));
    enqueue(h, block, CLASS_OF_RUNS, caller);
}

void quarantine_drain(heap_t *h) {
    struct quarantine *q = h->quarantine;
    while (q != NULL && q->count > 0)
        release_oldest(h, q, NULL);
    hk_write(h->quarantine, NULL); /* before the lock in meta_free is released: a fork takes it too */
    meta_free(q, sizeof *q);
}
