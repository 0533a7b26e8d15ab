/* SPDX-License-Identifier: MIT
 *
 * fork_waits.h: fork handlers that wait for threads, for the program fork_waits and for its library.
 */
#ifndef FORK_WAITS_H
#define FORK_WAITS_H

#include "testing.h"

#include <stdatomic.h>

typedef struct fork_waits {
    pthread_mutex_t mutex; /* other threads allocate while they hold it */
    pthread_mutex_t state;
    pthread_cond_t changed;
    bool asked, answered; /* the worker: to allocate; that it has, and is about to end */
    bool running;
    pthread_t worker;
    unsigned prepared;
} fork_waits_t;

#define FORK_WAITS_INIT                                                                                                \
    { PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, false, false, 0, 0 }

enum { FORK_WAITS_BLOCKS = 300 };

/* Allocates, waits to be asked, allocates again, answers, frees and ends. */
static void *fork_waits_worker(void *argument) {
    fork_waits_t *waits = (fork_waits_t *)argument;
    void *blocks[2 * FORK_WAITS_BLOCKS];
    for (unsigned i = 0; i < FORK_WAITS_BLOCKS; i++)
        CHECK((blocks[i] = malloc(100 + i * 10)) != NULL);
    pthread_mutex_lock(&waits->state);
    while (!waits->asked)
        pthread_cond_wait(&waits->changed, &waits->state);
    for (unsigned i = 0; i < FORK_WAITS_BLOCKS; i++)
        CHECK((blocks[FORK_WAITS_BLOCKS + i] = malloc(100 + i * 500)) != NULL);
    waits->answered = true;
    pthread_cond_broadcast(&waits->changed);
    pthread_mutex_unlock(&waits->state);
    for (unsigned i = 0; i < 2 * FORK_WAITS_BLOCKS; i++)
        free(blocks[i]);
    return NULL;
}

static inline void fork_waits_begin(fork_waits_t *waits) {
    waits->asked = waits->answered = false;
    waits->worker = test_thread(fork_waits_worker, waits);
    waits->running = true;
}

static inline void fork_waits_prepare(fork_waits_t *waits) {
    free(malloc(5000));
    if (waits->running) {
        pthread_mutex_lock(&waits->state);
        waits->asked = true;
        pthread_cond_broadcast(&waits->changed);
        while (!waits->answered)
            pthread_cond_wait(&waits->changed, &waits->state);
        pthread_mutex_unlock(&waits->state);
        test_join(waits->worker);
        waits->running = false;
    }
    pthread_mutex_lock(&waits->mutex);
    waits->prepared++;
    free(malloc(50000));
}

static inline void fork_waits_release(fork_waits_t *waits) {
    free(malloc(50000));
    pthread_mutex_unlock(&waits->mutex);
}

/* Whose handlers are registered by its first constructor, which runs before the program's, without an allocation
 * before. */
fork_waits_t *fork_waits_in_library(void);

#endif
