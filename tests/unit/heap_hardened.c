/* SPDX-License-Identifier: MIT
 *
 * HAKMEM_SAFE=2 and 3: freed blocks wait in a queue and must come out of it as they went in; the bytes behind what was
 * asked for must not change. Correct programs are never accused.
 */
#include "base/wide.h"
#include "core/panic.h"
#include "slow/hardened.h"
#include "heap_places.h"
#include "heap/seal.h"
#include "large/fence.h"
#include "large/run.h"
#include "superslab/residency.h"
#include "superslab/superslab.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum { ASKED = 100, BLOCK2 = 112, BLOCK3 = 112, APART = 8 };

static char text[4096];
static heap_t *h;

static void start_safe(const char *level) {
    CHECK(setenv("HAKMEM_SAFE", level, 1) == 0 && setenv("HAKMEM_ON_ERROR", "report", 1) == 0);
    h = start_heap();
    CHECK(hardened_is_on());
}

static void write_after_free(void) {
    start_safe("2");
    char *block = heap_malloc_slow(ASKED);
    release(block);
    block[30] = 1;
    CHECK_EQ(hk_misuse_count(), 0);
    quarantine_drain(h);
    CHECK_EQ(hk_misuse_count(), 1);
}

static void write_into_key(void) {
    start_safe("2");
    char *block = heap_malloc_slow(ASKED);
    release(block);
    block[9] ^= 1;
    quarantine_drain(h);
}

/* Blocks are handed out in random order: asks for some until it is this one. */
static bool comes_back(const void *block, size_t size) {
    enum { TRIES = 2000 };
    static void *others[TRIES];
    unsigned count = 0;
    bool came = false;
    while (count < TRIES && !came) {
        others[count] = heap_malloc_slow(size);
        came = others[count++] == block;
    }
    for (unsigned i = 0; i < count; i++)
        release(others[i]);
    return came;
}

/* The block is back in its slab when it is written to: found when it is handed out again. */
static void write_later(void) {
    start_safe("2");
    char *block = heap_malloc_slow(ASKED);
    release(block);
    quarantine_drain(h);
    CHECK_EQ(hk_misuse_count(), 0);
    block[BLOCK2 - 1] = 1;
    CHECK(comes_back(block, ASKED));
    CHECK_EQ(hk_misuse_count(), 1);
}

/* The block waits in its lane. */
static void write_in_lane(void) {
    start_safe("2");
    char *block = heap_malloc_slow(ASKED);
    release(block);
    block[BLOCK2 / 2] = 1;
    quarantine_drain(h);
    CHECK_EQ(hk_misuse_count(), 1);
}

/* Neither the order of blocks nor when one comes back can be foretold; and none is there twice. */
static void random_order(void) {
    enum { COUNT = 300, TURNS = 10000 };
    start_safe("2");
    char *blocks[COUNT];
    unsigned upward = 0, at_once = 0;
    for (unsigned i = 0; i < COUNT; i++) {
        blocks[i] = heap_malloc_slow(ASKED);
        upward += i > 0 && blocks[i] == blocks[i - 1] + BLOCK2;
    }
    CHECK_SAY(upward < COUNT / 4, "%u of %u blocks lie behind the last one", upward, COUNT);
    for (unsigned i = 0; i < TURNS; i++) {
        release(blocks[i % COUNT]);
        char *next = heap_malloc_slow(ASKED);
        at_once += next == blocks[i % COUNT];
        for (unsigned k = 0; k < COUNT; k++)
            CHECK(k == i % COUNT || blocks[k] != next);
        blocks[i % COUNT] = next;
    }
    CHECK_SAY(at_once < TURNS / 20, "%u of %u blocks came back at once", at_once, TURNS);
    for (unsigned i = 0; i < COUNT; i++)
        release(blocks[i]);
    quarantine_drain(h);
    CHECK_EQ(live_blocks(class_of(BLOCK2)), 0);
    CHECK_EQ(hk_misuse_count(), 0);
    all_is_well();
}

static void overflow(void) {
    start_safe("3");
    char *block = heap_malloc_slow(ASKED);
    CHECK_EQ(heap_usable_size(block, NULL), ASKED);
    memset(block, 1, ASKED);
    block[ASKED] = 1;
    release(block);
    CHECK_EQ(hk_misuse_count(), 1);
}

static void overflow_far(void) {
    start_safe("3");
    char *block = heap_malloc_slow(ASKED);
    memset(block, 1, BLOCK3);
    release(block);
    CHECK_EQ(hk_misuse_count(), 1);
}

/* Blocks of their own run: at level 3 from 256 KiB less the seal on. */
static void large_written_at(const char *level, size_t size, size_t offset) {
    start_safe(level);
    char *block = heap_malloc_slow(size);
    memset(block, 1, size);
    release(block);
    CHECK_EQ(hk_misuse_count(), 0);
    block[offset] = 1;
    quarantine_drain(h);
    CHECK_EQ(hk_misuse_count(), 1);
}

