/* SPDX-License-Identifier: MIT */
#include "sys/memory.h"

#include "base/bits.h"
#include "sys/clock.h"
#include "sys/confined.h"
#include "sys/file.h"
#include "sys/kernel.h"
#include "sys/raw_call.h"
#include "sys/tags.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/uio.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE  103
#endif
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

enum {
    PIDFD_OF_SELF = -10001, /* PIDFD_SELF_THREAD_GROUP, pidfd_open(2), Linux 6.14 */
    PURGE_BATCH_MAX = 64
};

size_t sys_page_size(void) {
    static _Atomic size_t page_size;
    size_t size = atomic_load_explicit(&page_size, memory_order_relaxed);
    if (size == 0) {
        size = getauxval(AT_PAGESZ);
        if (size == 0)
            size = 4096;
        atomic_store_explicit(&page_size, size, memory_order_relaxed);
    }
    return size;
}

/* The kernel hands an address out after it was given back; ThreadSanitizer does not see our system calls, and is told:
 * of each page, as what is mapped next may begin anywhere. Of mappings that come and go, which are short. */
#if HK_TSAN
enum { TOLD_BYTES = 4 << 20, TOLD_STEP = 4096 };
void __tsan_acquire(void *address);
void __tsan_release(void *address);
static void tell(void what(void *), long address, size_t size) {
    for (size_t at = 0; at < size && size <= TOLD_BYTES; at += TOLD_STEP)
        what((char *)address + at);
}
static void tell_mapped(long address, size_t size) { tell(__tsan_acquire, address, size); }
static void tell_unmapped(long address, size_t size) { tell(__tsan_release, address, size); }
#else
static void tell_mapped(long address, size_t size) { (void)address, (void)size; }
static void tell_unmapped(long address, size_t size) { (void)address, (void)size; }
#endif

