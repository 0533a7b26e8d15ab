/* SPDX-License-Identifier: MIT
 *
 * A program that is written for jemalloc and linked with its library. What it prints is what a program may rely on, so
 * that it prints the same lines there and with hakmem's names preloaded (names.py compares).
 */
#include "testing.h"

#include <jemalloc/jemalloc.h>

enum { SIZE_MAX_TRIED = 100000, BLOCKS = 1000, THREADS = 4 };

static void say(const char *what, bool holds) { printf("%s: %s\n", what, holds ? "yes" : "NO"); }

static bool is_aligned(const void *block, size_t align) { return ((uintptr_t)block & (align - 1)) == 0; }

/* --- Blocks ------------------------------------------------------------------------------------------------------- */

static void sizes(void) {
    bool enough = true, told = true, sized = true;
    for (size_t size = 1; size < SIZE_MAX_TRIED; size += 1 + size / 20) {
        char *block = mallocx(size, 0);
        size_t usable = sallocx(block, 0);
        enough &= block != NULL && usable >= size && malloc_usable_size(block) == usable;
        told &= nallocx(size, 0) >= size && nallocx(size, 0) <= usable;
        memset(block, 1, usable);
        sdallocx(block, size % 3 == 0 ? size : size % 3 == 1 ? nallocx(size, 0) : size + (usable - size) / 2, 0);
        sized &= nallocx(SIZE_MAX / 2, 0) >= SIZE_MAX / 2 || nallocx(SIZE_MAX / 2, 0) == 0;
    }
    say("mallocx has room and sallocx tells it", enough);
    say("nallocx tells what mallocx has", told);
    say("nallocx of what cannot be", sized);
    say("mallocx of what cannot be", mallocx(SIZE_MAX / 2, 0) == NULL);
}

static void flags(void) {
    bool aligned = true, zeroed = true, told = true;
    for (unsigned lg = 0; lg <= 20; lg++) {
        size_t align = (size_t)1 << lg, size = lg % 3 == 0 ? 1 : 3 * align + 5;
        char *block = mallocx(size, MALLOCX_LG_ALIGN((int)lg) | MALLOCX_ZERO);
        size_t had = sallocx(block, 0), much = nallocx(size, MALLOCX_ALIGN(align));
        aligned &= is_aligned(block, align);
        told &= much >= size && much <= had;
        zeroed &= test_is_zero(block, had);
        memset(block, 7, size);
        block = rallocx(block, had + 1, MALLOCX_ZERO);
        zeroed &= test_is_zero(block + size, sallocx(block, 0) - size);
        if (lg % 2 == 0)
            sdallocx(block, had + 1, 0);
        else
            dallocx(block, MALLOCX_TCACHE_NONE);
    }
    say("alignment", aligned);
    say("zeros", zeroed);
    say("nallocx tells what an aligned block has", told);
}

/* Blocks of former owners lie where these do. */
static void zeros(void) {
    bool zeroed = true;
    for (size_t size = 1; size < SIZE_MAX_TRIED; size += 1 + size / 10) {
        char *used = mallocx(size + 40, 0);
        memset(used, 7, sallocx(used, 0));
        dallocx(used, 0);
        char *block = mallocx(size, MALLOCX_ZERO);
        memset(block, 7, size);
        block = rallocx(block, size + 40, MALLOCX_ZERO);
        zeroed &= test_is_zero(block + size, sallocx(block, 0) - size);
        dallocx(block, 0);
    }
    say("zeros behind what was asked for", zeroed);
}