static void large_write_after_free(void) { large_written_at("2", 3 * HK_MIB, 2 * HK_MIB + 12345); }
static void border_write_after_free(void) { large_written_at("3", HK_MID_MAX, 0); }
static void border_2_write_after_free(void) { large_written_at("2", HK_MID_MAX, 0); }
static void large_3_write_after_free(void) { large_written_at("3", HK_MIB, HK_MIB - 1); }

/* Only reads, and not one of the pages is back but as zeros. */
static void large_only_read(void) {
    start_safe("3");
    char *block = heap_malloc_slow(HK_MIB), sum = 0;
    memset(block, 1, HK_MIB);
    release(block);
    for (size_t at = 0; at < HK_MIB; at += 4096)
        sum = (char)(sum | ((volatile char *)block)[at]);
    CHECK_EQ(sum, 0);
    quarantine_drain(h);
    CHECK_EQ(hk_misuse_count(), 0);
}

/* One byte that is none, at every kind of place, is seen, and only it is cleared. Begins anywhere in a page. */
static void zeros_are_told(void) {
    start_safe("2");
    char *room = (char *)heap_calloc_slow(64 * HK_KIB) + 16;
    for (size_t bytes = 16; bytes <= 40 * HK_KIB; bytes += bytes < 4096 ? 16 : 1040) {
        char *from = room + bytes % 4096 / 16 * 16;
        const size_t places[] = {0, 15, bytes / 2, bytes / 3, bytes - 16, bytes - 1};
        CHECK(seal_long_is_zero(from, bytes));
        from[-1] = from[bytes] = 1;
        CHECK(seal_long_is_zero(from, bytes));
        for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
            from[places[i]] = (char)0x80;
            CHECK(!seal_long_is_zero(from, bytes));
            seal_clear_pages(from, bytes);
            CHECK(seal_long_is_zero(from, bytes) && from[-1] == 1 && from[bytes] == 1);
        }
        from[-1] = from[bytes] = 0;
    }
}

/* The place that a realloc left is watched too. */
/* What malloc asks where the processor has wide registers, and where not. */
static HK_WIDE bool is_zero_wide(const char *block, size_t size) { return seal_is_zero_wide(block, size); }
static bool is_zero(const char *block, size_t size) {
    const bool narrow = seal_is_zero(block, size);
    CHECK(!hk_has_wide() || is_zero_wide(block, size) == narrow);
    return narrow;
}

/* Of a block of each size: each byte counts, and none beside it changes. */
static void blocks_are_cleared(void) {
    start_safe("2");
    static _Alignas(16) char memory[3072];
    for (size_t at = 16; at <= 32; at += 16)
        for (size_t size = 16; size <= 2048; size += 16) {
            char *block = memory + at;
            memset(memory, 1, sizeof memory);
            CHECK(!is_zero(block, size));
            seal_clear(block, size);
            CHECK(is_zero(block, size) && seal_find_other(block, 0, size, 0) == size);
            CHECK(seal_find_other(memory, 0, at, 1) == at);
            CHECK(seal_find_other(memory, at + size, sizeof memory, 1) == sizeof memory);
            for (size_t i = 0; i < size; i++) {
                block[i] = 1;
                CHECK(!is_zero(block, size));
                block[i] = 0;
            }
        }
}

/* Of a short slack each byte counts, and none before it. */
static void short_slack_is_known(void) {
    static _Alignas(16) char block[48];
    for (size_t slack = 0; slack < SEAL_SHORT; slack++) {
        const size_t room = sizeof block - SEAL_BYTES, from = room - slack;
        memset(block, 0, sizeof block);
        seal_fill_short(block, sizeof block, slack);
        CHECK(seal_find_other(block, 0, from, 0) == from &&
              seal_find_other(block, room, sizeof block, 0) == sizeof block);
        CHECK(seal_find_other(block, from, room, SEAL_SLACK) == room);
        memset(block, 7, from);
        CHECK(seal_short_is_whole(block, sizeof block, slack));
        for (size_t i = from; i < room; i++) {
            block[i] ^= 1;
            CHECK(!seal_short_is_whole(block, sizeof block, slack));
            block[i] ^= 1;
        }
    }
}

static void write_behind_realloc(void) {
    start_safe("2");
    char *block = heap_malloc_slow(4 * HK_MIB);
    memset(block, 7, 4 * HK_MIB);
    char *moved = heap_realloc(block, HK_MIB, NULL);
    CHECK(moved != NULL && moved != block && moved[HK_MIB - 1] == 7);
    block[100] = 1;
    quarantine_drain(h);
    CHECK_EQ(hk_misuse_count(), 1);
}

