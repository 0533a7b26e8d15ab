/* SPDX-License-Identifier: MIT */
#include "shim/cxx_runtime.h"

#include "sys/symbols.h"

/* By name first: a runtime that came with a dlopen'ed library is not in the global scope, and what is there may be
 * another allocator's. The program holds a reference to it. */
void *cxx_runtime_symbol(const char *name) {
    static const char *const libraries[] = {"libstdc++.so.6", "libc++.so.1"};
    for (size_t i = 0; i < sizeof libraries / sizeof libraries[0]; i++) {
        void *symbol = symbol_in(libraries[i], name);
        if (symbol != NULL)
            return symbol;
    }
    return symbol_behind_us(name);
}
