/* SPDX-License-Identifier: MIT
 *
 * control_socket.h: a named socket of messages (unix(7), SOCK_SEQPACKET), for one conversation at a time. Who has
 * connected and sent nothing yet is a guest, and keeps nobody waiting.
 */
#pragma once

#include "base/base.h"

enum { SYS_CONTROL_PATH_MAX = 108 }; /* with the NUL: sockaddr_un */
#define SYS_NO_USER UINT32_MAX

/* Returns a descriptor of a socket that listens at `path` and that this user alone may open, or a negated errno value.
 * A socket there that nobody listens at is replaced; anything else there stays: -EADDRINUSE. */
long sys_control_listen(const char *path);

/* A connection to the socket of this type at `path`, or a negated errno value. */
long sys_connect(const char *path, int type);

/* Wakes the thread that waits in sys_control_next. */
void sys_control_wake(const char *path);

enum { SYS_CONTROL_GUESTS = 8 };

/* The oldest first. All zeros: none. */
typedef struct sys_control_guests {
    uint32_t count;
    int fds[SYS_CONTROL_GUESTS];
    uint64_t until_ms[SYS_CONTROL_GUESTS];
} sys_control_guests_t;

/* Returns a connection that has something to read, or has ended; -EAGAIN when there was none within `timeout_ms`
 * (UINT32_MAX: no end), or a guest came or went; or why none will come. A guest is let go after `patience_ms`, and the
 * oldest where there is no room for another one. */
long sys_control_next(long listener, sys_control_guests_t *guests, uint32_t timeout_ms, uint32_t patience_ms);

/* The effective user id of the other end, as seen from here; SYS_NO_USER where that is not known. */
uint32_t sys_control_peer(long connection);

/* That of the process's main thread; SYS_NO_USER where /proc does not tell. */
uint32_t sys_effective_user(void);

/* A message's length, which may be more than `size`, or a negated errno value. */
long sys_control_receive(long connection, void *data, size_t size, uint32_t timeout_ms);

/* `file`: a descriptor that goes with it, -1 for none. */
void sys_control_send(long connection, const void *data, size_t size, long file);

/* A file in memory (memfd_create(2)), or a negated errno value. */
long sys_memory_file(const char *name);
