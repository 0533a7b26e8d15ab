/* SPDX-License-Identifier: MIT
 *
 * confine.h: the program puts itself under a filter of system calls.
 */
#pragma once

/* From here on hakmem makes no system calls but those of sys/confined.h. */
void hk_confine(void);
