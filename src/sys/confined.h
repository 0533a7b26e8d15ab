/* SPDX-License-Identifier: MIT
 *
 * confined.h: whether the process has given up system calls.
 *
 * A program that puts itself under a filter (seccomp(2)) lists the calls that it needs, those that a C library's malloc makes
 * among them, and may be killed at any other. From then on hakmem makes these and no more: mmap, munmap, mremap, madvise, futex,
 * the clock (which the kernel answers without a call), write for messages, and to abort getpid, gettid, tgkill, rt_sigaction,
 * rt_sigprocmask and exit_group. What would need another does without: no thread of ours, nothing read from files, residency and
 * processors unknown. (The handlers of HAKMEM_CRASH_REPORT, which run when the program dies, make calls of their own.)
 *
 * The state is for good, and children inherit it with the memory that holds it. A filter that the process was started under
 * does not confine it: such a one (a container's) allows what programs commonly need.
 */
#ifndef HK_CONFINED_H
#define HK_CONFINED_H

#include "base/base.h"

#include <stdatomic.h>

/* Written once, by the thread that is about to install a filter; read by all. No order: filters of other threads come into
 * force later than this one's. */
extern _Atomic bool hk_confined HK_HIDDEN;

HK_INLINE bool sys_is_confined(void) { return hk_unlikely(atomic_load_explicit(&hk_confined, memory_order_relaxed)); }
HK_INLINE void sys_confine(void) { atomic_store_explicit(&hk_confined, true, memory_order_relaxed); }

#endif