/* Within its class, or as a large block that grows: what it had stays, and the new end is sealed. */
static void realloc_stays(const char *level) {
    start_safe(level);
    char *block = heap_malloc_slow(100), *large = heap_malloc_slow(HK_MIB);
    memset(block, 7, 100);
    CHECK(heap_realloc(block, 104, NULL) == block && heap_realloc(block, 99, NULL) == block);
    CHECK(block[0] == 7 && block[98] == 7);
    block = heap_realloc(block, 104, NULL);
    memset(block, 1, 104);
    release(block);
    memset(large, 7, HK_MIB);
    for (size_t size = HK_MIB + 1; size < 40 * HK_MIB; size += size / 3) {
        char *grown = heap_realloc(large, size, NULL);
        CHECK(grown != NULL && grown[0] == 7 && grown[HK_MIB - 1] == 7);
        memset(grown + HK_MIB, 7, size - HK_MIB);
        large = grown;
    }
    release(large);
    char *shrunk = heap_malloc_slow(3 * HK_MIB);
    memset(shrunk, 7, 3 * HK_MIB);
    CHECK(heap_realloc(shrunk, 3 * HK_MIB - 200000, NULL) == shrunk);
    release(shrunk);
    CHECK_EQ(hk_misuse_count(), 0);
    const unsigned char *zeros = heap_calloc_slow(40 * HK_MIB);
    for (size_t at = 0; at < 40 * HK_MIB; at++)
        CHECK(zeros[at] == 0);
}

static void realloc_stays_2(void) { realloc_stays("2"); }
static void realloc_stays_3(void) { realloc_stays("3"); }

static void overflow_of_grown(void) {
    start_safe("3");
    char *grown = heap_realloc(heap_malloc_slow(HK_MIB), 3 * HK_MIB + 5, NULL);
    CHECK(grown != NULL);
    grown[3 * HK_MIB + 5] = 1;
    release(grown);
    CHECK_EQ(hk_misuse_count(), 1);
}

static void large_overflow_at(size_t size) {
    start_safe("3");
    char *block = heap_malloc_slow(size);
    CHECK_EQ(heap_usable_size(block, NULL), size);
    memset(block + size - 1, 1, 1);
    block[size] = 1;
    release(block);
    CHECK_EQ(hk_misuse_count(), 1);
}

static void large_overflow(void) { large_overflow_at(300000); }
/* In a page behind the one that the block ends in. */
static void border_overflow(void) { large_overflow_at(HK_MID_MAX - 5); }
static bool can_touch(const char *address) { return sys_is_readable((uintptr_t)address); }

/* Whether a slab or a run lies in front of the block, or another superslab. */
static bool has_neighbour(const char *block) {
    return map_lookup(block - 1) != 0 || map_slot(block) % HK_SLOTS_PER_SUPERSLAB == 0;
}

/* The pages behind what was asked for, and the slot before, if it was free. */
static void is_fenced(const char *block, size_t size) {
    size_t end = hk_align_up(size, sys_page_size()), run = large_size(block);
    CHECK(end < run && !can_touch(block + end) && !can_touch(block + run - 1));
    CHECK(can_touch(block) && can_touch(block + end - 1));
    CHECK(!can_touch(block - 1) || has_neighbour(block));
}

static void can_write(char *from, size_t size) { memset(from, 7, size); }

static void fences(const char *level) {
    start_safe(level);
    char *block[4];
    for (unsigned i = 0; i < 4; i++)
        CHECK((block[i] = heap_malloc_slow(300000 + i * 50000)) != NULL);
    for (unsigned i = 0; i < 4; i++)
        is_fenced(block[i], 300000 + i * 50000);
    size_t usable = heap_usable_size(block[3], NULL);
    CHECK_EQ(usable, level[0] == '3' ? 450000 : hk_align_up(450000, sys_page_size()));
    /* They go along with the size, here and elsewhere. */
    for (size_t size = 440000; size < 9 * HK_MIB; size += size / 5) {
        block[3] = heap_realloc(block[3], size, NULL);
        CHECK(block[3] != NULL);
        can_write(block[3], size);
        is_fenced(block[3], size);
    }
    /* Where slots mostly lie free in front of it. */
    unsigned fenced = 0;
    for (unsigned i = 0; i < APART; i++) {
        char *apart = hardened_alloc(h, HK_MIB / 2, 300000, NULL);
        CHECK(apart != NULL);
        is_fenced(apart, 300000);
        CHECK(large_run(apart)->fenced_before || has_neighbour(apart));
        fenced += large_run(apart)->fenced_before;
    }
    CHECK(fenced > 0);
    for (unsigned i = 0; i < 4; i++)
        release(block[i]);
    quarantine_drain(h);
    (void)superslab_purge(SIZE_MAX);
    /* Where they were the next blocks lie, of any size. */
    for (size_t size = 1000; size < 40 * HK_MIB; size += size / 2) {
        char *next = heap_malloc_slow(size);
        CHECK(next != NULL);
        can_write(next, size);
    }
    CHECK_EQ(hk_misuse_count(), 0);
    all_is_well();
}

