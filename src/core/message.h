/* SPDX-License-Identifier: MIT
 *
 * message.h: what hakmem says to the user of the program: on standard error, or at the end of the file that
 * HAKMEM_LOG names. Allocates nothing, takes no lock, and may be called in a signal handler.
 *
 * The file is opened for each message and closed behind it: no descriptor of the program's is taken, the child of a
 * fork writes to its own file where the name has a %p, and a file that was moved away is made anew. Where it cannot be
 * opened, one message says so on standard error, and what was to be said follows there.
 */
#pragma once

#include "base/base.h"

/* HK_BUILD_INFO, once. */
extern const char hk_build_info[] HK_HIDDEN;

/* One line, prefixed by "hakmem: " and ended by a newline, in a single write. */
void hk_message(const char *format, ...) HK_PRINTF(1, 2);

/* Whole lines, in a single write. */
void hk_message_write(const char *lines, size_t length);

/* The name of the file from now on, which stays as it is; NULL: standard error. */
void hk_message_to(const char *name);

/* Says at once when the file could not be opened. Makes none. */
void hk_message_check(void);
