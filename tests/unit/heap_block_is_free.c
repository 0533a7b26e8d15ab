/* SPDX-License-Identifier: MIT
 *
 * A block is known to be free wherever it is: in a magazine, in free bits, in a remote table, in a message that is
 * filled, waits or is opened; and not when the program has it. The same by any address, for reports.
 */
#include "core/panic.h"
#include "heap_places.h"

#include <pthread.h>

enum { CLS = 25 };

static heap_t *h;
static char *remote, *given, *live;

static unsigned index_of(const void *block) { return class_block_index(&hk_classes[CLS], block); }

static bool is_free(const void *block) { return heap_block_is_free(block, CLS); }

static void *frees(void *unused) {
    (void)unused;
    release(remote);
    CHECK_EQ(places_of(CLS).in_remote_tables, 1);
    CHECK(is_free(remote) && !is_free(live));
    heap_t *self = heap_current();
    remote_entry_t *entry = heap_remote_entry(self, heap_remote_key(slab_base(slab_of(remote, CLS)), index_of(remote)));
    heap_remote_claim(self, (unsigned)(entry - self->remote_table), 0);
    CHECK_EQ(places_of(CLS).in_remote_tables, 0);
    CHECK(self->outbox[h->front.id % HEAP_OUTBOX] != NULL);
    CHECK(is_free(remote) && !is_free(live));
    heap_remote_post_all(self);
    CHECK(self->outbox[h->front.id % HEAP_OUTBOX] == NULL);
    CHECK_EQ(places_of(CLS).in_messages, 1);
    CHECK(is_free(remote) && !is_free(live));
    return NULL;
}

/* While the owner goes through its messages. */
static void opened(void) {
    message_t *message = atomic_exchange(&h->inbox, NULL);
    CHECK(!is_free(remote));
    h->opened = message;
    CHECK(is_free(remote) && !is_free(live));
    h->opened = NULL;
    atomic_store(&h->inbox, message);
}

/* A live bit that another thread's write undid, or kept: no accusation, and the block goes round as ever. */
static void doubtful(void) {
    void *block = magazine_alloc(h, CLS);
    CHECK(map_clear_live(map_granule(block)));
    heap_free_suspect(block, CLS);
    CHECK_EQ(hk_misuse_count(), 0);
    CHECK(is_free(block));
    map_set_live(map_granule(block));
    CHECK(magazine_alloc(h, CLS) == block && map_is_live(map_granule(block)));
    CHECK(!is_free(block));
    release(block);
    CHECK(is_free(block) && !map_is_live(map_granule(block)));
    CHECK_EQ(hk_misuse_count(), 0);
}

int main(void) {
    h = start_heap();
    live = magazine_alloc(h, CLS);
    remote = magazine_alloc(h, CLS);
    given = magazine_alloc(h, CLS);
    char *block = magazine_alloc(h, CLS);
    CHECK(!is_free(live) && !is_free(remote) && !is_free(block));
    CHECK(hk_owns(block) && hk_owns(block + 100) && !hk_owns(&h) && !hk_owns(NULL));
    release(block);
    CHECK(is_free(block) && !hk_owns(block));
    doubtful();
    magazine_drop_all(h);
    CHECK_EQ(bin_count(h, CLS), 0);
    CHECK(is_free(block) && !is_free(live) && !is_free(remote));
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, frees, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    opened();
    CHECK(!is_free(given));
    const remote_entry_t word = heap_remote_word(given, CLS);
    CHECK_EQ(heap_remote_give(&word), 0);
    CHECK(is_free(given));
    heap_lock(h);
    heap_drain_locked(h);
    heap_unlock(h);
    CHECK_EQ(places_of(CLS).in_messages, 0);
    CHECK(is_free(remote) && is_free(given) && !is_free(live));
    hk_description_t found;
    CHECK(hk_describe(live + 17, &found));
    CHECK(found.where == HK_WHERE_BLOCK && found.block == live && found.offset == 17 && !found.is_free);
    CHECK_EQ(found.block_size, hk_class_info[CLS].block_size);
    CHECK_EQ(found.owner, h->front.id);
    CHECK(hk_describe(remote, &found) && found.is_free);
    CHECK(hk_describe((void *)hk_window.areas[REGION_AREA_TABLE], &found) && found.where == HK_WHERE_METADATA);
    CHECK(!hk_describe(&found, &found));
    return CHECK_PASS;
}
