/* SPDX-License-Identifier: MIT
 *
 * Fuzz target: a sequence of calls. Each byte is a call and the slot that it is about, the next ones its arguments.
 * Every live block is known, with what lies in it: contents stay, calloc's are zeros, what was asked for may be used,
 * addresses are aligned, no misuse is reported and hak_check finds nothing. All blocks go at the end, so an input does
 * not depend on those before it.
 */
#include "fuzz.h"
#include "hakmem.h"

#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SLOTS = 32, HEAPS = 2, LIVE_MAX = 64 << 20, CALLS_MAX = 4000, THREADS_MAX = 8, FORKS_MAX = 2, BATCH_MAX = 16 };

typedef struct block {
    unsigned char *address; /* NULL: none */
    size_t size;            /* asked for, and filled */
    unsigned char fill;
    unsigned heap; /* HEAPS: none */
    size_t align;  /* asked for */
} block_t;

static block_t blocks[SLOTS];
static hak_heap_t *heaps[HEAPS];
static size_t live;
static unsigned threads, forks;

/* --- Blocks ------------------------------------------------------------------------------------------------------- */

/* Ends and some places between: libFuzzer counts calls a second. */
static void look(const block_t *b) {
    for (size_t i = 0; i < b->size; i += i < 64 || b->size - i <= 64 ? 1 : (b->size - i > 4160 ? 4096 : 64))
        FUZZ_CHECK(b->address[i] == b->fill);
}

static size_t pick_size(fuzz_input_t *in) {
    uint8_t kind = fuzz_byte(in);
    if (kind < 128)
        return fuzz_number(in, 1) * (kind % 8 + 1u);
    if (kind < 224)
        return fuzz_number(in, 2);
    if (kind == 255)
        return SIZE_MAX - fuzz_number(in, 2);
    return fuzz_number(in, 3) % (kind < 252 ? 1 << 19 : 8 << 20);
}

static void born(block_t *b, void *address, size_t size, size_t align, unsigned heap) {
    if (address == NULL) {
        FUZZ_CHECK(size > PTRDIFF_MAX - 65536 || heap < HEAPS);
        return;
    }
    FUZZ_CHECK((uintptr_t)address % align == 0);
    FUZZ_CHECK(hak_malloc_usable_size(address) >= size);
    FUZZ_CHECK(hak_owns(address));
    *b = (block_t){address, size, (unsigned char)((uintptr_t)address >> 4 ^ size ^ 0x5a), heap, align};
    memset(address, b->fill, size);
    live += size;
}

static void forget(block_t *b) {
    live -= b->size;
    *b = (block_t){.heap = HEAPS};
}

static void drop(block_t *b) {
    if (b->address == NULL)
        return;
    look(b);
    hak_free(b->address);
    forget(b);
}

/* --- Calls -------------------------------------------------------------------------------------------------------- */

static void allocate(block_t *b, fuzz_input_t *in) {
    drop(b);
    size_t size = pick_size(in);
    if (size < LIVE_MAX && live + size > LIVE_MAX)
        return;
    born(b, hak_malloc(size), size, size < 16 ? 8 : 16, HEAPS);
}

static void zeroed(block_t *b, fuzz_input_t *in) {
    drop(b);
    size_t count = fuzz_byte(in), size = pick_size(in);
    if (size < LIVE_MAX && live + count * size > LIVE_MAX)
        return;
    unsigned char *address = hak_calloc(count, size);
    if (address == NULL) {
        FUZZ_CHECK(size > LIVE_MAX);
        return;
    }
    /* By memcmp: the fuzzer counts each comparison of a loop. */
    if (count * size > 0)
        FUZZ_CHECK(address[0] == 0 && memcmp(address, address + 1, count * size - 1) == 0);
    born(b, address, count * size, 8, HEAPS);
}

static void aligned(block_t *b, fuzz_input_t *in) {
    drop(b);
    size_t align = (size_t)8 << fuzz_byte(in) % 18, size = pick_size(in);
    if (size < LIVE_MAX && live + size + align <= LIVE_MAX)
        born(b, hak_memalign(align, size), size, align, HEAPS);
}

static void aligned_zeroed(block_t *b, fuzz_input_t *in) {
    drop(b);
    size_t align = (size_t)8 << fuzz_byte(in) % 18, size = pick_size(in);
    if (size >= LIVE_MAX || live + size + align > LIVE_MAX)
        return;
    unsigned char *address = hak_aligned_calloc(align, 1, size);
    for (size_t i = 0; address != NULL && i < size; i++)
        FUZZ_CHECK(address[i] == 0);
    born(b, address, size, align, HEAPS);
}

static void resize_to(block_t *b, size_t align, size_t size) {
    if (size == 0 || align > LIVE_MAX || (size < LIVE_MAX && live + size + align > LIVE_MAX))
        return;
    block_t before = *b;
    unsigned char *address = align > 16 ? hak_aligned_realloc(b->address, align, size) : hak_realloc(b->address, size);
    if (address == NULL)
        return;
    if (before.address != NULL) {
        forget(b);
        before.address = address;
        before.size = before.size < size ? before.size : size;
        look(&before);
    }
    born(b, address, size, align, before.address != NULL ? before.heap : HEAPS);
}

static void resize(block_t *b, fuzz_input_t *in) {
    size_t size = pick_size(in);
    resize_to(b, size < 16 ? 8 : 16, size);
}

static void aligned_resize(block_t *b, fuzz_input_t *in) {
    size_t align = (size_t)32 << fuzz_byte(in) % 16;
    resize_to(b, align, pick_size(in));
}

