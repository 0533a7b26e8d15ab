/* SPDX-License-Identifier: MIT
 *
 * filling.h: whether a program fills its long runs.
 *
 * A run of several superslabs may be a buffer that is filled from its start, or a table of which a page here and there
 * is used. Huge pages take a tenth of the faults of the first and multiply the memory of the second. Nothing tells them
 * apart when they are allocated, so the program's past decides: when a run that was fresh is freed, or another is taken
 * while nothing is known of such sizes, some superslabs of it are looked at (mincore). Once two runs in a row were
 * found filled, those of up to twice the size of the larger are expected to be filled too. A huge page is resident as
 * a whole, so one run in EXPECT_AFRESH gets small pages, to be looked at. Where runs are not filled, one in eight is
 * looked at.
 */
#pragma once

#include "base/base.h"

/* Looks at the run [start, start + size), whose pages were fresh when the program got it. */
void filling_observe(const char *start, size_t size);

/* A fresh run of small pages, to be looked at when the next is asked for. */
void filling_remember(const char *start, size_t size);

/* Whether a new run of `size` bytes should get huge pages, by what was observed. */
bool filling_expected(size_t size);
