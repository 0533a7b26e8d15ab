/* SPDX-License-Identifier: MIT
 *
 * alloc.c: the hak_malloc family: malloc and its siblings under our own names, in every build.
 */
#include "front/calls.h"
#include "front/front.h"
#include "hakmem.h"

HK_EXPORT HK_FAST void *hak_malloc(size_t size) { return front_malloc(size); }
HK_EXPORT void *hak_calloc(size_t count, size_t size) { return front_calloc(count, size); }
HK_EXPORT void *hak_realloc(void *ptr, size_t size) { return front_realloc(ptr, size); }
HK_EXPORT void *hak_reallocarray(void *ptr, size_t count, size_t size) {
    return front_realloc(ptr, front_array_size(count, size));
}
HK_EXPORT HK_FAST void hak_free(void *ptr) { front_free(ptr); }
HK_EXPORT void hak_free_sized(void *ptr, size_t size) { front_free_sized(ptr, size, "free_sized"); }
HK_EXPORT void hak_free_aligned_sized(void *ptr, size_t alignment, size_t size) {
    front_free_aligned_sized(ptr, alignment, size, "free_aligned_sized");
}
HK_EXPORT void *hak_aligned_alloc(size_t alignment, size_t size) { return front_memalign(alignment, size); }
HK_EXPORT void *hak_aligned_calloc(size_t alignment, size_t count, size_t size) {
    return front_aligned_calloc(alignment, front_array_size(count, size));
}
HK_EXPORT void *hak_aligned_realloc(void *ptr, size_t alignment, size_t size) {
    return front_aligned_realloc(ptr, alignment, size);
}
HK_EXPORT void *hak_memalign(size_t alignment, size_t size) { return front_memalign(alignment, size); }
HK_EXPORT int hak_posix_memalign(void **out, size_t alignment, size_t size) {
    return front_posix_memalign(out, alignment, size);
}
HK_EXPORT size_t hak_malloc_usable_size(const void *ptr) { return front_usable_size(ptr); }
