/* SPDX-License-Identifier: MIT
 *
 * timeline.h: what was live when, and what the threads are called. Under hk_sample_lock, but for what asks the kernel.
 */
#pragma once

#include "sample/tables.h"

bool timeline_begin(void);

/* A point of the timeline, if it is time for one. */
void timeline_note(uint64_t now_us);

/* The calling thread's name, by the kernel; empty in a confined process. */
void sample_thread_name(char name[PROFILE_NAME_BYTES]);

/* Writes it to place `place` of the table of threads, or, when that is 0, to a new one, which is returned. 0: there is
 * no room. */
uint32_t thread_note(uint32_t place, uint32_t thread, uint32_t heap, const char name[PROFILE_NAME_BYTES]);
