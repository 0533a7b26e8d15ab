/* SPDX-License-Identifier: MIT
 *
 * One sub-command per bug: `bugs NAME` makes exactly that mistake, once, and goes on as a program would.
 *
 * Before the mistake it prints what the report must name:  `ptr 0x... base 0x... size N`  and  `text 0x... 0x...`
 * (the range of its own code, where the report's caller must lie). Afterwards, if it still runs, it works the
 * allocator, verifies the heap and prints `survived`. run.py holds the messages and checks them.
 */
#include "testing.h"

#include <sys/wait.h>

typedef struct bug {
    const char *name;
    void (*make)(void);
} bug_t;

extern char __executable_start[], etext[];

/* Set by C23 libraries only; found at run time, for glibc 2.36 has neither. */
static void (*sized_free)(void *, size_t);
static void (*aligned_sized_free)(void *, size_t, size_t);

static void announce_all(const void *ptr, const void *base, size_t size) {
    test_say("ptr %#zx base %#zx size %zu\n", (size_t)ptr, (size_t)base, size);
}

static void announce(const void *ptr) { announce_all(ptr, ptr, 0); }

/* A block whose usable size is known, announced with the address at which the mistake will be made. */
static unsigned char *block_announced(size_t size, size_t offset) {
    unsigned char *p = (unsigned char *)malloc(size);
    CHECK(p != NULL);
    announce_all(p + offset, p, malloc_usable_size(p));
    return (unsigned char *)test_opaque(p);
}

/* --- Double free -------------------------------------------------------------------------------------------------- */

static void double_free_of_size(size_t size) {
    void *p = block_announced(size, 0);
    free(p);
    free(test_opaque(p));
}

static void double_free_tiny(void) { double_free_of_size(64); }
static void double_free_smallest(void) { double_free_of_size(1); }
static void double_free_mid(void) { double_free_of_size(12000); }
static void double_free_mid_top(void) { double_free_of_size(200 * TEST_KIB); }
static void double_free_large(void) { double_free_of_size(TEST_MIB); }
static void double_free_huge(void) { double_free_of_size(3 * TEST_GIB); }

static void double_free_zero(void) { double_free_of_size(0); }

/* The program's writes to a freed block do not hide it. */
static void double_free_overwritten(void) {
    unsigned char *p = block_announced(64, 0);
    free(p);
    memset(test_opaque(p), 0, 64);
    free(test_opaque(p));
}

static void double_free_after(size_t others) {
    static void *other[1000];
    CHECK(others <= 1000);
    for (size_t i = 0; i < others; i++)
        other[i] = malloc(64);
    void *p = block_announced(64, 0);
    free(p);
    for (size_t i = 0; i < others; i++)
        free(other[i]);
    free(test_opaque(p));
}

static void double_free_after_1(void) { double_free_after(1); }
static void double_free_after_10(void) { double_free_after(10); }
static void double_free_after_1000(void) { double_free_after(1000); }

