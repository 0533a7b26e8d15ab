/* SPDX-License-Identifier: MIT
 *
 * Blanks: what was opened serves again, for its own heap first and then for any; each is somebody's once, whatever
 * threads take and give at the same time.
 */
#include "heap/blanks.h"

#include "heap_places.h"

#include <pthread.h>

enum { THREADS = 4, TURNS = 200000, HELD = 5, CHAIN = 3, NEAR = 7, FAR = 12 /* another list than NEAR's */ };

static void give_one(uint32_t id, message_t *message) { blanks_give(id, message, message); }

static void serves_again(void) {
    message_t *chain[CHAIN];
    for (unsigned i = 0; i < CHAIN; i++)
        CHECK((chain[i] = blank_take(NEAR)) != NULL);
    for (unsigned i = 0; i + 1 < CHAIN; i++)
        chain[i]->next = chain[i + 1];
    message_t *alone = blank_take(FAR);
    CHECK(alone != NULL && alone != chain[0] && alone != chain[1] && alone != chain[2]);
    give_one(FAR, alone);
    blanks_give(NEAR, chain[0], chain[CHAIN - 1]);
    for (unsigned i = 0; i < CHAIN; i++)
        CHECK(blank_take(NEAR) == chain[i]);
    CHECK(blank_take(NEAR) == alone); /* the list of another heap, where the own one is empty */
    CHECK(blank_take(NEAR) != alone);
}

/* Whoever has a message writes to it, and finds what he wrote. */
static void *takes_and_gives(void *number) {
    const uint32_t id = (uint32_t)(uintptr_t)number;
    message_t *held[HELD] = {NULL};
    for (unsigned turn = 0; turn < TURNS; turn++) {
        message_t **place = &held[turn * 7 % HELD];
        if (*place != NULL) {
            CHECK((*place)->to == id && (*place)->words[MESSAGE_WORDS - 1].key == turn - HELD);
            give_one(turn % 3 == 0 ? id : id + 1, *place);
        }
        CHECK((*place = blank_take(id)) != NULL);
        (*place)->to = id;
        (*place)->words[MESSAGE_WORDS - 1].key = turn;
    }
    return NULL;
}

static void each_is_somebodys_once(void) {
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, takes_and_gives, (void *)(i + 1)) == 0);
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

int main(void) {
    (void)start_heap();
    serves_again();
    each_is_somebodys_once();
    return 0;
}
