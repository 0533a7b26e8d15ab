/* SPDX-License-Identifier: MIT */
#include "core/counters.h"

hk_counters_t hk_counters;
