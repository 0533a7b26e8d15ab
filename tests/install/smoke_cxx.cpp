// SPDX-License-Identifier: MIT
// A C++ program that never names malloc: its containers and strings must be hakmem's all the same.
#include <hakmem.hpp>

#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <string>

struct alignas(256) Wide {
    char bytes[256];
};

int main() {
    std::map<int, std::string> map;
    for (int i = 0; i < 10000; i++)
        map[i] = std::string(static_cast<std::size_t>(i % 300), 'x');
    bool owned = hak_owns(map[299].data()) && hak_owns(&map[5]);
    std::unique_ptr<Wide> wide(new Wide);
    owned = owned && hak_owns(wide.get());
    hak::heap heap;
    std::map<int, int, std::less<int>, hak::heap_allocator<std::pair<const int, int>>> on_heap{
        hak::heap_allocator<std::pair<const int, int>>(heap)};
    on_heap[1] = 2;
    owned = owned && heap.stats().live_blocks == 1;
    bool caught = false;
    try {
        std::string huge(std::string().max_size() / 2, 'x');
    } catch (const std::bad_alloc &) {
        caught = true;
    }
    std::printf("smoke_cxx: %s, %s\n", owned ? "owned" : "not hakmem's", caught ? "bad_alloc caught" : "no bad_alloc");
    return owned && caught ? 0 : 1;
}
