/* SPDX-License-Identifier: MIT
 *
 * report.h: how a conformance program writes down what the allocator answered.
 *
 * One line per call: `call = answer`. The same program runs on the C library's malloc and on hakmem and compare.py
 * compares the outputs line by line. A line that may rightly differ begins with `~`; it still has to be there.
 * Text goes straight to a descriptor, so that printing does not disturb what is being observed.
 */
#ifndef HAKMEM_TEST_REPORT_H
#define HAKMEM_TEST_REPORT_H

#include "testing.h"

#define REPORT(...)     test_say(__VA_ARGS__)
#define REPORT_MAY(...) test_say("~ " __VA_ARGS__)

/* errno as a name: numbers differ between machines, and a reader knows names. */
static inline const char *error_name(int error) {
    switch (error) {
    case 0:
        return "0";
    case ENOMEM:
        return "ENOMEM";
    case EINVAL:
        return "EINVAL";
    case ENOSYS:
        return "ENOSYS";
    case 4711:
        return "untouched";
    default:
        return "other";
    }
}

static inline const char *yes_no(bool yes) { return yes ? "yes" : "no"; }
static inline const char *null_or_block(const void *p) { return p == NULL ? "NULL" : "block"; }

/* Largest power of two, up to 1 MiB, that divides every one of the addresses or-ed together. */
static inline bool aligned_to(const void *p, size_t alignment) { return (uintptr_t)p % alignment == 0; }

#endif
