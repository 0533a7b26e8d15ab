/* SPDX-License-Identifier: MIT
 *
 * sys.h: the operating system on one page. Raw system calls: nothing here allocates, takes a libc lock, reads
 * thread-local storage or sets errno, so every function may be called from anywhere in the allocator, from a signal
 * handler and from the helper thread (which has no libc thread descriptor).
 *
 * Preconditions, once for all: addresses and sizes are multiples of the page size unless said otherwise. Functions that
 * can fail return 0 or a positive errno value. ENOMEM is an ordinary answer that callers hand on; whether another error
 * is fatal is the caller's decision.
 *
 * Source: man-pages section 2 of the call each function is named after.
 */
#ifndef HK_SYS_H
#define HK_SYS_H

#include "base/base.h"

#include <errno.h>
#include <stdatomic.h>

/* --- Memory ----------------------------------------------------------------------------------------------------- */

size_t sys_page_size(void);

/* Maps `size` readable and writable, zeroed bytes at exactly `address`. EEXIST when something is mapped there.
 * `sys_map_none_at` maps without access, `sys_map_zeros_at` what can only be read: neither counts as memory that the
 * process may need. */
int sys_map_at(void *address, size_t size);
int sys_map_none_at(void *address, size_t size);
int sys_map_zeros_at(void *address, size_t size);

/* Maps `size` bytes wherever the kernel likes; NULL on failure. `sys_map_none` maps without access (a hole finder). */
void *sys_map(size_t size);
void *sys_map_none(size_t size);

/* Replaces what is mapped at `address` by fresh zeroed memory. */
int sys_map_over(void *address, size_t size);

/* False at the limit of mappings, when one would become two. */
bool sys_unmap(void *address, size_t size);

/* Grows, shrinks or moves a mapping of its own (mremap); NULL on failure. */
void *sys_remap(void *address, size_t old_size, size_t new_size);

/* Grows or shrinks it where it is; false when that is not possible. */
bool sys_resize(void *address, size_t old_size, size_t new_size);

/* Moves the pages of [from, from + from_size), one mapping, to `to`, where they replace what is mapped and are followed
 * by fresh memory up to to_size. `from` is unmapped then. On failure `from` is as it was, but nothing may be mapped at
 * `to`. */
int sys_move_grow(void *from, size_t from_size, void *to, size_t to_size);

/* Gives pages back at once (MADV_DONTNEED). The range reads as zeros afterwards, whatever the kernel says: what it does
 * not take (locked pages) is zeroed by hand. */
void sys_purge(void *address, size_t size);

typedef struct sys_range {
    void *address;
    size_t size;
} sys_range_t;

/* Purges many ranges, in one system call where the kernel can (process_madvise). Returns the calls made. */
size_t sys_purge_many(const sys_range_t *ranges, size_t count);

/* True once the kernel has refused to take pages back: purging is not worth it in this process. */
bool sys_purge_refused(void);

int sys_advise_huge(void *address, size_t size);
int sys_advise_no_huge(void *address, size_t size);
int sys_populate(void *address, size_t size);

/* Whether all of it is mapped: by advice that asks for what is so already (madvise(2): ENOMEM where nothing is
 * mapped). */
bool sys_is_mapped(void *address, size_t size);

/* Whether the byte at `address`, and so the page that it is in, can be read now: the kernel reads it, and nothing comes
 * of that. */
bool sys_is_readable(uintptr_t address);

/* Which of the pages are resident: bit 0 of one byte a page (mincore, or pagemap under a filter). EPERM in a confined
 * process. */
int sys_resident(const void *address, size_t size, unsigned char *pages);

/* True when the kernel gives huge pages to mappings that did not ask for them (THP "always"). */
bool sys_huge_pages_unasked(void);

/* --- Process ----------------------------------------------------------------------------------------------------- */

/* Soft RLIMIT_AS in bytes, SIZE_MAX when there is none. */
size_t sys_address_space_limit(void);

/* What is left of it: SIZE_MAX when there is no limit. */
size_t sys_address_space_room(void);

/* The lower of the soft limits on mappings, SIZE_MAX when there is none: RLIMIT_AS, and RLIMIT_DATA, which counts what
 * is private and writable. */
size_t sys_mapping_limit(void);

/* The memory limits of the process's cgroup and of all above it, the least of each; UINT64_MAX is none. Those of v2 are
 * memory.high and memory.max, that of v1 (memory.limit_in_bytes) counts as a maximum.
 * `membership` is /proc/self/cgroup, `root` is where the hierarchies are mounted. */
typedef struct sys_memory_limits {
    uint64_t high, max;
    bool known; /* some group's file could be read */
} sys_memory_limits_t;

sys_memory_limits_t sys_cgroup_limits(const char *membership, const char *root);

