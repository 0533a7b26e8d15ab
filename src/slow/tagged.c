/* SPDX-License-Identifier: MIT */
#include "slow/tagged.h"

#include "map/pointer.h"
#include "slow/classify.h"
#include "watch/misuse.h"

/* The block of the pointer was freed. That its memory is another's by now, the tag alone tells; what lies free is told
 * as it is without tags. */
static HK_COLD void report_stale(const char *verb, const void *pointer, const void *right, const void *caller) {
    void *block = tags_strip(right);
    hk_assert(pointer != right && map_slot(block) < map_count());
    const found_t found = classify(verb, block, caller);
    if (found.kind == KIND_FOREIGN)
        misuse_no_block(verb, block, caller);
    else if (found.kind != KIND_NONE)
        misuse_stale(verb, pointer, right, found.size, caller);
}

void *tagged_look(const char *verb, const void *block, const void *caller) {
    void *plain = tags_strip(block);
    if (map_slot(plain) >= map_count())
        return (void *)(uintptr_t)block; /* not ours to know */
    const void *right = pointer_to(plain);
    if (hk_likely(block == right))
        return plain;
    report_stale(verb, block, right, caller);
    return NULL;
}
