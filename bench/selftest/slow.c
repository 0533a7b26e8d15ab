// SPDX-License-Identifier: MIT
// libslow.so: glibc's malloc with a delay before every call. The self-test of the suite expects it to be found slow.
#include <errno.h>
#include <stddef.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static void delay(void) {
    for (int i = 0; i < 100; i++)
        __asm__ volatile("" : : : "memory");
}

void *malloc(size_t size) {
    delay();
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
    delay();
    return __libc_calloc(count, size);
}

void *realloc(void *block, size_t size) {
    delay();
    return __libc_realloc(block, size);
}

void free(void *block) {
    delay();
    __libc_free(block);
}

void *memalign(size_t alignment, size_t size) { return __libc_memalign(alignment, size); }

void *aligned_alloc(size_t alignment, size_t size) { return __libc_memalign(alignment, size); }

int posix_memalign(void **out, size_t alignment, size_t size) {
    *out = __libc_memalign(alignment, size);
    return *out ? 0 : ENOMEM;
}
