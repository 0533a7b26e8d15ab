/* SPDX-License-Identifier: MIT
 *
 * watch_file.h: files that report events.
 */
#pragma once

#include "sys/file.h"

/* What reports events: a pressure file (PSI), a pipe, or a stream socket (AF_UNIX) to connect to. `data` is written to
 * it first. False when it is something else or cannot be opened. sys_watch_wait says whether there was an event, none
 * in timeout_ms (UINT32_MAX: never), or that none will come any more. sys_watch_cancel, by another thread, makes it say
 * the last now and whenever it is called again. sys_watch_close leaves a descriptor alone that the program has made
 * another file of. */
typedef struct sys_watch {
    sys_file_t file;
    sys_file_t bell; /* a socket that nothing comes from but its shutdown */
    bool is_stream;  /* events are bytes to be read */
} sys_watch_t;

bool sys_watch_open(sys_watch_t *watch, const char *path, const void *data, size_t size);
typedef enum sys_watch_seen { SYS_WATCH_OVER = 0, SYS_WATCH_EVENT, SYS_WATCH_QUIET } sys_watch_seen_t;
sys_watch_seen_t sys_watch_wait(const sys_watch_t *watch, uint32_t timeout_ms);
void sys_watch_cancel(const sys_watch_t *watch);
void sys_watch_close(sys_watch_t *watch);
