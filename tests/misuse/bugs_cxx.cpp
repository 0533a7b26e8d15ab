// SPDX-License-Identifier: MIT
//
// The mistakes that only C++ can make: sized delete with a wrong size, deleting twice, deleting what is not ours.
// Same protocol as bugs.c.
#include "testing.h"

#include <cstddef>
#include <new>

extern char __executable_start[], etext[];

static void *announced(void *p) {
    test_say("ptr %#zx base %#zx size %zu\n", (size_t)p, (size_t)p, malloc_usable_size(p));
    return test_opaque(p);
}

static void sized_delete_wrong() { ::operator delete (announced(::operator new(64)), std::size_t{128}); }

static void sized_delete_array_wrong() { ::operator delete[](announced(::operator new[](64)), std::size_t{400}); }

static void sized_delete_aligned_wrong() {
    void *p = announced(::operator new (128, std::align_val_t{64}));
    ::operator delete (p, std::size_t{4096}, std::align_val_t{64});
}

static void sized_delete_smaller_safe2() { ::operator delete (announced(::operator new(64)), std::size_t{16}); }

static void double_delete() {
    void *p = announced(::operator new(64));
    ::operator delete(p);
    ::operator delete(test_opaque(p));
}

static void double_delete_sized() {
    void *p = announced(::operator new(64));
    ::operator delete (p, std::size_t{64});
    ::operator delete (test_opaque(p), std::size_t{64});
}

static void delete_interior() {
    char *p = static_cast<char *>(::operator new(64));
    test_say("ptr %#zx base %#zx size %zu\n", (size_t)p + 16, (size_t)p, malloc_usable_size(p));
    ::operator delete(test_opaque(p + 16));
}

static void delete_wild() {
    void *p = reinterpret_cast<void *>(uintptr_t{0xdeadbeefdeadbee0});
    test_say("ptr %#zx base 0 size 0\n", (size_t)p);
    ::operator delete(test_opaque(p));
}

struct bug {
    const char *name;
    void (*make)();
};

static const bug bugs[] = {
    {"sized_delete_wrong", sized_delete_wrong},
    {"sized_delete_array_wrong", sized_delete_array_wrong},
    {"sized_delete_aligned_wrong", sized_delete_aligned_wrong},
    {"sized_delete_smaller_safe2", sized_delete_smaller_safe2},
    {"double_delete", double_delete},
    {"double_delete_sized", double_delete_sized},
    {"delete_interior", delete_interior},
    {"delete_wild", delete_wild},
};

int main(int argc, char **argv) {
    test_require_hakmem();
    test_alarm(60);
    if (argc == 2)
        test_say("text %#zx %#zx\n", (size_t)__executable_start, (size_t)etext);
    for (const bug &b : bugs) {
        if (argc != 2) {
            test_say("%s\n", b.name);
        } else if (strcmp(argv[1], b.name) == 0) {
            b.make();
            CHECK_HEAP();
            test_say("survived\n");
            return TEST_PASS;
        }
    }
    return argc == 2 ? TEST_FAIL : TEST_PASS;
}
