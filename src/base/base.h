/* SPDX-License-Identifier: MIT
 *
 * base.h: compiler attributes and the few words that every room uses. Header only, no state.
 *
 * This room and sys/ are the only places where `#if` may appear (scripts/check-layers).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define hk_likely(x)   __builtin_expect(!!(x), 1)
#define hk_unlikely(x) __builtin_expect(!!(x), 0)

#define HK_INLINE   static inline __attribute__((always_inline))
#define HK_NOINLINE __attribute__((noinline))
#define HK_COLD     __attribute__((noinline, cold))
#define HK_RARE     __attribute__((section(".bss.rare"))) /* zeros that few processes touch: behind the others */
#define HK_EXPORT   __attribute__((visibility("default")))
#define HK_HIDDEN   __attribute__((visibility("hidden"))) /* on a declaration: it is near, no GOT */

/* A function of the fast path begins a pair of lines of the cache: where it lies by chance is up to 4 % of a pair, and
 * up to 6 % of a tree of small blocks. */
#define HK_FAST __attribute__((aligned(128)))

/* A function that looks at records without their lock, for a report or an answer that may be out of date when it is
 * given: what it reads stays mapped, and every value it may find is bounded before it is used. */
#define HK_SNAPSHOT __attribute__((no_sanitize("thread")))

/* A second exported name of a function. */
#if defined(__clang__)
#define HK_ALIAS(of) __attribute__((alias(#of), visibility("default")))
#else
#define HK_ALIAS(of) __attribute__((alias(#of), visibility("default"), copy(of)))
#endif

#define HK_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define HK_ALIGNED(n)   __attribute__((aligned(n)))
#define HK_CACHE_LINE   64

#define HK_KIB ((size_t)1024)
#define HK_MIB (HK_KIB * 1024)
#define HK_GIB (HK_MIB * 1024)

/* HK_CHECK is 1 in the check build (every invariant verified) and 0 in a release build. */
#ifndef HK_CHECK
#define HK_CHECK 0
#endif

/* 1 in files that are compiled to be small: what is long and wanted in many places is called there. */
#if defined(__OPTIMIZE_SIZE__)
#define HK_SMALL 1
#else
#define HK_SMALL 0
#endif

/* True when the code is instrumented by ThreadSanitizer, whose shadow layout forbids hand-picked addresses. */
#if defined(__SANITIZE_THREAD__)
#define HK_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HK_TSAN 1
#endif
#endif
#ifndef HK_TSAN
#define HK_TSAN 0
#endif

#if defined(__x86_64__)
#define HK_X86_64 1
#else
#define HK_X86_64 0
#endif

/* Keeps the compiler from computing `x` twice in two forms; no instruction of its own. */
#define HK_OPAQUE(x) __asm__("" : "+r"(x))

/* Keeps the compiler from merging the ends of two paths into one with a jump; no instruction of its own. `x` is the
 * pointer that the path returns. */
#if defined(__x86_64__)
#define HK_KEEP_APART(name, x) __asm__ volatile("/* " name " */" : "+a"(x))
#else
#define HK_KEEP_APART(name, x) __asm__ volatile("/* " name " */" : "+r"(x))
#endif

HK_INLINE size_t hk_min(size_t a, size_t b) { return a < b ? a : b; }
HK_INLINE size_t hk_max(size_t a, size_t b) { return a > b ? a : b; }