static void resizes(void) {
    bool kept = true, zeroed = true, aligned = true, here = true;
    uint64_t random = 5;
    for (unsigned i = 0; i < BLOCKS; i++) {
        size_t old = 1 + test_random_log_size(&random, 200000), now = 1 + test_random_log_size(&random, 200000);
        char *block = mallocx(old, 0);
        size_t had = sallocx(block, 0), align = (size_t)1 << test_random_below(&random, 13);
        test_fill(block, old, i);
        size_t in_place = xallocx(block, now, i % 2 == 0 ? 0 : 1000, 0);
        here &= in_place == sallocx(block, 0);
        block = rallocx(block, had, 0);
        test_fill(block, old, i);
        had = sallocx(block, 0);
        memset(block + old, 7, had - old);
        block = rallocx(block, now, MALLOCX_ALIGN(align) | MALLOCX_ZERO);
        aligned &= is_aligned(block, align);
        kept &= now < old || test_holds(block, old, i);
        if (sallocx(block, 0) > had)
            zeroed &= test_is_zero(block + had, sallocx(block, 0) - had);
        dallocx(block, 0);
    }
    say("rallocx keeps what there was", kept);
    say("rallocx zeroes what is new", zeroed);
    say("rallocx aligns", aligned);
    say("xallocx tells the size", here);
    char *fits = mallocx(1 << 20, 0);
    size_t had = sallocx(fits, 0);
    say("xallocx leaves what is large enough", xallocx(fits, 300000, (size_t)1 << 46, 0) >= had);
    dallocx(fits, 0);
}

/* Of one kind are the names of libc and these. */
static void mixed(void) {
    char *block = mallocx(100, 0);
    strcpy(block, "kept");
    block = realloc(block, 5000);
    say("realloc of mallocx", strcmp(block, "kept") == 0);
    block = rallocx(block, 50000, 0);
    say("rallocx of realloc", strcmp(block, "kept") == 0 && sallocx(block, 0) >= 50000);
    free(block);
    dallocx(malloc(10), 0);
    dallocx(aligned_alloc(64, 128), MALLOCX_ALIGN(64));
    sdallocx(calloc(3, 100), 300, 0);
    say("frees across names", true);
}

/* --- mallctl ------------------------------------------------------------------------------------------------------ */

static size_t figure(const char *name) {
    size_t value = 0, size = sizeof value;
    uint64_t epoch = 1;
    CHECK_EQ(mallctl("epoch", NULL, NULL, &epoch, sizeof epoch), 0);
    CHECK_EQ(mallctl(name, &value, &size, NULL, 0), 0);
    return value;
}

static uint64_t by_thread(const char *name) {
    uint64_t value = 0;
    size_t size = sizeof value;
    CHECK_EQ(mallctl(name, &value, &size, NULL, 0), 0);
    return value;
}

static void statistics(void) {
    enum { COUNT = 100, SIZE = 100000 };
    static void *blocks[COUNT];
    size_t before = figure("stats.allocated");
    uint64_t allocated = by_thread("thread.allocated"), freed = by_thread("thread.deallocated");
    for (unsigned i = 0; i < COUNT; i++)
        memset(blocks[i] = mallocx(SIZE, 0), 1, SIZE);
    say("stats.allocated counts", figure("stats.allocated") - before >= COUNT * SIZE);
    say("stats.active is no less", figure("stats.active") >= figure("stats.allocated"));
    say("stats.mapped is no less", figure("stats.mapped") >= figure("stats.active"));
    say("stats.resident", figure("stats.resident") >= COUNT * SIZE && figure("stats.metadata") > 0);
    say("stats.retained is there", figure("stats.retained") < SIZE_MAX);
    for (unsigned i = 0; i < COUNT; i++)
        dallocx(blocks[i], 0);
    say("thread.allocated", by_thread("thread.allocated") - allocated >= COUNT * SIZE);
    say("thread.deallocated", by_thread("thread.deallocated") - freed >= COUNT * SIZE);
    say("stats.allocated falls", figure("stats.allocated") < before + COUNT * SIZE / 2);
    printf("flush %d purge %d decay %d\n", mallctl("thread.tcache.flush", NULL, NULL, NULL, 0),
           mallctl("arena.0.purge", NULL, NULL, NULL, 0), mallctl("arena.4096.decay", NULL, NULL, NULL, 0));
}

