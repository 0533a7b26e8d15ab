/* SPDX-License-Identifier: MIT */
#include "sys/linked.h"

#include "sys/symbols.h"

#include <errno.h>
#include <stddef.h>

typedef int (*key_create_fn)(pthread_key_t *, void (*)(void *));
typedef int (*key_set_fn)(pthread_key_t, const void *);

static key_set_fn key_set; /* written before there is a key */

int linked_key_create(pthread_key_t *key, void (*destructor)(void *)) {
    key_create_fn create = (key_create_fn)symbol_anywhere("pthread_key_create");
    key_set = (key_set_fn)symbol_anywhere("pthread_setspecific");
    return create != NULL && key_set != NULL ? create(key, destructor) : ENOSYS;
}

int linked_key_set(pthread_key_t key, const void *value) { return key_set(key, value); }

/* A program that names it has its own, in front of libc's, and libc writes to that. */
const char *linked_single_threaded(void) { return symbol_anywhere("__libc_single_threaded"); }
