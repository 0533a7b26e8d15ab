/* SPDX-License-Identifier: MIT
 *
 * spare.h: slots that a thread takes beside those that it asks for, so that it does not come again soon.
 *
 * A thread that had to wait for the pool's lock will have to wait again, and the slots beside its run would go to
 * others: then each thread has a slot here and a slot there, too few of a superslab to cut the next run from. So it
 * takes what is free of the superslab as well, resident slots if there are any.
 */
#pragma once

#include "superslab/pool.h"

typedef struct slots_spare {
    unsigned most; /* how many the caller keeps; 0: none */
    bool waited;   /* the answer: somebody had the lock */
    bool fresh;    /* none is resident, so they read as zeros */
    uint32_t superslab, mask;
} slots_spare_t;

/* After slots [first, first + count) were taken. */
void pool_take_spare_locked(slot_t first, size_t count, slots_spare_t *spare);