static void fences_2(void) { fences("2"); }
static void fences_3(void) { fences("3"); }

/* AddressSanitizer's mlockall locks nothing, and the kernel's would lock terabytes of its shadow. */
static bool lock_all(void) { return !CHECK_INSTRUMENTED && mlockall(MCL_CURRENT | MCL_FUTURE) == 0; }

/* Where all memory is locked the kernel takes no marks: mappings without access do, as long as there are few. */
static void fences_locked(void) {
    if (lock_all())
        fences("2");
}

/* Old bytes behind what is open must not come out again: here the kernel does not take them back by advice. */
static void no_leak_locked(void) {
    start_safe("2");
    if (!lock_all())
        return;
    for (unsigned i = 0; i < 8; i++) {
        char *block = heap_malloc_slow(HK_MIB);
        memset(block, 0xaa, HK_MIB);
        block = heap_realloc(block, HK_MIB - 65536, NULL);
        release(block);
        const char *zeros = heap_calloc_slow(HK_MIB);
        CHECK(seal_long_is_zero(zeros, HK_MIB));
        release((void *)(uintptr_t)zeros);
    }
}

/* Aligned beyond a slab's blocks, and of no bytes. */
static void nothing_aligned(const char *level) {
    start_safe(level);
    for (unsigned i = 0; i < 40; i++) {
        char *block = hardened_alloc(h, HK_MIB / 2, 0, NULL);
        CHECK(block != NULL && (uintptr_t)block % (HK_MIB / 2) == 0);
        CHECK(heap_usable_size(block, NULL) <= sys_page_size());
        release(block);
    }
    quarantine_drain(h);
    CHECK_EQ(hk_misuse_count(), 0);
}

static void nothing_aligned_2(void) { nothing_aligned("2"); }
static void nothing_aligned_3(void) { nothing_aligned("3"); }

static void expands(void) {
    start_safe("2");
    char *block = heap_malloc_slow(300000);
    size_t page = sys_page_size(), usable = heap_usable_size(block, NULL), run = large_size(block);
    CHECK(hardened_expand(block, large_open_size(block), 300000, NULL));
    CHECK(hardened_expand(block, large_open_size(block), usable, NULL));
    CHECK_EQ(heap_usable_size(block, NULL), usable);
    CHECK(hardened_expand(block, large_open_size(block), run - page, NULL));
    CHECK_EQ(heap_usable_size(block, NULL), run - page);
    can_write(block, run - page);
    CHECK(!hardened_expand(block, large_open_size(block), run - page + 1, NULL));
    release(block);
    quarantine_drain(h);
    CHECK_EQ(hk_misuse_count(), 0);
}

/* Where the kernel has no room for what is opened again, the block is none, or what is closed is lost: see the
 * allowance of data below. */
static void without_room(void) {
    start_safe("2");
    if (!lock_all() || heap_malloc_slow(300000) == NULL)
        return;
    CHECK_EQ(munlockall(), 0);
    char *block[64];
    for (unsigned i = 0; i < 64; i++)
        CHECK((block[i] = heap_malloc_slow(300000)) != NULL);
    const struct rlimit none = {0, 0};
    CHECK_EQ(setrlimit(RLIMIT_DATA, &none), 0);
    for (unsigned i = 0; i < 64; i++)
        release(block[i]);
    quarantine_drain(h);
    for (size_t size = 290000; size < 500000; size += 700) {
        char *next = heap_malloc_slow(size);
        if (next != NULL)
            can_write(next, size);
        if (next != NULL && size % 3 == 0)
            release(next);
    }
    CHECK_EQ(hk_misuse_count(), 0);
}

static void many_fences(void) {
    start_safe("2");
    static char *block[2 * SYS_FENCES_MAX];
    if (!lock_all() || heap_malloc_slow(300000) == NULL)
        return;
    CHECK_EQ(munlockall(), 0); /* it is decided by now */
    unsigned fenced = 0;
    for (unsigned i = 0; i < 2 * SYS_FENCES_MAX; i++) {
        CHECK((block[i] = heap_malloc_slow(300000)) != NULL);
        fenced += !can_touch(block[i] + 300000 + sys_page_size());
    }
    CHECK(fenced > SYS_FENCES_MAX / 4 && fenced <= SYS_FENCES_MAX);
    for (unsigned i = 0; i < 2 * SYS_FENCES_MAX; i++) {
        can_write(block[i], 300000);
        release(block[i]);
    }
    quarantine_drain(h);
    all_is_well();
}

static void limit_data(rlim_t bytes) {
    struct rlimit limit = {bytes, RLIM_INFINITY};
    CHECK_EQ(setrlimit(RLIMIT_DATA, &limit), 0);
}

