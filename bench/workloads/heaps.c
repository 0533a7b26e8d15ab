// SPDX-License-Identifier: MIT
// heaps KIND ...: heaps of a program's own: hakmem's hak_heap_*, mimalloc's mi_heap_*, jemalloc's arenas without thread
// caches; a bump arena on malloc, which frees nothing by itself, for whoever has none of these.
//   heaps destroy COUNT SIZE SEED      COUNT blocks of 1 to 2 SIZE bytes in one heap, which then ends at once
//   heaps single COUNT SIZE SEED       the same blocks, freed one by one
//   heaps churn THREADS SHARED OPS SEED [LARGEST]  blocks of 16 - 512 bytes, or to LARGEST, in one heap or one each
//   heaps request COUNT BLOCKS SEED    a heap is made, gets BLOCKS blocks and ends, COUNT times
//   heaps batch SIZE BLOCKS ROUNDS     no heap: BLOCKS blocks in one call and freed in one, or in a loop each
#include "common.h"

typedef struct heap heap;

// ---- whose heaps ----

static struct {
    void *(*hak_new)(const void *);
    void *(*hak_malloc)(void *, size_t);
    void (*hak_destroy)(void *);
    void *(*mi_new)(void);
    void *(*mi_malloc)(void *, size_t);
    void (*mi_destroy)(void *);
    void *(*mallocx)(size_t, int);
    void (*dallocx)(void *, int);
    int (*mallctl)(const char *, void *, size_t *, void *, size_t);
    size_t (*hak_batch)(size_t, size_t, void **);
    void (*hak_free_batch)(void **, size_t);
} has;

#define FIND(field, name)                                                                                              \
    do {                                                                                                               \
        void *found = dlsym(RTLD_DEFAULT, name);                                                                       \
        memcpy(&has.field, &found, sizeof found);                                                                      \
    } while (0)

static void find_heaps(void) {
    FIND(hak_new, "hak_heap_new");
    FIND(hak_malloc, "hak_heap_malloc");
    FIND(hak_destroy, "hak_heap_destroy");
    FIND(mi_new, "mi_heap_new");
    FIND(mi_malloc, "mi_heap_malloc");
    FIND(mi_destroy, "mi_heap_destroy");
    FIND(mallocx, "mallocx");
    FIND(dallocx, "dallocx");
    FIND(mallctl, "mallctl");
    FIND(hak_batch, "hak_malloc_batch");
    FIND(hak_free_batch, "hak_free_batch");
}

// ---- a bump arena ----

enum { BUMP_PIECE = 64 * 1024, BUMP_ALIGN = 16 };

typedef struct piece {
    struct piece *next;
    size_t used;
} piece;

typedef struct {
    pthread_mutex_t lock;
    piece *pieces;
} bump;

static bump *bump_new(void) {
    bump *made = (bump *)bench_malloc(sizeof *made);
    *made = (bump){PTHREAD_MUTEX_INITIALIZER, NULL};
    return made;
}

static void *bump_take(bump *arena, size_t size) {
    size = (size + BUMP_ALIGN - 1) & ~(size_t)(BUMP_ALIGN - 1);
    pthread_mutex_lock(&arena->lock);
    if (!arena->pieces || arena->pieces->used + size > BUMP_PIECE) {
        piece *more = (piece *)bench_malloc(BUMP_PIECE);
        *more = (piece){arena->pieces, sizeof *more};
        arena->pieces = more;
    }
    void *block = (char *)arena->pieces + arena->pieces->used;
    arena->pieces->used += size;
    pthread_mutex_unlock(&arena->lock);
    return block;
}

static void bump_end(bump *arena) {
    for (piece *at = arena->pieces, *next; at; at = next) {
        next = at->next;
        free(at);
    }
    free(arena);
}

// ---- one face for all ----

static heap *heap_new(void) {
    if (has.hak_new)
        return (heap *)has.hak_new(NULL);
    if (has.mi_new)
        return (heap *)has.mi_new();
    if (!has.mallctl)
        return (heap *)bump_new();
    unsigned arena = 0;
    size_t size = sizeof arena;
    if (has.mallctl("arenas.create", &arena, &size, NULL, 0) != 0)
        bench_fail("arenas.create failed");
    return (heap *)(uintptr_t)arena;
}

// MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE
static inline int arena_flags(const heap *h) { return (int)(((uintptr_t)h + 1) << 20) | 1 << 8; }

static inline void *heap_take(heap *h, size_t size) {
    void *block;
    if (has.hak_new)
        block = has.hak_malloc(h, size);
    else if (has.mi_new)
        block = has.mi_malloc(h, size);
    else if (has.mallctl)
        block = has.mallocx(size, arena_flags(h));
    else
        block = bump_take((bump *)h, size);
    if (!block)
        bench_fail("no block of the heap");
    bench_keep(block);
    return block;
}

static inline void heap_give(heap *h, void *block) {
    if (has.hak_new || has.mi_new)
        free(block);
    else if (has.mallctl)
        has.dallocx(block, arena_flags(h));
}

static void heap_end(heap *h) {
    char name[64];
    if (has.hak_new) {
        has.hak_destroy(h);
    } else if (has.mi_new) {
        has.mi_destroy(h);
    } else if (has.mallctl) {
        snprintf(name, sizeof name, "arena.%u.destroy", (unsigned)(uintptr_t)h);
        if (has.mallctl(name, NULL, NULL, NULL, 0) != 0)
            bench_fail("arena.N.destroy failed");
    } else {
        bump_end((bump *)h);
    }
}

