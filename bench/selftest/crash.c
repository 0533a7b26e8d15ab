// SPDX-License-Identifier: MIT
// libcrash.so: aborts on the 1,000th malloc. The self-test of the suite expects a marked row, and the run to go on.
#include <stddef.h>
#include <stdlib.h>

extern void *__libc_malloc(size_t);
extern void __libc_free(void *);

static unsigned calls;

void *malloc(size_t size) {
    if (++calls == 1000)
        abort();
    return __libc_malloc(size);
}

void free(void *block) { __libc_free(block); }
