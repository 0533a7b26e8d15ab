/* SPDX-License-Identifier: MIT
 *
 * panic.h: what happens when the program misuses the allocator, and when the allocator finds a bug of its own.
 *
 * One format for every report, one line, one write, no allocation; what is known besides follows (watch/report.h):
 *
 *   hakmem: double free of 0x7f... (64-byte block, free), called from 0x55d0c1a2b1a6 (/usr/bin/program+0x11a6)
 *   hakmem: free of interior pointer 0x7f... (48-byte block at 0x7f..., offset 16), called from 0x55...
 *
 * The caller is written as core/place.h says, and left out where it is not known.
 *
 * `HAKMEM_ON_ERROR` decides what follows: abort (default), report (print and go on), ignore (go on silently). What is
 * harmless aborts nothing; by default the first eight such calls are printed.
 */
#pragma once

#include "base/base.h"

#include <stdatomic.h>

/* A misuse, as far as whoever found it knows. What is 0 is not known. */
typedef struct hk_misuse {
    const char *verb;    /* the function that was called, where the report begins with it */
    const char *what;    /* what follows it, as in " of interior pointer"; or all, as in "double free of" */
    const void *address; /* the one that `what` is about */
    const void *caller;  /* where the program called, a return address */
    const void *block;
    size_t block_size, asked; /* bytes that it takes, and that the program asked for */
    const void *wrong;        /* the first byte that is not as it was left */
    enum { HK_MISUSE_UNKNOWN, HK_MISUSE_ALLOCATED, HK_MISUSE_FREE } state; /* of the block */
    bool harmless; /* the call does what it should all the same */
} hk_misuse_t;

/* Reports it: "hakmem: <verb><what> <address> (<detail>), called from <caller>". Counts it, prints it and aborts as
 * HAKMEM_ON_ERROR says; does nothing at HAKMEM_SAFE=0. Returns only when the program is to go on. The caller holds no
 * lock. */
void hk_misuse(const hk_misuse_t *misuse, const char *detail_format, ...) HK_PRINTF(2, 3);

/* False at HAKMEM_SAFE=0. */
bool hk_misuse_is_watched(void);

/* As hk_misuse, of what comes to light later than the call that did it. */
#define hk_misuse_found(what_, address_, ...)                                                                          \
    hk_misuse(&(hk_misuse_t){.what = (what_), .address = (address_)}, __VA_ARGS__)

/* What is called between that line and what follows: it shows the rest of the report (watch/report.h). Set once, before
 * there are threads; core/ is below the rooms that can. */
void hk_misuse_show_by(void (*show)(const hk_misuse_t *misuse));

/* Number of misuses reported so far. */
extern _Atomic uint64_t hk_misuses;
uint64_t hk_misuse_count(void);

/* An error of ours or of the kernel that cannot be survived: prints "hakmem: fatal: ..." and aborts. */
_Noreturn void hk_fatal(const char *format, ...) HK_PRINTF(1, 2);

/* hk_assert: a bug of ours. Checked in the check build only. */
_Noreturn void hk_assert_failed(const char *what, const char *file, int line);
#define hk_assert(cond)                                                                                                \
    do {                                                                                                               \
        if (HK_CHECK && hk_unlikely(!(cond)))                                                                          \
            hk_assert_failed(#cond, __FILE__, __LINE__);                                                               \
    } while (0)
