/* SPDX-License-Identifier: MIT
 *
 * process.h: the process as a whole: its limits, numbers, environment, mark and end.
 */
#pragma once

#include "base/base.h"

#include <stdatomic.h>

/* Soft RLIMIT_AS in bytes, SIZE_MAX when there is none. */
size_t sys_address_space_limit(void);

/* Soft RLIMIT_FSIZE in bytes, SIZE_MAX when there is none. */
size_t sys_file_limit(void);

/* The lower of the soft limits on mappings, SIZE_MAX when there is none: RLIMIT_AS, and RLIMIT_DATA, which counts what
 * is private and writable. */
size_t sys_mapping_limit(void);

/* True in a set-uid, set-gid or otherwise privileged start (AT_SECURE). */
bool sys_is_secure(void);

/* The environment as libc has it, or NULL when libc has not set it yet. */
char *const *sys_environment(void);

unsigned sys_process_id(void);
unsigned sys_thread_id(void);
unsigned sys_id_unless_confined(bool of_thread); /* 0 then */
HK_INLINE unsigned sys_process_id_unless_confined(void) { return sys_id_unless_confined(false); }
HK_INLINE unsigned sys_thread_id_unless_confined(void) { return sys_id_unless_confined(true); }
unsigned sys_thread_count(void); /* of the calling process, by the kernel; 0 when it cannot be known */

/* False when the memory of that process is known to be another one than the caller's, or is gone. Source: kcmp(2). */
bool sys_may_share_memory(unsigned process);

/* Lets threads that wait for a processor run first, where the program may make that call. */
void sys_yield(void);

/* A word for each process. Children of fork inherit it as it is until sys_process_mark_wipe has been called, and find
 * SYS_MARK_NEW from then on, however they were made; those of vfork share it. Source: madvise(2), MADV_WIPEONFORK;
 * without it (before Linux 4.14, some emulators) children inherit the word. */
enum { SYS_MARK_NEW = 0, SYS_MARK_KNOWN, SYS_MARK_ATTENDED, SYS_MARK_STRANDED };
extern _Atomic uint32_t *_Atomic hk_process_mark HK_HIDDEN;

void sys_process_mark_wipe(void);

/* Acquire, on the place and on the word: pairs with the release in sys_process_mark_wipe and sys_process_mark_change;
 * a thread that finds the process known also finds what was done for it. */
HK_INLINE uint32_t sys_process_mark(void) {
    return atomic_load_explicit(atomic_load_explicit(&hk_process_mark, memory_order_acquire), memory_order_acquire);
}

void sys_process_mark_set(uint32_t mark);
bool sys_process_mark_change(uint32_t *from, uint32_t to); /* as a compare-exchange */
void sys_process_mark_wait(uint32_t mark, uint32_t timeout_ms);

/* The calls of these names, for what shows them to the program: the kernel's value, a negated errno value on
 * failure. */
long sys_unshare(int flags);
long sys_setns(int fd, int type);
long sys_prctl(int option, const unsigned long arguments[4]);

void sys_random(void *buffer, size_t size); /* getrandom, never blocks; falls back to the auxiliary vector's 16 bytes */
_Noreturn void sys_exit(int status);        /* at once: nobody is told */
_Noreturn void sys_abort(void);             /* SIGABRT with the default action in the end */
