/* SPDX-License-Identifier: MIT
 *
 * helper_thread.h: a kernel thread that libc does not know of.
 */
#pragma once

#include "base/base.h"

#include <stdatomic.h>

/* For a thread of ours: true when it has a right that the process has given up since, or is not under a filter that the
 * process is under. It must leave then. */
bool sys_helper_outlived_credentials(void);

/* For a thread of ours, now and then: ends the process when its program has no thread left, with the status that its
 * main thread has left with. That one must have called exit(2) itself: pthread_exit of a last thread ends the process.
 * Without /proc it goes on. */
void sys_helper_end_if_last(void);

/* By a helper, at first: from here on it has a table of descriptors of its own, and what it opens never takes the
 * number that the program expects next. It holds none of the program's files either. Before Linux 5.9, and
 * under a filter that refuses the call, the table stays common. Source: close_range(2), CLOSE_RANGE_UNSHARE. */
void sys_helper_own_files(void);

/* By a helper, at first: as sys_helper_own_files, with this descriptor alone in its table. False before Linux 5.9
 * and under a filter that refuses the call. */
bool sys_helper_own_file(long fd);

/* A thread of ours; helper_birth.h says what it gives up before it runs. Its start, and the wait for its end, are
 * under one lock. */
typedef struct sys_helper {
    /* Set before the start; cleared, with a futex wake, by the kernel: its stack is free then. */
    _Atomic uint32_t alive;
    uint32_t id;            /* of the last one, until it is known to be gone; 0: none */
    _Atomic uint32_t runs;  /* set by the thread for as long as it does */
    _Atomic uint32_t leave; /* set to make it leave; a futex that it may sleep on */
    _Atomic uint32_t birth; /* as helper_birth.h says: written by the thread, a futex for who starts it */
    void (*run)(void);
    void *stack; /* mapped when it is first started, and kept */
} sys_helper_t;

HK_INLINE bool sys_helper_is_alive(const sys_helper_t *helper) {
    /* Acquire: pairs with the kernel's release of the thread; what it wrote is visible. */
    return atomic_load_explicit(&helper->alive, memory_order_acquire) != 0;
}

/* Starts `run` as a kernel thread without a libc descriptor, all signals blocked. `run` must use nothing but this
 * room's functions and memory: no libc, no thread-local storage. EPERM in a confined process, and where the thread
 * would keep a choice among ids that the program may give up. */
int sys_helper_start(void (*run)(void), sys_helper_t *helper);

/* Tells it to leave. Relaxed: it looks again when the futex wakes it. */
void sys_helper_dismiss(sys_helper_t *helper);
HK_INLINE bool sys_helper_must_leave(const sys_helper_t *helper) {
    return atomic_load_explicit(&helper->leave, memory_order_relaxed) != 0;
}

/* In the child of a fork, where it does not exist. */
void sys_helper_forget(sys_helper_t *helper);

/* What a thread of ours has in place of thread-local storage: SYS_HELPER_OWN_BYTES that are zero when it starts. NULL
 * in a thread of the program's. */
enum { SYS_HELPER_OWN_BYTES = 256 };
void *sys_helper_own(void);

/* True when the calling process has no thread of that number which may still run, and what the one that had it did is
 * visible. Of the main thread, which the kernel keeps until all others have ended, that cannot be told without /proc.
 * False in a confined process. */
bool sys_thread_is_gone(uint32_t thread);

/* True while the thread is one of the calling process: not in a child, nor in one that shares the memory (vfork(2)). No
 * system call when there was none. */
bool sys_helper_is_here(sys_helper_t *helper);

/* Waits until the thread, which has been told to leave, is none of the process's any more: that is some time after its
 * stack is free. False when that takes longer than a tenth of a second. */
bool sys_helper_wait(sys_helper_t *helper);

/* For a helper that is about to be gone: at most a millisecond. */
void sys_helper_wait_a_moment(sys_helper_t *helper);