static void expand(block_t *b, fuzz_input_t *in) {
    size_t size = pick_size(in);
    if (b->address == NULL || size == 0 || size > LIVE_MAX || live + size > LIVE_MAX)
        return;
    block_t kept = *b;
    kept.size = kept.size < size ? kept.size : size;
    size_t got = hak_expand(b->address, size);
    if (got < size)
        kept.size = b->size;
    look(&kept);
    if (got >= size) {
        forget(b);
        born(b, kept.address, size, kept.align, kept.heap);
    }
}

static void sized(block_t *b, fuzz_input_t *in) {
    (void)in;
    if (b->address == NULL)
        return;
    look(b);
    if (b->align > 16)
        hak_free_aligned_sized(b->address, b->align, b->size);
    else
        hak_free_sized(b->address, b->size);
    forget(b);
}

static void batch(block_t *b, fuzz_input_t *in) {
    (void)b;
    void *all[BATCH_MAX];
    size_t size = fuzz_number(in, 2), count = fuzz_byte(in) % BATCH_MAX, got = hak_malloc_batch(size, count, all);
    FUZZ_CHECK(got <= count);
    for (size_t i = 0; i < got; i++)
        memset(all[i], (int)i, size);
    hak_free_batch(all, got);
}

/* --- Heaps -------------------------------------------------------------------------------------------------------- */

static void of_heap(block_t *b, fuzz_input_t *in) {
    drop(b);
    unsigned heap = fuzz_byte(in) % HEAPS;
    size_t size = pick_size(in);
    if (size > LIVE_MAX || live + size > LIVE_MAX)
        return;
    if (heaps[heap] == NULL) {
        hak_heap_options_t options = {.struct_size = sizeof options, .limit = heap == 0 ? 0 : 16 << 20};
        heaps[heap] = hak_heap_new(&options);
        FUZZ_CHECK(heaps[heap] != NULL);
    }
    born(b, hak_heap_malloc(heaps[heap], size), size, size < 16 ? 8 : 16, heap);
    FUZZ_CHECK(b->address == NULL || hak_heap_of(b->address) == heaps[heap]);
}

static void end_heap(block_t *b, fuzz_input_t *in) {
    (void)b;
    unsigned how = fuzz_byte(in), heap = how / 4 % HEAPS;
    if (heaps[heap] == NULL)
        return;
    for (unsigned i = 0; i < SLOTS; i++) {
        if (blocks[i].address == NULL || blocks[i].heap != heap)
            continue;
        look(&blocks[i]);
        if (how % 4 == 0)
            blocks[i].heap = HEAPS;
        else
            forget(&blocks[i]);
    }
    if (how % 4 == 0)
        hak_heap_release(heaps[heap]);
    else if (how % 4 == 1)
        hak_heap_destroy(heaps[heap]);
    else
        (void)hak_heap_reset(heaps[heap]);
    heaps[heap] = how % 4 <= 1 ? NULL : heaps[heap];
}

/* --- Threads and processes ---------------------------------------------------------------------------------------- */

static void calls(fuzz_input_t *in, unsigned most);

static void *run(void *input) {
    calls(input, 64);
    return NULL;
}

/* The next calls come from a thread that ends after them. */
static void in_thread(block_t *b, fuzz_input_t *in) {
    (void)b;
    pthread_t thread;
    if (threads++ < THREADS_MAX) {
        FUZZ_CHECK(pthread_create(&thread, NULL, run, in) == 0);
        FUZZ_CHECK(pthread_join(thread, NULL) == 0);
    }
}

/* The child goes on with the next calls, and frees all. */
static void in_child(block_t *b, fuzz_input_t *in) {
    (void)b;
    if (forks++ >= FORKS_MAX)
        return;
    pid_t child = fork();
    FUZZ_CHECK(child >= 0);
    if (child == 0) {
        forks = FORKS_MAX;
        threads = THREADS_MAX;
        calls(in, 32);
        for (unsigned i = 0; i < SLOTS; i++)
            drop(&blocks[i]);
        FUZZ_CHECK(hak_check() == 0);
        _exit(0);
    }
    int status;
    while (waitpid(child, &status, 0) < 0)
        FUZZ_CHECK(errno == EINTR); /* libFuzzer has an alarm */
    FUZZ_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void tidy(block_t *b, fuzz_input_t *in) {
    (void)b;
    if (fuzz_byte(in) % 2 == 0)
        (void)hak_trim();
    else
        FUZZ_CHECK(hak_check() == 0);
}

static void calls(fuzz_input_t *in, unsigned most) {
    static void (*const all[8])(block_t *, fuzz_input_t *) = {allocate,       zeroed,  aligned, resize,
                                                              aligned_resize, of_heap, NULL,    NULL};
    static void (*const rare[8])(block_t *, fuzz_input_t *) = {expand,    sized,    batch, end_heap,
                                                               in_thread, in_child, tidy,  aligned_zeroed};
    for (; in->at < in->end && most > 0; most--) {
        uint8_t byte = fuzz_byte(in);
        block_t *b = &blocks[byte % SLOTS];
        unsigned call = byte / SLOTS;
        if (call == 6)
            drop(b);
        else if (call == 7)
            rare[fuzz_byte(in) % 8](b, in);
        else
            all[call](b, in);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_input_t in = {data, data + size};
    threads = forks = 0;
    for (unsigned i = 0; i < SLOTS; i++)
        blocks[i].heap = HEAPS;
    calls(&in, CALLS_MAX);
    for (unsigned i = 0; i < SLOTS; i++)
        drop(&blocks[i]);
    for (unsigned i = 0; i < HEAPS; i++) {
        hak_heap_destroy(heaps[i]);
        heaps[i] = NULL;
    }
    FUZZ_CHECK(live == 0);
    if (size > 0 && data[0] % 16 == 0)
        FUZZ_CHECK(hak_check() == 0);
    return 0;
}
