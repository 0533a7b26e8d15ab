// SPDX-License-Identifier: MIT
//
// How RocksDB, folly and others look for jemalloc: by weak references to its names, all of which must be there
// (rocksdb/port/jemalloc_helper.h, HasJemalloc; memory/jemalloc_nodump_allocator.cc and monitoring of
// db/malloc_stats.cc are what they do then). Prints what was found: names.py says what it should be.
#include "testing.h"

#define WEAK __attribute__((weak))

extern "C" {
WEAK void *mallocx(size_t size, int flags);
WEAK void *rallocx(void *block, size_t size, int flags);
WEAK size_t xallocx(void *block, size_t size, size_t extra, int flags);
WEAK size_t sallocx(const void *block, int flags);
WEAK void dallocx(void *block, int flags);
WEAK void sdallocx(void *block, size_t size, int flags);
WEAK size_t nallocx(size_t size, int flags);
WEAK int mallctl(const char *name, void *old, size_t *old_size, void *value, size_t value_size);
WEAK int mallctlnametomib(const char *name, size_t *mib, size_t *length);
WEAK int mallctlbymib(const size_t *mib, size_t length, void *old, size_t *old_size, void *value, size_t value_size);
WEAK void malloc_stats_print(void (*write)(void *context, const char *text), void *context, const char *options);
}

static bool has_jemalloc() {
    return mallocx != nullptr && rallocx != nullptr && xallocx != nullptr && sallocx != nullptr && dallocx != nullptr &&
           sdallocx != nullptr && nallocx != nullptr && mallctl != nullptr && mallctlnametomib != nullptr &&
           mallctlbymib != nullptr && malloc_stats_print != nullptr;
}

static void count(void *context, const char *text) { *static_cast<size_t *>(context) += strlen(text); }

// DumpMallocStats: the text of malloc_stats_print; and the gauges of services.
static void statistics() {
    size_t length = 0, value = 0, size = sizeof value;
    void *block = malloc(100);
    uint64_t epoch = 1;
    malloc_stats_print(count, &length, "");
    CHECK(length > 0);
    CHECK_EQ(mallctl("epoch", nullptr, nullptr, &epoch, sizeof epoch), 0);
    CHECK_EQ(mallctl("stats.allocated", &value, &size, nullptr, 0), 0);
    CHECK(value >= 100);
    free(block);
}

// JemallocNodumpAllocator: an arena of its own, by which blocks are had and freed. What it asks for first, hooks, is
// refused before it goes on.
static void cache_allocator() {
    const int SHIFT = 20, TCACHE_NONE = 1 << 8;
    unsigned arena = 0;
    size_t size = sizeof arena;
    void *hooks = nullptr;
    size_t hooks_size = sizeof hooks;
    CHECK_EQ(mallctl("arenas.create", &arena, &size, nullptr, 0), 0);
    char name[64];
    snprintf(name, sizeof name, "arena.%u.extent_hooks", arena);
    CHECK_EQ(mallctl(name, &hooks, &hooks_size, nullptr, 0), ENOENT);
    int flags = static_cast<int>((arena + 1) << SHIFT) | TCACHE_NONE;
    void *block = mallocx(5000, flags);
    CHECK(block != nullptr && malloc_usable_size(block) == nallocx(5000, flags));
    dallocx(block, flags);
    snprintf(name, sizeof name, "arena.%u.destroy", arena);
    CHECK_EQ(mallctl(name, nullptr, nullptr, nullptr, 0), 0);
}

// folly's usingJEMalloc: a counter that malloc moves, which hakmem does not have; it then takes malloc for any other.
static bool folly_would() {
    volatile uint64_t *counter = nullptr;
    size_t size = sizeof counter;
    return mallctl("thread.allocatedp", static_cast<void *>(&counter), &size, nullptr, 0) == 0;
}

int main() {
    test_alarm(60);
    if (!has_jemalloc()) {
        printf("no jemalloc\n");
        return TEST_PASS;
    }
    statistics();
    cache_allocator();
    printf("jemalloc\n%s", folly_would() ? "folly too\n" : "");
    return TEST_PASS;
}
