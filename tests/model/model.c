/* SPDX-License-Identifier: MIT
 *
 * Model test: random calls of the whole C interface from several threads, against an oracle that knows every live byte.
 *
 *   model [--seconds N] [--ops N] [--seed S] [--threads T] [--max-live BYTES] [--names libc|hak]
 *
 * Checked at every call: live blocks never overlap (shadow.h), the bytes of a block are those last written to it (the
 * whole of it, to malloc_usable_size for every other block), calloc returns zeros, alignment is what was asked for,
 * realloc keeps contents, usable size covers what was asked for, errno is left alone by free and by a success.
 * Blocks wander between threads through a set of mailboxes, and threads die and are replaced, their blocks living on.
 * The oracle's own memory comes from mmap. `--names hak` calls hak_malloc and so on (for builds under a sanitizer).
 */
#include "testing.h"
#include "shadow.h"

enum {
    TABLE_SLOTS = 4096, /* blocks a thread may hold */
    MAILBOXES = 256,    /* blocks on their way to another thread */
    LIFE_OPS = 60000,   /* operations until a thread ends and a successor takes its table over */
    MAX_ALIGNMENT_BITS = 20,
};
static const size_t MAX_SIZE = 64 * TEST_MIB;

typedef struct block {
    unsigned char *address; /* NULL: slot empty */
    size_t asked;
    size_t filled; /* bytes that hold the pattern: `asked`, or all that is usable */
    size_t usable;
    uint64_t seed;
} block_t;

typedef struct worker {
    block_t slots[TABLE_SLOTS];
    uint64_t random;
    uint64_t ops;
    uint64_t allocs;
} worker_t;

/* A mailbox holds a block while `full` is 1; 0 is empty, 2 is being filled or emptied by one thread. */
typedef struct mailbox {
    _Atomic int full;
    block_t block;
} mailbox_t;

typedef struct names {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void *(*reallocarray)(void *, size_t, size_t);
    void (*free)(void *);
    void *(*aligned_alloc)(size_t, size_t);
    void *(*memalign)(size_t, size_t);
    int (*posix_memalign)(void **, size_t, size_t);
    size_t (*usable_size)(void *);
} names_t;

static names_t names;
static mailbox_t *mailboxes;
static _Atomic size_t live_bytes;
static size_t max_live = 256 * TEST_MIB;
static uint64_t max_ops = UINT64_MAX;
static uint64_t end_ns;
static uint64_t run_seed;
static bool strict_errno; /* hakmem's promise; glibc sets ENOMEM on its way to a success */

/* --- Sizes and alignments ----------------------------------------------------------------------------------------- */

/* Log-distributed to 64 MiB, but large sizes seldom: they cost a thousand times as much to fill and to check. */
static size_t pick_size(worker_t *w) {
    size_t dice = test_random_below(&w->random, 1000);
    size_t max = dice < 900 ? 64 * TEST_KIB : dice < 990 ? TEST_MIB : MAX_SIZE;
    if (dice % 64 == 0)
        return dice % 128 == 0 ? 0 : (size_t)1 << test_random_below(&w->random, 17);
    return test_random_log_size(&w->random, max);
}

static size_t pick_alignment(worker_t *w) {
    return (size_t)1 << (3 + test_random_below(&w->random, MAX_ALIGNMENT_BITS - 2));
}

/* --- A block's life ----------------------------------------------------------------------------------------------- */

static void block_check(const block_t *b) {
    CHECK_SAY(test_holds(b->address, b->filled, b->seed), "contents of %zu-byte block %p changed (seed %llu)", b->asked,
              (void *)b->address, (unsigned long long)run_seed);
}

static void block_mark(const block_t *b) {
    CHECK_SAY(shadow_change(b->address, b->usable, true), "%zu-byte block %p overlaps a live one (seed %llu)", b->asked,
              (void *)b->address, (unsigned long long)run_seed);
}

static void block_unmark(const block_t *b) {
    CHECK_SAY(shadow_change(b->address, b->usable, false), "oracle lost block %p", (void *)b->address);
}