/* The error, and the size that comes back, of a place of a right and of a wrong size. */
static void read_of(const char *name, size_t right) {
    char place[16] = {0};
    size_t size = right, less = 1, none = 0;
    int error = mallctl(name, place, &size, NULL, 0), wrong = mallctl(name, place, &less, NULL, 0);
    printf("%s: %d, %zu bytes; of one byte %d, %zu; of none %d; written %d\n", name, error, size, wrong, less,
           mallctl(name, place, &none, NULL, 0), mallctl(name, NULL, NULL, place, right));
}

static void names(void) {
    static const struct {
        const char *name;
        size_t size;
    } readable[] = {
        {"version", sizeof(char *)},
        {"stats.allocated", sizeof(size_t)},
        {"thread.arena", sizeof(unsigned)},
        {"thread.tcache.enabled", sizeof(bool)},
        {"arenas.page", sizeof(size_t)},
        {"arenas.quantum", sizeof(size_t)},
        {"arenas.nbins", sizeof(unsigned)},
        {"arenas.bin.0.size", sizeof(size_t)},
        {"opt.narenas", sizeof(unsigned)},
        {"opt.dirty_decay_ms", sizeof(ssize_t)},
        {"opt.thp", sizeof(char *)},
        {"opt.metadata_thp", sizeof(char *)},
        {"opt.retain", sizeof(bool)},
        {"opt.background_thread", sizeof(bool)},
        {"opt.tcache_max", sizeof(size_t)},
        {"opt.oversize_threshold", sizeof(size_t)},
        {"opt.stats_print", sizeof(bool)},
        {"opt.percpu_arena", sizeof(char *)},
        {"opt.abort_conf", sizeof(bool)},
        {"opt.confirm_conf", sizeof(bool)},
        {"opt.prof", sizeof(bool)},
        {"opt.lg_prof_sample", sizeof(size_t)},
        {"opt.prof_final", sizeof(bool)},
        {"opt.prof_leak", sizeof(bool)},
        {"opt.junk", sizeof(char *)},
        {"opt.xmalloc", sizeof(bool)},
        {"opt.muzzy_decay_ms", sizeof(size_t)},
        {"arenas.dirty_decay_ms", sizeof(ssize_t)},
        {"arenas.muzzy_decay_ms", sizeof(ssize_t)},
        {"arena.0.muzzy_decay_ms", sizeof(ssize_t)},
        {"background_thread", sizeof(bool)},
        {"arenas.bin.0.nregs", sizeof(uint32_t)},
        {"stats.arenas.0.small.allocated", sizeof(size_t)},
        {"stats.arenas.4096.large.allocated", sizeof(size_t)},
        {"stats.arenas.0.resident", sizeof(size_t)},
        {"stats.arenas.4096.pactive", sizeof(size_t)},
        {"stats.arenas.0.pdirty", sizeof(size_t)},
        {"stats.arenas.4096.pmuzzy", sizeof(size_t)},
        {"stats.arenas.0.bins.2.curregs", sizeof(size_t)},
        {"stats.arenas.4096.bins.0.curslabs", sizeof(size_t)},
    };
    for (unsigned i = 0; i < sizeof readable / sizeof readable[0]; i++)
        read_of(readable[i].name, readable[i].size);
    static const char *const unknown[] = {"",
                                          "no.such.name",
                                          "stats",
                                          "stats.allocated.more",
                                          "arenas.bin.999.size",
                                          "arenas.bin.x.size",
                                          "arena.0",
                                          "arena.3000.purge",
                                          "stats.arenas.3000.pactive",
                                          "stats.arenas.0.bins.999.curregs",
                                          "stats.arenas.0.bins.x.curregs",
                                          "statsXallocated"};
    for (unsigned i = 0; i < sizeof unknown / sizeof unknown[0]; i++)
        printf("'%s': %d\n", unknown[i], mallctl(unknown[i], NULL, NULL, NULL, 0));
    char value = 1;
    size_t size = sizeof value;
    printf("purge with a value %d, read %d\n", mallctl("arena.0.purge", NULL, NULL, &value, 1),
           mallctl("arena.0.purge", &value, &size, NULL, 0));
    unsigned arena = 3000;
    printf("thread into no arena %d\n", mallctl("thread.arena", NULL, NULL, &arena, sizeof arena));
    printf("epoch of a byte %d\n", mallctl("epoch", NULL, NULL, &value, 1));
    printf("reset of no arena %d\n", mallctl("arena.2000.reset", NULL, NULL, NULL, 0));
}

