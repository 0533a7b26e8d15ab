/* SPDX-License-Identifier: MIT
 *
 * heaps.h: statistics of heaps that the program made, by their names.
 */
#pragma once

#include <stdint.h>

/* `path` is "NAME/FIELD", FIELD one of hak_heap_stats_t. Returns 0 or ENOENT. */
int heaps_stat_read(const char *path, uint64_t *value);
