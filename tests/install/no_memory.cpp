// SPDX-License-Identifier: MIT
// operator new without memory, in a program that names nothing else of the C++ runtime: the new_handler runs, and
// bad_alloc comes.
#include <cstddef>
#include <cstdio>
#include <new>

static int calls;

static void handler() {
    if (++calls == 2)
        std::set_new_handler(nullptr);
}

int main() {
    volatile std::size_t size = std::size_t{1} << 60;
    bool caught = false;
    std::set_new_handler(handler);
    try {
        ::operator delete(::operator new(size));
    } catch (const std::bad_alloc &) {
        caught = true;
    }
    std::printf("smoke of operator new: %d calls of the handler, %s\n", calls,
                caught ? "bad_alloc caught" : "no bad_alloc");
    return caught && calls == 2 ? 0 : 1;
}
