/* SPDX-License-Identifier: MIT
 *
 * start.h: what happens at load and at exit, besides the first allocation.
 */
#pragma once

/* Runs by itself. A reference to it takes the file out of the archive. */
void hk_library_loaded(void);
