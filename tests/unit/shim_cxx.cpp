// SPDX-License-Identifier: MIT
//
// The C++ operators over a fake front: every form, the new_handler, bad_alloc, and nothrow forms that stay nothrow.

#include "check.h"
#include "fake_front.h"
#include "size_returning.hpp"

#include <new>

static int handler_calls;

static const auto alignment = std::align_val_t{64};

static void reset() {
    std::set_new_handler(nullptr);
    fake_front = fake_front_t{};
    handler_calls = 0;
}

// One block through a pair of operators.
template <typename New, typename Delete> static void pair(New make, Delete destroy) {
    reset();
    void *p = make();
    CHECK(p != nullptr);
    CHECK_EQ(fake_front.allocs, 1);
    CHECK_EQ(fake_front.size, 100);
    fake_front.size = 0;
    destroy(p);
    CHECK_EQ(fake_front.frees, 1);
}

static void is_sized(const char *verb) {
    CHECK_EQ(fake_front.size, 100);
    CHECK_STR(fake_front.verb, verb);
}

static void every_form() {
    pair([] { return ::operator new(100); }, [](void *p) { ::operator delete(p); });
    pair([] { return ::operator new[](100); }, [](void *p) { ::operator delete[](p); });
    pair([] { return ::operator new(100, std::nothrow); }, [](void *p) { ::operator delete(p, std::nothrow); });
    pair([] { return ::operator new[](100, std::nothrow); }, [](void *p) { ::operator delete[](p, std::nothrow); });
    pair([] { return ::operator new(100); }, [](void *p) { ::operator delete (p, std::size_t{100}); });
    is_sized("operator delete");
    pair([] { return ::operator new[](100); }, [](void *p) { ::operator delete[](p, std::size_t{100}); });
    is_sized("operator delete[]");
}

extern "C" {
sized_block __size_returning_new_hot_cold(std::size_t, unsigned char);
sized_block __size_returning_new_nothrow_hot_cold(std::size_t, unsigned char) noexcept;
sized_block __size_returning_new_aligned_hot_cold(std::size_t, std::align_val_t, unsigned char);
sized_block __size_returning_new_aligned_nothrow_hot_cold(std::size_t, std::align_val_t, unsigned char) noexcept;
}

template <typename New> static void with_size(New make) {
    pair(
        [make] {
            sized_block block = make();
            CHECK(block.n >= 100 && block.n < 200);
            return block.p;
        },
        [](void *p) { ::operator delete(p); });
}

static void every_form_with_size() {
    with_size([] { return __size_returning_new(100); });
    with_size([] { return __size_returning_new_nothrow(100); });
    with_size([] { return __size_returning_new_hot_cold(100, 128); });
    with_size([] { return __size_returning_new_nothrow_hot_cold(100, 0); });
    with_size([] { return __size_returning_new_aligned(100, alignment); });
    CHECK_EQ(fake_front.alignment, 64);
    with_size([] { return __size_returning_new_aligned_nothrow(100, alignment); });
    with_size([] { return __size_returning_new_aligned_hot_cold(100, alignment, 1); });
    with_size([] { return __size_returning_new_aligned_nothrow_hot_cold(100, alignment, 255); });
    CHECK_EQ(fake_front.alignment, 64);
    reset();
    fake_front.empty = true;
    sized_block none = __size_returning_new_nothrow(100);
    CHECK(none.p == nullptr && none.n == 0);
    bool thrown = false;
    try {
        (void)__size_returning_new(100);
    } catch (const std::bad_alloc &) {
        thrown = true;
    }
    CHECK(thrown);
    reset();
}

static void every_aligned_form() {
    pair([] { return ::operator new(100, alignment); }, [](void *p) { ::operator delete(p, alignment); });
    CHECK_EQ(fake_front.alignment, 64);
    pair([] { return ::operator new[](100, alignment); }, [](void *p) { ::operator delete[](p, alignment); });
    pair([] { return ::operator new(100, alignment, std::nothrow); },
         [](void *p) { ::operator delete(p, alignment, std::nothrow); });
    pair([] { return ::operator new[](100, alignment, std::nothrow); },
         [](void *p) { ::operator delete[](p, alignment, std::nothrow); });
    CHECK_EQ(fake_front.alignment, 64);
    pair([] { return ::operator new(100, alignment); },
         [](void *p) { ::operator delete (p, std::size_t{100}, alignment); });
    is_sized("operator delete");
    pair([] { return ::operator new[](100, alignment); },
         [](void *p) { ::operator delete[](p, std::size_t{100}, alignment); });
    is_sized("operator delete[]");
}