static void by_mib(void) {
    size_t mib[4], length = 4, small = 2, size = sizeof(size_t), first = 0, second = 0, again = 0, no_such[4] = {0};
    printf("nametomib %d", mallctlnametomib("arenas.bin.0.size", mib, &length));
    printf(", %zu parts, too few %d, no name %d\n", length, mallctlnametomib("arenas.bin.0.size", no_such, &small),
           mallctlnametomib("no.such.name", no_such, &length));
    length = 4;
    CHECK_EQ(mallctlbymib(mib, length, &first, &size, NULL, 0), 0);
    mib[2] = 1;
    CHECK_EQ(mallctlbymib(mib, length, &second, &size, NULL, 0), 0);
    CHECK_EQ(mallctl("arenas.bin.1.size", &again, &size, NULL, 0), 0);
    say("another number in a mib", second > first && second == again);
    mib[2] = 5000;
    printf("a number too large %d\n", mallctlbymib(mib, length, &first, &size, NULL, 0));
}

static size_t by_number(size_t length, const size_t *mib) {
    size_t value = 0, size = sizeof value;
    CHECK_EQ(mallctlbymib(mib, length, &value, &size, NULL, 0), 0);
    return value;
}

/* What Redis reads of each size to know how much is free inside slabs. */
static void sizes_in_use(void) {
    enum { SIZE = 64, MORE = 2000 };
    size_t mib[6], length = 6, of_mib[6], of_length = 6, live = 0, free_blocks = 0;
    unsigned bins = 0;
    size_t size = sizeof bins, before = figure("stats.arenas.4096.small.allocated");
    void *blocks[MORE];
    for (unsigned i = 0; i < MORE; i++)
        blocks[i] = mallocx(SIZE, 0);
    say("small.allocated", figure("stats.arenas.4096.small.allocated") - before >= MORE * SIZE);
    CHECK_EQ(mallctl("arenas.nbins", &bins, &size, NULL, 0), 0);
    CHECK_EQ(mallctlnametomib("stats.arenas.4096.bins.0.curregs", mib, &length), 0);
    CHECK_EQ(mallctlnametomib("stats.arenas.4096.bins.0.curslabs", of_mib, &of_length), 0);
    for (unsigned i = 0; i < bins; i++) {
        char name[64];
        uint32_t in_slab = 0;
        snprintf(name, sizeof name, "arenas.bin.%u.nregs", i);
        size = sizeof in_slab;
        CHECK_EQ(mallctl(name, &in_slab, &size, NULL, 0), 0);
        mib[4] = of_mib[4] = i;
        size_t used = by_number(length, mib), there = in_slab * by_number(of_length, of_mib);
        CHECK(used <= there);
        live += used;
        free_blocks += there - used;
    }
    say("blocks in use", live >= MORE && live < 100 * MORE);
    say("free blocks", free_blocks < 100 * MORE);
    mib[2] = 3000;
    printf("of no arena %d", mallctlbymib(mib, length, &live, &size, NULL, 0));
    mib[2] = SIZE_MAX;
    printf(" %d\n", mallctlbymib(mib, length, &live, &size, NULL, 0));
    for (unsigned i = 0; i < MORE; i++)
        dallocx(blocks[i], 0);
}

