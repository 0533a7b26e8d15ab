/* SPDX-License-Identifier: MIT
 *
 * libc_doors.h: the few things that only libc can tell or do: another malloc in the process, thread-exit and fork
 * hooks. None is called on a fast path, under a lock of ours, or from the helper thread. Some of them may allocate
 * (through our own malloc, which works by then).
 */
#pragma once

#include "base/base.h"

#include <dlfcn.h>

/* The flag of dlopen that binds a library to what it needs first; 0 where the C library has none (musl). */
#ifdef RTLD_DEEPBIND
enum { LIBC_DEEPBIND = RTLD_DEEPBIND };
#else
enum { LIBC_DEEPBIND = 0 };
#endif

/* The program, library or page of the kernel's that has code at `pc`, and the header of its unwind tables
 * (.eh_frame_hdr, 0: none). Takes no lock and may be asked in a signal handler. LIBC_UNKNOWN where the C library does
 * not tell (glibc before 2.35, musl, most static programs). */
typedef enum libc_found { LIBC_NONE, LIBC_FOUND, LIBC_UNKNOWN } libc_found_t;
libc_found_t libc_find_code(uintptr_t pc, uintptr_t *start, uintptr_t *end, uintptr_t *tables);

/* The C library's own allocator, reached past our names; any may be NULL (static or musl programs). */
typedef struct libc_allocator {
    void (*free)(void *);
    size_t (*usable_size)(void *);
    bool holds_memory; /* it has handed out memory (mallinfo2); always false when it cannot be asked */
} libc_allocator_t;

void libc_allocator_find(libc_allocator_t *out);

/* `on_exit` runs when a thread that called libc_thread_register ends, after C++ thread_local destructors, in the first
 * round of key destructors since the call, and again in the second: true says that it will, but for a round that was
 * libc's last. Returns 0 or an errno value. */
int libc_thread_hooks_init(void (*on_exit)(void *value, bool comes_again));
int libc_thread_register(void *value);

/* True when libc knows of no thread but the caller; false when it does not tell (musl, glibc before 2.32). The helper
 * is none that it knows of. */
extern HK_HIDDEN const char *hk_libc_is_alone;
HK_INLINE bool libc_is_single_threaded(void) { return *hk_libc_is_alone != 0; }

/* The environment that the program was started with; NULL when libc tells it to nobody. It is there before libc's own
 * list of it: the library is initialised before libc. */
char *const *libc_start_environment(void);

/* What the program was called by, with its folder if that was given; NULL before libc knows it. */
const char *libc_program_name(void);

/* By who forks: before it takes a lock of ours, and after it has given the last one back. */
void libc_lock_streams(void);
void libc_unlock_streams(bool in_child);

int libc_fork_hooks_init(void (*prepare)(void), void (*parent)(void), void (*child)(void));

/* In a destructor of ours: the process ends with another status, after all output. Returns, with the output written,
 * where the C library knows no other status. */
void libc_exit_otherwise(int status);