/* Where no more may be locked the kernel says EAGAIN: memory is out. */
static long map(void *address, size_t size, int protection, int flags) {
    long got = sys_call6(SYS_mmap, (long)address, (long)size, protection, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    if (!sys_failed(got))
        tell_mapped(got, size);
    return got == -EAGAIN ? -ENOMEM : got;
}

/* What mmap(2) answers where MAP_FIXED_NOREPLACE is known: something is there, or memory is out. */
static bool is_final(long error) { return error == -EEXIST || error == -ENOMEM; }

/* Kernels before 4.17 take the address for a hint, as they all do without the flag; filters and kernels in user space
 * may refuse what they do not know, with any error. So what counts is where the mapping lies. */
static int map_exactly(void *address, size_t size, int protection, int flags) {
    long got = map(address, size, protection, flags | MAP_FIXED_NOREPLACE);
    if (sys_failed(got) && !is_final(got))
        got = map(address, size, protection, flags);
    if (sys_failed(got))
        return sys_error(got);
    if (got == (long)address)
        return 0;
    sys_unmap((void *)got, size);
    return EEXIST;
}

int sys_map_at(void *address, size_t size) { return map_exactly(address, size, PROT_READ | PROT_WRITE, 0); }

int sys_map_none_at(void *address, size_t size) { return map_exactly(address, size, PROT_NONE, MAP_NORESERVE); }

int sys_map_zeros_at(void *address, size_t size) { return map_exactly(address, size, PROT_READ, MAP_NORESERVE); }

void *sys_map(size_t size) {
    long got = map(NULL, size, PROT_READ | PROT_WRITE, 0);
    return sys_failed(got) ? NULL : (void *)got;
}

void *sys_map_none(size_t size) {
    long got = map(NULL, size, PROT_NONE, MAP_NORESERVE);
    return sys_failed(got) ? NULL : (void *)got;
}

int sys_map_over(void *address, size_t size) {
    return sys_error(map(address, size, PROT_READ | PROT_WRITE, MAP_FIXED));
}

/* A filter of system calls may know nothing of tags. Memory without them has tag 0, whatever is written. */
int sys_map_blocks_at(void *address, size_t size) {
    int tags = tags_protection();
    int error = map_exactly(address, size, PROT_READ | PROT_WRITE | tags, 0);
    return tags != 0 && error != 0 && error != EEXIST && error != ENOMEM ? sys_map_at(address, size) : error;
}

int sys_map_blocks_over(void *address, size_t size) {
    int tags = tags_protection();
    int error = sys_error(map(address, size, PROT_READ | PROT_WRITE | tags, MAP_FIXED));
    return tags != 0 && error != 0 && error != ENOMEM ? sys_map_over(address, size) : error;
}

void sys_name(const void *address, size_t size, const char *name) {
    static _Atomic bool unavailable; /* written once a process: the kernel has no names */
    if (atomic_load_explicit(&unavailable, memory_order_relaxed))
        return;
    if (sys_is_filtered()) {
        atomic_store_explicit(&unavailable, true, memory_order_relaxed);
        return;
    }
    long got = sys_passage_call(SYS_prctl, PR_SET_VMA, PR_SET_VMA_ANON_NAME, (long)address, (long)size, (long)name, 0);
    if (sys_failed(got) && got != -ENOMEM)
        atomic_store_explicit(&unavailable, true, memory_order_relaxed);
}

int sys_shut(void *address, size_t size) { return sys_error(map(address, size, PROT_NONE, MAP_FIXED | MAP_NORESERVE)); }

bool sys_unmap(void *address, size_t size) {
    tell_unmapped((long)address, size);
    return !sys_failed(sys_call2(SYS_munmap, (long)address, (long)size));
}

void *sys_remap(void *address, size_t old_size, size_t new_size) {
    long got = sys_call4(SYS_mremap, (long)address, (long)old_size, (long)new_size, MREMAP_MAYMOVE);
    return sys_failed(got) ? NULL : (void *)got;
}

bool sys_resize(void *address, size_t old_size, size_t new_size) {
    return !sys_failed(sys_call4(SYS_mremap, (long)address, (long)old_size, (long)new_size, 0));
}

int sys_move_grow(void *from, size_t from_size, void *to, size_t to_size) {
    const long flags = MREMAP_MAYMOVE | MREMAP_FIXED;
    return sys_error(sys_call6(SYS_mremap, (long)from, (long)from_size, (long)to_size, flags, (long)to, 0));
}

static int advise(void *address, size_t size, int advice) {
    return sys_error(sys_call3(SYS_madvise, (long)address, (long)size, advice));
}

static _Atomic uint64_t purge_refused_ms; /* when the kernel last did; 0: never */

void sys_purge(void *address, size_t size) {
    if (advise(address, size, MADV_DONTNEED) == 0 || advise(address, size, MADV_DONTNEED_LOCKED) == 0)
        return;
    if (tags_are_on())
        tags_clear(address, size);
    memset(address, 0, size);
    atomic_store_explicit(&purge_refused_ms, sys_now_ms(), memory_order_relaxed);
}

bool sys_purge_refused(void) { return sys_is_recent(&purge_refused_ms); }

static _Atomic bool purges_apart; /* written once a process: the kernel has no such call, or refuses our own pidfd */

/* One system call for all ranges; false when the kernel did not do all of it. That may be so for a time only: pages are
 * locked. */
static bool purge_together(const sys_range_t *ranges, size_t count) {
    /* sys_range_t has the layout of struct iovec. */
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += ranges[i].size;
    long got = sys_passage_call(SYS_process_madvise, PIDFD_OF_SELF, (long)ranges, (long)count, MADV_DONTNEED, 0, 0);
    if (got == -ENOSYS || got == -EBADF || got == -EPERM)
        atomic_store_explicit(&purges_apart, true, memory_order_relaxed);
    return !sys_failed(got) && (size_t)got == bytes;
}

size_t sys_purge_many(const sys_range_t *ranges, size_t count) {
    size_t calls = 0;
    for (size_t done = 0, batch; done < count; done += batch) {
        batch = hk_min(count - done, PURGE_BATCH_MAX);
        if (batch > 1 && sys_may_make_new_calls() && !atomic_load_explicit(&purges_apart, memory_order_relaxed) &&
            purge_together(ranges + done, batch)) {
            calls++;
            continue;
        }
        for (size_t i = 0; i < batch; i++)
            sys_purge(ranges[done + i].address, ranges[done + i].size);
        calls += batch;
    }
    return calls;
}

/* Written once: how pages are fenced. The kernel refuses marks in locked memory with the error of a kernel that knows
 * none: where all memory is locked, mappings do. */
enum { FENCE_UNDECIDED, FENCE_BY_MARK, FENCE_BY_MAPPING };
static _Atomic uint32_t fence_kind;
static _Atomic uint32_t fences_mapped; /* relaxed: a bound */

/* Undecided still when memory is out. Of several threads one decides: what was fenced in one way is unfenced so. */
static uint32_t decide_fence_kind(void) {
    void *page = sys_map(sys_page_size());
    if (page == NULL)
        return FENCE_UNDECIDED;
    uint32_t kind = advise(page, sys_page_size(), MADV_GUARD_INSTALL) == 0 ? FENCE_BY_MARK : FENCE_BY_MAPPING;
    (void)sys_unmap(page, sys_page_size());
    uint32_t before = FENCE_UNDECIDED;
    bool first =
        atomic_compare_exchange_strong_explicit(&fence_kind, &before, kind, memory_order_relaxed, memory_order_relaxed);
    return first ? kind : before;
}

static bool fence_by_mapping(void *address, size_t size) {
    if (atomic_fetch_add_explicit(&fences_mapped, 1, memory_order_relaxed) < SYS_FENCES_MAX &&
        sys_shut(address, size) == 0)
        return true;
    atomic_fetch_sub_explicit(&fences_mapped, 1, memory_order_relaxed);
    return false;
}

static bool fence_by_mark(void *address, size_t size) {
    if (hk_likely(advise(address, size, MADV_GUARD_INSTALL) == 0))
        return true;
    (void)advise(address, size, MADV_GUARD_REMOVE); /* it may have come half of the way */
    return false;
}

/* A filter that knows malloc's advice may kill for this one. */
bool sys_fence(void *address, size_t size) {
    if (!sys_passage_begin())
        return false;
    uint32_t kind = atomic_load_explicit(&fence_kind, memory_order_relaxed);
    if (hk_unlikely(kind == FENCE_UNDECIDED))
        kind = decide_fence_kind();
    bool fenced = kind == FENCE_BY_MARK ? fence_by_mark(address, size)
                                        : kind == FENCE_BY_MAPPING && fence_by_mapping(address, size);
    sys_passage_end();
    return fenced;
}

bool sys_fences_by_mark(void) {
    uint32_t kind = atomic_load_explicit(&fence_kind, memory_order_relaxed);
    if (hk_unlikely(kind == FENCE_UNDECIDED) && sys_passage_begin()) {
        kind = decide_fence_kind();
        sys_passage_end();
    }
    return kind == FENCE_BY_MARK && !sys_is_confined();
}

bool sys_unfence(void *address, size_t size) {
    if (atomic_load_explicit(&fence_kind, memory_order_relaxed) != FENCE_BY_MARK || !sys_passage_begin())
        return false;
    bool opened = advise(address, size, MADV_GUARD_REMOVE) == 0;
    sys_passage_end();
    return opened;
}

void sys_fence_is_mapped_over(void) {
    if (atomic_load_explicit(&fence_kind, memory_order_relaxed) == FENCE_BY_MAPPING)
        atomic_fetch_sub_explicit(&fences_mapped, 1, memory_order_relaxed);
}

int sys_advise_huge(void *address, size_t size) { return advise(address, size, MADV_HUGEPAGE); }

int sys_advise_no_huge(void *address, size_t size) { return advise(address, size, MADV_NOHUGEPAGE); }

void sys_break_huge(void *address, size_t size) {
    (void)advise(address, size, MADV_NOHUGEPAGE);
    if (sys_may_make_new_calls()) /* a filter may know malloc's advice, and kill for this one */
        (void)sys_passage_call(SYS_madvise, (long)address, (long)sys_page_size(), MADV_COLD, 0, 0, 0);
}

int sys_populate(void *address, size_t size) { return advise(address, size, MADV_POPULATE_WRITE); }

bool sys_is_mapped(void *address, size_t size) { return advise(address, size, MADV_NORMAL) == 0; }

/* Two calls that read a word first and then refuse what is asked: a change of the signal mask in no known way, and a
 * move of waiters, of whom there are none, on a condition that the word does not meet or meets in vain. The first takes
 * a third of the time; the second is among the calls that any malloc makes. Source: sigprocmask(2), futex(2)
 * FUTEX_CMP_REQUEUE, EFAULT of both. */
static bool mask_reads(uintptr_t word) { return sys_call4(SYS_rt_sigprocmask, -1, (long)word, 0, 8) != -EFAULT; }

static bool futex_reads(uintptr_t word) {
    uint32_t unused = 0;
    return sys_call6(SYS_futex, (long)word, FUTEX_CMP_REQUEUE_PRIVATE, 0, 0, (long)&unused, 1) != -EFAULT;
}

static bool kernel_reads(uintptr_t word) { return sys_is_confined() ? futex_reads(word) : mask_reads(word); }

/* The kernel looks at tags too: one of them is right. */
static bool kernel_reads_with_tag(uintptr_t word) {
    for (uintptr_t tag = 1; tags_are_on() && tag < 16; tag++)
        if (kernel_reads(tags_strip_word(word) | tag << TAG_SHIFT))
            return true;
    return false;
}

bool sys_is_readable(uintptr_t address) {
    const uintptr_t word = hk_align_down(address, sizeof(uint64_t));
    return word != 0 && (kernel_reads(word) || kernel_reads_with_tag(word));
}

/* Page by page; between the question and the reading somebody may unmap one. */
__attribute__((no_sanitize("address", "thread"))) static size_t copy_words(uintptr_t *to, uintptr_t from, size_t size) {
    const uint64_t tags = tags_pause();
    size_t done = 0;
    for (; done < size; done += sizeof *to) {
        if ((done == 0 || (from + done) % sys_page_size() == 0) && !sys_is_readable(from + done))
            break;
        to[done / sizeof *to] = *(const volatile uintptr_t *)(from + done);
    }
    tags_resume(tags);
    return done;
}

size_t sys_copy(void *to, uintptr_t from, size_t size) {
    const struct iovec here = {to, size}, there = {(void *)from, size};
    if (sys_is_filtered() || !sys_passage_begin())
        return copy_words(to, from, size);
    long got = sys_call6(SYS_process_vm_readv, sys_call1(SYS_getpid, 0), (long)&here, 1, (long)&there, 1, 0);
    sys_passage_end();
    return sys_failed(got) ? copy_words(to, from, size) : (size_t)got;
}

/* --- What is resident --------------------------------------------------------------------------------------------- */

/* Bits of an entry: the page is there, or in swap. Source: proc_pid_pagemap(5). */
#define PAGEMAP_PRESENT (UINT64_C(1) << 63)
#define PAGEMAP_SWAPPED (UINT64_C(1) << 62)

static int by_pagemap(uintptr_t address, size_t size, uint64_t bits, unsigned char *pages) {
    enum { BATCH = 128 };
    uint64_t entries[BATCH];
    size_t first = address / sys_page_size(), count = (size + sys_page_size() - 1) / sys_page_size();
    long fd = sys_open_read("/proc/self/pagemap"), got = fd;
    for (size_t done = 0; !sys_failed(got) && done < count;) {
        size_t bytes = hk_min(BATCH, count - done) * sizeof entries[0];
        got = sys_call4(SYS_pread64, fd, (long)entries, (long)bytes, (long)((first + done) * sizeof entries[0]));
        if (got == 0)
            got = -EIO;
        for (size_t i = 0; !sys_failed(got) && i < (size_t)got / sizeof entries[0]; i++)
            pages[done++] = (entries[i] & bits) != 0;
    }
    if (!sys_failed(fd))
        sys_close_read(fd);
    return sys_error(got);
}

int sys_touched(uintptr_t address, size_t size, unsigned char *pages) {
    return by_pagemap(address, size, PAGEMAP_PRESENT | PAGEMAP_SWAPPED, pages);
}

int sys_resident(const void *address, size_t size, unsigned char *pages) {
    if (!sys_passage_begin())
        return EPERM;
    int error = sys_is_filtered() ? by_pagemap((uintptr_t)address, size, PAGEMAP_PRESENT, pages)
                                  : (int)-sys_call3(SYS_mincore, (long)address, (long)size, (long)pages);
    sys_passage_end();
    return error;
}
