/* SPDX-License-Identifier: MIT */
#include "heap/hardened.h"

#include "base/bits.h"
#include "base/relaxed.h"
#include "core/panic.h"
#include "heap/alloc.h"
#include "heap/misuse.h"
#include "large/huge.h"
#include "map/meta.h"
#include "sys/sys.h"

#include <errno.h>
#include <string.h>

enum {
    QUEUE_BLOCKS = 512,
    QUEUE_BYTES_MAX = 1 << 20,
    QUEUE_RUN_SHARE = 64, /* what a run counts of its size: it waits without pages */
    CLASS_OF_RUNS = UINT8_MAX,
    FREE_BYTE = 0xdf,
    SLACK_BYTE = 0xca,
    TRAILER_BYTES = 16, /* at least 8 bytes of pattern and the size word */
};

/* A ring of freed blocks, oldest at `first`; the heap's thread alone touches it. Kept in metadata memory. A fork may come between any
 * two steps, and the child must not find a place that holds nothing or a block that is elsewhere: so places are written before they
 * count, and stop counting at the far end before the near one moves on. It may lose blocks. */
struct hardened_queue {
    uint32_t first, count;
    size_t bytes;
    void *blocks[QUEUE_BLOCKS];
    uint8_t classes[QUEUE_BLOCKS];
};

int hk_hardened_level;
static uint64_t secret; /* constant after hardened_init */

void hardened_init(int level) {
    sys_random(&secret, sizeof secret);
    hk_hardened_level = level;
}

static uint64_t *size_word(const void *block, size_t block_size) {
    return (uint64_t *)((uintptr_t)block + block_size - sizeof(uint64_t));
}

static uint64_t mix(const void *block) { return secret ^ (uintptr_t)block; }

/* Size asked for, or SIZE_MAX when the word was overwritten. */
static size_t asked_size(const void *block, size_t block_size) {
    uint64_t size = *size_word(block, block_size) ^ ~mix(block);
    return size + TRAILER_BYTES <= block_size ? (size_t)size : SIZE_MAX;
}

size_t hardened_size(const void *block, size_t block_size) {
    if (hk_hardened_level < 3)
        return block_size;
    size_t asked = asked_size(block, block_size);
    return asked == SIZE_MAX ? 0 : asked;
}

/* With room for the seal. */
static size_t sealed_size(size_t size) {
    return hk_hardened_level >= 3 && size < SIZE_MAX - TRAILER_BYTES ? size + TRAILER_BYTES : size;
}

/* Class of a block that serves the request. */
static unsigned class_for(size_t align, size_t size) {
    return class_of_aligned(hk_max(sealed_size(size), 1), hk_max(align, HK_ALIGNMENT));
}

bool hardened_size_fits(const void *block, size_t block_size, size_t align, size_t size) {
    if (hk_hardened_level >= 3) {
        size_t asked = asked_size(block, block_size);
        return asked == size || asked == SIZE_MAX; /* overwritten: free reports that */
    }
    unsigned cls = class_for(align, size), own = map_lookup(block) & HK_MAP_CLASS_MAX;
    return own < HK_CLASS_COUNT ? cls == own : cls >= HK_CLASS_COUNT && size <= block_size;
}

static void seal(void *block, size_t block_size, size_t size) {
    if (hk_hardened_level < 3)
        return;
    memset((char *)block + size, SLACK_BYTE, block_size - sizeof(uint64_t) - size);
    *size_word(block, block_size) = size ^ ~mix(block);
}

/* True when nothing behind the asked size was written; reports otherwise. */
static bool seal_is_whole(const void *block, size_t block_size, const void *caller) {
    if (hk_hardened_level < 3)
        return true;
    size_t asked = asked_size(block, block_size);
    if (asked == SIZE_MAX) {
        hk_misuse("overflow of", block, caller, "%zu-byte block, its last bytes are overwritten", block_size);
        return false;
    }
    for (size_t at = asked; at < block_size - sizeof(uint64_t); at++) {
        if (((const unsigned char *)block)[at] == SLACK_BYTE)
            continue;
        hk_misuse("overflow of", block, caller, "%zu-byte block, %zu bytes asked for, offset %zu overwritten",
                  block_size, asked, at);
        return false;
    }
    return true;
}

/* The first words of a free block: of what slab and class it was freed, and a secret. A head that an earlier slab in the same
 * place left behind is not taken for one. */
typedef struct free_head {
    uint64_t words[2];
} free_head_t;