/* How many processors the process may keep busy: by the quota of its cgroup (cpu.max, or v1's cpu.cfs_quota_us; whole
 * ones, rounded up), and by the affinity of its main thread: others may be bound to a processor each. UINT64_MAX is no
 * limit. */
uint64_t sys_cgroup_cpus(const char *membership, const char *root);
uint64_t sys_affinity_cpus(void);

/* What the process has resident of anonymous memory; 0 when it cannot be known. Pages of files are not counted: the
 * kernel takes them away before a limit kills (and shared memory is of no one process). Source: proc_pid_statm(5),
 * resident - shared. */
size_t sys_anonymous_bytes(void);

/* A descriptor and the file that it leads to. The program may close any descriptor and make another file of its number;
 * so whoever keeps one asks before use. */
typedef struct sys_file {
    long fd;                /* -1: none */
    uint64_t inode, device; /* inode 0: none */
    uint64_t born;          /* nanoseconds: numbers of inodes are used again; 0 where it is not known */
    uint32_t mode;          /* its kind, as in stat(2) */
} sys_file_t;

bool sys_is_data(long fd);    /* a regular file that is open for reading, too: no log. False where it cannot be asked */
sys_file_t sys_file(long fd); /* none when `fd` is not open, or where it cannot be asked (before Linux 4.11) */
bool sys_file_is_still(const sys_file_t *file);
bool sys_file_is_same(const sys_file_t *one, const sys_file_t *other);
void sys_file_close(sys_file_t *file); /* when it is still that file; none afterwards */

/* What reports events: a pressure file (PSI), a pipe, or a stream socket (AF_UNIX) to connect to. `data` is written to
 * it first. False when it is something else or cannot be opened. sys_watch_wait says whether there was an event, none
 * in timeout_ms (UINT32_MAX: never), or that none will come any more. sys_watch_cancel, by another thread, makes it say
 * the last now and whenever it is called again. sys_watch_close leaves a descriptor alone that the program has made
 * another file of. */
typedef struct sys_watch {
    sys_file_t file;
    sys_file_t bell; /* a socket that nothing comes from but its shutdown */
    bool is_stream;  /* events are bytes to be read */
} sys_watch_t;

bool sys_watch_open(sys_watch_t *watch, const char *path, const void *data, size_t size);
typedef enum sys_watch_seen { SYS_WATCH_OVER = 0, SYS_WATCH_EVENT, SYS_WATCH_QUIET } sys_watch_seen_t;
sys_watch_seen_t sys_watch_wait(const sys_watch_t *watch, uint32_t timeout_ms);
void sys_watch_cancel(const sys_watch_t *watch);
void sys_watch_close(sys_watch_t *watch);

/* What the machine can give without paging: MemAvailable of proc_meminfo(5), SIZE_MAX when it cannot be read. */
size_t sys_available_bytes(void);

/* True in a set-uid, set-gid or otherwise privileged start (AT_SECURE). */
bool sys_is_secure(void);

/* The environment as libc has it, or NULL when libc has not set it yet. */
char *const *sys_environment(void);

/* Holds back signals of the calling thread: all, or all but those of its own faults. What it held back before is in
 * `*before`. False in a confined process, where the system call may be forbidden: then there is nothing to release. */
typedef enum sys_signals { SYS_SIGNALS_ALL, SYS_SIGNALS_SENT } sys_signals_t;
bool sys_signals_hold(sys_signals_t which, uint64_t *before);
void sys_signals_release(uint64_t before);

unsigned sys_process_id(void);
unsigned sys_thread_id(void);
unsigned sys_thread_count(void); /* of the calling process, by the kernel; 0 when it cannot be known */

/* A word for each process. Children of fork inherit it as it is until sys_process_mark_wipe has been called, and find
 * SYS_MARK_NEW from then on, however they were made; those of vfork share it. Source: madvise(2), MADV_WIPEONFORK;
 * without it (before Linux 4.14, some emulators) children inherit the word. */
enum { SYS_MARK_NEW = 0, SYS_MARK_KNOWN, SYS_MARK_ATTENDED, SYS_MARK_STRANDED };
extern _Atomic uint32_t *_Atomic hk_process_mark HK_HIDDEN;

void sys_process_mark_wipe(void);

/* Acquire, on the place and on the word: pairs with the release in sys_process_mark_wipe and sys_process_mark_change;
 * who finds the process known finds what was done for it. */
HK_INLINE uint32_t sys_process_mark(void) {
    return atomic_load_explicit(atomic_load_explicit(&hk_process_mark, memory_order_acquire), memory_order_acquire);
}

void sys_process_mark_set(uint32_t mark);
bool sys_process_mark_change(uint32_t *from, uint32_t to); /* as a compare-exchange */
void sys_process_mark_wait(uint32_t mark, uint32_t timeout_ms);
uint64_t sys_now_ms(void);  /* CLOCK_MONOTONIC_COARSE */
uint64_t sys_now_us(void);  /* CLOCK_MONOTONIC */
uint64_t sys_unix_ns(void); /* CLOCK_REALTIME */

