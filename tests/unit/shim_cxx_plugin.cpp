// SPDX-License-Identifier: MIT
//
// A C++ library that shim_cxx_local.c loads: what a C program's plugin sees when operator new has no memory.

#include <new>

static void handler_throws() { throw std::bad_alloc(); }

extern "C" __attribute__((visibility("default"))) int plugin_catches() {
    try {
        ::operator delete(::operator new(100));
    } catch (const std::bad_alloc &) {
        return 1;
    }
    return 0;
}

extern "C" __attribute__((visibility("default"))) int plugin_stays_nothrow() {
    std::set_new_handler(handler_throws);
    void *p = ::operator new(100, std::nothrow);
    std::set_new_handler(nullptr);
    return p == nullptr;
}
