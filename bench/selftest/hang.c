// SPDX-License-Identifier: MIT
// libhang.so: the 1,000th malloc never returns. The self-test of the suite expects a marked row, and the run to go on.
#include <stddef.h>
#include <unistd.h>

extern void *__libc_malloc(size_t);
extern void __libc_free(void *);

static unsigned calls;

void *malloc(size_t size) {
    while (++calls >= 1000)
        pause();
    return __libc_malloc(size);
}

void free(void *block) { __libc_free(block); }