/* From `since_ms` to `now_ms`, of which 32 bits count; 0 when `since_ms` is up to a minute later, as when another
 * thread has looked at the clock since. */
HK_INLINE uint32_t sys_age_ms(uint64_t now_ms, uint32_t since_ms) {
    uint32_t age = (uint32_t)now_ms - since_ms;
    return age >= UINT32_MAX - 60000 ? 0 : age;
}

/* The calls of these names, for what shows them to the program: the kernel's value, a negated errno value on
 * failure. */
long sys_unshare(int flags);
long sys_setns(int fd, int type);
long sys_prctl(int option, const unsigned long arguments[4]);

void sys_random(void *buffer, size_t size); /* getrandom, never blocks; falls back to the auxiliary vector's 16 bytes */
_Noreturn void sys_exit(int status);        /* at once: nobody is told */
_Noreturn void sys_abort(void);             /* SIGABRT with the default action in the end */

/* Unbuffered files, for /proc and for messages. Return bytes, or a negative errno value. Nothing opens in a confined
 * process. */
long sys_open_read(const char *path);   /* sys_close_read closes it, soon: nobody confines the process so long */
long sys_open_append(const char *path); /* made if need be; a pipe that nobody reads is not waited for */
long sys_read(long fd, void *buffer, size_t size);
void sys_close_read(long fd);
void sys_close(long fd);
/* As much as can be written. A pipe that nobody reads or a file that may grow no further is no reason to end the
 * program: neither SIGPIPE nor SIGXFSZ comes of it. */
void sys_write_all(int fd, const void *buffer, size_t size);
/* sys_write_all that waits for readers of a non-blocking pipe, for so many milliseconds in all. sys_write_whole also
 * tells whether all was written: 0, or an errno value. */
void sys_write_all_within(int fd, const void *buffer, size_t size, uint32_t milliseconds);
int sys_write_whole(int fd, const void *buffer, size_t size, uint32_t milliseconds);

/* A file that comes to its place when it is whole: made or emptied, under another name, renamed. 0 or an errno value,
 * but sys_open_new as sys_open_append. */
long sys_open_new(const char *path);
int sys_rename(const char *from, const char *to);
void sys_unlink(const char *path);

/* --- Waiting ----------------------------------------------------------------------------------------------------- */

/* futex(2), private. Wait returns when woken, when *word != expected, or after timeout_ms (UINT32_MAX: never). */
void sys_futex_wait(const _Atomic uint32_t *word, uint32_t expected, uint32_t timeout_ms);
/* sys_futex_wait for a word that the kernel clears and wakes: it does so by the shared kind of futex. */
void sys_futex_wait_shared(const _Atomic uint32_t *word, uint32_t expected, uint32_t timeout_ms);
void sys_futex_wake(const _Atomic uint32_t *word, int count);
void sys_cpu_relax(void);

/* --- The helper thread ------------------------------------------------------------------------------------------- */

/* For a thread of ours: true when it has a right that the process has given up since, or is not under a filter that the
 * process is under. It must leave then. */
bool sys_helper_outlived_credentials(void);

/* For a thread of ours: whether it has kept rights that the process may give up. It has not, but under a filter that
 * forbids to give them up (helper_birth.h). */
bool sys_helper_has_rights(void);

/* By a helper, at first: from here on it has a table of descriptors of its own, and what it opens never takes the
 * number that the program expects next. It holds none of the program's files either. Before Linux 5.9 the table stays
 * common. Source: close_range(2), CLOSE_RANGE_UNSHARE. */
void sys_helper_own_files(void);

/* A thread of ours; helper_birth.h says what it gives up before it runs. Whoever starts it and waits for it does so
 * under one lock. */
typedef struct sys_helper {
    _Atomic uint32_t
        alive;   /* set before the start; cleared, with a futex wake, by the kernel: its stack is free then */
    uint32_t id; /* of the last one, until it is known to be gone; 0: none */
} sys_helper_t;

HK_INLINE bool sys_helper_is_alive(const sys_helper_t *helper) {
    /* Acquire: pairs with the kernel's release of the thread; what it wrote is visible. */
    return atomic_load_explicit(&helper->alive, memory_order_acquire) != 0;
}

/* Starts `run(argument)` as a kernel thread without a libc descriptor, all signals blocked, on `stack`. `run` must use
 * nothing but this room's functions and memory: no libc, no thread-local storage. EPERM in a confined process, and
 * where the thread would keep a choice among ids that the program may give up. */
int sys_helper_start(void (*run)(void *), void *argument, void *stack, size_t stack_size, sys_helper_t *helper);

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

#endif
