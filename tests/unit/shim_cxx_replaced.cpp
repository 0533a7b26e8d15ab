// SPDX-License-Identifier: MIT
//
// A program that replaces only the basic operators: every other form must go through them, so that no block that the
// program's operator made (here with a header in front) meets hakmem's delete.

#include "check.h"
#include "size_returning.hpp"

#include <cstdlib>
#include <initializer_list>
#include <new>

static int made;
static int unmade;
static bool exhausted;

enum { HEADER = 64 };

#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wsized-deallocation" // the form that is left out is the point
#endif

__attribute__((noinline)) static void *block_make(std::size_t size) {
    if (exhausted)
        throw std::bad_alloc();
    made++;
    return static_cast<char *>(std::aligned_alloc(HEADER, HEADER + (size + HEADER - 1) / HEADER * HEADER)) + HEADER;
}

__attribute__((noinline)) static void block_unmake(void *p) {
    if (p == nullptr)
        return;
    unmade++;
    std::free(static_cast<char *>(p) - HEADER);
}

void *operator new(std::size_t size) { return block_make(size); }
void operator delete(void *p) noexcept { block_unmake(p); }
void *operator new(std::size_t size, std::align_val_t) { return block_make(size); }
void operator delete(void *p, std::align_val_t) noexcept { block_unmake(p); }

static void went_through(int count) {
    CHECK_EQ(made, count);
    CHECK_EQ(unmade, count);
}

int main() {
    const auto alignment = std::align_val_t{HEADER};
    ::operator delete (::operator new(100), std::size_t{100});
    ::operator delete(::operator new(100, std::nothrow), std::nothrow);
    ::operator delete[](::operator new[](100));
    ::operator delete[](::operator new[](100), std::size_t{100});
    ::operator delete[](::operator new[](100, std::nothrow), std::nothrow);
    went_through(5);
    ::operator delete (::operator new(100, alignment), std::size_t{100}, alignment);
    ::operator delete(::operator new(100, alignment, std::nothrow), alignment, std::nothrow);
    ::operator delete[](::operator new[](100, alignment), alignment);
    ::operator delete[](::operator new[](100, alignment), std::size_t{100}, alignment);
    ::operator delete[](::operator new[](100, alignment, std::nothrow), alignment, std::nothrow);
    went_through(10);
    // The size of a block of the program's own is what was asked for.
    for (sized_block block : {__size_returning_new(100), __size_returning_new_nothrow(100)}) {
        CHECK_EQ(block.n, 100);
        ::operator delete(block.p);
    }
    for (sized_block block :
         {__size_returning_new_aligned(100, alignment), __size_returning_new_aligned_nothrow(100, alignment)}) {
        CHECK_EQ(block.n, 100);
        ::operator delete(block.p, alignment);
    }
    went_through(14);
    exhausted = true;
    CHECK(__size_returning_new_nothrow(100).p == nullptr);
    CHECK(::operator new(100, std::nothrow) == nullptr);
    CHECK(::operator new[](100, std::nothrow) == nullptr);
    CHECK(::operator new(100, alignment, std::nothrow) == nullptr);
    CHECK(::operator new[](100, alignment, std::nothrow) == nullptr);
    return CHECK_PASS;
}
