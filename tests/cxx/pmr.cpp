// SPDX-License-Identifier: MIT
//
// hakmem.hpp as containers use it: heaps as objects, memory resources, allocators, deleters. Where the standard library
// has no <memory_resource>, the rest is tested and that is said.

#include "testing.h"

#include "hakmem.hpp"

#include <deque>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <vector>

static std::uint64_t live() {
    std::uint64_t value = 0;
    (void)hak_trim(); // what waits in a quarantine counts as live
    CHECK_EQ(hak_stat_read("live", &value), 0);
    return value;
}

static std::size_t blocks_of(const hak::heap &heap) { return heap.stats().live_blocks; }

struct alignas(256) wide {
    char bytes[256];
};

struct counted {
    explicit counted(int n) : number(n) {
        if (n < 0)
            throw std::runtime_error("negative");
        alive++;
    }
    virtual ~counted() { alive--; }
    int number;
    static inline int alive = 0;
};

struct first_base {
    virtual ~first_base() = default;
    int one = 1;
};
struct both : first_base, counted {
    both() : counted(2) {}
};

static void heaps() {
    hak::heap heap("cxx", 4 << 20);
    CHECK(heap.owns(heap.allocate(100)));
    CHECK(reinterpret_cast<std::uintptr_t>(heap.allocate(10, 4096)) % 4096 == 0);
    CHECK(heap.try_allocate(std::size_t{8} << 20) == nullptr);
    bool thrown = false;
    try {
        (void)heap.allocate(std::size_t{8} << 20);
    } catch (const std::bad_alloc &) {
        thrown = true;
    }
    CHECK(thrown);
    const hak_heap_stats_t stats = heap.stats();
    CHECK_STR(stats.name, "cxx");
    CHECK_EQ(blocks_of(heap), 2);
    std::size_t bytes = 0;
    CHECK(heap.visit([&bytes](void *, std::size_t size) { return (bytes += size) > 0; }));
    CHECK(bytes >= 110 && bytes <= heap.stats().live); // less where sizes are checked exactly
    CHECK(!heap.visit([](void *, std::size_t) { return false; }));
    thrown = false;
    try {
        heap.visit([](void *, std::size_t) -> bool { throw std::runtime_error("enough"); });
    } catch (const std::runtime_error &) {
        thrown = true;
    }
    CHECK(thrown);
    CHECK(heap.reset() > 0 && blocks_of(heap) == 0);

    hak::heap other = std::move(heap);
    CHECK(heap.get() == nullptr && heap.stats().live == 0 && heap.reset() == 0);
    CHECK(heap.visit([](void *, std::size_t) { return false; }));
    heap = hak::heap();
    heap = std::move(other);
    counted *object = heap.make<counted>(5);
    CHECK(object->number == 5 && counted::alive == 1);
    thrown = false;
    try {
        (void)heap.make<counted>(-1);
    } catch (const std::runtime_error &) {
        thrown = true;
    }
    CHECK(thrown && blocks_of(heap) == 1);
    std::unique_ptr<counted, hak::deleter> owner(object);
    heap.release();
    CHECK(heap.get() == nullptr && hak_heap_of(object) == nullptr && object->number == 5);
    owner.reset();
    CHECK_EQ(counted::alive, 0);
}

static void deleters() {
    hak::heap heap;
    { std::unique_ptr<char[], hak::deleter> text(static_cast<char *>(hak_malloc(100))); }
    { std::unique_ptr<void, hak::deleter> block(heap.allocate(100)); }
    { // a base that does not lie where the block begins
        std::unique_ptr<counted, hak::deleter> object(heap.make<both>());
        CHECK(static_cast<void *>(object.get()) != dynamic_cast<void *>(object.get()) && counted::alive == 1);
    }
    { std::unique_ptr<const void, hak::deleter> block(heap.allocate(100)); }
    { std::unique_ptr<const counted, hak::deleter> object(heap.make<both>()); }
    { std::unique_ptr<const volatile int, hak::deleter> number(heap.make<int>(3)); }
    CHECK(counted::alive == 0 && blocks_of(heap) == 0);
}

