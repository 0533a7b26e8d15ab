/* SPDX-License-Identifier: MIT */
#include "shim/stay.h"

#include "sys/libc_doors.h"

/* What the archive's objects are linked into is another's to mark: a plug-in that is closed would take our code
 * along. */
void stay_loaded(void) { libc_refuse_unload(); }