// Volatile, so that the compiler pairs no new with it.
static void (*volatile destroy)(void *) = [](void *p) { ::operator delete(p); };
static volatile std::size_t too_much = SIZE_MAX;
static volatile std::size_t odd = 48;

template <typename New> static bool throws_bad_alloc(New make) {
    try {
        destroy(make());
    } catch (const std::bad_alloc &) {
        return true;
    }
    return false;
}

// All eight forms of new while there is no memory.
template <typename Check> static void out_of_memory(void (*handler)(), Check check) {
    const auto begin = [handler] {
        reset();
        std::set_new_handler(handler);
        fake_front.empty = true;
    };
    begin();
    check(true, throws_bad_alloc([] { return ::operator new(100); }), nullptr);
    begin();
    check(true, throws_bad_alloc([] { return ::operator new[](100); }), nullptr);
    begin();
    check(true, throws_bad_alloc([] { return ::operator new(100, alignment); }), nullptr);
    begin();
    check(true, throws_bad_alloc([] { return ::operator new[](100, alignment); }), nullptr);
    begin();
    check(false, false, ::operator new(100, std::nothrow));
    begin();
    check(false, false, ::operator new[](100, std::nothrow));
    begin();
    check(false, false, ::operator new(100, alignment, std::nothrow));
    begin();
    check(false, false, ::operator new[](100, alignment, std::nothrow));
    reset();
}

static void no_handler() {
    out_of_memory(nullptr, [](bool throwing, bool thrown, void *p) {
        CHECK_EQ(thrown, throwing);
        CHECK(p == nullptr);
    });
}

static void finds_memory() {
    if (++handler_calls == 3)
        fake_front.empty = false;
}

static void handler_helps() {
    out_of_memory(finds_memory, [](bool throwing, bool thrown, void *p) {
        CHECK(!thrown);
        CHECK_EQ(handler_calls, 3);
        CHECK_EQ(fake_front.allocs, 1);
        CHECK_EQ(p != nullptr, !throwing);
        destroy(p);
    });
}

static void throws() {
    handler_calls++;
    throw std::bad_alloc();
}

static void throws_int() {
    handler_calls++;
    throw 7;
}

static void gives_up() {
    handler_calls++;
    std::set_new_handler(nullptr);
}

static void handler_throws() {
    const auto check = [](bool throwing, bool thrown, void *p) {
        CHECK_EQ(thrown, throwing);
        CHECK_EQ(handler_calls, 1);
        CHECK(p == nullptr);
    };
    out_of_memory(throws, check);
    out_of_memory(gives_up, check);
    reset();
    std::set_new_handler(throws_int);
    fake_front.empty = true;
    int caught = 0;
    try {
        destroy(::operator new(100));
    } catch (int value) {
        caught = value;
    }
    CHECK_EQ(caught, 7);
    CHECK(::operator new(100, std::nothrow) == nullptr);
    reset();
}

static void odd_requests() {
    reset();
    CHECK(throws_bad_alloc([] { return ::operator new(too_much); }));
    CHECK(::operator new(too_much, std::nothrow) == nullptr);
    std::set_new_handler(finds_memory);
    CHECK(throws_bad_alloc([] { return ::operator new (100, std::align_val_t{odd}); }));
    CHECK(::operator new (100, std::align_val_t{odd}, std::nothrow) == nullptr);
    CHECK_EQ(handler_calls, 0);
    reset();
    void *p = ::operator new(0);
    CHECK(p != nullptr);
    ::operator delete(p);
    ::operator delete(nullptr);
}

int main() {
    every_form();
    every_form_with_size();
    every_aligned_form();
    no_handler();
    handler_helps();
    handler_throws();
    odd_requests();
    return CHECK_PASS;
}
