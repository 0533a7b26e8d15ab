/* SPDX-License-Identifier: MIT */
#include "heap/blanks.h"

#include "map/meta.h"

enum { LISTS = 16 };

typedef struct list {
    HK_ALIGNED(HK_CACHE_LINE) _Atomic bool is_taken;
    message_t *first; /* who has taken the list writes it; others read it as a hint */
} list_t;

static list_t lists[LISTS];

static list_t *list_at(uint32_t id, unsigned step) { return &lists[(id + step) % LISTS]; }

/* Acquire: pairs with the release in let_go. The messages are then as the last one to have the list left them. */
static bool take(list_t *list) { return !atomic_exchange_explicit(&list->is_taken, true, memory_order_acquire); }
static void let_go(list_t *list) { atomic_store_explicit(&list->is_taken, false, memory_order_release); }

static message_t *pop(list_t *list) {
    if (hk_read(list->first) == NULL || !take(list))
        return NULL;
    message_t *message = list->first;
    if (message != NULL)
        hk_write(list->first, message->next);
    let_go(list);
    return message;
}

message_t *blank_take(uint32_t id) {
    for (unsigned step = 0; step < LISTS; step++) {
        message_t *message = pop(list_at(id, step));
        if (message != NULL)
            return message;
    }
    return meta_alloc(sizeof(message_t));
}

static bool push(list_t *list, message_t *first, message_t *last) {
    if (!take(list))
        return false;
    hk_write(last->next, list->first);
    hk_write(list->first, first);
    let_go(list);
    return true;
}

void blanks_give(uint32_t id, message_t *first, message_t *last) {
    for (unsigned step = 0; step < LISTS; step++)
        if (push(list_at(id, step), first, last))
            return;
    hk_write(last->next, NULL);
    while (first != NULL) {
        message_t *message = first;
        first = message->next;
        meta_free(message, sizeof *message);
    }
}
