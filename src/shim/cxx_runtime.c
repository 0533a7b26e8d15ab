/* SPDX-License-Identifier: MIT */
#include "shim/cxx_runtime.h"

#include "sys/libc_doors.h"

/* Weak: a static program has no dynamic linker, and needs none for our sake. */
extern __typeof__(dlsym) dlsym __attribute__((weak));
extern __typeof__(dlclose) dlclose __attribute__((weak));

/* By name first: a runtime that came with a dlopen'ed library is not in the global scope, and what is there may be
 * another allocator's. The program holds its own reference. */
void *cxx_runtime_symbol(const char *name) {
    static const char *const libraries[] = {"libstdc++.so.6", "libc++.so.1"};
    if (dlsym == NULL || dlclose == NULL)
        return NULL;
    for (size_t i = 0; i < sizeof libraries / sizeof libraries[0]; i++) {
        void *library = libc_loaded_library(libraries[i]);
        if (library == NULL)
            continue;
        void *symbol = dlsym(library, name);
        (void)dlclose(library);
        if (symbol != NULL)
            return symbol;
    }
    return dlsym(RTLD_NEXT, name);
}
