/* SPDX-License-Identifier: MIT
 *
 * linked.h: names of libc's that came into it late, of which each library asks in its own way. A reference from
 * libhakmem.so would bind it to the version of the C library that it was linked to, weak or not: glibc has thread keys
 * in libpthread before 2.34. So the library looks them up (linked_shared.c). A static program has no table to look
 * into, and is linked to what it runs with: the archive asks by name (linked_static.c).
 */
#pragma once

#include <pthread.h>

/* As pthread_key_create and pthread_setspecific. Creating fails, with ENOSYS, where a program has no libpthread. */
int linked_key_create(pthread_key_t *key, void (*destructor)(void *));
int linked_key_set(pthread_key_t key, const void *value);

/* Where libc says that there is one thread (__libc_single_threaded, glibc 2.32 and later); NULL: nowhere. */
const char *linked_single_threaded(void);
