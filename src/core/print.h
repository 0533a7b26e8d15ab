/* SPDX-License-Identifier: MIT
 *
 * print.h: text without allocation, without stdio, without locale.
 *
 * An hk_out_t writes to the caller's memory, or to a file descriptor behind that. It belongs to the function that
 * declares it; nothing is shared. Conversions: %s %c %d %u %x %p %% with the length modifiers `l` and `z`, field width
 * and `-` (`%-20s`, `%8zu`), and `%.*s`. Errors of write(2) are ignored: there is nobody to tell.
 */
#pragma once

#include "base/base.h"

#include <stdarg.h>

enum { HK_OUT_BUFFER = 512 }; /* bytes of a buffer in front of a descriptor */

typedef struct hk_out {
    int fd;       /* -1: the text stays in `memory`, which is NUL-terminated when memory_size > 0 */
    char *memory; /* the caller's */
    size_t memory_size;
    size_t total;  /* characters produced so far, also those that did not fit */
    size_t length; /* characters waiting in `memory` for `fd` */
} hk_out_t;

/* `buffer` is not empty: there characters wait until it is full, or for the flush. */
void hk_out_to_fd(hk_out_t *out, int fd, char *buffer, size_t buffer_size);
void hk_out_to_memory(hk_out_t *out, char *memory, size_t memory_size);
void hk_out_flush(hk_out_t *out);
void hk_print(hk_out_t *out, const char *format, ...) HK_PRINTF(2, 3);
void hk_vprint(hk_out_t *out, const char *format, va_list args);

/* Into memory alone. Returns how many characters it would be with room enough. */
size_t hk_vformat(char *memory, size_t memory_size, const char *format, va_list args);

/* A file's name, with the number of the process for %p. False when it gets too long. */
bool hk_path_expand(char *path, size_t size, const char *name);
