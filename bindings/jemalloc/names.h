/* SPDX-License-Identifier: MIT
 *
 * names.h: libhakmem-jemalloc.so, which has the names that only jemalloc has, on hakmem's public functions: for
 * programs that call mallocx, mallctl and the rest by these names, or look whether they are there. It needs
 * libhakmem.so and defines no malloc of its own.
 *
 *   blocks.c     mallocx ... nallocx
 *   arenas.c     arenas as heaps
 *   mallctl.c    names of mallctl to rows of the table, and values in and out
 *   values.c     the table: what each name means on hakmem
 *   print.c      malloc_stats_print, malloc_message
 *   start.c      refuses to go on where malloc is another's
 *
 * What each name means: docs/from-jemalloc.md.
 */
#ifndef HAKMEM_JEMALLOC_NAMES_H
#define HAKMEM_JEMALLOC_NAMES_H

#include "hakmem.h"

#define NAMES_EXPORT __attribute__((visibility("default")))

NAMES_EXPORT void *mallocx(size_t size, int bits);
NAMES_EXPORT void *rallocx(void *block, size_t size, int bits);
NAMES_EXPORT size_t xallocx(void *block, size_t size, size_t extra, int bits);
NAMES_EXPORT size_t sallocx(const void *block, int bits);
NAMES_EXPORT void dallocx(void *block, int bits);
NAMES_EXPORT void sdallocx(void *block, size_t size, int bits);
NAMES_EXPORT size_t nallocx(size_t size, int bits);
NAMES_EXPORT int mallctl(const char *name, void *old, size_t *old_size, void *value, size_t value_size);
NAMES_EXPORT int mallctlnametomib(const char *name, size_t *mib, size_t *length);
NAMES_EXPORT int mallctlbymib(const size_t *mib, size_t length, void *old, size_t *old_size, void *value,
                              size_t value_size);
NAMES_EXPORT void malloc_stats_print(void (*write)(void *context, const char *text), void *context,
                                     const char *options);
extern NAMES_EXPORT void (*malloc_message)(void *context, const char *text);

#endif