/* Every slab of the class has emptied and may have been given back when the second free comes. */
static void double_free_slab_gone(void) {
    enum { BLOCKS = 100000 };
    static void *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = malloc(64);
    void *p = blocks[BLOCKS / 2];
    announce_all(p, p, malloc_usable_size(p));
    for (size_t i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    test_trim();
    free(test_opaque(p));
}

static void double_free_large_reused_cache(void) {
    void *p = block_announced(TEST_MIB, 0);
    free(p);
    test_trim();
    free(test_opaque(p));
}

static void *free_it(void *p) {
    free(p);
    return NULL;
}

static void double_free_other_thread(void) {
    void *p = block_announced(64, 0);
    free(p);
    test_join(test_thread(free_it, test_opaque(p)));
}

static void double_free_both_remote(void) {
    void *p = block_announced(64, 0);
    test_join(test_thread(free_it, p));
    test_join(test_thread(free_it, test_opaque(p)));
}

static void double_free_remote_first(void) {
    void *p = block_announced(64, 0);
    test_join(test_thread(free_it, p));
    free(test_opaque(p));
}

static void double_free_aligned(void) {
    void *p = NULL;
    CHECK(posix_memalign(&p, 4096, 100) == 0);
    announce_all(p, p, malloc_usable_size(p));
    free(p);
    free(test_opaque(p));
}

static void realloc_freed(void) {
    void *p = block_announced(64, 0);
    free(p);
    CHECK(realloc(test_opaque(p), 200) == NULL);
}

static void realloc_freed_same_size(void) {
    void *p = block_announced(64, 0);
    free(p);
    CHECK(realloc(test_opaque(p), 60) == NULL);
}

static void realloc_freed_large(void) {
    void *p = block_announced(TEST_MIB, 0);
    free(p);
    CHECK(realloc(test_opaque(p), 2 * TEST_MIB) == NULL);
}

static void realloc_then_free_old(void) {
    void *p = block_announced(64, 0);
    CHECK(realloc(p, 5000) != NULL);
    free(test_opaque(p));
}

/* --- Interior and misaligned -------------------------------------------------------------------------------------- */

static void free_inside(size_t size, size_t offset) { free(test_opaque(block_announced(size, offset) + offset)); }

static void interior_tiny(void) { free_inside(48, 16); }
static void interior_tiny_far(void) { free_inside(1000, 512); }
static void interior_mid(void) { free_inside(5000, 4096); }
static void interior_mid_top(void) { free_inside(200 * TEST_KIB, 64 * TEST_KIB); }
static void interior_large(void) { free_inside(TEST_MIB, 4096); }
static void interior_large_slot(void) { free_inside(TEST_MIB, 128 * TEST_KIB); }
static void interior_huge(void) { free_inside(3 * TEST_GIB, 4096); }
static void interior_huge_far(void) { free_inside(3 * TEST_GIB, 2 * TEST_GIB); }
static void misaligned_tiny(void) { free_inside(48, 3); }
static void misaligned_mid(void) { free_inside(5000, 1001); }
static void misaligned_large(void) { free_inside(TEST_MIB, 8); }

/* In the 16 bytes behind the last block of a slab of 64 KiB. */
static void behind_slab(void) {
    enum { BLOCK = 48, SLAB = 64 * TEST_KIB, LAST = SLAB / BLOCK - 1, BLOCKS = 4 * SLAB / BLOCK };
    for (unsigned i = 0; i < BLOCKS; i++) {
        unsigned char *p = (unsigned char *)malloc(BLOCK - 8);
        if ((uintptr_t)p % SLAB == (uintptr_t)LAST * BLOCK) {
            announce(p + BLOCK);
            free(test_opaque(p + BLOCK));
            return;
        }
    }
    test_fail("no block is the last of its slab");
}

static void interior_remote(void) {
    unsigned char *p = block_announced(48, 16);
    test_join(test_thread(free_it, p + 16));
}

static void interior_realloc(void) {
    unsigned char *p = block_announced(48, 16);
    CHECK(realloc(test_opaque(p + 16), 100) == NULL);
}

static void interior_usable_size(void) {
    unsigned char *p = block_announced(48, 16);
    malloc_usable_size(test_opaque(p + 16));
}

/* --- Foreign ------------------------------------------------------------------------------------------------------ */

static char global_array[64] = "a global that lies in the data segment";

static void foreign(void *p) {
    announce(p);
    free(test_opaque(p));
}

static void foreign_stack(void) {
    char local[64] __attribute__((aligned(16))) = "local";
    foreign(local);
}

static void foreign_global(void) { foreign((void *)(((uintptr_t)global_array + 15) & ~(uintptr_t)15)); }

static void foreign_literal(void) { foreign((void *)(uintptr_t) "a string literal, in memory that is read-only"); }

static void foreign_code(void) {
    void (*function)(void) = foreign_literal;
    void *p;
    memcpy(&p, &function, sizeof p);
    foreign(p);
}

static void foreign_libc_code(void) { foreign(dlsym(RTLD_DEFAULT, "qsort")); }

/* Not right behind a library's data, where it would look like the library's bss. */
static char *mapped_apart(size_t size) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = (char *)test_pages(page + size);
    CHECK(mprotect(pages, page, PROT_NONE) == 0);
    return pages + page;
}

static void foreign_mmap(void) { foreign(mapped_apart(1 << 20)); }

static void foreign_mmap_inside(void) { foreign(mapped_apart(1 << 20) + 4096 + 64); }

static void foreign_mapped_file(void) {
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    void *p = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
    CHECK(p != MAP_FAILED);
    foreign(p);
}

static void foreign_brk(void) {
    char *p = (char *)sbrk(8192);
    CHECK(p != (void *)-1);
    foreign((void *)(((uintptr_t)p + 15) & ~(uintptr_t)15));
}

static void foreign_unmapped(void) {
    void *p = test_pages(1 << 20);
    munmap(p, 1 << 20);
    foreign(p);
}

