/* SPDX-License-Identifier: MIT
 *
 * Memory tags of aarch64 at levels 2 and 3: `tags` where processor and kernel have them, `tags none` where pointers are
 * to have none. tests/install/other-targets builds and runs it.
 */
#include "testing.h"

#include <setjmp.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum {
    CODE_TAG = 9, /* SEGV_MTESERR */
    BLOCKS = 64,
    SLAB_EDGE = 65536,
    THREADS = 2,
    HELD = 300,
    ROUNDS = 40000,
    SIZE_MAX_HELD = 250000,
};

typedef volatile unsigned char *bytes_t;

extern void free_sized(void *block, size_t size);

static const size_t sizes[] = {1, 24, 40, 100, 504, 1016, 1144, 5112, 20000, 65528, 200000};
enum { SIZE_COUNT = sizeof sizes / sizeof sizes[0] };

static sigjmp_buf back;
static volatile sig_atomic_t fault_code;

static void on_fault(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    fault_code = info->si_code;
    siglongjmp(back, 1);
}

/* What a touch of the address is answered with: the code of the signal, 0 for none. */
static int touch(bytes_t at, bool writes) {
    fault_code = 0;
    if (sigsetjmp(back, 1) == 0) {
        if (writes)
            *at = 1;
        else
            (void)*at;
    }
    return fault_code;
}

static unsigned tag_of(const volatile void *pointer) { return (unsigned)((uintptr_t)pointer >> 56); }
static uintptr_t place_of(const volatile void *pointer) { return (uintptr_t)pointer << 8 >> 8; }

static void *make(size_t size) {
    void *block = malloc(size);
    CHECK(block != NULL);
    return test_opaque(block);
}

/* --- What faults -------------------------------------------------------------------------------------------------- */

static void test_use_after_free(void) {
    for (unsigned i = 0; i < SIZE_COUNT; i++) {
        bytes_t block = make(sizes[i]);
        CHECK(tag_of(block) != 0);
        CHECK_EQ(touch(block, true), 0);
        CHECK_EQ(touch(block + sizes[i] - 1, true), 0);
        free((void *)(uintptr_t)block);
        CHECK_EQ(touch(block, false), CODE_TAG);
        CHECK_EQ(touch(block, true), CODE_TAG);
        CHECK_EQ(touch(block + sizes[i] - 1, true), CODE_TAG);
    }
}

/* Of a block with neighbours in its slab; those at an edge of it may find anything behind it. */
static void test_neighbours(void) {
    for (unsigned i = 0; i < SIZE_COUNT && sizes[i] < 1024; i++) {
        bytes_t blocks[BLOCKS];
        unsigned looked = 0;
        size_t whole = (sizes[i] + 8 + 15) / 16 * 16;
        for (unsigned n = 0; n < BLOCKS; n++)
            blocks[n] = make(sizes[i]);
        for (unsigned n = 0; n < BLOCKS; n++) {
            uintptr_t at = place_of(blocks[n]), slab = at / SLAB_EDGE;
            if ((at - whole) / SLAB_EDGE != slab || (at + 2 * whole - 1) / SLAB_EDGE != slab)
                continue;
            looked++;
            CHECK_EQ(touch(blocks[n] + whole, true), CODE_TAG);
            CHECK_EQ(touch(blocks[n] - 1, true), CODE_TAG);
        }
        CHECK(looked >= BLOCKS / 2);
        for (unsigned n = 0; n < BLOCKS; n++)
            free((void *)(uintptr_t)blocks[n]);
    }
}

/* The same place with another tag. */
static void *again(void *stale, size_t size) {
    for (unsigned i = 0; i < 1000000; i++) {
        void *block = make(size);
        if (place_of(block) == place_of(stale) && block != stale)
            return block;
        free(block);
    }
    test_fail("the block does not come back\n");
}

static void free_again(void) {
    void *stale = make(40);
    free(stale);
    (void)again(stale, 40);
    free(stale);
}

static void realloc_again(void) {
    void *stale = make(40);
    free(stale);
    (void)again(stale, 40);
    (void)test_opaque(realloc(stale, 100));
}

static void size_again(void) {
    void *stale = make(40);
    free(stale);
    (void)again(stale, 40);
    (void)malloc_usable_size(stale);
}

static void sized_again(void) {
    void *stale = make(40);
    free(stale);
    (void)again(stale, 40);
    free_sized(stale, 40);
}

static void free_without_tag(void) { free((void *)place_of(make(40))); }

static void free_twice(void) {
    void *block = make(40);
    free(block);
    free(block);
}