/* A fence that the kernel lets nobody map over stays one, and counts once when it goes. */
static void refused_unfence(void) {
    start_safe("2");
    char *block = lock_all() ? heap_malloc_slow(300000) : NULL;
    if (block == NULL)
        return;
    CHECK_EQ(munlockall(), 0); /* it is decided by now */
    is_fenced(block, 300000);
    limit_data(sys_page_size()); /* less than there is; 0 would be none to the kernel */
    for (unsigned i = 0; i < 8; i++)
        CHECK(!large_unfence(block));
    limit_data(RLIM_INFINITY);
    for (unsigned i = 0; i < 3; i++) {
        char *next = heap_malloc_slow(300000);
        CHECK(next != NULL);
        is_fenced(next, 300000);
    }
    CHECK(large_unfence(block));
    all_is_well();
}

static void huge_overflow(void) { large_overflow_at(2 * HK_GIB); }

static void huge_overflow_at_realloc(void) {
    start_safe("3");
    char *block = heap_malloc_slow(2 * HK_GIB - 100);
    char *moved = heap_realloc(block, 2 * HK_GIB, NULL);
    CHECK(moved != NULL);
    CHECK_EQ(heap_usable_size(moved, NULL), 2 * HK_GIB);
    moved[2 * HK_GIB] = 1;
    CHECK(heap_realloc(moved, 1000, NULL) != NULL);
    CHECK_EQ(hk_misuse_count(), 1);
}

/* It may not be handed out while it waits, is found when it is freed again, and leaves the queue for others. */
static void large_twice(void) {
    start_safe("2");
    void *block = heap_malloc_slow(HK_MIB);
    release(block);
    CHECK(heap_malloc_slow(HK_MIB) != block);
    heap_free_other(block, map_lookup(block) ^ hk_front->tag, hk_front, map_granule(block));
    CHECK_EQ(hk_misuse_count(), 1);
}

static size_t held_bytes(void) { return superslab_taken_bytes() - superslab_dirty_bytes(); }

/* What waits has no pages, and is bounded by its size: 64 MiB, or one block. */
static void large_queue_is_bounded(void) {
    start_safe("2");
    size_t before = held_bytes();
    for (unsigned i = 0; i < 500; i++) {
        char *block = heap_malloc_slow((i % 7 + 1) * HK_MIB);
        memset(block, 1, (i % 7 + 1) * HK_MIB);
        release(block);
        CHECK(held_bytes() <= before + 80 * HK_MIB);
    }
    void *giant = heap_malloc_slow(700 * HK_MIB);
    release(giant);
    CHECK(held_bytes() >= before + 700 * HK_MIB);
    release(heap_malloc_slow(HK_MIB));
    CHECK(held_bytes() <= before + 10 * HK_MIB);
    (void)hk_trim_all();
    CHECK_EQ(held_bytes(), before);
    CHECK_EQ(hk_misuse_count(), 0);
    all_is_well();
}

/* Of a full queue the run that waits longest serves again where it fits: with its fences, and as zeros. What was
 * written to it meanwhile is found. */
static void large_serves_from_the_queue(void) {
    enum { FREED = 400 };
    char *freed[FREED];
    unsigned oldest = 0;
    start_safe("2");
    for (unsigned i = 0; i < FREED; i++)
        CHECK((freed[i] = heap_malloc_slow(HK_MIB)) != NULL);
    for (unsigned i = 0; i < FREED; i++)
        release(freed[i]);
    while (map_lookup(freed[oldest]) == 0)
        oldest++;
    CHECK(oldest > 0 && oldest < FREED - 2);
    const size_t place = (uintptr_t)freed[oldest], align = 2 * (place & -place); /* it has half of that */
    char *shorter = heap_malloc_slow(HK_MIB / 2), *aligned = hardened_alloc(h, align, HK_MIB, NULL);
    CHECK(shorter != freed[oldest] && aligned != NULL && (uintptr_t)aligned % align == 0);
    freed[oldest][5] = 1;
    char *block = heap_malloc_slow(HK_MIB);
    CHECK(block == freed[oldest] && large_is_live(block));
    CHECK_EQ(hk_misuse_count(), 1);
    CHECK(large_run(block)->fenced_bytes > 0);
    is_fenced(block, HK_MIB);
    CHECK(block[5] == 0);
    /* There is room for one now, so that the next one waits on. */
    CHECK(heap_malloc_slow(HK_MIB) != freed[oldest + 1]);
    release(block);
    CHECK(heap_malloc_slow(HK_MIB) == freed[oldest + 1]);
    quarantine_drain(h);
    CHECK_EQ(hk_misuse_count(), 1);
    all_is_well();
}

