/* SPDX-License-Identifier: MIT
 *
 * raw_call.h: the raw system call, per architecture. Returns the kernel's value: -4095..-1 is a negated errno.
 *
 * Source: syscall(2), "Architecture calling conventions".
 */
#pragma once

#include "base/base.h"

#include <sys/syscall.h>

#if defined(__x86_64__)
HK_INLINE long sys_call6(long number, long a, long b, long c, long d, long e, long f) {
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}
#elif defined(__aarch64__)
HK_INLINE long sys_call6(long number, long a, long b, long c, long d, long e, long f) {
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
}
#else
#error "hakmem runs on x86-64 and aarch64"
#endif

HK_INLINE long sys_call4(long n, long a, long b, long c, long d) { return sys_call6(n, a, b, c, d, 0, 0); }
HK_INLINE long sys_call3(long n, long a, long b, long c) { return sys_call6(n, a, b, c, 0, 0, 0); }
HK_INLINE long sys_call2(long n, long a, long b) { return sys_call6(n, a, b, 0, 0, 0, 0); }
HK_INLINE long sys_call1(long n, long a) { return sys_call6(n, a, 0, 0, 0, 0, 0); }

HK_INLINE bool sys_failed(long result) { return (unsigned long)result > (unsigned long)-4096; }

/* 0, or a positive errno value. */
HK_INLINE int sys_error(long result) { return sys_failed(result) ? (int)-result : 0; }
