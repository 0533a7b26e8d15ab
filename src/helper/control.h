/* SPDX-License-Identifier: MIT
 *
 * control.h: HAKMEM_CONTROL=PATH, a socket by which orders come in (core/request.h) where nobody may write them into
 * our memory: under Yama, in another container; and at once in a process that is idle.
 *
 * A thread of ours sleeps on a socket of messages (SOCK_SEQPACKET). The other end must be of the process's effective
 * user or of root (SO_PEERCRED). It sends an hk_order_t, gets a control_reply_t, with a file where the order asks for
 * one (HK_COMMAND_STATISTICS, HK_COMMAND_PROFILE_WRITE), and that is all.
 *
 *   descriptors   the thread has a table of its own, with this socket alone: the program's has none of it, a fork does
 *                 not copy it, and nothing that the program closes closes it
 *   fork          the thread stays, but does nothing while somebody forks: it works under the lock of our threads'
 *                 start and stop (door.h). A child has a socket of its own where PATH has its number (%p), from when
 *                 it has allocated a few megabytes, else none
 *   exec          ends the thread. A socket that nobody listens at any more is replaced
 *   exit          takes the name away
 *
 * It is not there in a confined process (sys/confined.h), nor in one that runs with another's rights (AT_SECURE).
 */
#pragma once

#include "base/base.h"

typedef struct control_reply {
    int64_t status; /* 0 or an errno value */
    uint64_t result;
} control_reply_t;

/* When the library is loaded. */
void control_init(void);

/* There should be such a thread, and is none. */
bool control_is_wanted(void);

/* Start it if it is wanted and not there; make it leave, until it is started again. Under the door. */
void control_start(void);
void control_dismiss(void);

/* Whether it is there, or was some microseconds ago. */
bool control_is_alive(void);

void control_after_fork_in_child(void);

/* The process exits. */
void control_at_exit(void);