/* How many blocks a loop of malloc and free has in turn; none is the one that was freed last. */
static unsigned in_turn(const char *level, size_t size) {
    enum { ROUNDS = 200 };
    uintptr_t seen[ROUNDS] = {0};
    unsigned count = 0;
    start_safe(level);
    for (uintptr_t last = 0, i = 0; i < ROUNDS; i++) {
        char *block = heap_malloc_slow(size);
        uintptr_t at = (uintptr_t)block;
        memset(block, 1, size);
        CHECK(at != last);
        last = at;
        unsigned k = 0;
        while (k < count && seen[k] != at)
            k++;
        seen[k] = at;
        count += k == count;
        release(block);
    }
    CHECK_EQ(hk_misuse_count(), 0);
    return count;
}

static void turns_at_2(void) { CHECK(in_turn("2", HK_MIB) >= 3); }
static void turns_of_long_at_2(void) { CHECK(in_turn("2", 3 * HK_MIB) >= 2); }
static void turns_at_3(void) { CHECK(in_turn("3", HK_MIB) >= 2); }

static void turns_in_a_long_queue(void) {
    CHECK(setenv("HAKMEM_QUARANTINE", "64M", 1) == 0);
    CHECK(in_turn("3", HK_MIB) >= 25);
}

/* What waits without pages is not handed out beyond a limit. */
static void waiting_within_limit(void) {
    char *freed[5];
    if (CHECK_INSTRUMENTED)
        return; /* a sanitizer's memory counts too */
    CHECK(setenv("HAKMEM_LIMIT", "0:100M", 1) == 0);
    start_safe("2");
    for (unsigned i = 0; i < 5; i++)
        CHECK((freed[i] = heap_malloc_slow(20 * HK_MIB)) != NULL);
    for (unsigned i = 0; i < 5; i++)
        release(freed[i]);
    for (unsigned i = 0; i < 30; i++) {
        char *filled = heap_malloc_slow(3 * HK_MIB);
        CHECK(filled != NULL);
        memset(filled, 1, 3 * HK_MIB);
    }
    CHECK(heap_malloc_slow(20 * HK_MIB) == NULL);
    CHECK_EQ(hk_misuse_count(), 0);
}

/* Where a program fills its long blocks, they keep their pages; where it touches a page here and there, the kernel gets
 * them. */
static void filled_runs_keep_pages(const char *level) {
    enum { RUNS = 40 };
    start_safe(level);
    unsigned kept = 0;
    for (unsigned i = 0; i < RUNS; i++) {
        char *filled = heap_malloc_slow(HK_MIB);
        memset(filled, 1, HK_MIB);
        release(filled);
        kept += residency_of(filled, HK_MIB) == RESIDENCY_FULL;
        CHECK(seal_long_is_zero(filled, HK_MIB));
    }
    CHECK_EQ(kept, RUNS);
    /* A longer run may lie where those did, in the pool, and have their pages. */
    quarantine_drain(h);
    (void)hk_trim_all();
    for (unsigned i = 0; i < RUNS; i++) {
        char *sparse = heap_malloc_slow(3 * HK_MIB);
        sparse[HK_MIB] = 1;
        release(sparse);
        CHECK(residency_of(sparse, HK_MIB) == RESIDENCY_NONE && sparse[HK_MIB] == 0);
    }
    /* In the pool these are not taken for resident. */
    quarantine_drain(h);
    CHECK(superslab_dirty_bytes() < HK_MIB);
    CHECK_EQ(hk_misuse_count(), 0);
    all_is_well();
}

static void filled_runs_keep_pages_2(void) { filled_runs_keep_pages("2"); }
static void filled_runs_keep_pages_3(void) { filled_runs_keep_pages("3"); }

static void twice(void) {
    start_safe("2");
    void *block = heap_malloc_slow(ASKED);
    release(block);
    heap_free_other(block, map_lookup(block) ^ hk_front->tag, hk_front, map_granule(block));
    CHECK_EQ(hk_misuse_count(), 1);
}

/* A freed block is not handed out again before the queue lets go of it: by bytes, of which a thread alone has half. */
static void queue_holds(void) {
    enum { HOLDS = (512 << 10) / BLOCK3, FREED = HOLDS - 1 };
    static void *others[FREED];
    CHECK(setenv("HAKMEM_QUARANTINE", "1M", 1) == 0);
    start_safe("3");
    void *first = heap_malloc_slow(ASKED);
    for (unsigned i = 0; i < FREED; i++)
        others[i] = heap_malloc_slow(ASKED);
    release(first);
    for (unsigned i = 0; i < FREED; i++) {
        release(others[i]);
        CHECK(i % 50 != 0 || heap_malloc_slow(ASKED) != first);
    }
    bool came = false;
    for (unsigned i = 0; i < 5000 && !came; i++) { /* each lets go of one, which leaves the delay at random */
        void *next = heap_malloc_slow(ASKED);
        came = next == first;
        release(next);
    }
    CHECK(came);
    CHECK_EQ(h->quarantine->bytes_max, 512 << 10);
    CHECK_EQ(hk_misuse_count(), 0);
    all_is_well();
}

