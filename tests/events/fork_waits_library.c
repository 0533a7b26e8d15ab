/* SPDX-License-Identifier: MIT */
#include "fork_waits.h"

static fork_waits_t waits = FORK_WAITS_INIT;

static void prepare(void) { fork_waits_prepare(&waits); }
static void release(void) { fork_waits_release(&waits); }

__attribute__((constructor(101))) static void first(void) { (void)pthread_atfork(prepare, release, release); }

fork_waits_t *fork_waits_in_library(void) { return &waits; }
