// SPDX-License-Identifier: MIT
//
// hakmem.hpp: hakmem in C++17: heaps as objects, polymorphic memory resources and allocators of the standard library's
// containers. Header only; a program that includes it links hakmem.
//
//   hak::heap                 a heap whose blocks go with it: hak_heap_t with an owner
//   hak::memory_resource      std::pmr::memory_resource on a heap, or on ordinary memory
//   hak::allocator<T>         for containers, on ordinary memory; has no state
//   hak::heap_allocator<T>    the same on a heap
//   hak::deleter              for std::unique_ptr to what lies in memory of hakmem
//
// Sizes are in bytes, counts in objects. What has no memory throws std::bad_alloc, as the standard asks of it, or
// aborts where there are no exceptions (-fno-exceptions); try_allocate returns nullptr. Every member may be called from
// any thread at any time, with the exceptions that hakmem.h names: nobody uses a heap or its blocks while it is reset
// or destroyed. So a container on a heap must not outlive the heap, unless it is never destroyed.
#ifndef HAKMEM_HPP
#define HAKMEM_HPP

#if __cplusplus < 201703L
#error "hakmem.hpp needs C++17: compile with -std=c++17 or a later standard"
#else

#include "hakmem.h"

#include <cstddef>
#include <cstdlib>
#include <exception>
#include <limits>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#if __has_include(<memory_resource>)
#include <memory_resource>
#endif
#if __has_include(<version>)
#include <version>
#endif

namespace hak {

namespace detail {

// Blocks of this alignment need not be asked for it.
inline constexpr std::size_t alignment = 16;

template <class Exception> [[noreturn]] void fail() {
#if defined(__cpp_exceptions)
    throw Exception();
#else
    std::abort();
#endif
}

inline void *allocate(hak_heap_t *heap, std::size_t size, std::size_t align) noexcept {
    if (heap == nullptr)
        return align <= alignment ? hak_malloc(size) : hak_aligned_alloc(align, size);
    return align <= alignment ? hak_heap_malloc(heap, size) : hak_heap_aligned_alloc(heap, align, size);
}

inline void *allocate_or_throw(hak_heap_t *heap, std::size_t size, std::size_t align) {
    void *block = allocate(heap, size, align);
    if (block == nullptr)
        fail<std::bad_alloc>();
    return block;
}

inline void deallocate(void *block, std::size_t size, std::size_t align) noexcept {
    if (align <= alignment)
        hak_free_sized(block, size);
    else
        hak_free_aligned_sized(block, align, size);
}

// Bytes of an array.
template <class T> std::size_t array_size(std::size_t count) {
    if (count > std::numeric_limits<std::size_t>::max() / sizeof(T))
        fail<std::bad_array_new_length>();
    return count * sizeof(T);
}

template <class T> T *allocate_array(hak_heap_t *heap, std::size_t count) {
    return static_cast<T *>(allocate_or_throw(heap, array_size<T>(count), alignof(T)));
}

// As many objects as fit into what was handed out.
#if defined(__cpp_lib_allocate_at_least) && __cpp_lib_allocate_at_least >= 202302L
template <class T> std::allocation_result<T *> allocate_at_least(hak_heap_t *heap, std::size_t count) {
    T *array = allocate_array<T>(heap, count);
    std::size_t room = hak_malloc_usable_size(array) / sizeof(T);
    return {array, room > count ? room : count};
}
#endif

} // namespace detail

// A heap that ends with this object, and all blocks with it.
class heap {
  public:
    heap() : heap(nullptr) {}

    // `limit` bytes at the most from the system, 0: no limit.
    explicit heap(const char *name, std::size_t limit = 0) {
        hak_heap_options_t options{sizeof(hak_heap_options_t), name, limit};
        handle_ = hak_heap_new(&options);
        if (handle_ == nullptr)
            detail::fail<std::bad_alloc>();
    }

    heap(const heap &) = delete;
    heap &operator=(const heap &) = delete;
    heap(heap &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    heap &operator=(heap &&other) noexcept {
        if (this != &other)
            hak_heap_destroy(std::exchange(handle_, std::exchange(other.handle_, nullptr)));
        return *this;
    }
    ~heap() { hak_heap_destroy(handle_); }

    // nullptr after a move or a release: then it has no blocks, and what it allocates is ordinary memory.
    hak_heap_t *get() const noexcept { return handle_; }

    void *allocate(std::size_t size, std::size_t align = detail::alignment) {
        return detail::allocate_or_throw(handle_, size, align);
    }
    void *try_allocate(std::size_t size, std::size_t align = detail::alignment) noexcept {
        return detail::allocate(handle_, size, align);
    }

    // One block alone, of any heap.
    static void deallocate(void *block) noexcept { hak_free(block); }

    // An object in the heap. Its destructor does not run when the heap is reset or destroyed.
    template <class T, class... Arguments> T *make(Arguments &&...arguments) {
        struct unless_made {
            void *block;
            ~unless_made() { hak_free(block); }
        } place{allocate(sizeof(T), alignof(T))};
        T *object = ::new (place.block) T(std::forward<Arguments>(arguments)...);
        place.block = nullptr;
        return object;
    }

    // Frees every block; returns their usable bytes.
    std::size_t reset() noexcept { return handle_ != nullptr ? hak_heap_reset(handle_) : 0; }

    // The heap ends now and its blocks become ordinary ones.
    void release() noexcept { hak_heap_release(std::exchange(handle_, nullptr)); }

    // Whether a live block begins there and is this heap's.
    bool owns(const void *block) const noexcept { return handle_ != nullptr && hak_heap_of(block) == handle_; }

    hak_heap_stats_t stats() const noexcept {
        hak_heap_stats_t stats{};
        stats.struct_size = sizeof stats;
        if (handle_ != nullptr)
            (void)hak_heap_stats_get(handle_, &stats);
        return stats;
    }

    // Calls visitor(void *block, std::size_t size) for each live block until it returns false; what it throws goes on
    // to the caller. False when it did not come to the end.
    template <class Visitor> bool visit(Visitor &&visitor) const {
        if (handle_ == nullptr)
            return true;
        struct state_t {
            std::remove_reference_t<Visitor> *visitor;
            std::exception_ptr thrown;
        } state{std::addressof(visitor), nullptr};
        auto step = [](void *block, std::size_t size, void *context) noexcept -> bool {
            state_t *at = static_cast<state_t *>(context);
#if defined(__cpp_exceptions)
            try {
                return (*at->visitor)(block, size);
            } catch (...) {
                at->thrown = std::current_exception();
                return false;
            }
#else
            return (*at->visitor)(block, size);
#endif
        };
        int error = hak_heap_visit(handle_, step, &state);
        if (state.thrown)
            std::rethrow_exception(state.thrown);
        return error == 0;
    }

  private:
    hak_heap_t *handle_ = nullptr;
};

#if defined(__cpp_lib_memory_resource)
// On a heap, which must outlive it, or on ordinary memory. Resources of one heap are equal: what one allocates another
// may free. Without run-time type information (-fno-rtti) a resource is known to be equal to itself alone.
class memory_resource final : public std::pmr::memory_resource {
  public:
    memory_resource() noexcept = default;
    explicit memory_resource(const heap &on) noexcept : heap_(on.get()) {}
    explicit memory_resource(hak_heap_t *on) noexcept : heap_(on) {}

