/* SPDX-License-Identifier: MIT
 *
 * blanks.h: memory of messages that were opened, for those that are begun next.
 *
 * Where blocks change threads a message is begun for some tens of frees, by one thread, and opened by another: the one
 * lock of all metadata would be what many processors wait for. So blanks lie on a few lists, for none of which anybody
 * waits: who finds one taken goes on to the next, and from the last to the metadata. A heap begins with the list of its
 * id, so most find their own free, with what they opened themselves.
 *
 * Any thread, with or without the lock of a heap. The child of a fork does without a list that was taken at the time.
 */
#pragma once

#include "heap/heap.h"

/* Memory for a message that heap `id` begins; NULL when there is none. */
message_t *blank_take(uint32_t id);

/* Messages that heap `id` has opened, linked from `first` to `last`. */
void blanks_give(uint32_t id, message_t *first, message_t *last);
