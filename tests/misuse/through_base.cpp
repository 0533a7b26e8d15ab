// SPDX-License-Identifier: MIT
//
// Objects of a derived class that are deleted through a base without a virtual destructor: the compiler gives a size
// that is too small. Programs that do so work elsewhere, so they go on here, at the default level: the blocks are
// freed, the first eight such calls are printed, and all are counted.
#include "testing.h"

#include <new>

enum { OBJECTS = 100000, OBJECT_BYTES = 1000, BASE_BYTES = 16, TOLD = 8, GROWTH_KIB_MAX = 8 << 10 };

static FILE *messages;

// Standard error goes to a file from now on. Returns the old one.
static int redirect() {
    messages = tmpfile();
    int saved = dup(STDERR_FILENO);
    CHECK(messages != nullptr && saved >= 0);
    CHECK(dup2(fileno(messages), STDERR_FILENO) == STDERR_FILENO);
    return saved;
}

static unsigned reports() {
    char line[1024];
    unsigned count = 0;
    rewind(messages);
    while (fgets(line, sizeof line, messages) != nullptr)
        count += strncmp(line, "hakmem: operator delete of wrong size ", 38) == 0;
    return count;
}

static uint64_t counted() {
    hak_stats_t now;
    CHECK(test_stats(&now) == 0);
    return now.errors;
}

int main() {
    test_require_hakmem();
    test_alarm(60);
    int saved = redirect();
    long before = test_rss_kib();
    for (unsigned i = 0; i < OBJECTS; i++) {
        void *object = ::operator new(OBJECT_BYTES);
        memset(object, 1, OBJECT_BYTES);
        ::operator delete (test_opaque(object), std::size_t{BASE_BYTES});
    }
    long grown = test_rss_kib() - before;
    CHECK(dup2(saved, STDERR_FILENO) == STDERR_FILENO);
    CHECK_SAY(grown < GROWTH_KIB_MAX, "%ld KiB more: the blocks were not freed", grown);
    unsigned told = reports();
    CHECK_SAY(told == TOLD, "%u reports, not %d", told, TOLD);
    CHECK(counted() == OBJECTS);
    CHECK_HEAP();
    return TEST_PASS;
}