static void wild_deadbeef(void) { foreign((void *)(uintptr_t)0xdeadbeefdeadbeef); }
static void wild_small(void) { foreign((void *)(uintptr_t)0x10); }
static void wild_negative(void) { foreign((void *)(uintptr_t)-16); }
static void wild_minus_one(void) { foreign((void *)(uintptr_t)-1); }
static void wild_top_of_user(void) { foreign((void *)(uintptr_t)0x7ffffffff000); }
static void wild_above_user(void) { foreign((void *)(uintptr_t)0x800000000000); }

/* Inside the allocator's own reserve but never handed out: beyond a fresh large block. */
static void wild_near_heap(void) {
    char *p = (char *)malloc(64);
    foreign((void *)(((uintptr_t)p + ((uintptr_t)1 << 30)) & ~(uintptr_t)15));
}

static void wild_realloc(void) {
    void *p = (void *)(uintptr_t)0xdeadbeefdeadbeef;
    announce(p);
    CHECK(realloc(test_opaque(p), 100) == NULL);
}

static void wild_usable_size(void) {
    void *p = (void *)(uintptr_t)0xdeadbeefdeadbee0;
    announce(p);
    malloc_usable_size(test_opaque(p));
}

/* Handed out by an arena of the program's own, that lies in mapped memory. */
static void foreign_arena(void) {
    char *arena = mapped_apart(1 << 16);
    foreign(arena + 256);
}

/* --- Sized free --------------------------------------------------------------------------------------------------- */

static void need(bool there) {
    if (!there)
        test_skip("no sized free in this process");
}

static void sized_wrong(void) {
    need(sized_free != NULL);
    sized_free(block_announced(64, 0), 128);
}

static void sized_wrong_smaller(void) {
    need(sized_free != NULL);
    sized_free(block_announced(64, 0), 16);
}

static void sized_wrong_smaller_safe2(void) { sized_wrong_smaller(); }

static void sized_wrong_by_one_safe3(void) {
    need(sized_free != NULL);
    sized_free(block_announced(64, 0), 65);
}

static void sized_wrong_mid(void) {
    need(sized_free != NULL);
    sized_free(block_announced(20000, 0), 100);
}

static void sized_wrong_large(void) {
    need(sized_free != NULL);
    sized_free(block_announced(TEST_MIB, 0), 64);
}

static void sized_wrong_small_as_large(void) {
    need(sized_free != NULL);
    sized_free(block_announced(64, 0), TEST_MIB);
}

static void sized_aligned_wrong(void) {
    need(aligned_sized_free != NULL);
    unsigned char *p = (unsigned char *)aligned_alloc(64, 128);
    announce_all(p, p, malloc_usable_size(p));
    aligned_sized_free(test_opaque(p), 64, 1024);
}

/* --- Written where it must not be (levels 2 and 3) ---------------------------------------------------------------- */

/* Takes every free block of the class, so that the damaged one is handed out, and then gives all of them back. Twice,
 * as it may be waiting the first time. */
static void reuse_blocks(size_t size) {
    enum { BLOCKS = 50000, LARGE_BLOCKS = 600, ROUNDS = 2 };
    static void *blocks[BLOCKS];
    size_t count = size < 64 * TEST_KIB ? BLOCKS : LARGE_BLOCKS;
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < count; i++)
            blocks[i] = malloc(size);
        for (size_t i = 0; i < count; i++)
            free(blocks[i]);
    }
}

static void write_after_free(size_t size, size_t offset) {
    unsigned char *p = block_announced(size, 0);
    memset(p, 1, size);
    free(p);
    ((volatile unsigned char *)test_opaque(p))[offset] ^= 0x5a; /* what is there differs from run to run */
    reuse_blocks(size);
}

static void write_after_free_24(void) { write_after_free(64, 24); }
static void write_after_free_8(void) { write_after_free(64, 8); }
static void write_after_free_first(void) { write_after_free(64, 0); }
static void write_after_free_last(void) { write_after_free(64, 63); }
static void write_after_free_1000(void) { write_after_free(1000, 500); }

static void write_after_free_middle_3(void) { write_after_free(5000, 2500); }

static void write_after_free_border(void) { write_after_free(256 * TEST_KIB, 100); }
static void write_after_free_border_3(void) { write_after_free(256 * TEST_KIB, 100); }
static void write_after_free_large(void) { write_after_free(5 * TEST_MIB, 4 * TEST_MIB); }

static void overflow(size_t size, size_t offset) {
    unsigned char *p = block_announced(size, 0);
    ((volatile unsigned char *)test_opaque(p))[offset] ^= 0x5a;
    free(test_opaque(p));
    reuse_blocks(size);
}

