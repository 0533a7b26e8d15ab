/* SPDX-License-Identifier: MIT
 *
 * jemalloc's names in a program that is linked with them: what they do on hakmem and, in part, nowhere else.
 */
#include "testing.h"

#include "../../bindings/jemalloc/names.h"

enum { ARENA_SHIFT = 20 };

static size_t size_of(const char *name) {
    size_t value = 0, size = sizeof value;
    CHECK_EQ(mallctl(name, &value, &size, NULL, 0), 0);
    return value;
}

static bool is_on(const char *name) {
    bool value = false;
    size_t size = sizeof value;
    CHECK_EQ(mallctl(name, &value, &size, NULL, 0), 0);
    return value;
}

static const char *text_of(const char *name) {
    const char *value = NULL;
    size_t size = sizeof value;
    CHECK_EQ(mallctl(name, (void *)&value, &size, NULL, 0), 0);
    return value;
}

/* Set by the test's environment. */
static void options(void) {
    CHECK(is_on("opt.prof") && is_on("prof.active"));
    CHECK_EQ(size_of("opt.lg_prof_sample"), 20);
    CHECK_EQ(size_of("prof.lg_sample"), 20);
    CHECK_EQ(size_of("opt.dirty_decay_ms"), 250);
    CHECK(!is_on("opt.background_thread"));
    CHECK(strcmp(text_of("opt.thp"), "never") == 0 && strcmp(text_of("opt.metadata_thp"), "disabled") == 0);
}

static void arena_is_a_heap(void) {
    unsigned arena = 0;
    size_t size = sizeof arena;
    CHECK_EQ(mallctl("arenas.create", &arena, &size, NULL, 0), 0);
    int bits = (int)((arena + 1) << ARENA_SHIFT);
    char *block = mallocx(1000, bits);
    hak_heap_t *heap = hak_heap_of(block);
    CHECK(heap != NULL);
    CHECK((block = rallocx(block, 100000, 0)) != NULL && hak_heap_of(block) == heap);
    CHECK((block = rallocx(block, 200000, bits | 12)) != NULL && hak_heap_of(block) == heap);
    CHECK(((uintptr_t)block & 4095) == 0);
    CHECK((block = rallocx(block, 300000, 1 << ARENA_SHIFT)) != NULL && hak_heap_of(block) == NULL);
    CHECK(mallocx(10, (int)((arena + 2) << ARENA_SHIFT)) == NULL);
    dallocx(block, 0);
    char name[64];
    snprintf(name, sizeof name, "arena.%u.destroy", arena);
    CHECK_EQ(mallctl(name, NULL, NULL, NULL, 0), 0);
    CHECK_EQ(mallctl(name, NULL, NULL, NULL, 0), EFAULT);
    CHECK_EQ(mallctl("arena.0.reset", NULL, NULL, NULL, 0), EFAULT);
}

/* Nothing takes a thread out of ordinary memory, or its cache away. */
static void thread_stays(void) {
    unsigned arena = 0, now = 1;
    size_t size = sizeof arena;
    bool off = false;
    CHECK_EQ(mallctl("arenas.create", &arena, &size, NULL, 0), 0);
    CHECK_EQ(mallctl("thread.arena", &now, &size, &arena, sizeof arena), EPERM);
    CHECK_EQ(now, 0);
    CHECK_EQ(mallctl("thread.tcache.enabled", NULL, NULL, &off, sizeof off), EPERM);
    CHECK(is_on("thread.tcache.enabled"));
}

static void too_many_arenas(void) {
    enum { MOST = 4094 };
    unsigned arena = 0, made = 0;
    size_t size = sizeof arena;
    int error;
    while ((error = mallctl("arenas.create", &arena, &size, NULL, 0)) == 0)
        made++;
    CHECK_EQ(error, EAGAIN);
    CHECK_EQ(made, MOST);
    for (unsigned i = 1; i <= MOST; i++) {
        char name[64];
        snprintf(name, sizeof name, "arena.%u.destroy", i);
        CHECK_EQ(mallctl(name, NULL, NULL, NULL, 0), 0);
    }
}

