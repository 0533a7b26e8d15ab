/* SPDX-License-Identifier: MIT
 *
 * A huge block that becomes smaller: its pages go back to the kernel while other threads find theirs.
 */
#include "large/huge.h"
#include "rooms.h"
#include "sys/sys.h"

#include <pthread.h>
#include <stdatomic.h>

enum { TRIES = 10 };
#define LARGE_BYTES (64 * HK_MIB) /* takes the kernel milliseconds */

static char *other;
static _Atomic bool shrinks, is_over;
static unsigned found, refused; /* the looker's until it is joined */

static void *look(void *unused) {
    while (!is_over) {
        void *start;
        size_t size;
        bool looks = shrinks, got = huge_find_try(other, &start, &size);
        found += looks && got;
        refused += looks && !got;
    }
    return unused;
}

int main(void) {
    start_map();
    other = huge_alloc(sys_page_size(), 1);
    pthread_t looker;
    CHECK(pthread_create(&looker, NULL, look, NULL) == 0);
    for (unsigned i = 0; i < TRIES; i++) {
        char *block = huge_alloc(LARGE_BYTES, 1);
        CHECK(block != NULL);
        memset(block, 1, LARGE_BYTES);
        shrinks = true;
        CHECK(huge_resize(block, sys_page_size()) == block);
        shrinks = false;
        CHECK(huge_free(block));
    }
    is_over = true;
    CHECK(pthread_join(looker, NULL) == 0);
    /* Held for the whole time, the lock refuses nearly all; half leaves room for a shrinker that waits for a processor
     * where it holds it. Where the looker had none meanwhile, there is nothing to say. */
    CHECK(refused <= found || found + refused == 0);
    return CHECK_PASS;
}
