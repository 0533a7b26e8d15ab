/* SPDX-License-Identifier: MIT
 *
 * exit_stats.h: statistics at exit, and the names of files that are written then.
 */
#ifndef HK_EXIT_STATS_H
#define HK_EXIT_STATS_H

#include "base/base.h"

/* Prints what HAKMEM_STATS asks for. To be called once, as late in the process as may be. */
void hk_stats_at_exit(void);

/* A file's name, with the number of the process for %p. False when it gets too long. */
bool hk_path_expand(char *path, size_t size, const char *name);

#endif