/* Each thread fills its queue. */
enum { CROWD = 8 };
static size_t filled[CROWD];
static pthread_barrier_t all_have_filled;

static void *fill_queue(void *place) {
    enum { BLOCKS = (1 << 20) / BLOCK3 };
    heap_t *own = heap_current();
    void **blocks = calloc(BLOCKS, sizeof *blocks);
    CHECK(own != NULL && blocks != NULL);
    for (unsigned i = 0; i < BLOCKS; i++)
        blocks[i] = heap_malloc_slow(ASKED);
    for (unsigned i = 0; i < BLOCKS; i++)
        release(blocks[i]);
    *(size_t *)place = own->quarantine->bytes;
    free(blocks);
    (void)pthread_barrier_wait(&all_have_filled);
    return NULL;
}

/* All queues together hold what the option says, and the least of each. What ended threads had serves others. */
static void queues_share(void) {
    pthread_t threads[CROWD];
    size_t sum = 0;
    CHECK(setenv("HAKMEM_QUARANTINE", "1M", 1) == 0);
    start_safe("3");
    CHECK_EQ(pthread_barrier_init(&all_have_filled, NULL, CROWD), 0);
    for (unsigned i = 0; i < CROWD; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, fill_queue, &filled[i]), 0);
    for (unsigned i = 0; i < CROWD; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    for (unsigned i = 0; i < CROWD; i++) {
        CHECK(filled[i] >= QUEUE_BYTES_MIN - BLOCK3);
        sum += filled[i];
    }
    CHECK(sum > (512 << 10) && sum <= (1 << 20) + CROWD * QUEUE_BYTES_MIN);
    heap_retire_parked(UINT64_MAX);
    CHECK_EQ(pthread_barrier_destroy(&all_have_filled), 0);
    CHECK_EQ(pthread_barrier_init(&all_have_filled, NULL, 1), 0);
    (void)fill_queue(&filled[0]);
    CHECK(filled[0] > (512 << 10) - BLOCK3);
    CHECK_EQ(hk_misuse_count(), 0);
    all_is_well();
}

/* Long blocks have few places to wait in, but never come back at once; what is back in its slab serves again. */
static void long_blocks_wait(void) {
    enum { TURNS = 1000 };
    start_safe("2");
    for (size_t size = 5000; size < HK_MID_MAX; size += size / 3) {
        for (unsigned i = 0; i < TURNS; i++) {
            void *block = heap_malloc_slow(size);
            release(block);
            void *next = heap_malloc_slow(size);
            CHECK(next != block);
            release(next);
        }
    }
    quarantine_drain(h);
    CHECK_EQ(hk_misuse_count(), 0);
    all_is_well();
}

/* Of a block above SEAL_SPOTS level 2 looks at both ends and at lines that nobody can guess: what was written all over
 * is always found, one byte in the middle at times, and by calloc always. */
static unsigned found_in_long(size_t from, size_t to, void *again(size_t)) {
    enum { SIZE = 60000, BLOCKS = 200 };
    static char *blocks[BLOCKS];
    uint64_t before = hk_misuse_count();
    for (unsigned i = 0; i < BLOCKS; i++)
        blocks[i] = heap_malloc_slow(SIZE);
    for (unsigned i = 0; i < BLOCKS; i++) {
        release(blocks[i]);
        memset(blocks[i] + from, 1, to - from);
    }
    for (unsigned i = 0; i < BLOCKS; i++)
        CHECK((blocks[i] = again(SIZE)) != NULL);
    for (unsigned i = 0; i < BLOCKS; i++)
        release(blocks[i]);
    quarantine_drain(h);
    return (unsigned)(hk_misuse_count() - before);
}

static void spots(void) {
    enum { BLOCKS = 200, WAITING = 8 /* that calloc did not get */ };
    CHECK(setenv("HAKMEM_LOG", "/dev/null", 1) == 0); /* hundreds of reports */
    start_safe("2");
    CHECK_EQ(found_in_long(0, 1, heap_malloc_slow), BLOCKS);
    CHECK_EQ(found_in_long(1000, 60000, heap_malloc_slow), BLOCKS);
    unsigned some = found_in_long(30000, 30001, heap_malloc_slow);
    CHECK_SAY(some < BLOCKS / 4, "%u of %u single bytes were found", some, BLOCKS);
    CHECK(found_in_long(30000, 30001, heap_calloc_slow) >= BLOCKS - WAITING);
    some = found_in_long(30000, 34000, heap_malloc_slow);
    CHECK_SAY(some > BLOCKS / 4, "%u of %u stretches of 4000 bytes were found", some, BLOCKS);
}

