/* SPDX-License-Identifier: MIT
 *
 * confined.h: whether the process has given up system calls.
 *
 * A program that puts itself under a filter (seccomp(2)) lists the calls that it needs, those that a C library's malloc
 * makes among them, and may be killed at any other. From then on hakmem makes these and no more: mmap, munmap, mremap,
 * madvise, futex, the clock (which the kernel answers without a call), write for messages, and to abort getpid, gettid,
 * tgkill, rt_sigaction, rt_sigprocmask and exit_group; the last but one for a fork too, as libc's fork makes it, and to
 * write where no file may have a byte (RLIMIT_FSIZE), as a write would end the process otherwise. What
 * would need another does without: no thread of ours, nothing read from files, residency and processors unknown. (The
 * handlers of HAKMEM_CRASH_REPORT, which run when the program dies, make calls of their own.)
 *
 * The calls of other threads that are under way are waited for: see the passages below. The state is for good, and
 * children inherit it with the memory that holds it. A filter that the process was started under does not confine it:
 * such a one (a container's) allows what programs commonly need.
 */
#pragma once

#include "base/base.h"

#include <stdatomic.h>

/* Written once, by the thread that is about to install a filter; read by all. */
extern _Atomic bool hk_confined HK_HIDDEN;

HK_INLINE bool sys_is_confined(void) { return hk_unlikely(atomic_load_explicit(&hk_confined, memory_order_relaxed)); }

/* A thread of the program that makes other calls is in a *passage* from before it asks whether it may until after the
 * last of them: a filter of another thread may come into force for all threads (SECCOMP_FILTER_FLAG_TSYNC). Passages
 * are short, and one may lie in another. To confine the process is to set the flag and to wait until no
 * passage is left. */
extern _Atomic uint32_t hk_passages HK_HIDDEN;

/* Not below 0: in the child of a fork by a signal handler, the frame which that has interrupted may end a passage that
 * is not counted there. */
void sys_passage_end(void);

/* False, and no passage, in a confined process. Sequentially consistent, here and in sys_confine: of a thread that
 * counts itself and then looks at the flag, and one that sets the flag and then looks at the count, one at least sees
 * the other. */
bool sys_passage_begin(void);

/* For a call that is made in a confined process too, by who forks. Relaxed: what it finds is of no account. */
HK_INLINE void sys_passage_begin_to_fork(void) {
    (void)atomic_fetch_add_explicit(&hk_passages, 1, memory_order_relaxed);
}

/* A passage for one call: what the kernel answers, or -EPERM in a confined process. */
long sys_passage_call(long number, long a, long b, long c, long d, long e, long f);

/* From here on no passage begins; and when this returns none is left, but for one that takes longer than a second: it
 * is that of the calling thread, in which a signal handler confines the process. */
HK_INLINE void sys_confine(void) { atomic_store_explicit(&hk_confined, true, memory_order_seq_cst); }
void sys_wait_for_passages(void);

/* In the child of a fork: those of threads that do not exist there do not end. */
HK_INLINE void sys_passages_after_fork(uint32_t own) { atomic_store_explicit(&hk_passages, own, memory_order_relaxed); }

/* True when the calling thread is under a filter of system calls: mostly one that the process was started under, as
 * services are. Lists of what services need (systemd's @system-service) leave out mincore, commonly all that changes
 * ids, capabilities and scheduling, and may kill for them. Asked once: filters are for good. */
bool sys_is_filtered(void);

/* Whether calls that are younger than many such lists may be made, close_range (Linux 5.9) and process_madvise (5.10):
 * there is no filter, or a child process has made them and lived. helper_birth.c writes the answer of each of its
 * trials, two at most; all read it, relaxed. */
extern _Atomic bool hk_new_calls_allowed HK_HIDDEN;

HK_INLINE bool sys_may_make_new_calls(void) {
    return !sys_is_filtered() || atomic_load_explicit(&hk_new_calls_allowed, memory_order_relaxed);
}