static void free_inside(void) { free((char *)make(100) + 16); }

static void test_stale_pointers(void) {
    static const struct {
        void (*body)(void);
        const char *line;
    } cases[] = {
        {free_again, "hakmem: free of stale pointer"},
        {realloc_again, "hakmem: realloc of stale pointer"},
        {size_again, "hakmem: malloc_usable_size of stale pointer"},
        {sized_again, "hakmem: free_sized of stale pointer"},
        {free_without_tag, "hakmem: free of stale pointer"},
        {free_twice, "hakmem: double free of"},
        {free_inside, "hakmem: free of interior pointer"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        static char text[16384];
        int status = check_child(cases[i].body, STDERR_FILENO, text, sizeof text);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
        CHECK_HAS(text, cases[i].line);
    }
}

/* --- What does not ------------------------------------------------------------------------------------------------ */

static void fill(bytes_t block, size_t size, unsigned char seed) {
    for (size_t i = 0; i<size; i += size> 4096 ? 509 : 1)
        block[i] = seed;
    block[size - 1] = seed;
}

static void require(bytes_t block, size_t size, unsigned char seed) {
    for (size_t i = 0; i<size; i += size> 4096 ? 509 : 1)
        CHECK_EQ(block[i], seed);
    CHECK_EQ(block[size - 1], seed);
}

static void test_usable(void) {
    for (unsigned i = 0; i < SIZE_COUNT; i++) {
        unsigned char *block = make(sizes[i]);
        memset(block, 0x5a, malloc_usable_size(block));
        CHECK(hak_owns(block));
        size_t now = hak_expand(block, sizes[i]);
        CHECK(now == 0 || now >= sizes[i]);
        free_sized(block, sizes[i]);
        CHECK(!hak_owns(block));
    }
}

static void test_realloc(void) {
    unsigned char *block = make(1);
    block[0] = 7;
    size_t size = 1;
    for (unsigned round = 0; round < 200; round++) {
        size_t next = 1 + (size * 1103515245u + 12345u + round) % SIZE_MAX_HELD;
        unsigned char *moved = realloc(block, next);
        CHECK(moved != NULL);
        for (size_t i = 0; i < size && i < next; i += 509)
            CHECK_EQ(moved[i], round == 0 ? 7 : (unsigned char)(round - 1));
        fill(moved, next, (unsigned char)round);
        block = moved, size = next;
    }
    block = realloc(block, 400000); /* a run of slots has no tag */
    CHECK(block != NULL && tag_of(block) == 0);
    CHECK_EQ(block[0], 199);
    block = realloc(block, 30);
    CHECK(block != NULL && tag_of(block) != 0);
    CHECK_EQ(block[0], 199);
    free(block);
}

static void test_zeros_and_alignment(void) {
    for (unsigned round = 0; round < 30; round++)
        for (unsigned i = 0; i < SIZE_COUNT; i++) {
            unsigned char *block = calloc(1, sizes[i]);
            CHECK(block != NULL);
            for (size_t n = 0; n < sizes[i]; n++)
                CHECK_EQ(block[n], 0);
            memset(block, 0xff, sizes[i]);
            free(block);
        }
    for (size_t align = 16; align <= 65536; align *= 2) {
        void *block = NULL;
        CHECK_EQ(posix_memalign(&block, align, 100), 0);
        CHECK(place_of(block) % align == 0);
        memset(block, 1, 100);
        free(block);
    }
}

static void *mix(void *argument) {
    unsigned char *held[HELD] = {NULL}, seeds[HELD];
    size_t have[HELD];
    uint32_t state = (uint32_t)(uintptr_t)argument;
    for (unsigned round = 0; round < ROUNDS; round++) {
        state = state * 1664525u + 1013904223u;
        unsigned at = (state >> 8) % HELD;
        if (held[at] != NULL) {
            require(held[at], have[at], seeds[at]);
            free(held[at]);
        }
        size_t top = (state >> 4) % 64 == 0 ? SIZE_MAX_HELD : (state >> 4) % 8 == 0 ? 8000 : 600;
        have[at] = 1 + (state >> 10) % top;
        seeds[at] = (unsigned char)round;
        held[at] = make(have[at]);
        fill(held[at], have[at], seeds[at]);
    }
    for (unsigned at = 0; at < HELD; at++)
        free(held[at]);
    return NULL;
}

static void test_threads(void) {
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, mix, (void *)(i + 1)), 0);
    for (unsigned i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
}

