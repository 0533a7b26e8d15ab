/* SPDX-License-Identifier: MIT */
#include "core/events.h"

SYS_DEFINE_PROBE("hakmem", "map", "hk_trace_map", 1);
SYS_DEFINE_PROBE("hakmem", "purge", "hk_trace_purge", 2);
SYS_DEFINE_PROBE("hakmem", "limit", "hk_trace_limit", 2);
SYS_DEFINE_PROBE("hakmem", "misuse", "hk_trace_misuse", 1);
