/* SPDX-License-Identifier: MIT */
#include "start/stay.h"

/* The linker has marked the library as one that stays (-z nodelete). */
void stay_loaded(void) {}
