/* SPDX-License-Identifier: MIT */
#include "start/load.h"

#include "core/message.h"
#include "heap/magazine.h"
#include "heap/quarantine.h"
#include "limit/limit.h"
#include "map/meta.h"
#include "start/fork.h"
#include "start/start.h"
#include "superslab/superslab.h"
#include "sys/sys.h"
#include "unwind/unwind.h"

#include <errno.h>
#include <string.h>

/* One block of each tiny class in and out fills half of its first magazine. */
static void fill_magazines(heap_t *h) {
    for (unsigned cls = 0; cls < HK_TINY_CLASSES; cls++) {
        void *block = magazine_alloc(h, cls);
        if (block != NULL)
            magazine_free(h, cls, block);
    }
}

/* Limits, and the machine's memory, leave room for other things than this. */
static size_t within_limits(size_t bytes) {
    const char *what = "the memory limit of the process";
    size_t room = limit_room(), addresses = sys_address_space_room(), available = sys_available_bytes();
    if (addresses < room)
        what = "RLIMIT_AS", room = addresses;
    if (available < room)
        what = "the machine's memory", room = available;
    size_t most = room == SIZE_MAX ? SIZE_MAX : room / 4 * 3;
    if (bytes <= most)
        return bytes;
    hk_message("HAKMEM_WARMUP: %zu MiB of %zu, as %s leaves no room for more", most / HK_MIB, bytes / HK_MIB, what);
    return most;
}

void heap_warm_up(size_t bytes) {
    heap_t *h = heap_current();
    if (h == NULL)
        return;
    if (!hardened_is_on())
        fill_magazines(h);
    bytes = within_limits(bytes);
    size_t count = (bytes + HK_SUPERSLAB_SIZE - 1) >> HK_SUPERSLAB_SHIFT;
    size_t taken_bytes = (count + 1) * sizeof(slot_t); /* there are no records of no bytes */
    slot_t *taken = meta_alloc(taken_bytes);
    size_t got = 0;
    while (taken != NULL && got < count) {
        slot_t first = slots_alloc(HK_SLOTS_PER_SUPERSLAB, HK_SLOTS_PER_SUPERSLAB, SLOTS_DENSE).first;
        if (first == 0)
            break;
        taken[got++] = first;
        char *from = map_slot_address(first);
        int error = sys_populate(from, HK_SUPERSLAB_SIZE);
        if (error == EINVAL) /* before Linux 5.14 */
            memset(from, 0, HK_SUPERSLAB_SIZE);
        else if (error != 0)
            break;
    }
    for (size_t i = 0; i < got; i++)
        slots_free(taken[i], HK_SLOTS_PER_SUPERSLAB, true);
    meta_free(taken, taken_bytes);
}

/* A handler that calls exit may have interrupted a call of this thread that holds the heap's lock, or has freed half of
 * a block: then nothing is looked at. Where the stack does not tell, the lock does. */
HK_INLINE bool is_between_calls(heap_t *h) {
    const unwind_end_t end = unwind_follow();
    if (end == UNWIND_SIGNAL || end == UNWIND_COMPLETE)
        return end == UNWIND_COMPLETE;
    const bool is_free = hk_try_lock(&h->lock);
    if (is_free)
        heap_unlock(h);
    return is_free;
}

const hk_lock_t *heap_stuck_at_exit(void) { return unwind_follow() == UNWIND_COMPLETE ? NULL : fork_stuck_lock(); }

void heap_at_exit(void) {
    heap_front_t *front = hk_front;
    if (hardened_is_on() && front != &hk_no_heap && is_between_calls(heap_of_front(front)))
        quarantine_drain(heap_of_front(front));
}
