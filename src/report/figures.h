/* SPDX-License-Identifier: MIT
 *
 * figures.h: where the memory of the process is, as a profile's file says it: parts that add up to what is resident,
 * and what went back to the kernel since the start.
 */
#pragma once

#include "base/base.h"

/* An image_figures_t (sample/image.h). */
size_t hk_figures_text(char *text, size_t size);
