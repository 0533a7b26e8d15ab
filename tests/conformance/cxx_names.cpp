// SPDX-License-Identifier: MIT
//
// Every form of operator new and delete: plain, array, nothrow, aligned, sized, and what happens when there is no
// memory (new_handler called, called again, throwing, removed; bad_alloc). Output is compared between the C library and
// hakmem.
#include "report.h"

#include <cstddef>
#include <map>
#include <memory>
#include <memory_resource>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

static const std::size_t too_much = static_cast<std::size_t>(PTRDIFF_MAX) - 65536;

static int handler_calls;
static void counting_handler() {
    if (++handler_calls == 3)
        std::set_new_handler(nullptr);
}

struct handler_error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

static void throwing_handler() {
    handler_calls++;
    throw handler_error("from the handler");
}

static void bad_alloc_handler() {
    handler_calls++;
    throw std::bad_alloc();
}

// What `allocate` ended with, as a word.
template <typename Allocate> static const char *outcome(Allocate allocate) {
    try {
        void *p = allocate();
        return p == nullptr ? "null" : "block";
    } catch (const handler_error &) {
        return "handler's exception";
    } catch (const std::bad_alloc &) {
        return "bad_alloc";
    } catch (...) {
        return "other exception";
    }
}

template <typename Allocate> static void refused(const char *call, Allocate allocate) {
    std::set_new_handler(nullptr);
    REPORT("%s too much = %s\n", call, outcome(allocate));
    static void (*const handlers[])() = {counting_handler, throwing_handler, bad_alloc_handler};
    static const char *const names[] = {"counting", "throwing", "bad_alloc"};
    for (int i = 0; i < 3; i++) {
        handler_calls = 0;
        std::set_new_handler(handlers[i]);
        const char *end = outcome(allocate);
        REPORT("%s too much, %s handler = %s after %d calls\n", call, names[i], end, handler_calls);
        std::set_new_handler(nullptr);
    }
}

static void section_refused() {
    using std::align_val_t;
    using std::nothrow;
    const std::size_t size = test_opaque_size(too_much);
    refused("new", [=] { return ::operator new(size); });
    refused("new[]", [=] { return ::operator new[](size); });
    refused("new nothrow", [=] { return ::operator new(size, nothrow); });
    refused("new[] nothrow", [=] { return ::operator new[](size, nothrow); });
    refused("new aligned", [=] { return ::operator new (size, align_val_t{64}); });
    refused("new[] aligned", [=] { return ::operator new[](size, align_val_t{64}); });
    refused("new aligned nothrow", [=] { return ::operator new (size, align_val_t{64}, nothrow); });
    refused("new[] aligned nothrow", [=] { return ::operator new[](size, align_val_t{64}, nothrow); });
}

static void report_new(const char *form, std::size_t size, void *p, std::size_t alignment) {
    REPORT("%s(%zu) = %s aligned %s usable>=asked %s\n", form, size, null_or_block(p), yes_no(aligned_to(p, alignment)),
           yes_no(malloc_usable_size(p) >= size));
    memset(p, 0x33, size);
}

static void section_matrix() {
    using std::align_val_t;
    static const std::size_t sizes[] = {0, 1, 8, 16, 24, 100, 1024, 1025, 5000, 70000, 300000, 3000000};
    static const std::size_t alignments[] = {1, 2, 8, 16, 32, 64, 256, 4096, 65536, 1048576};
    for (std::size_t size : sizes) {
        void *p = ::operator new(size);
        report_new("new", size, p, 16);
        ::operator delete(p);
        p = ::operator new(size);
        ::operator delete(p, size);
        p = ::operator new[](size);
        report_new("new[]", size, p, 16);
        ::operator delete[](p);
        p = ::operator new[](size);
        ::operator delete[](p, size);
        p = ::operator new(size, std::nothrow);
        report_new("new nothrow", size, p, 16);
        ::operator delete(p, std::nothrow);
        p = ::operator new[](size, std::nothrow);
        report_new("new[] nothrow", size, p, 16);
        ::operator delete[](p, std::nothrow);
        for (std::size_t alignment : alignments) {
            const align_val_t as{alignment};
            REPORT("alignment %zu\n", alignment);
            p = ::operator new(size, as);
            report_new("new aligned", size, p, alignment);
            ::operator delete(p, as);
            p = ::operator new(size, as);
            ::operator delete(p, size, as);
            p = ::operator new[](size, as);
            report_new("new[] aligned", size, p, alignment);
            ::operator delete[](p, as);
            p = ::operator new[](size, as);
            ::operator delete[](p, size, as);
            p = ::operator new(size, as, std::nothrow);
            report_new("new aligned nothrow", size, p, alignment);
            ::operator delete(p, as, std::nothrow);
            p = ::operator new[](size, as, std::nothrow);
            report_new("new[] aligned nothrow", size, p, alignment);
            ::operator delete[](p, as, std::nothrow);
        }
    }
    ::operator delete(nullptr);
    ::operator delete[](nullptr);
    ::operator delete (nullptr, std::size_t{10});
    ::operator delete (nullptr, align_val_t{64});
    ::operator delete(nullptr, std::nothrow);
    errno = 4711;
    ::operator delete(::operator new(100));
    REPORT("delete errno %s\n", error_name(errno));
}

struct alignas(256) wide {
    char bytes[300];
};

struct counted {
    static int alive;
    int value = 7;
    counted() {
        if (alive == 5)
            throw std::runtime_error("sixth");
        alive++;
    }
    ~counted() { alive--; }
};
int counted::alive;

// Expressions, not calls: arrays with cookies, constructors that throw, containers.
static void section_expressions() {
    wide *one = new wide, *many = new wide[10];
    REPORT("new of an over-aligned type = aligned %s, array %s\n", yes_no(aligned_to(one, 256)),
           yes_no(aligned_to(many, 256)));
    delete one;
    delete[] many;
    try {
        delete[] new counted[10];
    } catch (const std::runtime_error &error) {
        REPORT("constructor throws in an array: %s, alive %d\n", error.what(), counted::alive);
    }
    try {
        std::vector<char> never(test_opaque_size(too_much - 4096));
        REPORT("a vector of everything: got it\n");
    } catch (const std::bad_alloc &) {
        REPORT("a vector of everything: bad_alloc\n");
    }
    std::map<std::string, std::vector<std::string>> books;
    for (int i = 0; i < 3000; i++)
        books[std::to_string(i % 97)].push_back(std::string(static_cast<std::size_t>(i % 300), 'x'));
    std::size_t total = 0;
    for (const auto &entry : books)
        for (const auto &text : entry.second)
            total += text.size();
    REPORT("map of vectors of strings %zu\n", total);
    {
        std::pmr::monotonic_buffer_resource arena;
        std::pmr::vector<std::pmr::string> words(&arena);
        for (int i = 0; i < 1000; i++)
            words.emplace_back("a string that is longer than the small buffer");
        REPORT("pmr %zu\n", words.size());
    }
    auto shared = std::make_shared<std::string>("shared");
    std::weak_ptr<std::string> weak = shared;
    shared.reset();
    REPORT("weak_ptr expired %s\n", yes_no(weak.expired()));
    // C and C++ may be mixed as far as glibc and libstdc++ allow it: operator delete is free.
    void *mixed = malloc(100);
    ::operator delete(mixed);
    mixed = ::operator new(100);
    free(mixed);
    REPORT("malloc + delete, new + free: no complaint\n");
}

int main() {
    test_alarm(100);
    section_matrix();
    section_refused();
    section_expressions();
    CHECK_HEAP();
    REPORT("end\n");
    return TEST_PASS;
}