/* Takes note of a block that the allocator has just returned, and fills it. */
static void block_born(worker_t *w, block_t *b, void *p, size_t asked) {
    b->address = (unsigned char *)p;
    b->asked = asked;
    b->usable = names.usable_size(p);
    CHECK_SAY(b->usable >= asked, "usable %zu of %zu asked", b->usable, asked);
    CHECK_SAY((uintptr_t)p % 16 == 0 || asked < 16, "%zu-byte block %p is not aligned", asked, p);
    block_mark(b);
    b->seed = test_random(&w->random);
    b->filled = b->seed % 2 ? b->usable : asked;
    test_fill(p, b->filled, b->seed);
    atomic_fetch_add_explicit(&live_bytes, b->usable, memory_order_relaxed);
    w->allocs++;
}

static void block_free(block_t *b) {
    block_check(b);
    block_unmark(b);
    atomic_fetch_sub_explicit(&live_bytes, b->usable, memory_order_relaxed);
    errno = 4711;
    names.free(b->address);
    CHECK_SAY(errno == 4711, "free changed errno to %d", errno);
    b->address = NULL;
}

/* --- Operations --------------------------------------------------------------------------------------------------- */

static void *allocate_aligned(worker_t *w, size_t *size) {
    size_t alignment = pick_alignment(w);
    void *p = NULL;
    switch (test_random_below(&w->random, 3)) {
    case 0:
        CHECK(names.posix_memalign(&p, alignment, *size) == 0);
        break;
    case 1:
        *size = (*size + alignment - 1) & ~(alignment - 1);
        p = names.aligned_alloc(alignment, *size);
        break;
    default:
        p = names.memalign(alignment, *size);
    }
    CHECK_SAY((uintptr_t)p % alignment == 0, "%p (%zu bytes) is not %zu-aligned", p, *size, alignment);
    return p;
}

static void *allocate_zeroed(worker_t *w, size_t size) {
    size_t count = size % 8 == 0 ? 8 : 1;
    (void)w;
    void *p = names.calloc(count, size / count);
    CHECK_SAY(p == NULL || test_is_zero(p, size), "calloc of %zu is not zero", size);
    return p;
}

static void op_allocate(worker_t *w, block_t *b) {
    if (atomic_load_explicit(&live_bytes, memory_order_relaxed) > max_live)
        return;
    size_t size = pick_size(w);
    void *p;
    errno = 4711;
    switch (test_random_below(&w->random, 8)) {
    case 0:
        p = allocate_aligned(w, &size);
        break;
    case 1:
    case 2:
        p = allocate_zeroed(w, size);
        break;
    default:
        p = names.malloc(size);
    }
    CHECK_SAY(p != NULL, "no memory for %zu bytes", size);
    CHECK_SAY(errno == 4711 || !strict_errno, "errno changed to %d by a success", errno);
    block_born(w, b, p, size);
}

static void op_realloc(worker_t *w, block_t *b) {
    size_t size = pick_size(w);
    if (size == 0)
        return; /* frees, on glibc: another test's business */
    block_check(b);
    block_unmark(b);
    atomic_fetch_sub_explicit(&live_bytes, b->usable, memory_order_relaxed);
    void *p = size % 2 ? names.realloc(b->address, size) : names.reallocarray(b->address, 2, size / 2);
    CHECK_SAY(p != NULL, "no memory for %zu bytes", size);
    size_t kept = b->asked < size ? b->asked : size;
    /* A pattern is checked by whole words and a tail: cut to words, the tail word of the old block is a prefix. */
    CHECK_SAY(test_holds(p, kept, b->seed), "realloc from %zu to %zu bytes lost contents (seed %llu)", b->asked, size,
              (unsigned long long)run_seed);
    block_born(w, b, p, size);
}

static void op_send(worker_t *w, block_t *b) {
    mailbox_t *box = &mailboxes[test_random_below(&w->random, MAILBOXES)];
    int empty = 0;
    if (!atomic_compare_exchange_strong(&box->full, &empty, 2))
        return;
    box->block = *b;
    b->address = NULL;
    atomic_store(&box->full, 1);
}

static void op_receive(worker_t *w, block_t *b) {
    mailbox_t *box = &mailboxes[test_random_below(&w->random, MAILBOXES)];
    int full = 1;
    if (!atomic_compare_exchange_strong(&box->full, &full, 2))
        return;
    *b = box->block;
    atomic_store(&box->full, 0);
    if (test_random_below(&w->random, 2) == 0)
        block_free(b);
}

