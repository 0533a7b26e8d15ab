/* SPDX-License-Identifier: MIT
 *
 * slab_check finds SLAB-1, 3 and 4 broken on purpose, and says which slab it is; a slab that is closed with live blocks
 * stops the check build.
 */
#include "rooms.h"
#include "slab_blocks.h"

#include <signal.h>

enum { OWNER = 5, CLS = 19 /* 320 bytes, 204 blocks in 4 words */ };

static slab_t *slab;
static char text[2048];
static void *block; /* the one that is not free */

static void is_found(void) { CHECK(slab_check(slab) > 0); }

static void count_off(void) {
    slab->free_count--;
    is_found();
}

static void bit_lost(void) {
    slab->free_bits[2] &= slab->free_bits[2] - 1;
    is_found();
}

static void bit_behind_the_last(void) {
    slab->free_bits[3] |= UINT64_C(1) << 12;
    slab->free_count++;
    is_found();
}

static void hint_too_high(void) {
    slab->word_hint = 2;
    is_found();
}

static void wrong_owner_in_table(void) {
    map_set(slab_slot(slab), 1, map_tag(OWNER + 1) | CLS);
    is_found();
}

static void wrong_class_in_table(void) {
    map_set(slab_slot(slab), 1, map_tag(OWNER) | (CLS + 1));
    is_found();
}

static void wrong_owner(void) {
    atomic_store(&slab->owner, OWNER + 1);
    is_found();
}

static void closed_too_soon(void) { slab_close(slab); }

static void closed_in_a_list(void) {
    unsigned index = class_block_index(&hk_classes[CLS], block);
    CHECK_EQ(slab_give(slab, index / 64, UINT64_C(1) << (index % 64)), 0);
    slab->list = SLAB_LIST_PARTIAL;
    slab_close(slab);
}

static void breaks(void (*body)(void)) {
    char said[64];
    int status = check_child(body, 2, text, sizeof text);
    if (status != 0)
        fprintf(stderr, "%s", text);
    CHECK_EQ(status, 0);
    snprintf(said, sizeof said, "hakmem: check: slab at %p, class %d, owner ", (void *)slab_base(slab), CLS);
    CHECK_HAS(text, said);
}

static void stops(void (*body)(void)) {
    int status = check_child(body, 2, text, sizeof text);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    CHECK_HAS(text, "hakmem: invariant broken at ");
}

int main(void) {
    start_slab();
    slab = slab_open(CLS, OWNER, true);
    CHECK(slab != NULL && slab->block_count == 204);
    CHECK_EQ(take_blocks(slab, &block + 1, 1), 1);
    CHECK_EQ(slab_check(slab), 0);
    breaks(count_off);
    breaks(bit_lost);
    breaks(bit_behind_the_last);
    breaks(hint_too_high);
    breaks(wrong_owner_in_table);
    breaks(wrong_class_in_table);
    breaks(wrong_owner);
    CHECK_EQ(slab_check(slab), 0);
    if (HK_CHECK) {
        stops(closed_too_soon);
        stops(closed_in_a_list);
    }
    return CHECK_PASS;
}