static void overflow_by_one(void) { overflow(20, 20); }
static void overflow_by_four(void) { overflow(100, 103); }
static void overflow_aligned(void) {
    void *p = NULL;
    CHECK(posix_memalign(&p, 64, 100) == 0);
    announce_all(p, p, malloc_usable_size(p));
    ((volatile unsigned char *)p)[100] = 1;
    free(p);
}

static void overflow_full_class(void) { overflow(64, 64); }
static void overflow_mid(void) { overflow(5000, 5000); }
static void overflow_border(void) { overflow(256 * TEST_KIB - 5, 256 * TEST_KIB - 5); }
static void overflow_large(void) { overflow(5000000, 5000000); }
static void overflow_huge(void) { overflow(2 * TEST_GIB, 2 * TEST_GIB + 7); }

static void overflow_at_realloc(void) {
    unsigned char *p = block_announced(20, 0);
    ((volatile unsigned char *)test_opaque(p))[20] ^= 0x5a;
    free(realloc(test_opaque(p), 4000));
}

/* Nobody may touch a block of size 0: the program dies there. */
static void dies_at(size_t at) {
    volatile unsigned char *p = (volatile unsigned char *)test_opaque(malloc(0));
    announce((const void *)(uintptr_t)p);
    CHECK(malloc_usable_size((void *)(uintptr_t)p) == 0);
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        p[at] = 1;
        _exit(0);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK_SAY(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "status %d", status);
    free((void *)(uintptr_t)p);
    free(test_opaque((void *)(uintptr_t)p));
}

static void nothing_2(void) { dies_at(0); }
static void nothing_3(void) { dies_at(7); }

static void misaligned_nothing_2(void) { free_inside(0, 1); }

static void overflow_seal_2(void) { overflow(24, 24); }
static void overflow_seal_mid_2(void) { overflow(5000, 5112); } /* behind what it may use */

/* A string's end, where the block is full. */
static void overflow_string_2(void) {
    char *p = (char *)block_announced(56, 0);
    memset(p, 'a', 56);
    p[malloc_usable_size(p)] = 0;
    free(p);
}

/* `before` bytes in front of a block that has one below it are written. Places are random: of 256 blocks among the 585
 * of a slab some hundred have a neighbour. */
static void underflow(size_t before) {
    enum { BLOCKS = 256, SIZE = 100 };
    char *blocks[BLOCKS], *p = NULL;
    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = (char *)memset(malloc(SIZE), 1, SIZE);
    for (size_t i = 0; i < BLOCKS && p == NULL; i++)
        for (size_t k = 0; k < BLOCKS && p == NULL; k++)
            p = blocks[i] - blocks[k] == 112 && (uintptr_t)blocks[i] % (64 * TEST_KIB) != 0 ? blocks[i] : NULL;
    CHECK(p != NULL);
    announce_all(p, p, SIZE);
    /* Turned, not set: one byte of a seal in 256 has any value already. */
    for (size_t i = 1; i <= before; i++)
        ((char *)test_opaque(p))[-(ptrdiff_t)i] ^= 0x5a;
    free(test_opaque(p));
}

static void underflow_1_2(void) { underflow(1); }
static void underflow_8_2(void) { underflow(8); }
static void underflow_32_2(void) { underflow(32); }
static void underflow_1_3(void) { underflow(1); }
static void underflow_32_3(void) { underflow(32); }

/* ------------------------------------------------------------------------------------------------------------------ */

