/* SPDX-License-Identifier: MIT */
#include "sys/libc_doors.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

/* Key destructors run in rounds; ours waits for the last one, so that the destructors of other keys still find the
 * thread's heap. The value carries the round in `rounds_left`, thread-local. */
static void (*thread_exit_hook)(void *);
static pthread_key_t thread_key;
static bool thread_key_made;
static _Thread_local unsigned rounds_left __attribute__((tls_model("initial-exec")));

static void thread_key_destructor(void *value) {
    if (rounds_left > 0) {
        rounds_left--;
        if (pthread_setspecific(thread_key, value) == 0)
            return;
    }
    thread_exit_hook(value);
}

int libc_thread_hooks_init(void (*on_exit)(void *)) {
    thread_exit_hook = on_exit;
    int error = pthread_key_create(&thread_key, thread_key_destructor);
    thread_key_made = error == 0;
    return error;
}

int libc_thread_register(void *value) {
    if (!thread_key_made)
        return EAGAIN;
    rounds_left = PTHREAD_DESTRUCTOR_ITERATIONS - 2;
    return pthread_setspecific(thread_key, value);
}

int libc_fork_hooks_init(void (*prepare)(void), void (*parent)(void), void (*child)(void)) {
    return pthread_atfork(prepare, parent, child);
}

int libc_exit_hook_init(void (*on_exit)(void)) { return atexit(on_exit); }

#if defined(__GLIBC__)
typedef struct mallinfo2 (*mallinfo2_fn)(void);

static void *libc_symbol(void *libc, const char *name, const void *ours) {
    void *found = dlsym(libc, name);
    return found == ours ? NULL : found;
}

void libc_allocator_find(libc_allocator_t *out) {
    *out = (libc_allocator_t){0};
    void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    if (libc == NULL)
        return;
    out->free = (void (*)(void *))libc_symbol(libc, "free", (void *)(uintptr_t)&free);
    out->realloc = (void *(*)(void *, size_t))libc_symbol(libc, "realloc", (void *)(uintptr_t)&realloc);
    out->usable_size =
        (size_t(*)(void *))libc_symbol(libc, "malloc_usable_size", (void *)(uintptr_t)&malloc_usable_size);
    mallinfo2_fn info = (mallinfo2_fn)libc_symbol(libc, "mallinfo2", NULL);
    if (info != NULL && out->free != NULL) {
        struct mallinfo2 now = info();
        out->holds_memory = now.uordblks + now.hblkhd > 0;
    }
    (void)dlclose(libc);
}
#else
void libc_allocator_find(libc_allocator_t *out) { *out = (libc_allocator_t){0}; }
#endif
