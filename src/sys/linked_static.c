/* SPDX-License-Identifier: MIT */
#include "sys/linked.h"

#include <stddef.h>

int linked_key_create(pthread_key_t *key, void (*destructor)(void *)) { return pthread_key_create(key, destructor); }

int linked_key_set(pthread_key_t key, const void *value) { return pthread_setspecific(key, value); }

#if defined(__GLIBC__)
extern const char __libc_single_threaded __attribute__((weak));
const char *linked_single_threaded(void) { return &__libc_single_threaded; }
#else
const char *linked_single_threaded(void) { return NULL; }
#endif
