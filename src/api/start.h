/* SPDX-License-Identifier: MIT
 *
 * start.h: what happens at load and at exit, besides the first allocation.
 */
#ifndef HK_START_H
#define HK_START_H

/* Runs by itself. A reference to it takes the file out of the archive. */
void hk_library_loaded(void);

#endif
