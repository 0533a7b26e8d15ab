/* SPDX-License-Identifier: MIT */
#include "sys/libc_doors.h"

#include "sys/linked.h"
#include "sys/symbols.h"

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__GLIBC__)
enum { LIBC_EXITS_AGAIN = 1 };
#else
enum { LIBC_EXITS_AGAIN = 0 };
#endif

/* Key destructors run in rounds. Ours waits for the second in which it is called, so that the destructors of other keys
 * still find the thread's heap. Not for a later one, as a thread may come to its heap in the second round of all. */
static void (*thread_exit_hook)(void *, bool);
static pthread_key_t thread_key;
static bool thread_key_made;
static _Thread_local bool waits __attribute__((tls_model("initial-exec")));

static void thread_key_destructor(void *value) {
    const bool comes_again = waits && linked_key_set(thread_key, value) == 0;
    waits = false;
    thread_exit_hook(value, comes_again);
}

int libc_thread_hooks_init(void (*on_exit)(void *value, bool comes_again)) {
    thread_exit_hook = on_exit;
    int error = linked_key_create(&thread_key, thread_key_destructor);
    thread_key_made = error == 0;
    return error;
}

_Static_assert(PTHREAD_DESTRUCTOR_ITERATIONS >= 4, "two rounds, then one to wait in, and the end");

int libc_thread_register(void *value) {
    if (!thread_key_made)
        return EAGAIN;
    waits = true;
    return linked_key_set(thread_key, value);
}

/* --- One thread --------------------------------------------------------------------------------------------------- */

static const char unknown = 0;
const char *hk_libc_is_alone = &unknown;

__attribute__((constructor(101))) static void find_alone(void) {
    const char *found = linked_single_threaded();
    if (found != NULL)
        hk_libc_is_alone = found;
}

/* --- Fork --------------------------------------------------------------------------------------------------------- */

/* glibc's fork takes the lock of its list of streams after our handlers have run. But who holds that lock may wait for
 * a stream whose user is in malloc: so it comes before our own, as it does before those of glibc's malloc. It is
 * recursive. A program of one thread needs it not, and glibc then leaves it alone too. */
#if defined(__GLIBC__)
__attribute__((weak)) void _IO_list_lock(void);
__attribute__((weak)) void _IO_list_unlock(void);
__attribute__((weak)) void _IO_list_resetlock(void);
static bool streams_locked; /* by who forks: under the lock */

void libc_lock_streams(void) {
    if (libc_is_single_threaded() || _IO_list_lock == NULL || _IO_list_unlock == NULL || _IO_list_resetlock == NULL)
        return;
    _IO_list_lock();
    streams_locked = true;
}

void libc_unlock_streams(bool in_child) {
    if (!streams_locked)
        return;
    streams_locked = false;
    if (in_child)
        _IO_list_resetlock();
    else
        _IO_list_unlock();
}
#else
void libc_lock_streams(void) {}
void libc_unlock_streams(bool in_child) { (void)in_child; }
#endif

int libc_fork_hooks_init(void (*prepare)(void), void (*parent)(void), void (*child)(void)) {
    return pthread_atfork(prepare, parent, child);
}

/* --- The start ---------------------------------------------------------------------------------------------------- */

#if defined(__GLIBC__)
static char *const *start_arguments, *const *start_environment;

/* glibc passes its constructors what it passes main. */
__attribute__((constructor(101))) static void note_start(int argc, char **argv, char **envp) {
    (void)argc;
    start_arguments = argv;
    start_environment = envp;
}

static const char *start_name(void) { return start_arguments != NULL ? start_arguments[0] : NULL; }

/* Where the dynamic linker found the number of arguments, before them, NULL, and the environment: known before any
 * constructor runs (.preinit_array of a program that the archive is linked into). In a static program it may be
 * another place, and nobody asks: libc has the environment from the start. Source: psABI, "Process Initialization". */
extern const uintptr_t *__libc_stack_end __attribute__((weak));
enum { ARGUMENTS_MAX = 1 << 24 };

static char *const *early_environment(void) {
    const uintptr_t *const start = &__libc_stack_end != NULL ? __libc_stack_end : NULL;
    if (start == NULL || start[0] > ARGUMENTS_MAX || start[1 + start[0]] != 0)
        return NULL;
    return (char *const *)(start + 1 + start[0] + 1);
}
#else
static char *const *const start_environment = NULL;

static const char *start_name(void) { return NULL; }
static char *const *early_environment(void) { return NULL; }
#endif

char *const *libc_start_environment(void) {
    return start_environment != NULL ? start_environment : early_environment();
}

const char *libc_program_name(void) {
    const char *name = program_invocation_name;
    return name != NULL && *name != '\0' ? name : start_name();
}

/* Weak: a static program may have no stdio. */
extern __typeof__(fflush) fflush __attribute__((weak));

/* glibc goes on with the exit that this is called from, with the new status, and then writes the buffers of stdio
 * without waiting for streams that other threads read. Source: exit.c there, "recursive calls to exit". In musl it may
 * be called once. */
void libc_exit_otherwise(int status) {
    if (LIBC_EXITS_AGAIN)
        exit(status);
    if (fflush != NULL)
        (void)fflush(NULL);
}

/* --- Loaded libraries --------------------------------------------------------------------------------------------- */

/* glibc's struct dl_find_object and its function, which headers before 2.35 do not have. Source: "Finding loaded
 * objects" in the glibc manual. */
typedef struct found_object {
    unsigned long long flags;
    void *start, *end;
    void *link_map;
    void *eh_frame;
    unsigned long long reserved[7];
} found_object_t;
typedef int (*find_object_fn)(void *pc, found_object_t *found);

/* Looked up instead of named: a name, weak or not, would bind the library to glibc 2.35. Written once, by the
 * constructor; read by every thread that samples. Relaxed: the function was there before, and nothing else goes with
 * its address; who reads NULL knows less for a while. */
static _Atomic(find_object_fn) find_object;

#if defined(__GLIBC__)
/* At the start, because a signal handler may not look it up. */
__attribute__((constructor(101))) static void look_up_find_object(void) {
    atomic_store_explicit(&find_object, (find_object_fn)symbol_anywhere("_dl_find_object"), memory_order_relaxed);
}
#endif

libc_found_t libc_find_code(uintptr_t pc, uintptr_t *start, uintptr_t *end, uintptr_t *tables) {
    found_object_t found;
    const find_object_fn find = atomic_load_explicit(&find_object, memory_order_relaxed);
    if (find == NULL)
        return LIBC_UNKNOWN;
    if (find((void *)pc, &found) != 0)
        return LIBC_NONE;
    *start = (uintptr_t)found.start;
    *end = (uintptr_t)found.end;
    *tables = (uintptr_t)found.eh_frame;
    return LIBC_FOUND;
}

#if defined(__GLIBC__)
typedef struct mallinfo2 (*mallinfo2_fn)(void);

void libc_allocator_find(libc_allocator_t *out) {
    *out = (libc_allocator_t){0};
    out->free = (void (*)(void *))symbol_in("libc.so.6", "free");
    out->usable_size = (size_t(*)(void *))symbol_in("libc.so.6", "malloc_usable_size");
    mallinfo2_fn info = (mallinfo2_fn)symbol_in("libc.so.6", "mallinfo2");
    if (info != NULL && out->free != NULL) {
        struct mallinfo2 now = info();
        out->holds_memory = now.uordblks + now.hblkhd > 0;
    }
}
#else
void libc_allocator_find(libc_allocator_t *out) { *out = (libc_allocator_t){0}; }
#endif
