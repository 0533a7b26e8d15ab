/* SPDX-License-Identifier: MIT
 *
 * control_socket.h: a named socket of messages (unix(7), SOCK_SEQPACKET), for one conversation at a time.
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

/* Wakes the thread that waits in sys_control_accept. */
void sys_control_wake(const char *path);

/* Returns a connection, -EAGAIN when none came within that time (UINT32_MAX: no end), or why none will come. */
long sys_control_accept(long listener, uint32_t timeout_ms);

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
