/* SPDX-License-Identifier: MIT
 *
 * round.h: one look at everything that may go back to the kernel. By the helper thread, by a free where there is
 * none, and all at once by a trim. Uses neither libc nor thread-local storage; takes only those heaps' locks that are
 * free, and purges without a lock.
 */
#pragma once

#include "base/base.h"

/* What memory must lie free for before it goes: 0 near a limit, UINT64_MAX for ever. */
uint64_t upkeep_delay_ms(void);

/* True when there is something left to do. */
bool upkeep_round(void);

/* What a free would call the helper for. */
bool upkeep_waits(void);

/* Gives back all that can be given back but for what the calling thread's own magazines hold. Returns the bytes. */
size_t heap_relieve(void);

/* heap_relieve for who asks for it: what is free is unmapped too. Not before each fork, which would map it again. Of
 * several threads that ask at the same time one does it for all. */
size_t heap_trim(void);

/* In the child of a fork, where no thread is in a round. */
void upkeep_after_fork_in_child(void);