#define BUG(name)                                                                                                      \
    { #name, name }

static const bug_t bugs[] = {
    BUG(double_free_tiny),
    BUG(double_free_smallest),
    BUG(double_free_zero),
    BUG(double_free_mid),
    BUG(double_free_mid_top),
    BUG(double_free_large),
    BUG(double_free_huge),
    BUG(double_free_overwritten),
    BUG(double_free_after_1),
    BUG(double_free_after_10),
    BUG(double_free_after_1000),
    BUG(double_free_slab_gone),
    BUG(double_free_large_reused_cache),
    BUG(double_free_other_thread),
    BUG(double_free_both_remote),
    BUG(double_free_remote_first),
    BUG(double_free_aligned),
    BUG(realloc_freed),
    BUG(realloc_freed_same_size),
    BUG(realloc_freed_large),
    BUG(realloc_then_free_old),
    BUG(interior_tiny),
    BUG(interior_tiny_far),
    BUG(interior_mid),
    BUG(interior_mid_top),
    BUG(interior_large),
    BUG(interior_large_slot),
    BUG(interior_huge),
    BUG(interior_huge_far),
    BUG(behind_slab),
    BUG(interior_remote),
    BUG(interior_realloc),
    BUG(interior_usable_size),
    BUG(misaligned_tiny),
    BUG(misaligned_mid),
    BUG(misaligned_large),
    BUG(foreign_stack),
    BUG(foreign_global),
    BUG(foreign_literal),
    BUG(foreign_code),
    BUG(foreign_libc_code),
    BUG(foreign_mmap),
    BUG(foreign_mmap_inside),
    BUG(foreign_mapped_file),
    BUG(foreign_brk),
    BUG(foreign_unmapped),
    BUG(foreign_arena),
    BUG(wild_deadbeef),
    BUG(wild_small),
    BUG(wild_negative),
    BUG(wild_minus_one),
    BUG(wild_top_of_user),
    BUG(wild_above_user),
    BUG(wild_near_heap),
    BUG(wild_realloc),
    BUG(wild_usable_size),
    BUG(sized_wrong),
    BUG(sized_wrong_smaller),
    BUG(sized_wrong_mid),
    BUG(sized_wrong_smaller_safe2),
    BUG(sized_wrong_by_one_safe3),
    BUG(sized_wrong_large),
    BUG(sized_wrong_small_as_large),
    BUG(sized_aligned_wrong),
    BUG(write_after_free_24),
    BUG(write_after_free_8),
    BUG(write_after_free_first),
    BUG(write_after_free_last),
    BUG(write_after_free_1000),
    BUG(write_after_free_border),
    BUG(write_after_free_border_3),
    BUG(write_after_free_large),
    BUG(overflow_border),
    BUG(overflow_large),
    BUG(overflow_huge),
    BUG(overflow_by_one),
    BUG(overflow_by_four),
    BUG(overflow_full_class),
    BUG(overflow_mid),
    BUG(overflow_aligned),
    BUG(overflow_at_realloc),
    BUG(overflow_seal_2),
    BUG(nothing_2),
    BUG(misaligned_nothing_2),
    BUG(nothing_3),
    BUG(overflow_seal_mid_2),
    BUG(overflow_string_2),
    BUG(underflow_1_2),
    BUG(underflow_8_2),
    BUG(underflow_32_2),
    BUG(underflow_1_3),
    BUG(underflow_32_3),
    BUG(write_after_free_middle_3),
};

static int by_address(const void *a, const void *b) {
    uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
    return (x > y) - (x < y);
}

/* After a mistake that was reported and ignored the heap must be whole and no block may be handed out twice. */
static void go_on(void) {
    enum { BLOCKS = 4000 };
    static uintptr_t blocks[BLOCKS];
    static const size_t sizes[] = {64, 48, 16, 20000, 5000};
    CHECK_HEAP();
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (size_t i = 0; i < BLOCKS; i++) {
            blocks[i] = (uintptr_t)malloc(sizes[s]);
            memset((void *)blocks[i], 0x11, sizes[s] < 256 ? sizes[s] : 256);
        }
        qsort(blocks, BLOCKS, sizeof *blocks, by_address);
        for (size_t i = 1; i < BLOCKS; i++)
            CHECK_SAY(blocks[i] - blocks[i - 1] >= sizes[s], "block %#zx handed out twice", (size_t)blocks[i]);
        for (size_t i = 0; i < BLOCKS; i++)
            free((void *)blocks[i]);
    }
    CHECK_HEAP();
}

int main(int argc, char **argv) {
    test_require_hakmem();
    test_alarm(60);
    TEST_SYMBOL(sized_free, "free_sized");
    TEST_SYMBOL(aligned_sized_free, "free_aligned_sized");
    if (argc != 2) {
        for (size_t i = 0; i < sizeof bugs / sizeof *bugs; i++)
            test_say("%s\n", bugs[i].name);
        return TEST_PASS;
    }
    test_say("text %#zx %#zx\n", (size_t)__executable_start, (size_t)etext);
    for (size_t i = 0; i < sizeof bugs / sizeof *bugs; i++) {
        if (strcmp(argv[1], bugs[i].name) != 0)
            continue;
        bugs[i].make();
        go_on();
        hak_stats_t *stats = (hak_stats_t *)test_pages(sizeof *stats);
        if (test_stats(stats) == 0)
            test_say("errors %llu\n", (unsigned long long)stats->errors);
        test_say("survived\n");
        return TEST_PASS;
    }
    test_fail("no such bug: %s\n", argv[1]);
}
