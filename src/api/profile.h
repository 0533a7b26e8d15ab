/* SPDX-License-Identifier: MIT
 *
 * profile.h: HAKMEM_PROFILE and HAKMEM_LEAKS, at the start and at the end of the process.
 */
#pragma once

#include "base/base.h"

void hk_profile_at_start(void);

/* The profile goes to its file; leaks are reported, which may end the process. `frame`: leaks.h. */
void hk_profile_at_exit(const void *frame);
