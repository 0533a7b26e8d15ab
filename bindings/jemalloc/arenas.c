/* SPDX-License-Identifier: MIT */
#include "arenas.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

/* Written under the lock, read without: who has a number got it from who made the arena. */
static _Atomic(hak_heap_t *) heaps[ARENAS_MAX];
static _Atomic unsigned count = 1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

unsigned arenas_count(void) { return atomic_load_explicit(&count, memory_order_relaxed); }

hak_heap_t *arenas_heap(size_t number) {
    /* Acquire: pairs with the release in place_locked. */
    return number < ARENAS_MAX ? atomic_load_explicit(&heaps[number], memory_order_acquire) : NULL;
}

bool arenas_exists(size_t number) { return number == 0 || arenas_heap(number) != NULL; }

static unsigned unused_locked(void) {
    for (unsigned i = 1; i < ARENAS_MAX; i++)
        if (arenas_heap(i) == NULL)
            return i;
    return 0;
}

static void place_locked(unsigned number, hak_heap_t *heap) {
    /* Release: pairs with the acquire in arenas_heap. */
    atomic_store_explicit(&heaps[number], heap, memory_order_release);
    if (number >= arenas_count())
        atomic_store_explicit(&count, number + 1, memory_order_relaxed);
}

unsigned arenas_create(void) {
    hak_heap_t *heap = hak_heap_new(NULL);
    if (heap == NULL)
        return 0;
    pthread_mutex_lock(&lock);
    unsigned number = unused_locked();
    if (number != 0)
        place_locked(number, heap);
    pthread_mutex_unlock(&lock);
    if (number == 0) {
        hak_heap_destroy(heap);
        errno = EAGAIN;
    }
    return number;
}

hak_heap_t *arenas_take(size_t number) {
    /* Acquire: pairs with the release in place_locked. */
    return number < ARENAS_MAX ? atomic_exchange_explicit(&heaps[number], NULL, memory_order_acquire) : NULL;
}
