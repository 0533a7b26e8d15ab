/* SPDX-License-Identifier: MIT */
#include "sys/sys.h"
#include "sys/confined.h"
#include "sys/kernel.h"
#include "sys/libc_doors.h"
#include "sys/raw_call.h"

#include <fcntl.h>
#include <poll.h>
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

enum { RANDOM_NONBLOCK = 1 /* GRND_NONBLOCK */ };

#define SIGNAL_BIT(number) (UINT64_C(1) << ((number)-1))

extern char **environ;

_Atomic bool hk_confined;
_Atomic uint32_t hk_passages;

void sys_wait_for_passages(void) {
    enum { WAIT_MS = 1, WAITS_MAX = 1000 };
    for (int i = 0; i < WAITS_MAX; i++) {
        /* Sequentially consistent: see sys_passage_begin. Acquire: pairs with the release in sys_passage_end. */
        uint32_t left = atomic_load_explicit(&hk_passages, memory_order_seq_cst);
        if (left == 0)
            return;
        sys_futex_wait(&hk_passages, left, WAIT_MS);
    }
}

bool sys_is_filtered(void) {
    enum { UNKNOWN = 0, FREE, FILTERED };
    static _Atomic int answer;
    int known = atomic_load_explicit(&answer, memory_order_relaxed);
    if (known == UNKNOWN) {
        known = sys_call2(SYS_prctl, PR_GET_SECCOMP, 0) > 0 ? FILTERED : FREE;
        atomic_store_explicit(&answer, known, memory_order_relaxed);
    }
    return known == FILTERED;
}

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

bool sys_is_secure(void) { return getauxval(AT_SECURE) != 0; }

char *const *sys_environment(void) { return environ != NULL ? environ : libc_start_environment(); }

unsigned sys_process_id(void) { return (unsigned)sys_call1(SYS_getpid, 0); }

unsigned sys_thread_id(void) { return (unsigned)sys_call1(SYS_gettid, 0); }

/* The folder has a link for each thread, besides its own two. */
unsigned sys_thread_count(void) {
    kernel_statx_t folder;
    if (!sys_passage_begin())
        return 0;
    long got = sys_call6(SYS_statx, AT_FDCWD, (long)"/proc/self/task", 0, KERNEL_STATX_NLINK, (long)&folder, 0);
    sys_passage_end();
    if (sys_failed(got))
        return 0;
    return folder.stx_nlink > 2 ? folder.stx_nlink - 2 : 0;
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
    long got = sys_is_confined() ? 0 : sys_call3(SYS_getrandom, (long)buffer, (long)size, RANDOM_NONBLOCK);
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
    uint64_t abort_only = SIGNAL_BIT(SIGABRT);
    (void)sys_call4(SYS_rt_sigaction, SIGABRT, (long)&action, 0, sizeof action.mask);
    (void)sys_call4(SYS_rt_sigprocmask, SIG_UNBLOCK, (long)&abort_only, 0, sizeof abort_only);
    (void)sys_call3(SYS_tgkill, pid, tid, SIGABRT);
    for (;;)
        (void)sys_call1(SYS_exit_group, 134);
}

static long signal_mask(int how, uint64_t mask, uint64_t *before) {
    return sys_call4(SYS_rt_sigprocmask, how, (long)&mask, (long)before, sizeof mask);
}

/* True in a passage, which sys_signals_release ends. */
static bool hold_signals(uint64_t mask, uint64_t *before) {
    if (!sys_passage_begin())
        return false;
    if (!sys_failed(signal_mask(SIG_BLOCK, mask, before)))
        return true;
    sys_passage_end();
    return false;
}

bool sys_signals_hold(sys_signals_t which, uint64_t *before) {
    const uint64_t faults = SIGNAL_BIT(SIGSEGV) | SIGNAL_BIT(SIGBUS) | SIGNAL_BIT(SIGFPE) | SIGNAL_BIT(SIGILL) |
                            SIGNAL_BIT(SIGTRAP) | SIGNAL_BIT(SIGSYS) | SIGNAL_BIT(SIGABRT);
    return hold_signals(which == SYS_SIGNALS_ALL ? ~UINT64_C(0) : ~faults, before);
}

void sys_signals_release(uint64_t before) {
    (void)signal_mask(SIG_SETMASK, before, NULL);
    sys_passage_end();
}

long sys_open_read(const char *path) {
    if (!sys_passage_begin())
        return -EPERM;
    long fd = sys_call4(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0);
    if (sys_failed(fd))
        sys_passage_end();
    return fd;
}

long sys_open_append(const char *path) {
    const int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    if (!sys_passage_begin())
        return -EPERM;
    long fd = sys_call4(SYS_openat, AT_FDCWD, (long)path, flags, 0666);
    sys_passage_end();
    return fd;
}

