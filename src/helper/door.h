/* SPDX-License-Identifier: MIT
 *
 * door.h: the lock of the start and the stop of our threads. A fork holds it too. So does each thread of ours that
 * stays while the program forks, at all times when it may hold another lock.
 */
#pragma once

#include "sys/helper_thread.h"

/* Between two looks of a thread of ours at the process's rights: of one that has some, and of one that has none. */
enum { OUR_LOOK_MS = 1000, OUR_LONG_LOOK_MS = 10000 };

/* True when the calling thread holds it from now on: at once, or after it has waited, as who forks does. Its holder
 * holds back the signals that others send: a handler that forks must not come upon its own thread here. */
typedef enum door_enter { DOOR_TRY, DOOR_WAIT, DOOR_TO_FORK } door_enter_t;
bool door_enter(door_enter_t how);
void door_leave(void);

/* For this thread of ours. False when it is told to leave, and not entered: who tells it holds the door. */
bool door_enter_by(const sys_helper_t *self);

/* As door_leave, and then starts the helper where there is something to give back: the thread that freed it meanwhile
 * found the door taken, and left the start to the holder. */
void door_leave_looking(void);

/* Whether the holder holds back signals. */
extern bool hk_door_signals_held HK_HIDDEN; /* guarded by the door */
HK_INLINE bool door_holds_signals(void) { return hk_door_signals_held; }

/* In a child that was made without fork handlers. */
void door_after_unseen_fork(void);
