/* SPDX-License-Identifier: MIT
 *
 * deepbind_shared.c: dlopen without RTLD_DEEPBIND.
 *
 * A library opened with it looks names up in itself and in what it needs before it looks in the program. So it calls
 * the C library's free, and hands it the blocks that the program or another library took from hakmem: PHP opens all its
 * extensions like this, and dies at start under any preloaded malloc. A process has one malloc; so the flag is left
 * out. dlopen finds by its return address whose search path applies, which is why this is a jump and never a call.
 */
#include "base/base.h"
#include "sys/jump.h"
#include "sys/libc_doors.h"
#include "sys/symbols.h"

#include <stdatomic.h>
#include <stdint.h>

/* Relaxed: every thread finds one address. */
static _Atomic(uintptr_t) next_dlopen;

/* Nobody has a dlopen but we. Before glibc 2.34 it is in a library that not every program needs. */
static void *open_nothing(const char *file, int mode) {
    (void)file, (void)mode;
    return NULL;
}

/* Plug-ins may have brought that library before they brought us. */
static HK_NOINLINE uintptr_t find_next(void) {
    uintptr_t next = (uintptr_t)symbol_behind_us("dlopen");
    if (next == 0)
        next = (uintptr_t)symbol_in("libdl.so.2", "dlopen");
    atomic_store_explicit(&next_dlopen, next, memory_order_relaxed);
    return next != 0 ? next : (uintptr_t)&open_nothing;
}

HK_HIDDEN jump_t hk_dlopen_next(const char *file, int mode);

__attribute__((used)) jump_t hk_dlopen_next(const char *file, int mode) {
    (void)file;
    uintptr_t next = atomic_load_explicit(&next_dlopen, memory_order_relaxed);
    return (jump_t){next != 0 ? next : find_next(), (unsigned)(mode & ~LIBC_DEEPBIND)};
}

SYS_DEFINE_JUMP("dlopen", "hk_dlopen_next");
