/* SPDX-License-Identifier: MIT */
#include "shim/stay.h"

/* The linker has marked the library as one that stays (-z nodelete). */
void stay_loaded(void) {}
