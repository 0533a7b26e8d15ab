/* SPDX-License-Identifier: MIT
 *
 * wide.h: a function marked HK_WIDE is code for the widest registers that many processors have (x86-64: AVX2). It may
 * run only where hk_has_wide says so: the processor has them, and the kernel saves them.
 *
 * Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, "Detection of Intel AVX2".
 */
#pragma once

#include "base/base.h"

typedef uint64_t __attribute__((vector_size(32), may_alias, aligned(16))) hk_wide_t;

#if HK_X86_64
#include <cpuid.h>

#define HK_WIDE __attribute__((target("avx2")))
HK_INLINE bool hk_has_wide(void) {
    enum { STATE_IS_READ = 1 << 27, WIDE = 1 << 5, STATE = 6 /* what the kernel saves of the registers */ };
    unsigned a, b, c, d, state, upper;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & STATE_IS_READ) == 0)
        return false;
    __asm__("xgetbv" : "=a"(state), "=d"(upper) : "c"(0));
    return (state & STATE) == STATE && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & WIDE) != 0;
}

#else
#define HK_WIDE
HK_INLINE bool hk_has_wide(void) { return false; }
#endif

/* In a function marked HK_WIDE. Clang, and GCC without optimisation, refuse the instruction in this function, which is
 * marked as none. */
#if HK_X86_64 && defined(__OPTIMIZE__) && !defined(__clang__)
HK_INLINE bool hk_wide_is_zero(const hk_wide_t *value) {
    bool is;
    __asm__("vptest %1, %1" : "=@ccz"(is) : "x"(*value));
    return is;
}
#else
HK_INLINE bool hk_wide_is_zero(const hk_wide_t *value) {
    return ((*value)[0] | (*value)[1] | (*value)[2] | (*value)[3]) == 0;
}
#endif
