/* SPDX-License-Identifier: MIT
 *
 * The index of superslabs against an array of bytes: what each is, what comes next of a kind, and the first run of any
 * length, from anywhere. The borders of words and of sums are where most of what changes begins or ends. And what it
 * costs to find a run behind many holes that are too short.
 */
#include "check.h"
#include "region/index.h"

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

enum { COUNT = 1 << 19, CHANGES = 3000, SMALL = 700, KINDS = 4 };

static index_word_t words[INDEX_SUPERSLABS_MAX / 64];
static unsigned char model[COUNT];
static uint64_t state = 88172645463325252;

static size_t below(size_t limit) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (size_t)(state % limit);
}

static bool is_kind(size_t at, index_kind_t kind) {
    return kind == INDEX_AVAILABLE ? model[at] == INDEX_UNCLAIMED || model[at] == INDEX_FREE : model[at] == kind;
}

static size_t model_next(size_t from, size_t limit, index_kind_t kind, bool wanted) {
    while (from < limit && is_kind(from, kind) != wanted)
        from++;
    return from;
}

static size_t model_find(size_t from, size_t limit, size_t count) {
    for (size_t run = 0, at = from; at < limit; at++) {
        run = is_kind(at, INDEX_AVAILABLE) ? run + 1 : 0;
        if (run == count)
            return at + 1 - count;
    }
    return 0;
}

static void change(size_t first, size_t count, index_kind_t kind) {
    index_set(first, count, kind);
    memset(model + first, (int)kind, count);
}

/* Often at a border, or just beside one. */
static size_t somewhere(size_t limit) {
    static const size_t borders[] = {1, 64, 4096, 262144};
    size_t border = borders[below(4)], at = below(limit);
    if (below(2) == 0)
        at = at / border * border + below(3);
    return at == 0 ? 1 : at < limit ? at : limit - 1;
}

static size_t some_length(size_t most) {
    size_t length = 1 + below(below(3) == 0 ? most : most < 130 ? most : 130);
    return length < most ? length : most;
}

static void compare(size_t limit) {
    size_t from = somewhere(limit), count = some_length(limit);
    CHECK_EQ(index_find(from, limit, count), model_find(from, limit, count));
    for (int kind = 0; kind <= KINDS; kind++) {
        CHECK_EQ(index_next(from, limit, (index_kind_t)kind), model_next(from, limit, (index_kind_t)kind, true));
        CHECK_EQ(index_end(from, limit, (index_kind_t)kind), model_next(from, limit, (index_kind_t)kind, false));
    }
}

static void at_random(size_t limit) {
    change(0, limit, INDEX_UNKNOWN);
    for (unsigned i = 0; i < CHANGES; i++) {
        size_t first = somewhere(limit), count = some_length(limit - first);
        change(first, count, (index_kind_t)below(KINDS));
        compare(limit);
        CHECK(i % 50 != 0 || index_check(limit));
    }
    CHECK(index_check(limit));
}

/* One run of each length alone, across every kind of border. */
static void one_run(void) {
    static const size_t lengths[] = {1, 2, 63, 64, 65, 127, 129, 4095, 4096, 4097, 9000, 262144, 262145};
    static const size_t starts[] = {1, 63, 64, 100, 4032, 4095, 4096, 8000, 200000, 256000};
    change(0, COUNT, INDEX_USED);
    for (size_t s = 0; s < sizeof starts / sizeof starts[0]; s++)
        for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
            size_t first = starts[s], count = lengths[l];
            index_set(first, count, INDEX_FREE);
            CHECK_EQ(index_find(1, COUNT, count), first);
            CHECK_EQ(index_find(first, COUNT, count), first);
            CHECK_EQ(index_find(1, COUNT, count + 1), 0);
            CHECK_EQ(index_find(first + 1, COUNT, count), 0);
            index_set(first, count, INDEX_USED);
        }
    CHECK(index_check(COUNT));
}

/* The bits that are the pool's, against an array. They change nothing of the others'. */
static void vacant(size_t limit) {
    static bool is_vacant[COUNT];
    for (unsigned i = 0; i < CHANGES; i++) {
        size_t first = somewhere(limit), count = some_length(limit - first), from = somewhere(limit);
        bool becomes = below(2) == 0;
        for (size_t at = first; at < first + count; at++)
            index_set_vacant(at, is_vacant[at] = becomes);
        size_t begin = from, end = from;
        while (begin > 0 && is_vacant[begin - 1])
            begin--;
        while (end < limit && is_vacant[end])
            end++;
        CHECK_EQ(index_vacant_begin(from), begin);
        CHECK_EQ(index_vacant_end(from, limit), end);
    }
    for (size_t at = 0; at < limit; at++)
        index_set_vacant(at, is_vacant[at] = false);
    CHECK(index_check(limit));
    compare(limit);
}

/* Processor time of finding two neighbours behind holes of one, the least of a few rounds. */
static int64_t find_ns(size_t count) {
    enum { ROUNDS = 7, FINDS = 2000 };
    int64_t least = INT64_MAX;
    index_set(1, count, INDEX_USED);
    for (size_t hole = 1; hole < count - 3; hole += 2)
        index_set(hole, 1, INDEX_FREE);
    index_set(count - 2, 2, INDEX_FREE);
    for (int round = 0; round < ROUNDS; round++) {
        struct timespec begin, end;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
        for (int i = 0; i < FINDS; i++)
            CHECK_EQ(index_find(1, count, 2), count - 2);
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
        int64_t took = (end.tv_sec - begin.tv_sec) * 1000000000 + end.tv_nsec - begin.tv_nsec;
        least = took < least ? took : least;
    }
    return least / FINDS;
}

/* Sums are looked at, not superslabs: 130 looks where there are 66 with a hundredth of the superslabs. */
static void among_holes(void) {
    enum { FEW = 1 << 12, MORE_MAX = 8 };
    int64_t few = find_ns(FEW), many = find_ns(COUNT);
    CHECK_SAY(many <= few * MORE_MAX, "%lld ns among %d superslabs, %lld among %d", (long long)few, FEW,
              (long long)many, COUNT);
}

int main(void) {
    index_init(words);
    CHECK(index_end_bytes(INDEX_SUPERSLABS_MAX) == sizeof words);
    at_random(SMALL);
    at_random(20000);
    at_random(COUNT);
    vacant(SMALL);
    vacant(20000);
    one_run();
    among_holes();
    return CHECK_PASS;
}
