/* SPDX-License-Identifier: MIT
 *
 * libc.c: the names of the C library's allocator. Names only: each body is one call of front/. And those of three
 * system calls that a process must be alone for, or after which it may make few others: here, because a static program
 * that takes malloc from the archive must take them too.
 */
#include "api/start.h"
#include "front/front.h"
#include "front/calls.h"
#include "helper/helper.h"
#include "start/confine.h"
#include "sys/raw_call.h"
#include "sys/sys.h"

#include <errno.h>
#include <malloc.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/prctl.h>

/* A program takes from the archive only files that it names something of: with malloc it gets what happens at load and
 * at exit. */
static __attribute__((used)) void (*const also_needed)(void) = hk_library_loaded;

HK_EXPORT HK_FAST void *malloc(size_t size) { return front_malloc(size); }
HK_EXPORT HK_FAST void free(void *block) { front_free(block); }
HK_EXPORT void *calloc(size_t count, size_t size) { return front_calloc(count, size); }
HK_EXPORT void *realloc(void *block, size_t size) { return front_realloc(block, size); }
/* By way of the name, which need not be ours: Valgrind replaces realloc, not reallocarray, and an allocator that is
 * preloaded in front of this one may have no reallocarray. */
extern __typeof__(realloc) named_realloc __asm__("realloc");
HK_EXPORT void *reallocarray(void *block, size_t count, size_t size) {
    return named_realloc(block, front_array_size(count, size));
}
HK_EXPORT void *memalign(size_t align, size_t size) { return front_memalign(align, size); }
HK_EXPORT void *aligned_alloc(size_t align, size_t size) { return front_memalign(align, size); }
HK_EXPORT int posix_memalign(void **out, size_t align, size_t size) { return front_posix_memalign(out, align, size); }
HK_EXPORT void *valloc(size_t size) { return front_valloc(size); }
HK_EXPORT void *pvalloc(size_t size) { return front_pvalloc(size); }
HK_EXPORT size_t malloc_usable_size(void *block) { return front_usable_size(block); }

/* C23. */
HK_EXPORT void free_sized(void *block, size_t size);
HK_EXPORT void free_aligned_sized(void *block, size_t align, size_t size);
HK_EXPORT void free_sized(void *block, size_t size) { front_free_sized(block, size, "free_sized"); }
HK_EXPORT void free_aligned_sized(void *block, size_t align, size_t size) {
    front_free_aligned_sized(block, align, size, "free_aligned_sized");
}

HK_EXPORT void cfree(void *block);
HK_EXPORT void cfree(void *block) { front_free(block); }

/* The names under which programs reach past an interposed malloc. */
extern __typeof__(malloc) __libc_malloc HK_ALIAS(malloc);
extern __typeof__(free) __libc_free HK_ALIAS(free);
extern __typeof__(calloc) __libc_calloc HK_ALIAS(calloc);
extern __typeof__(realloc) __libc_realloc HK_ALIAS(realloc);
extern __typeof__(memalign) __libc_memalign HK_ALIAS(memalign);
extern __typeof__(valloc) __libc_valloc HK_ALIAS(valloc);
extern __typeof__(pvalloc) __libc_pvalloc HK_ALIAS(pvalloc);
extern __typeof__(cfree) __libc_cfree HK_ALIAS(cfree);
extern __typeof__(posix_memalign) __posix_memalign HK_ALIAS(posix_memalign);

/* --- Namespaces and filters --------------------------------------------------------------------------------------- */

/* The kernel's answer as libc gives it. */
static HK_COLD int answer(long got) {
    if (!sys_failed(got))
        return (int)got;
    errno = (int)-got;
    return -1;
}

/* What wants a process of one thread, by the program's count; a type of 0 may be any. And what leaves our threads
 * behind in a mount namespace, a root or a working directory, which they share with the thread that started them.
 * Threads that only change their network or file table, as servers do again and again, send nobody away. Source:
 * unshare(2), setns(2). */
enum {
    UNSHARE_ALONE = CLONE_NEWUSER | CLONE_THREAD | CLONE_SIGHAND | CLONE_VM | CLONE_NEWNS | CLONE_FS,
    SETNS_ALONE = CLONE_NEWUSER | CLONE_NEWNS | 0x80 /* CLONE_NEWTIME */
};

HK_EXPORT HK_COLD int unshare(int flags) {
    if ((flags & UNSHARE_ALONE) == 0)
        return answer(sys_unshare(flags));
    hk_threads_pause();
    long got = sys_unshare(flags);
    hk_threads_resume();
    return answer(got);
}

HK_EXPORT HK_COLD int setns(int fd, int type) {
    if (type != 0 && (type & SETNS_ALONE) == 0)
        return answer(sys_setns(fd, type));
    hk_threads_pause();
    long got = sys_setns(fd, type);
    hk_threads_resume();
    return answer(got);
}

/* Who gives up new privileges is about to install a filter by another call. A thread of ours that is being born puts
 * back what PR_SET_DUMPABLE was before (sys/helper_birth.h): none is while it is set. */
HK_EXPORT HK_COLD int prctl(int option, ...) {
    unsigned long arguments[4];
    va_list list;
    va_start(list, option);
    for (int i = 0; i < 4; i++)
        arguments[i] = va_arg(list, unsigned long);
    va_end(list);
    if (option == PR_SET_SECCOMP || (option == PR_SET_NO_NEW_PRIVS && arguments[0] == 1))
        hk_confine();
    if (option != PR_SET_DUMPABLE)
        return answer(sys_prctl(option, arguments));
    hk_threads_pause();
    long got = sys_prctl(option, arguments);
    hk_threads_resume();
    return answer(got);
}