static void background(void) {
    bool before = false, on = true, now = false;
    size_t size = sizeof before;
    CHECK_EQ(mallctl("background_thread", &before, &size, &on, sizeof on), 0);
    CHECK_EQ(mallctl("background_thread", &now, &size, &before, sizeof before), 0);
    say("background_thread is set", now);
}

static void caches(void) {
    unsigned one = 0, other = 0;
    size_t size = sizeof one;
    CHECK_EQ(mallctl("tcache.create", &one, &size, NULL, 0), 0);
    CHECK_EQ(mallctl("tcache.create", &other, &size, NULL, 0), 0);
    say("two caches", one != other);
    char *block = mallocx(100, MALLOCX_TCACHE(one));
    block = rallocx(block, 1000, MALLOCX_TCACHE(other) | MALLOCX_ZERO);
    dallocx(block, MALLOCX_TCACHE(one));
    printf("flush %d", mallctl("tcache.flush", NULL, NULL, &one, sizeof one));
    printf(", destroy %d %d", mallctl("tcache.destroy", NULL, NULL, &one, sizeof one),
           mallctl("tcache.destroy", NULL, NULL, &other, sizeof other));
    printf(", nothing named %d\n", mallctl("tcache.flush", NULL, NULL, NULL, 0));
}

static void delay(void) {
    ssize_t before = 0, set = 1234, after = 0, wrong = -2;
    size_t size = sizeof before;
    CHECK_EQ(mallctl("arena.0.dirty_decay_ms", &before, &size, &set, sizeof set), 0);
    CHECK_EQ(mallctl("arena.0.dirty_decay_ms", &after, &size, NULL, 0), 0);
    printf("dirty_decay_ms: set to %zd, %d for one that is wrong\n", after,
           mallctl("arena.0.dirty_decay_ms", NULL, NULL, &wrong, sizeof wrong));
    CHECK_EQ(mallctl("arena.0.dirty_decay_ms", NULL, NULL, &before, sizeof before), 0);
    printf("of no arena: read %d", mallctl("arena.3000.dirty_decay_ms", &after, &size, NULL, 0));
    printf(", set %d\n", mallctl("arena.3000.dirty_decay_ms", NULL, NULL, &set, sizeof set));
}

/* What lies where a profile would be written stays when there is none. */
static void no_profile(void) {
    char path[] = "/tmp/jemalloc_names_XXXXXX";
    const char *name = path;
    int fd = mkstemp(path);
    CHECK(fd >= 0 && write(fd, "kept", 4) == 4);
    printf("dump of no profile: %d", mallctl("prof.dump", NULL, NULL, (void *)&name, sizeof name));
    printf(", %d bytes\n", (int)lseek(fd, 0, SEEK_END));
    CHECK(close(fd) == 0 && unlink(path) == 0);
    printf("nor a new file: %d", mallctl("prof.dump", NULL, NULL, (void *)&name, sizeof name));
    printf(", %d\n", access(path, F_OK));
}

/* --- Arenas ------------------------------------------------------------------------------------------------------- */

static unsigned arena_new(void) {
    unsigned arena = 0;
    size_t size = sizeof arena;
    CHECK_EQ(mallctl("arenas.create", &arena, &size, NULL, 0), 0);
    return arena;
}

static int arena_do(unsigned arena, const char *what) {
    char name[64];
    snprintf(name, sizeof name, "arena.%u.%s", arena, what);
    return mallctl(name, NULL, NULL, NULL, 0);
}