// What every container does with an allocator: grow, copy, move, swap, rebind.
template <class Make> static void containers(Make make) {
    auto allocator = make();
    using bytes = decltype(allocator);
    using of_int = typename std::allocator_traits<bytes>::template rebind_alloc<int>;
    using of_wide = typename std::allocator_traits<bytes>::template rebind_alloc<wide>;
    using of_pair = typename std::allocator_traits<bytes>::template rebind_alloc<std::pair<const int, int>>;
    using text = std::basic_string<char, std::char_traits<char>, bytes>;
    using of_text = typename std::allocator_traits<bytes>::template rebind_alloc<text>;

    std::vector<int, of_int> numbers{of_int(allocator)};
    for (int i = 0; i < 10000; i++)
        numbers.push_back(i);
    numbers.shrink_to_fit();
    std::vector<int, of_int> copy(numbers), moved(std::move(copy));
    copy = moved;
    swap(copy, moved);
    moved = std::move(copy);
    CHECK(moved.size() == 10000 && moved[9999] == 9999);

    std::vector<wide, of_wide> wides(50, wide(), of_wide(allocator));
    CHECK(reinterpret_cast<std::uintptr_t>(wides.data()) % alignof(wide) == 0);

    std::map<int, int, std::less<int>, of_pair> tree{of_pair(allocator)};
    std::unordered_map<int, int, std::hash<int>, std::equal_to<int>, of_pair> table{of_pair(allocator)};
    std::list<int, of_int> list(numbers.begin(), numbers.end(), of_int(allocator));
    std::deque<int, of_int> queue(numbers.begin(), numbers.end(), of_int(allocator));
    std::set<int, std::less<int>, of_int> set(numbers.begin(), numbers.end(), std::less<int>(), of_int(allocator));
    for (int i = 0; i < 3000; i++)
        tree[i * 7919 % 10007] = table[i] = i;
    for (int i = 0; i < 3000; i += 2) {
        tree.erase(i * 7919 % 10007);
        table.erase(i);
        queue.pop_front();
    }
    CHECK(tree.size() == 1500 && table.size() == 1500 && queue.size() == 8500 && set.count(77) == 1);
    list.sort();

    std::vector<text, of_text> texts{of_text(allocator)};
    for (int i = 0; i < 1000; i++)
        texts.push_back(text(static_cast<std::size_t>(i), 'x', allocator));
    CHECK_EQ(texts[999].size(), 999);

    bool thrown = false;
    try {
        (void)of_int(allocator).allocate(std::numeric_limits<std::size_t>::max() / 2);
    } catch (const std::bad_alloc &) { // or bad_array_new_length, which is one
        thrown = true;
    }
    CHECK(thrown);
#if defined(__cpp_lib_allocate_at_least) && __cpp_lib_allocate_at_least >= 202302L
    of_int ints(allocator);
    for (std::size_t count = 0; count < 5000; count += 7) {
        auto got = std::allocator_traits<of_int>::allocate_at_least(ints, count);
        CHECK(got.count >= count && got.count * sizeof(int) <= hak_malloc_usable_size(got.ptr));
        ints.deallocate(got.ptr, count % 2 == 0 ? got.count : count);
    }
#endif
}

static void allocators() {
    static_assert(std::is_empty_v<hak::allocator<int>>);
    static_assert(std::allocator_traits<hak::allocator<int>>::is_always_equal::value);
    CHECK(hak::allocator<int>() == hak::allocator<char>());
    containers([] { return hak::allocator<char>(); });
    hak::heap heap, other;
    CHECK(hak::heap_allocator<int>(heap) == hak::heap_allocator<char>(heap));
    CHECK(hak::heap_allocator<int>(heap) != hak::heap_allocator<int>(other));
    containers([&heap] { return hak::heap_allocator<char>(heap); });
    CHECK_EQ(blocks_of(heap), 0);
    // From one heap to another: the contents move, not the blocks.
    std::vector<int, hak::heap_allocator<int>> one(1000, 7, hak::heap_allocator<int>(heap));
    std::vector<int, hak::heap_allocator<int>> two(one, hak::heap_allocator<int>(other));
    CHECK(blocks_of(heap) == 1 && blocks_of(other) == 1 && two[999] == 7);
}

#if defined(__cpp_lib_memory_resource)
static void resources() {
    hak::heap heap, other;
    hak::memory_resource on_heap(heap), again(heap), on_other(other), ordinary;
    CHECK(on_heap.is_equal(again) && !on_heap.is_equal(on_other) && !on_heap.is_equal(ordinary));
    CHECK(ordinary.is_equal(hak::memory_resource()) && !on_heap.is_equal(*std::pmr::new_delete_resource()));
    containers([&on_heap] { return std::pmr::polymorphic_allocator<char>(&on_heap); });
    containers([&ordinary] { return std::pmr::polymorphic_allocator<char>(&ordinary); });
    CHECK_EQ(blocks_of(heap), 0);
    std::pmr::monotonic_buffer_resource buffer(&on_heap);
    std::pmr::unsynchronized_pool_resource pool(&on_other);
    std::pmr::vector<int> numbers(&buffer);
    std::pmr::map<int, std::pmr::string> names(&pool);
    for (int i = 0; i < 1000; i++) {
        numbers.push_back(i);
        names.emplace(i, "a string that is longer than what lies in the object itself");
    }
    CHECK(blocks_of(heap) > 0 && blocks_of(other) > 0);
}

// The map and all it has go with the heap; nothing of it is ever destroyed.
static void gone_at_once() {
    for (int round = 0; round < 3; round++) {
        hak::heap heap;
        auto *resource = heap.make<hak::memory_resource>(heap);
        auto *map = heap.make<std::pmr::map<int, std::pmr::string>>(resource);
        for (int i = 0; i < 20000; i++)
            map->emplace(i, "a string that is longer than what lies in the object itself");
        CHECK(map->size() == 20000 && blocks_of(heap) > 40000);
        if (round == 1)
            heap.reset();
    }
}
#endif

int main() {
    test_alarm(100);
    heaps(); // what comes into being with the first use of a kind stays
    std::uint64_t before = live();
    for (int round = 0; round < 2; round++) {
        heaps();
        deleters();
        allocators();
#if defined(__cpp_lib_memory_resource)
        resources();
        gone_at_once();
#endif
    }
    std::uint64_t after = live();
    CHECK_SAY(after <= before + 4096, "%llu bytes live, %llu before", static_cast<unsigned long long>(after),
              static_cast<unsigned long long>(before));
    CHECK_HEAP();
#if !defined(__cpp_lib_memory_resource)
    test_say("this standard library has no <memory_resource>\n");
#endif
    return TEST_PASS;
}
