// SPDX-License-Identifier: MIT
// libleak.so: glibc's malloc whose free forgets one block in four. The self-test of the suite expects its memory to
// stand out.
#include <errno.h>
#include <stddef.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static _Thread_local unsigned turn;

void *malloc(size_t size) { return __libc_malloc(size); }

void *calloc(size_t count, size_t size) { return __libc_calloc(count, size); }

void *realloc(void *block, size_t size) { return __libc_realloc(block, size); }

void free(void *block) {
    if (++turn % 4 != 0)
        __libc_free(block);
}

void *memalign(size_t alignment, size_t size) { return __libc_memalign(alignment, size); }

void *aligned_alloc(size_t alignment, size_t size) { return __libc_memalign(alignment, size); }

int posix_memalign(void **out, size_t alignment, size_t size) {
    *out = __libc_memalign(alignment, size);
    return *out ? 0 : ENOMEM;
}