static void arenas(void) {
    unsigned one = arena_new(), other = arena_new(), count = 0;
    size_t size = sizeof count, before = figure("stats.allocated");
    CHECK_EQ(mallctl("arenas.narenas", &count, &size, NULL, 0), 0);
    say("numbers of arenas", one != other && one > 0 && count > one && count > other);
    int in_one = MALLOCX_ARENA(one) | MALLOCX_TCACHE_NONE, in_other = MALLOCX_ARENA(other) | MALLOCX_TCACHE_NONE;
    char *kept = mallocx(1000, in_other);
    strcpy(kept, "kept");
    for (unsigned i = 0; i < BLOCKS; i++) {
        char *block = mallocx(100 + i * 50, in_one | (i % 2 == 0 ? MALLOCX_ZERO : MALLOCX_ALIGN(128)));
        CHECK(block != NULL && (i % 2 == 0 ? test_is_zero(block, 100 + i * 50) : is_aligned(block, 128)));
        if (i % 3 == 0)
            dallocx(block, in_one);
        if (i % 3 == 1)
            CHECK(rallocx(block, 30000 + i, in_one) != NULL);
    }
    say("allocated in an arena", figure("stats.allocated") - before > BLOCKS * 10000);
    printf("reset %d", arena_do(one, "reset"));
    printf(", destroy %d\n", arena_do(one, "destroy"));
    say("gone with it", figure("stats.allocated") < before + BLOCKS * 1000);
    say("its number comes again", arena_new() == one);
    kept = rallocx(kept, 5000, in_other);
    say("the other is as it was", strcmp(kept, "kept") == 0);
    char all[64];
    CHECK_EQ(mallctl("arenas.narenas", &count, &size, NULL, 0), 0);
    snprintf(all, sizeof all, "arena.%u.purge", count);
    printf("purge of as many as there are %d\n", mallctl(all, NULL, NULL, NULL, 0));
    snprintf(all, sizeof all, "stats.arenas.%u.small.allocated", other);
    say("allocated in the other", figure(all) >= 5000 && figure(all) < 100000);
    kept = rallocx(kept, 9000, MALLOCX_ARENA(0));
    printf("destroy %d\n", arena_do(other, "destroy"));
    say("moved out in time", strcmp(kept, "kept") == 0);
    dallocx(kept, 0);
    CHECK_EQ(arena_do(one, "destroy"), 0);
}

static void *in_thread(void *argument) {
    int bits = MALLOCX_ARENA(*(unsigned *)argument) | MALLOCX_TCACHE_NONE;
    for (unsigned i = 1; i < 5000; i++) {
        size_t size = i % 700 + 1;
        char *block = mallocx(size, bits);
        memset(block, (int)i, size);
        block = i % 5 == 0 ? rallocx(block, 2 * size, bits) : block;
        CHECK(block[size - 1] == (char)i);
        if (i % 2 == 0)
            dallocx(block, bits);
    }
    return NULL;
}

static void threads(void) {
    unsigned arena = arena_new();
    pthread_t running[THREADS];
    for (unsigned i = 0; i < THREADS; i++)
        running[i] = test_thread(in_thread, &arena);
    for (unsigned i = 0; i < THREADS; i++)
        test_join(running[i]);
    printf("threads in an arena: destroy %d\n", arena_do(arena, "destroy"));
}

/* --- Printing ----------------------------------------------------------------------------------------------------- */

static void note(void *context, const char *text) { *(size_t *)context += strlen(text); }

static void prints(void) {
    size_t text = 0, json = 0;
    malloc_stats_print(note, &text, NULL);
    malloc_stats_print(note, &json, "J");
    say("malloc_stats_print", text > 500 && json > 500);
    malloc_message = note;
    say("malloc_message", malloc_message == note);
    malloc_message = NULL;
}

int main(void) {
    test_alarm(60);
    setvbuf(stdout, NULL, _IOLBF, 0);
    sizes();
    flags();
    zeros();
    resizes();
    mixed();
    statistics();
    names();
    by_mib();
    sizes_in_use();
    background();
    caches();
    delay();
    no_profile();
    arenas();
    threads();
    prints();
    return TEST_PASS;
}
