/* SPDX-License-Identifier: MIT
 *
 * orders.h: what the process does when somebody outside asks (core/request.h).
 */
#pragma once

#include "base/base.h"

/* Writes all statistics into memory; returns how many characters there are, also of those that did not fit. */
typedef size_t inspect_statistics_t(char *text, size_t size);

/* From now on requests are followed. */
void inspect_follow_orders(inspect_statistics_t *statistics);
