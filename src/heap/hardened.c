/* SPDX-License-Identifier: MIT */
#include "heap/hardened.h"

#include "core/panic.h"
#include "heap/alloc.h"
#include "heap/misuse.h"
#include "map/meta.h"
#include "sys/sys.h"

#include <errno.h>
#include <string.h>

enum {
    QUEUE_BLOCKS = 512,
    QUEUE_BYTES_MAX = 1 << 20,
    FREE_BYTE = 0xdf,
    SLACK_BYTE = 0xca,
    TRAILER_BYTES = 16, /* at least 8 bytes of pattern and the size word */
};

/* A ring of freed blocks, oldest at `first`; the heap's thread alone touches it. Kept in metadata memory. */
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

/* Class of a block that serves the request. */
static unsigned class_for(size_t align, size_t size) {
    size_t need = hk_hardened_level >= 3 && size < SIZE_MAX - TRAILER_BYTES ? size + TRAILER_BYTES : size;
    return class_of_aligned(hk_max(need, 1), hk_max(align, HK_ALIGNMENT));
}

bool hardened_size_fits(const void *block, unsigned cls, size_t align, size_t size) {
    if (hk_hardened_level < 3)
        return class_for(align, size) == cls;
    size_t asked = asked_size(block, hk_class_info[cls].block_size);
    return asked == size || asked == SIZE_MAX; /* overwritten: free reports that */
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

/* --- The queue ---------------------------------------------------------------------------------------------------------- */

static void release_oldest(heap_t *h, struct hardened_queue *q, const void *caller) {
    void *block = q->blocks[q->first];
    unsigned cls = q->classes[q->first];
    size_t size = hk_class_info[cls].block_size;
    q->first = (q->first + 1) % QUEUE_BLOCKS;
    q->count--;
    q->bytes -= size;
    report_if_written(block, cls, caller);
    magazine_give_one(h, cls, block);
}

static void enqueue(heap_t *h, void *block, unsigned cls, const void *caller) {
    struct hardened_queue *q = h->queue;
    if (q == NULL) {
        q = h->queue = meta_alloc(sizeof *q);
        if (q == NULL) {
            magazine_give_one(h, cls, block);
            return;
        }
        q->first = q->count = 0;
        q->bytes = 0;
    }
    size_t size = hk_class_info[cls].block_size;
    while (q->count > 0 && (q->count == QUEUE_BLOCKS || q->bytes + size > QUEUE_BYTES_MAX))
        release_oldest(h, q, caller);
    uint32_t at = (q->first + q->count) % QUEUE_BLOCKS;
    q->blocks[at] = block;
    q->classes[at] = (uint8_t)cls;
    q->count++;
    q->bytes += size;
}

void hardened_drain(heap_t *h) {
    struct hardened_queue *q = h->queue;
    while (q != NULL && q->count > 0)
        release_oldest(h, q, NULL);
    h->queue = NULL;
    atomic_signal_fence(memory_order_release);
    meta_free(q, sizeof *q);
}

/* --- Alloc, free, realloc -------------------------------------------------------------------------------------------------- */

void *hardened_alloc(heap_t *h, size_t align, size_t size, bool zero) {
    if (h == NULL)
        h = heap_pool();
    unsigned cls = class_for(align, size);
    bool zeroed = false;
    if (cls >= HK_CLASS_COUNT) {
        void *block = heap_big_alloc(h, size, align, zero ? &zeroed : NULL);
        if (block == NULL)
            errno = ENOMEM;
        return block != NULL && zero && !zeroed ? memset(block, 0, size) : block;
    }
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
    if (h == NULL)
        magazine_give_one(heap_pool(), cls, block);
    else
        enqueue(h, block, cls, caller);
}

void *hardened_realloc(void *block, size_t old_size, size_t size, const void *caller) {
    heap_t *h = heap_current();
    void *copy = hardened_alloc(h, HK_ALIGNMENT, size, false);
    if (copy == NULL)
        return NULL;
    memcpy(copy, block, hk_min(old_size, size));
    if (map_clear_live_shared(map_granule(block)))
        hardened_free(h, block, map_lookup(block) & HK_MAP_CLASS_MAX, caller);
    else /* another thread frees it at this moment */
        misuse_double_free("realloc", block, old_size, caller);
    return copy;
}