static void innocent(void) {
    enum { HELD = 200, TURNS = 20000 };
    static struct {
        unsigned char *block;
        size_t size;
    } held[HELD];
    uint64_t random = 5;
    for (unsigned turn = 0; turn < TURNS; turn++) {
        unsigned k = (unsigned)(next_random(&random) % HELD);
        size_t size = (size_t)(next_random(&random) % (turn % 100 == 0 ? 900000 : 600));
        if (held[k].block != NULL && turn % 3 == 0 && size > 0) {
            held[k].block = heap_realloc(held[k].block, size, NULL);
        } else if (held[k].block != NULL) {
            release(held[k].block);
            held[k].block = NULL;
            continue;
        } else {
            size_t align = (size_t)16 << turn % 4;
            held[k].block = turn % 2 ? heap_calloc_slow(size) : heap_aligned(align, size);
            CHECK(turn % 2 || (uintptr_t)held[k].block % align == 0);
            if (turn % 2)
                for (size_t i = 0; i < size; i++)
                    CHECK_EQ(held[k].block[i], 0);
        }
        CHECK(held[k].block != NULL && heap_usable_size(held[k].block, NULL) >= size);
        memset(held[k].block, (int)turn, size);
        held[k].size = size;
    }
    for (unsigned k = 0; k < HELD; k++)
        if (held[k].block != NULL)
            release(held[k].block);
    quarantine_drain(h);
    CHECK_EQ(hk_misuse_count(), 0);
    all_is_well();
}

static void innocent_2(void) {
    start_safe("2");
    innocent();
}

static void innocent_3(void) {
    start_safe("3");
    innocent();
}

static void says(void (*body)(void), const char *what, const char *detail) {
    int status = check_child(body, 2, text, sizeof text);
    if (status != 0)
        fprintf(stderr, "%s", text);
    CHECK_EQ(status, 0);
    CHECK_HAS(text, what);
    CHECK_HAS(text, detail);
}

int main(void) {
    says(write_after_free, "hakmem: write after free of 0x", "(112-byte block, offset 30)");
    says(write_into_key, "hakmem: write after free of 0x", "(112-byte block, offset 9)");
    says(write_later, "hakmem: write after free of 0x", "(112-byte block, offset 111)");
    says(overflow, "hakmem: overflow of 0x", "(112-byte block, 100 bytes asked for, offset 100 overwritten)");
    says(overflow_far, "hakmem: overflow of 0x", "(112-byte block, its last bytes are overwritten)");
    says(twice, "hakmem: double free of 0x", "(112-byte block, free)");
    says(large_write_after_free, "hakmem: write after free of 0x", "(3145728-byte block, offset 2109497)");
    says(border_write_after_free, "hakmem: write after free of 0x", "(262144-byte block, offset 0)");
    says(border_2_write_after_free, "hakmem: write after free of 0x", "(262144-byte block, offset 0)");
    says(large_3_write_after_free, "hakmem: write after free of 0x", "(1048576-byte block, offset 1048575)");
    says(write_behind_realloc, "hakmem: write after free of 0x", "(4194304-byte block, offset 100)");
    says(large_overflow, "hakmem: overflow of 0x",
         "(303104-byte block, 300000 bytes asked for, offset 300000 overwritten)");
    says(border_overflow, "hakmem: overflow of 0x",
         "(262144-byte block, 262139 bytes asked for, offset 262139 overwritten)");
    says(huge_overflow, "hakmem: overflow of 0x", "2147483648 bytes asked for, offset 2147483648 overwritten)");
    says(huge_overflow_at_realloc, "hakmem: overflow of 0x",
         "2147483648 bytes asked for, offset 2147483648 overwritten)");
    says(large_twice, "hakmem: double free of 0x", "(1048576-byte block, free)");
    says(overflow_of_grown, "hakmem: overflow of 0x", "3145733 bytes asked for, offset 3145733 overwritten)");
    in_child(fences_2);
    in_child(fences_3);
    in_child(fences_locked);
    in_child(many_fences);
    in_child(refused_unfence);
    in_child(no_leak_locked);
    in_child(nothing_aligned_2);
    in_child(nothing_aligned_3);
    in_child(expands);
    in_child(without_room);
    in_child(realloc_stays_2);
    in_child(realloc_stays_3);
    in_child(large_only_read);
    in_child(zeros_are_told);
    in_child(blocks_are_cleared);
    in_child(short_slack_is_known);
    in_child(large_queue_is_bounded);
    in_child(large_serves_from_the_queue);
    in_child(turns_at_2);
    in_child(turns_of_long_at_2);
    in_child(turns_at_3);
    in_child(turns_in_a_long_queue);
    in_child(waiting_within_limit);
    in_child(filled_runs_keep_pages_2);
    in_child(filled_runs_keep_pages_3);
    says(write_in_lane, "hakmem: write after free of 0x", "(112-byte block, offset 56)");
    in_child(random_order);
    in_child(queue_holds);
    in_child(queues_share);
    in_child(long_blocks_wait);
    in_child(spots);
    in_child(innocent_2);
    in_child(innocent_3);
    return CHECK_PASS;
}