/* What a profile has is told by docs/profile-format.md; here it is enough that there is one. */
static void profile(void) {
    char path[] = "/tmp/jemalloc_own_XXXXXX";
    int fd = mkstemp(path);
    const char *name = path;
    bool off = false, on = true;
    size_t lg = 12;
    CHECK(fd >= 0);
    CHECK_EQ(mallctl("prof.reset", NULL, NULL, &lg, sizeof lg), 0);
    CHECK_EQ(size_of("prof.lg_sample"), 12);
    void *block = mallocx(1000000, 0);
    CHECK_EQ(mallctl("prof.dump", NULL, NULL, (void *)&name, sizeof name), 0);
    CHECK(lseek(fd, 0, SEEK_END) > 100);
    CHECK_EQ(mallctl("prof.active", NULL, NULL, &off, sizeof off), 0);
    CHECK(!is_on("prof.active"));
    CHECK_EQ(mallctl("prof.active", NULL, NULL, &on, sizeof on), 0);
    CHECK(is_on("prof.active"));
    lg = 63;
    CHECK_EQ(mallctl("prof.reset", NULL, NULL, &lg, sizeof lg), EINVAL);
    name = "/no/such/directory/profile";
    CHECK_EQ(mallctl("prof.dump", NULL, NULL, (void *)&name, sizeof name), EFAULT);
    dallocx(block, 0);
    CHECK(close(fd) == 0 && unlink(path) == 0);
}

/* Usable bytes of this thread, to the byte, of each kind of block. */
static void thread_counts(void) {
    static const size_t sizes[] = {1, 100, 1024, 5000, 100000, 300000, 5000000, 40000000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (unsigned again = 0; again < 20; again++) {
            uint64_t allocated = size_of("thread.allocated"), freed = size_of("thread.deallocated");
            char *block = mallocx(sizes[i], 0);
            size_t usable = sallocx(block, 0);
            CHECK_EQ(size_of("thread.allocated") - allocated, usable);
            CHECK_EQ(size_of("thread.deallocated") - freed, 0);
            dallocx(block, 0);
            CHECK_EQ(size_of("thread.allocated") - allocated, usable);
            CHECK_EQ(size_of("thread.deallocated") - freed, usable);
        }
}

static void *free_it(void *block) {
    uint64_t before = size_of("thread.deallocated");
    size_t usable = sallocx(block, 0);
    dallocx(block, 0);
    CHECK_EQ(size_of("thread.deallocated") - before, usable);
    return NULL;
}

/* Of lengths that the thread asks for again and again, those that it has in magazines among them. */
static void freed_by_another(void) {
    static const size_t sizes[] = {100, 100000, 300000, 3000000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (unsigned again = 0; again < 100; again++) {
            void *block = mallocx(sizes[i], 0);
            dallocx(mallocx(sizes[i], 0), 0);
            test_join(test_thread(free_it, block));
        }
}

/* To the byte: at the default level classes are what blocks have. */
static void sizes_foretold(void) {
    for (int lg = 0; lg <= 22; lg++)
        for (size_t size = 1; size < 3000000; size += 1 + size / 7) {
            void *block = mallocx(size, lg);
            CHECK_SAY(nallocx(size, lg) == sallocx(block, 0), "%zu bytes at 2^%d: %zu, not %zu", size, lg,
                      nallocx(size, lg), sallocx(block, 0));
            sdallocx(block, nallocx(size, lg), lg);
        }
}

int main(void) {
    test_alarm(60);
    options();
    sizes_foretold();
    arena_is_a_heap();
    too_many_arenas();
    thread_stays();
    thread_counts();
    freed_by_another();
    profile();
    CHECK_EQ(hak_check(), 0);
    return TEST_PASS;
}
