// SPDX-License-Identifier: MIT
//
// hakmem.hpp in a program without exceptions: everything works; with an argument it asks for more than there is, and
// aborts. headers.py compiles and runs it.
#include <hakmem.hpp>

#include <vector>

int main(int argc, char **) {
    hak::heap heap("bare", std::size_t{1} << 20);
    std::vector<int, hak::heap_allocator<int>> numbers(100, 7, heap);
    int *one = heap.make<int>(5);
    std::size_t blocks = 0;
    bool whole = heap.visit([&](void *, std::size_t) { return ++blocks > 0; });
    bool stopped = !heap.visit([](void *, std::size_t) { return false; });
    bool refused = heap.try_allocate(std::size_t{8} << 20) == nullptr;
    if (argc > 1)
        (void)heap.allocate(std::size_t{8} << 20);
    return *one == 5 && numbers[99] == 7 && whole && stopped && refused && blocks == 2 ? 0 : 1;
}
