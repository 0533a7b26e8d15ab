/* SPDX-License-Identifier: MIT
 *
 * parse.h: numbers and sizes as text. False when there is none, when it does not fit, or, but for those that move
 * `*text` behind what they read, when something follows.
 */
#pragma once

#include "core/print.h"

HK_INLINE char hk_lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

/* Decimal digits. */
bool hk_parse_digits(const char **text, int64_t *value);

/* Also below 0. */
bool hk_parse_number(const char *text, int64_t *value);

/* 64M, 64MB and 64MiB are the same number of bytes. */
bool hk_parse_size(const char *text, int64_t *value);
bool hk_parse_size_part(const char **text, int64_t *value);

/* With the largest unit of which it is a multiple. */
void hk_print_size(hk_out_t *out, int64_t size);