    hak_heap_t *get() const noexcept { return heap_; }

  private:
    void *do_allocate(std::size_t size, std::size_t align) override {
        return detail::allocate_or_throw(heap_, size, align);
    }
    void do_deallocate(void *block, std::size_t size, std::size_t align) override {
        detail::deallocate(block, size, align);
    }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
        if (this == &other)
            return true;
#if defined(__cpp_rtti) || defined(__GXX_RTTI)
        const memory_resource *same = dynamic_cast<const memory_resource *>(&other);
        return same != nullptr && same->heap_ == heap_;
#else
        return false;
#endif
    }

    hak_heap_t *heap_ = nullptr;
};
#endif

// On ordinary memory.
template <class T> class allocator {
  public:
    using value_type = T;
    using is_always_equal = std::true_type;
    using propagate_on_container_move_assignment = std::true_type;

    constexpr allocator() noexcept = default;
    template <class Other> constexpr allocator(const allocator<Other> &) noexcept {}

    [[nodiscard]] T *allocate(std::size_t count) { return detail::allocate_array<T>(nullptr, count); }
    void deallocate(T *array, std::size_t count) noexcept { detail::deallocate(array, count * sizeof(T), alignof(T)); }

#if defined(__cpp_lib_allocate_at_least) && __cpp_lib_allocate_at_least >= 202302L
    [[nodiscard]] std::allocation_result<T *> allocate_at_least(std::size_t count) {
        return detail::allocate_at_least<T>(nullptr, count);
    }
#endif

    template <class Other> bool operator==(const allocator<Other> &) const noexcept { return true; }
    template <class Other> bool operator!=(const allocator<Other> &) const noexcept { return false; }
};

// On a heap, which must outlive the containers.
template <class T> class heap_allocator {
  public:
    using value_type = T;
    using is_always_equal = std::false_type;
    using propagate_on_container_move_assignment = std::true_type;
    using propagate_on_container_swap = std::true_type;

    heap_allocator(const heap &on) noexcept : heap_(on.get()) {}
    explicit heap_allocator(hak_heap_t *on) noexcept : heap_(on) {}
    template <class Other> heap_allocator(const heap_allocator<Other> &other) noexcept : heap_(other.get()) {}

    hak_heap_t *get() const noexcept { return heap_; }

    [[nodiscard]] T *allocate(std::size_t count) { return detail::allocate_array<T>(heap_, count); }
    void deallocate(T *array, std::size_t count) noexcept { detail::deallocate(array, count * sizeof(T), alignof(T)); }

#if defined(__cpp_lib_allocate_at_least) && __cpp_lib_allocate_at_least >= 202302L
    [[nodiscard]] std::allocation_result<T *> allocate_at_least(std::size_t count) {
        return detail::allocate_at_least<T>(heap_, count);
    }
#endif

    template <class Other> bool operator==(const heap_allocator<Other> &other) const noexcept {
        return heap_ == other.get();
    }
    template <class Other> bool operator!=(const heap_allocator<Other> &other) const noexcept {
        return heap_ != other.get();
    }

  private:
    hak_heap_t *heap_;
};

// Destroys one object and frees its block; for void, only frees. The block is that of hak_malloc, malloc, or a heap.
// Also of an object that is held by a base, when that has a virtual destructor. Arrays of what has a destructor need a
// container.
struct deleter {
    template <class T> void operator()(T *object) const noexcept {
        if constexpr (std::is_void_v<T>) {
            hak_free(const_cast<void *>(object));
        } else {
            void *block = whole(object);
            object->~T();
            hak_free(block);
        }
    }

  private:
    template <class T> static void *whole(T *object) noexcept {
        auto *plain = const_cast<std::remove_cv_t<T> *>(object);
        if constexpr (std::is_polymorphic_v<T>)
            return dynamic_cast<void *>(plain);
        else
            return plain;
    }
};

} // namespace hak

#endif // C++17
#endif