// ---- the loads ----

static void destroy(size_t count, size_t size, uint64_t seed, int at_once) {
    bench_rng rng = bench_rng_make(seed);
    void **blocks = at_once ? NULL : (void **)bench_map(count * sizeof *blocks);
    heap *h = at_once ? heap_new() : NULL;
    uint64_t begin = bench_now_ns();
    for (size_t i = 0; i < count; i++) {
        size_t bytes = 1 + bench_rng_below(&rng, (uint32_t)(2 * size));
        void *block = at_once ? heap_take(h, bytes) : bench_malloc(bytes);
        bench_touch_first(block);
        if (!at_once)
            blocks[i] = block;
    }
    uint64_t filled = bench_now_ns();
    if (at_once)
        heap_end(h);
    for (size_t i = 0; i < count && !at_once; i++)
        free(blocks[i]);
    uint64_t ended = bench_now_ns();
    bench_open_result();
    bench_speed_fields((double)count, filled - begin);
    bench_field("end_ms", (double)(ended - filled) / 1e6);
    bench_close_result();
}

enum { LIVE_BYTES = 4096 * 512, SMALLEST = 16, LARGEST = 512 }; // at most so many live a thread

typedef struct {
    heap *h;
    size_t ops;
    uint32_t largest;
    uint64_t seed;
    void **blocks;
} churner;

static void churn(void *argument) {
    churner *c = (churner *)argument;
    bench_rng rng = bench_rng_make(c->seed);
    uint32_t live = LIVE_BYTES / c->largest;
    for (size_t i = 0; i < c->ops; i++) {
        void **place = &c->blocks[bench_rng_below(&rng, live)];
        if (*place)
            heap_give(c->h, *place);
        *place = heap_take(c->h, bench_rng_range(&rng, SMALLEST, c->largest));
        bench_touch_first(*place);
    }
}

// mimalloc 2 has heaps of one thread: they are made there, and one of all threads is not to be had.
static void churn_in_own(void *argument) {
    churner *c = (churner *)argument;
    c->h = heap_new();
    churn(c);
}

static void churn_all(size_t threads, int shared, size_t ops, uint64_t seed, uint32_t largest) {
    churner *all = (churner *)bench_map(threads * sizeof *all);
    heap *one = shared ? heap_new() : NULL;
    for (size_t i = 0; i < threads; i++)
        all[i] =
            (churner){one, ops / threads, largest, seed + i, (void **)bench_map(LIVE_BYTES / largest * sizeof(void *))};
    uint64_t elapsed = bench_threads(threads, shared ? churn : churn_in_own, all, sizeof *all);
    bench_result((double)(ops / threads * threads), elapsed);
}

static void request(size_t count, size_t blocks, uint64_t seed) {
    bench_rng rng = bench_rng_make(seed);
    uint64_t begin = bench_now_ns();
    for (size_t i = 0; i < count; i++) {
        heap *h = heap_new();
        for (size_t k = 0; k < blocks; k++)
            bench_touch_first(heap_take(h, bench_rng_range(&rng, SMALLEST, LARGEST)));
        heap_end(h);
    }
    bench_result((double)(count * blocks), bench_now_ns() - begin);
}

static void batch(size_t size, size_t blocks, size_t rounds) {
    void **all = (void **)bench_map(blocks * sizeof *all);
    uint64_t begin = bench_now_ns();
    for (size_t r = 0; r < rounds; r++) {
        if (has.hak_batch && has.hak_batch(size, blocks, all) != blocks)
            bench_fail("no batch");
        for (size_t i = 0; i < blocks && !has.hak_batch; i++)
            all[i] = bench_malloc(size);
        for (size_t i = 0; i < blocks; i++)
            bench_touch_first(all[i]);
        if (has.hak_batch)
            has.hak_free_batch(all, blocks);
        for (size_t i = 0; i < blocks && !has.hak_batch; i++)
            free(all[i]);
    }
    bench_result((double)(blocks * rounds), bench_now_ns() - begin);
}

int main(int argc, char **argv) {
    const char *kind = bench_word(argc, argv, 1, "churn");
    bench_begin();
    find_heaps();
    if (strcmp(kind, "destroy") == 0 || strcmp(kind, "single") == 0)
        destroy(bench_arg(argc, argv, 2, 10000000), bench_arg(argc, argv, 3, 100), bench_arg(argc, argv, 4, 42),
                *kind == 'd');
    else if (strcmp(kind, "churn") == 0)
        churn_all(bench_arg(argc, argv, 2, 1), bench_arg(argc, argv, 3, 1) != 0, bench_arg(argc, argv, 4, 2000000),
                  bench_arg(argc, argv, 5, 42), (uint32_t)bench_arg(argc, argv, 6, LARGEST));
    else if (strcmp(kind, "request") == 0)
        request(bench_arg(argc, argv, 2, 5000), bench_arg(argc, argv, 3, 100), bench_arg(argc, argv, 4, 42));
    else if (strcmp(kind, "batch") == 0)
        batch(bench_arg(argc, argv, 2, 64), bench_arg(argc, argv, 3, 64), bench_arg(argc, argv, 4, 100000));
    else
        bench_fail("kind must be destroy, single, churn, request or batch");
    return 0;
}