void sys_close_read(long fd) {
    sys_close(fd);
    sys_passage_end();
}

long sys_read(long fd, void *buffer, size_t size) {
    long got;
    do
        got = sys_call3(SYS_read, fd, (long)buffer, (long)size);
    while (got == -EINTR);
    return got;
}

void sys_close(long fd) { (void)sys_call1(SYS_close, fd); }

/* A pipe or a terminal that does not wait by itself: true when there may be room, false after `end_ms`. */
static bool wait_for_room(int fd, uint64_t end_ms) {
    struct pollfd entry = {.fd = fd, .events = POLLOUT};
    uint64_t now = end_ms > 0 && !sys_is_confined() ? sys_now_ms() : end_ms;
    if (now >= end_ms)
        return false;
    const struct timespec rest = {.tv_sec = (long)((end_ms - now) / 1000),
                                  .tv_nsec = (long)((end_ms - now) % 1000) * 1000000};
    long got = sys_call6(SYS_ppoll, (long)&entry, 1, (long)&rest, 0, sizeof(uint64_t), 0);
    return got == 1 || got == -EINTR;
}

/* Returns what the last write(2) did. */
static long write_all(int fd, const char *at, size_t size, uint64_t end_ms) {
    long got = 0;
    while (size > 0) {
        got = sys_call3(SYS_write, fd, (long)at, (long)size);
        if (got == -EINTR || (got == -EAGAIN && wait_for_room(fd, end_ms)))
            continue;
        if (got <= 0)
            break;
        at += got;
        size -= (size_t)got;
    }
    return got;
}

/* The signal that such a failure of write(2) raises in the calling thread: nobody reads the pipe, or the file may grow
 * no further. */
static uint64_t signal_of(long error) {
    return error == -EPIPE ? SIGNAL_BIT(SIGPIPE) : error == -EFBIG ? SIGNAL_BIT(SIGXFSZ) : 0;
}

/* Holds the calling thread's SIGPIPE and SIGXFSZ back, takes the one that this write raised, and leaves what was
 * pending before. A confined process may not call any of this. */
static long write_quietly(int fd, const void *buffer, size_t size, uint64_t end_ms) {
    const uint64_t held = SIGNAL_BIT(SIGPIPE) | SIGNAL_BIT(SIGXFSZ);
    uint64_t before = 0, pending = 0;
    if (!hold_signals(held, &before))
        return write_all(fd, buffer, size, end_ms);
    if ((before & held) != 0)
        (void)sys_call2(SYS_rt_sigpending, (long)&pending, sizeof pending);
    const struct timespec at_once = {0};
    const long got = write_all(fd, buffer, size, end_ms);
    const uint64_t raised = signal_of(got) & ~pending;
    if (raised != 0)
        (void)sys_call4(SYS_rt_sigtimedwait, (long)&raised, 0, (long)&at_once, sizeof raised);
    sys_signals_release(before);
    return got;
}

void sys_write_all(int fd, const void *buffer, size_t size) { (void)write_quietly(fd, buffer, size, 0); }

void sys_write_all_within(int fd, const void *buffer, size_t size, uint32_t milliseconds) {
    (void)write_quietly(fd, buffer, size, sys_now_ms() + milliseconds);
}

int sys_write_whole(int fd, const void *buffer, size_t size, uint32_t milliseconds) {
    const long got = size == 0 ? 1 : write_quietly(fd, buffer, size, sys_now_ms() + milliseconds);
    return got > 0 ? 0 : got == 0 ? EIO : (int)-got;
}

static void futex_wait(const _Atomic uint32_t *word, int operation, uint32_t expected, uint32_t timeout_ms) {
    struct timespec timeout = {.tv_sec = timeout_ms / 1000, .tv_nsec = (long)(timeout_ms % 1000) * 1000000};
    (void)sys_call4(SYS_futex, (long)word, operation, expected, timeout_ms == UINT32_MAX ? 0 : (long)&timeout);
}

void sys_futex_wait(const _Atomic uint32_t *word, uint32_t expected, uint32_t timeout_ms) {
    futex_wait(word, FUTEX_WAIT_PRIVATE, expected, timeout_ms);
}

void sys_futex_wait_shared(const _Atomic uint32_t *word, uint32_t expected, uint32_t timeout_ms) {
    futex_wait(word, FUTEX_WAIT, expected, timeout_ms);
}

void sys_futex_wake(const _Atomic uint32_t *word, int count) {
    (void)sys_call3(SYS_futex, (long)word, FUTEX_WAKE_PRIVATE, count);
}

void sys_cpu_relax(void) {
#if defined(__x86_64__)
    __asm__ volatile("pause");
#else
    __asm__ volatile("isb");
#endif
}
