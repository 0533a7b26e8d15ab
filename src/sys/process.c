/* SPDX-License-Identifier: MIT */
#include "sys/process.h"

#include "sys/clock.h"
#include "sys/confined.h"
#include "sys/futex.h"
#include "sys/kernel.h"
#include "sys/libc_doors.h"
#include "sys/memory.h"
#include "sys/raw_call.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

enum { RANDOM_NONBLOCK = 1 /* GRND_NONBLOCK */, KCMP_MEMORY = 1 /* KCMP_VM */ };

extern char **environ;

static size_t soft_limit(int resource) {
    struct rlimit limit = {0};
    long got = sys_call4(SYS_prlimit64, 0, resource, 0, (long)&limit);
    return sys_failed(got) || limit.rlim_cur == RLIM_INFINITY ? SIZE_MAX : (size_t)limit.rlim_cur;
}

size_t sys_address_space_limit(void) { return soft_limit(RLIMIT_AS); }

size_t sys_mapping_limit(void) {
    size_t addresses = soft_limit(RLIMIT_AS), data = soft_limit(RLIMIT_DATA);
    return addresses < data ? addresses : data;
}

size_t sys_file_limit(void) { return soft_limit(RLIMIT_FSIZE); }

bool sys_is_secure(void) { return getauxval(AT_SECURE) != 0; }

char *const *sys_environment(void) { return environ != NULL ? environ : libc_start_environment(); }

unsigned sys_process_id(void) { return (unsigned)sys_call1(SYS_getpid, 0); }

unsigned sys_thread_id(void) { return (unsigned)sys_call1(SYS_gettid, 0); }

unsigned sys_id_unless_confined(bool of_thread) {
    long id = sys_passage_call(of_thread ? SYS_gettid : SYS_getpid, 0, 0, 0, 0, 0, 0);
    return sys_failed(id) ? 0 : (unsigned)id;
}

/* Lists for filters do not have the call. */
bool sys_may_share_memory(unsigned process) {
    if (sys_is_filtered() || !sys_passage_begin())
        return true;
    long got = sys_call6(SYS_kcmp, process, (long)sys_process_id(), KCMP_MEMORY, 0, 0, 0);
    sys_passage_end();
    return got != -ESRCH && (got == 0 || sys_failed(got));
}

void sys_yield(void) { (void)sys_passage_call(SYS_sched_yield, 0, 0, 0, 0, 0, 0); }

/* The folder has a link for each thread, besides its own two. */
unsigned sys_thread_count(void) {
    kernel_statx_t folder;
    long got = sys_passage_call(SYS_statx, AT_FDCWD, (long)"/proc/self/task", 0, KERNEL_STATX_NLINK, (long)&folder, 0);
    return !sys_failed(got) && folder.stx_nlink > 2 ? folder.stx_nlink - 2 : 0;
}

/* --- The mark of the process -------------------------------------------------------------------------------------- */

static _Atomic uint32_t inherited_mark = SYS_MARK_KNOWN;
_Atomic uint32_t *_Atomic hk_process_mark = &inherited_mark;

static _Atomic uint32_t *mark(void) { return atomic_load_explicit(&hk_process_mark, memory_order_acquire); }

void sys_process_mark_wipe(void) {
    if (mark() != &inherited_mark)
        return;
    _Atomic uint32_t *wiped = sys_map(sys_page_size());
    if (wiped == NULL)
        return;
    if (sys_failed(sys_call3(SYS_madvise, (long)wiped, (long)sys_page_size(), MADV_WIPEONFORK))) {
        sys_unmap(wiped, sys_page_size());
        return;
    }
    atomic_store_explicit(wiped, sys_process_mark(), memory_order_relaxed);
    /* Release: pairs with the acquire in sys_process_mark. */
    atomic_store_explicit(&hk_process_mark, wiped, memory_order_release);
}

void sys_process_mark_set(uint32_t now) { atomic_store_explicit(mark(), now, memory_order_release); }

bool sys_process_mark_change(uint32_t *from, uint32_t to) {
    /* Release: pairs with the acquire in sys_process_mark. Acquire: for who goes on by what it found. */
    return atomic_compare_exchange_strong_explicit(mark(), from, to, memory_order_acq_rel, memory_order_acquire);
}

void sys_process_mark_wait(uint32_t now, uint32_t timeout_ms) { sys_futex_wait(mark(), now, timeout_ms); }

long sys_unshare(int flags) { return sys_call1(SYS_unshare, flags); }

long sys_setns(int fd, int type) { return sys_call2(SYS_setns, fd, type); }

long sys_prctl(int option, const unsigned long arguments[4]) {
    return sys_call6(SYS_prctl, option, (long)arguments[0], (long)arguments[1], (long)arguments[2], (long)arguments[3],
                     0);
}

void sys_random(void *buffer, size_t size) {
    long got = sys_passage_call(SYS_getrandom, (long)buffer, (long)size, RANDOM_NONBLOCK, 0, 0, 0);
    if (got == (long)size)
        return;
    const unsigned char *seed = (const unsigned char *)getauxval(AT_RANDOM);
    uint64_t mix = sys_now_ms() * UINT64_C(0x9e3779b97f4a7c15);
    for (size_t i = 0; i < size; i++) {
        mix = (mix ^ (seed ? seed[i % 16] : i)) * UINT64_C(0xbf58476d1ce4e5b9);
        ((unsigned char *)buffer)[i] = (unsigned char)(mix >> 56);
    }
}

_Noreturn void sys_exit(int status) {
    for (;;)
        (void)sys_call1(SYS_exit_group, status);
}

_Noreturn void sys_abort(void) {
    long pid = sys_call1(SYS_getpid, 0);
    long tid = sys_call1(SYS_gettid, 0);
    (void)sys_call3(SYS_tgkill, pid, tid, SIGABRT);
    /* The signal was blocked, ignored or handled: insist with the default action. */
    struct {
        void *handler;
        unsigned long flags;
        void *restorer;
        uint64_t mask;
    } action = {0};
    uint64_t abort_only = (UINT64_C(1) << (SIGABRT - 1));
    (void)sys_call4(SYS_rt_sigaction, SIGABRT, (long)&action, 0, sizeof action.mask);
    (void)sys_call4(SYS_rt_sigprocmask, SIG_UNBLOCK, (long)&abort_only, 0, sizeof abort_only);
    (void)sys_call3(SYS_tgkill, pid, tid, SIGABRT);
    for (;;)
        (void)sys_call1(SYS_exit_group, 134);
}
