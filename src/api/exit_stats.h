/* SPDX-License-Identifier: MIT
 *
 * exit_stats.h: statistics at exit.
 */
#pragma once

#include "base/base.h"

/* Prints what HAKMEM_STATS asks for. To be called once, as late in the process as may be. */
void hk_stats_at_exit(void);
