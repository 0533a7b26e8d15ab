/* SPDX-License-Identifier: MIT
 *
 * panic.h: what happens when the program misuses the allocator, and when the allocator finds a bug of its own.
 *
 * One format for every report, one line, one write, no allocation:
 *
 *   hakmem: double free of 0x7f... (64-byte block, free), called from 0x55d0c1a2b1a6 (/usr/bin/program+0x11a6)
 *   hakmem: free of interior pointer 0x7f... (48-byte block at 0x7f..., offset 16, allocated), called from 0x55...
 *
 * The caller is written as core/place.h says, and left out where it is not known.
 *
 * `HAKMEM_ON_ERROR` decides what follows: abort (default), report (print and go on), ignore (go on silently).
 */
#ifndef HK_PANIC_H
#define HK_PANIC_H

#include "base/base.h"

#include <stdatomic.h>

/* Reports a misuse of the interface: "hakmem: <what> <ptr> (<detail>), called from <caller>"; `what` is as in "double
 * free of" or "free of interior pointer", a NULL `caller` is not known. Counts it, prints it and aborts as
 * HAKMEM_ON_ERROR says. Returns only when the program is to go on. The caller holds no lock. */
void hk_misuse(const char *what, const void *ptr, const void *caller, const char *detail_format, ...) HK_PRINTF(4, 5);

/* What is called between a report that knows its caller and what follows: it shows the stack (watch/stack.h). Set once,
 * before there are threads; core/ is below those who can. */
void hk_misuse_stack_init(void (*show)(const void *caller));

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

#endif
