/* SPDX-License-Identifier: MIT
 *
 * messages.h: words of remote frees, sent to the heap that owns their slabs, many at a time.
 */
#ifndef HK_MESSAGES_H
#define HK_MESSAGES_H

#include "heap/heap.h"

/* Puts the word into the heap's message for its slab's owner; one that is full is sent before. False when there is none for this
 * owner: no memory, a crowd, too many wait there already, or the place serves another owner until everything is posted. The heap's
 * thread, or anybody once the thread is gone. */
bool message_add(heap_t *h, const remote_entry_t *word);

/* Sends what there is. As above. */
void messages_send(heap_t *h);

/* Sends the word in a message of its own. False when there is no memory for it. Any thread. */
bool message_send_alone(uint32_t to, const remote_entry_t *word);

/* Whether the block that `word` has the bit of lies in a message that the heap fills; in one that waits in its inbox or is being
 * opened. For reports; they take no lock. */
bool messages_hold_out(const heap_t *h, const remote_entry_t *word);
bool messages_hold_in(const heap_t *h, const remote_entry_t *word);

#endif
