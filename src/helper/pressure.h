/* SPDX-License-Identifier: MIT
 *
 * pressure.h: gives memory back when the system says that it is short.
 *
 * The protocol is systemd's: MEMORY_PRESSURE_WATCH names a pressure file (PSI), a pipe or a stream socket,
 * MEMORY_PRESSURE_WRITE is what to write to it first, in base64. /dev/null, which is none of these, says that nothing
 * is to be watched. A thread like the helper sleeps on that file; it exists only in processes that have the first
 * variable and whose heap has been larger than 32 MiB. It stays while the program forks, but gives nothing back then:
 * it works under the lock of our threads' start and stop (door.h).
 *
 * Source: https://systemd.io/MEMORY_PRESSURE
 */
#pragma once

#include "base/base.h"

/* The process is not small, and the file was not yet opened, or is to be opened again. */
bool pressure_is_wanted(void);

/* Start the watcher if it is wanted and not there; make it leave, until it is started again. Under the lock of the
 * helper's start and stop (helper/door.h), with no other. */
void pressure_start(void);
void pressure_dismiss(void);

/* Whether the watcher is there, or was some microseconds ago. */
bool pressure_is_alive(void);

void pressure_after_fork_in_child(void);

/* Decodes base64; returns the bytes, SIZE_MAX when it is malformed or does not fit. */
size_t base64_decode(const char *text, unsigned char *out, size_t size);
