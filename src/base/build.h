/* SPDX-License-Identifier: MIT
 *
 * build.h: what the compiler says of this build, as string literals. No state.
 *
 * HK_BUILD_TYPE is a string that the build passes by -D ("release", "check", "asan", ...).
 */
#pragma once

#include "base/base.h"
#include "hakmem.h"

#include <limits.h> /* makes a C library that names itself do so */

#ifndef HK_BUILD_TYPE
#define HK_BUILD_TYPE "custom"
#endif

#define HK_STRING_(x) #x
#define HK_STRING(x)  HK_STRING_(x)

#define HK_VERSION_TEXT HK_STRING(HAK_VERSION_MAJOR) "." HK_STRING(HAK_VERSION_MINOR) "." HK_STRING(HAK_VERSION_PATCH)

#if defined(__clang__)
#define HK_COMPILER                                                                                                    \
    "clang " HK_STRING(__clang_major__) "." HK_STRING(__clang_minor__) "." HK_STRING(__clang_patchlevel__)
#elif defined(__GNUC__)
#define HK_COMPILER "gcc " __VERSION__
#else
#define HK_COMPILER "unknown compiler"
#endif

#if defined(__x86_64__)
#define HK_ARCHITECTURE "x86_64"
#elif defined(__aarch64__)
#define HK_ARCHITECTURE "aarch64"
#else
#define HK_ARCHITECTURE "unknown architecture"
#endif

#if defined(__GLIBC__)
#define HK_C_LIBRARY "glibc " HK_STRING(__GLIBC__) "." HK_STRING(__GLIBC_MINOR__)
#else
#define HK_C_LIBRARY "musl"
#endif

#if HK_CHECK
#define HK_BUILD_CHECKS ", invariants checked"
#else
#define HK_BUILD_CHECKS ""
#endif

#define HK_BUILD_INFO                                                                                                  \
    "hakmem " HK_VERSION_TEXT ", " HK_COMPILER ", " HK_ARCHITECTURE " linux, " HK_C_LIBRARY ", " HK_BUILD_TYPE         \
    " build" HK_BUILD_CHECKS
