// SPDX-License-Identifier: MIT
//
// A static program that mentions nothing of its C++ runtime but bad_alloc: operator new must throw it all the same, and
// the nothrow form must call the new_handler.

#include "check.h"
#include "hakmem.h"

#include <cstdint>
#include <new>

static volatile std::size_t too_much = SIZE_MAX / 4;
static int handler_calls;

static bool throws() {
    try {
        ::operator delete(::operator new(too_much));
    } catch (const std::bad_alloc &) {
        return true;
    }
    return false;
}

static void gives_up_at_three() {
    if (++handler_calls == 3)
        std::set_new_handler(nullptr);
}

struct alignas(256) Aligned {
    char bytes[256];
};

int main() {
    CHECK(throws());
    CHECK(::operator new(too_much, std::nothrow) == nullptr);
    std::set_new_handler(gives_up_at_three);
    CHECK(::operator new(too_much, std::nothrow) == nullptr);
    CHECK_EQ(handler_calls, 3);
    auto *aligned = new Aligned[3];
    CHECK(hak_owns(aligned));
    CHECK_EQ(reinterpret_cast<std::uintptr_t>(aligned) % alignof(Aligned), 0);
    delete[] aligned;
    return CHECK_PASS;
}