static void operate(worker_t *w) {
    block_t *b = &w->slots[test_random_below(&w->random, TABLE_SLOTS)];
    size_t dice = test_random_below(&w->random, 16);
    if (b->address == NULL) {
        if (dice < 4)
            op_receive(w, b);
        else
            op_allocate(w, b);
    } else if (dice < 2) {
        op_realloc(w, b);
    } else if (dice < 5) {
        op_send(w, b);
    } else if (dice < 6) {
        block_check(b);
        CHECK(names.usable_size(b->address) == b->usable);
    } else {
        block_free(b);
    }
    w->ops++;
}

/* One life of a worker: ends after LIFE_OPS operations or when time is up. */
static void *live(void *argument) {
    worker_t *w = (worker_t *)argument;
    for (unsigned i = 0; i < LIFE_OPS && w->ops < max_ops; i++) {
        if (i % 64 == 0 && test_now_ns() >= end_ns)
            break;
        operate(w);
    }
    return NULL;
}

static void drain(worker_t *w) {
    for (unsigned i = 0; i < TABLE_SLOTS; i++)
        if (w->slots[i].address != NULL)
            block_free(&w->slots[i]);
}

/* Starts threads on the tables until time is up; each ended thread is replaced by a new one. */
static void *keep_alive(void *argument) {
    worker_t *w = (worker_t *)argument;
    while (test_now_ns() < end_ns && w->ops < max_ops)
        test_join(test_thread(live, w));
    return NULL;
}

/* --- Start -------------------------------------------------------------------------------------------------------- */

static void find_names(bool hak) {
    void *all = RTLD_DEFAULT;
    const char *const libc_names[] = {"malloc",        "calloc",   "realloc",        "reallocarray",      "free",
                                      "aligned_alloc", "memalign", "posix_memalign", "malloc_usable_size"};
    char name[64];
    void *found[9];
    for (unsigned i = 0; i < 9; i++) {
        snprintf(name, sizeof name, "%s%s", hak ? "hak_" : "", libc_names[i]);
        found[i] = dlsym(all, name);
        CHECK_SAY(found[i] != NULL, "no %s in this process", name);
    }
    memcpy(&names, found, sizeof names);
}

static uint64_t number(const char *text) { return text == NULL ? 0 : strtoull(text, NULL, 0); }

int main(int argc, char **argv) {
    uint64_t seconds = 5, threads = 2;
    bool hak = false;
    run_seed = test_now_ns() ^ (uint64_t)getpid() << 32;
    for (int i = 1; i < argc; i += 2) {
        const char *value = argv[i + 1];
        if (strcmp(argv[i], "--seconds") == 0)
            seconds = number(value);
        else if (strcmp(argv[i], "--ops") == 0)
            max_ops = number(value);
        else if (strcmp(argv[i], "--seed") == 0)
            run_seed = number(value);
        else if (strcmp(argv[i], "--threads") == 0)
            threads = number(value);
        else if (strcmp(argv[i], "--max-live") == 0)
            max_live = number(value);
        else if (strcmp(argv[i], "--names") == 0)
            hak = value != NULL && strcmp(value, "hak") == 0;
        else
            test_fail("model: unknown option %s\n", argv[i]);
    }
    if (!hak)
        test_require_hakmem();
    find_names(hak);
    strict_errno = hak || test_on_hakmem();
    test_say("model: seed %llu, %llu threads\n", (unsigned long long)run_seed, (unsigned long long)threads);

    shadow_init();
    mailboxes = (mailbox_t *)test_pages(MAILBOXES * sizeof *mailboxes);
    worker_t *workers = (worker_t *)test_pages(threads * sizeof *workers);
    pthread_t *ids = (pthread_t *)test_pages(threads * sizeof *ids);
    end_ns = test_now_ns() + seconds * 1000000000u;
    for (uint64_t i = 0; i < threads; i++) {
        workers[i].random = run_seed + i * 7919;
        ids[i] = test_thread(keep_alive, &workers[i]);
    }
    uint64_t ops = 0, allocs = 0;
    for (uint64_t i = 0; i < threads; i++) {
        test_join(ids[i]);
        ops += workers[i].ops;
        allocs += workers[i].allocs;
    }
    CHECK_HEAP();
    for (uint64_t i = 0; i < threads; i++)
        drain(&workers[i]);
    for (unsigned i = 0; i < MAILBOXES; i++)
        if (mailboxes[i].full)
            block_free(&mailboxes[i].block);
    CHECK(live_bytes == 0);
    CHECK_HEAP();
    test_say("model: %llu operations, %llu blocks\n", (unsigned long long)ops, (unsigned long long)allocs);
    return TEST_PASS;
}
