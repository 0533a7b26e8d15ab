/* SPDX-License-Identifier: MIT
 *
 * kernel.h: the constants and records of the kernel's interface that we use and that a C library does not bring.
 *
 * The kernel's own headers (linux/...) are not needed: musl-gcc leaves them out, and a compiler for another target may
 * have none. All of this is part of the kernel's interface to programs, which never changes. Include it behind headers
 * of the C library, which define some of these.
 */
#pragma once

#include <stdint.h>
#include <sys/syscall.h>

/* futex(2) */
#ifndef FUTEX_WAIT
#define FUTEX_WAIT                0
#define FUTEX_WAIT_PRIVATE        128
#define FUTEX_WAKE_PRIVATE        129
#define FUTEX_CMP_REQUEUE_PRIVATE 132
#endif

/* prctl(2) */
#ifndef PR_SET_NAME
#define PR_GET_DUMPABLE     3
#define PR_SET_DUMPABLE     4
#define PR_SET_NAME         15
#define PR_GET_SECCOMP      21
#define PR_SET_NO_NEW_PRIVS 38
#endif
#ifndef PR_SET_VMA
#define PR_SET_VMA           0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif

/* close_range(2), faccessat2(2), process_madvise(2): newer than the headers of distributions that are in use */
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef SYS_faccessat2
#define SYS_faccessat2 439
#endif
#ifndef SYS_process_madvise
#define SYS_process_madvise 440
#endif
#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE (1U << 1)
#endif

/* capget(2), capset(2) */
#define KERNEL_CAPABILITY_VERSION 0x20080522
#define KERNEL_CAPABILITY_WORDS   2
#ifndef CAP_SETGID
#define CAP_SETGID 6
#define CAP_SETUID 7
#endif

typedef struct kernel_capability_header {
    uint32_t version;
    int pid;
} kernel_capability_header_t;

typedef struct kernel_capability_word {
    uint32_t effective, permitted, inheritable;
} kernel_capability_word_t;

/* statx(2): the same on every architecture. */
#define KERNEL_STATX_TYPE  0x001U
#define KERNEL_STATX_NLINK 0x004U
#define KERNEL_STATX_INO   0x100U
#define KERNEL_STATX_BTIME 0x800U

typedef struct kernel_statx {
    uint32_t stx_mask, stx_blksize;
    uint64_t stx_attributes;
    uint32_t stx_nlink, stx_uid, stx_gid;
    uint16_t stx_mode, spare_0;
    uint64_t stx_ino, stx_size, stx_blocks, stx_attributes_mask;
    struct {
        int64_t tv_sec;
        uint32_t tv_nsec;
        int32_t spare;
    } stx_atime, stx_btime, stx_ctime, stx_mtime;
    uint32_t stx_rdev_major, stx_rdev_minor, stx_dev_major, stx_dev_minor;
    uint64_t spare_1[14];
} kernel_statx_t;
_Static_assert(sizeof(kernel_statx_t) == 256, "the kernel writes 256 bytes");
