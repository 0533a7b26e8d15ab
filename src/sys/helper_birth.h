/* SPDX-License-Identifier: MIT
 *
 * helper_birth.h: what a thread of ours gives up before it does anything else, so that it never has a right that the
 * program has given up, and does not compete with the program's threads.
 *
 *   file system   root, working directory and umask are shared with the thread that started it (CLONE_FS): chdir(2) and
 *                 chroot(2) of the program concern it, and it keeps nothing busy
 *   capabilities  none, and none to be had: PR_SET_NO_NEW_PRIVS
 *   ids           where the thread has the right to change ids, as the program then has, it takes a user and a group
 *                 that nobody uses, the last ones of the user namespace, and no other groups. Where it has not, nobody
 *                 in the process has: its ids are then the process's for good. Ids among which the program may still
 *                 choose (a set-user-id program without capabilities) cannot be given up so: there the thread does not
 *                 live. In a new user namespace, until it is given ids, there is nothing to choose from
 *   scheduling    SCHED_OTHER, the nice value and the processors of the main thread, whichever thread started it
 *
 * A change of ids takes from the kernel's record of the memory, which all threads share, that it may be dumped and
 * traced (PR_SET_DUMPABLE); it is put back at once. The thread that starts ours holds its own signals back and waits
 * until that is done, so that no change of ids by libc, which every thread takes part in, lies in between: those end
 * as they would without us.
 *
 * In a process that was started under a filter of system calls lists of services leave out these calls, and may kill
 * for them. Before the first thread that has something to give up, a child process with a copy of the memory makes them
 * all. When it lives and nothing was refused, threads are born as everywhere. Else a thread gives up nothing, keeps the
 * rights of its birth and leaves when the process's change. The child makes the calls of sys_may_make_new_calls
 * (confined.h) too; one that was killed before it came to them is followed by another.
 *
 * Source: capabilities(7), credentials(7), prctl(2), user_namespaces(7); commit_creds in the kernel.
 */
#pragma once

#include "base/base.h"

#include <stdatomic.h>

enum { BIRTH_UNDER_WAY = 0, BIRTH_DONE, BIRTH_REFUSED };

/* False in a process under a filter that refuses the calls, or has not been asked because there was nothing to give
 * up. */
bool helper_gives_up(void);

/* Whether the calling thread has a capability, or ids to choose from, and does not give them up. Read from /proc, as
 * the calls that ask may be forbidden; true when it cannot be read. */
bool helper_keeps_rights(void);

/* For the thread that starts one, with all signals held back: whether it has to wait until the birth is over. */
bool helper_birth_takes_long(void);

/* For the thread that is born. `state`, where the other one waits, is BIRTH_UNDER_WAY before. False: it must not
 * live. */
bool helper_birth(_Atomic uint32_t *state);