/* Each thread frees what the other has made. */
static void *passed[THREADS][BLOCKS * 4];
static pthread_barrier_t meet;

static void *pass(void *argument) {
    uintptr_t mine = (uintptr_t)argument;
    for (unsigned round = 0; round < 50; round++) {
        for (unsigned i = 0; i < BLOCKS * 4; i++) {
            passed[mine][i] = make(sizes[i % 8]);
            fill(passed[mine][i], sizes[i % 8], (unsigned char)i);
        }
        pthread_barrier_wait(&meet);
        for (unsigned i = 0; i < BLOCKS * 4; i++) {
            require(passed[1 - mine][i], sizes[i % 8], (unsigned char)i);
            free(passed[1 - mine][i]);
        }
        pthread_barrier_wait(&meet);
    }
    return NULL;
}

static void test_passing(void) {
    pthread_t threads[THREADS];
    CHECK_EQ(pthread_barrier_init(&meet, NULL, THREADS), 0);
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, pass, (void *)i), 0);
    for (unsigned i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
}

static void test_fork(void) {
    bytes_t block = make(100);
    fill(block, 100, 3);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        require(block, 100, 3);
        free((void *)(uintptr_t)block);
        CHECK_EQ(touch(block, false), CODE_TAG);
        (void)mix((void *)5);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    require(block, 100, 3);
    free((void *)(uintptr_t)block);
}

/* The kernel takes such pointers, and memory that was given back and came again is as good. */
static void test_kernel(void) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    char *text = make(6), *copy = make(6);
    memcpy(text, "hello", 6);
    CHECK_EQ(write(ends[1], text, 6), 6);
    CHECK_EQ(read(ends[0], copy, 6), 6);
    CHECK_STR(copy, "hello");
    close(ends[0]);
    close(ends[1]);
    free(text);
    free(copy);
    static void *many[5000];
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < 5000; i++)
            memset(many[i] = make(1000), 0xee, 1000);
        for (unsigned i = 0; i < 5000; i++)
            free(many[i]);
        (void)hak_trim();
        CHECK_EQ(hak_check(), 0);
    }
}

static bool see(void *block, size_t size, void *context) {
    memset(block, 0x11, size);
    ++*(unsigned *)context;
    return true;
}

static void test_heaps(void) {
    hak_heap_t *heap = hak_heap_new(NULL);
    CHECK(heap != NULL);
    bytes_t first = hak_heap_malloc(heap, 100), second = hak_heap_calloc(heap, 10, 20);
    CHECK(tag_of(first) != 0 && tag_of(second) != 0);
    CHECK(hak_heap_of((void *)(uintptr_t)first) == heap);
    for (unsigned i = 0; i < 200; i++)
        CHECK_EQ(second[i], 0);
    fill(first, 100, 9);
    bytes_t moved = hak_heap_realloc(heap, (void *)(uintptr_t)first, 3000);
    require(moved, 100, 9);
    CHECK_EQ(touch(first, false), CODE_TAG);
    unsigned seen = 0;
    CHECK_EQ(hak_heap_visit(heap, see, &seen), 0);
    CHECK_EQ(seen, 2);
    (void)hak_heap_reset(heap);
    CHECK(touch(moved, true) != 0);
    for (unsigned i = 0; i < 3000; i++)
        fill(hak_heap_malloc(heap, sizes[i % 8]), sizes[i % 8], 1);
    bytes_t kept = hak_heap_malloc(heap, 50);
    hak_heap_release(heap);
    CHECK_EQ(touch(kept, true), 0);
    free((void *)(uintptr_t)kept);
    CHECK_EQ(touch(kept, true), CODE_TAG);
}

static int without_tags(void) {
    for (unsigned i = 0; i < SIZE_COUNT; i++) {
        void *block = make(sizes[i]);
        CHECK_EQ(tag_of(block), 0);
        free(block);
    }
    test_threads();
    return TEST_PASS;
}

int main(int argc, char **argv) {
    test_require_hakmem();
    if (argc > 1 && strcmp(argv[1], "none") == 0)
        return without_tags();
    if (argc > 1) { /* the crash report names the block */
        bytes_t block = make(40);
        free((void *)(uintptr_t)block);
        (void)*block;
        return TEST_FAIL;
    }
    test_stale_pointers();
    const struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
    test_use_after_free();
    test_neighbours();
    test_usable();
    test_realloc();
    test_zeros_and_alignment();
    test_kernel();
    test_heaps();
    test_fork();
    test_passing();
    test_threads();
    return TEST_PASS;
}