static free_head_t free_head(const void *block, unsigned cls) {
    uint64_t kind = (uint64_t)slab_of(block, cls)->generation << 8 | cls;
    return (free_head_t){{~mix(block) + (kind + 1) * UINT64_C(0x9e3779b97f4a7c15), mix(block)}};
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

/* --- The queue ---------------------------------------------------------------------------------------------------------- */

static size_t weight(const void *block, unsigned cls) {
    return cls == CLASS_OF_RUNS ? large_size(block) / QUEUE_RUN_SHARE : hk_class_info[cls].block_size;
}

static void give_back(heap_t *h, void *block, unsigned cls) {
    if (cls == CLASS_OF_RUNS)
        large_let_go(block);
    else
        magazine_give_one(h, cls, block);
}

static void release_oldest(heap_t *h, struct hardened_queue *q, const void *caller) {
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

static struct hardened_queue *queue_of(heap_t *h) {
    struct hardened_queue *q = h->queue;
    if (q != NULL || (q = meta_alloc(sizeof *q)) == NULL)
        return q;
    q->first = q->count = 0;
    q->bytes = 0;
    hk_write_release(h->queue, q);
    return q;
}

/* `h` may be NULL: then nothing waits. */
static void enqueue(heap_t *h, void *block, unsigned cls, const void *caller) {
    struct hardened_queue *q = h != NULL ? queue_of(h) : NULL;
    if (q == NULL) {
        give_back(h != NULL ? h : heap_pool(), block, cls);
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

void hardened_drain(heap_t *h) {
    struct hardened_queue *q = h->queue;
    while (q != NULL && q->count > 0)
        release_oldest(h, q, NULL);
    hk_write(h->queue, NULL); /* before the lock in meta_free is released: a fork takes it too */
    meta_free(q, sizeof *q);
}

/* --- Large and huge blocks ---------------------------------------------------------------------------------------------------- */

/* 0 when it is neither. */
static size_t big_size(const void *block) {
    void *start;
    size_t size;
    if (map_is_run(map_lookup(block)))
        return large_size(block);
    return huge_find(block, &start, &size) && start == block ? size : 0;
}

static void *big_alloc(heap_t *h, size_t align, size_t size, bool zero) {
    bool zeroed = false;
    void *block = heap_big_alloc(h, sealed_size(size), align, zero ? &zeroed : NULL);
    if (block == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    seal(block, big_size(block), size);
    return zero && !zeroed ? memset(block, 0, size) : block;
}

void hardened_free_large(heap_t *h, void *block, const void *caller) {
    size_t size = large_size(block);
    if (large_is_live(block) && !seal_is_whole(block, size, caller))
        return;
    if (!large_hold(&(h != NULL ? h : heap_pool())->large, block)) {
        misuse_double_free("free", block, size, caller);
        return;
    }
    sys_purge(block, size);
    enqueue(h, block, CLASS_OF_RUNS, caller);
}

bool hardened_huge_is_whole(const void *block, const void *caller) {
    size_t size = hk_hardened_level >= 3 ? big_size(block) : 0;
    return size == 0 || seal_is_whole(block, size, caller);
}

/* What does not fit any more is unmapped, and so is the old place. */
static void *resize_huge(void *block, size_t size, const void *caller) {
    if (sealed_size(size) <= HK_LARGE_MAX || !hardened_huge_is_whole(block, caller))
        return NULL;
    void *moved = huge_resize(block, sealed_size(size));
    if (moved != NULL)
        seal(moved, big_size(moved), size);
    return moved;
}

/* --- Alloc, free, realloc -------------------------------------------------------------------------------------------------- */

void *hardened_alloc(heap_t *h, size_t align, size_t size, bool zero) {
    if (h == NULL)
        h = heap_pool();
    unsigned cls = class_for(align, size);
    if (cls >= HK_CLASS_COUNT)
        return big_alloc(h, align, size, zero);
    size_t block_size = hk_class_info[cls].block_size;
    if (h != heap_pool() && (h->front.countdown -= (int64_t)block_size) < 0)
        heap_tick(h);
    block_past_t past;
    void *block = heap_take_one_or_reclaim(h, cls, &past);
    if (block == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    if (is_poisoned(block, cls))
        report_if_written(block, cls, __builtin_return_address(0));
    seal(block, block_size, size);
    return zero ? memset(block, 0, size) : block;
}

void hardened_free(heap_t *h, void *block, unsigned cls, const void *caller) {
    size_t size = hk_class_info[cls].block_size;
    if (!seal_is_whole(block, size, caller))
        return;
    poison(block, cls);
    enqueue(h, block, cls, caller);
}

static void free_moved(heap_t *h, void *block, size_t old_size, const void *caller) {
    uint32_t entry = map_lookup(block);
    if (entry == 0)
        (void)(hardened_huge_is_whole(block, caller) && huge_free(block));
    else if (map_is_run(entry))
        hardened_free_large(h, block, caller);
    else if (map_clear_live_shared(map_granule(block)))
        hardened_free(h, block, entry & HK_MAP_CLASS_MAX, caller);
    else /* another thread frees it at this moment */
        misuse_double_free("realloc", block, old_size, caller);
}

/* Memory is out when a block had to shrink: it stays, and keeps its seal where its size is now. */
static void *stay(void *block, size_t size, int saved_errno, const void *caller) {
    size_t big = big_size(block);
    size_t block_size = big != 0 ? big : hk_class_info[map_lookup(block) & HK_MAP_CLASS_MAX].block_size;
    if (!seal_is_whole(block, block_size, caller))
        return NULL;
    seal(block, block_size, size);
    return heap_keep_whole(block, saved_errno);
}

/* Always into another block, so that the old one can be watched; but huge ones, whose old place is unmapped. */
void *hardened_realloc(void *block, size_t old_size, size_t size, const void *caller) {
    heap_t *h = heap_current();
    void *same = map_lookup(block) == 0 ? resize_huge(block, size, caller) : NULL;
    if (same != NULL)
        return same;
    int saved = errno;
    void *copy = hardened_alloc(h, HK_ALIGNMENT, size, false);
    if (copy == NULL && size <= old_size)
        return stay(block, size, saved, caller);
    if (copy == NULL)
        return NULL;
    memcpy(copy, block, hk_min(old_size, size));
    free_moved(h, block, old_size, caller);
    return copy;
}
