/* SPDX-License-Identifier: MIT
 *
 * errors.h: what the kernel's error numbers mean, for messages. As strerror(3) says it, which may allocate and depends
 * on the locale. Any thread, in signal handlers too.
 */
#pragma once

#include "base/base.h"

enum { HK_ERROR_TEXT = 32 };

/* The words for `error` (errno(3)), or "error 123" in `buffer` of HK_ERROR_TEXT bytes. */
const char *hk_error_text(long error, char *buffer);
