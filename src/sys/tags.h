/* SPDX-License-Identifier: MIT
 *
 * tags.h: memory tags of aarch64 (MTE): the processor keeps 4 bits for each 16 bytes of memory that was mapped for it,
 * and compares them with bits 56 to 59 of the address of each access. They differ: SIGSEGV.
 *
 * On from the start where HAKMEM_SAFE is 2 or 3 and processor and kernel have tags; never elsewhere, and then all of
 * this is nothing: addresses have no tag, and no instruction is left of it where there can be none (docs/adr/0053).
 *
 * TAG-1  What lies free, runs of slots, and all that is ours have tag 0. A block of a slab has another one as long as
 *        it is with the program, and not that of a neighbour.
 * TAG-2  The program's pointers to such blocks have the tag in them. Everything in here knows an address without one.
 * TAG-3  An access by such an address to a block that is with the program comes between tags_pause and tags_resume.
 *
 * Source: Arm Architecture Reference Manual, "The Memory Tagging Extension"; Documentation/arch/arm64/
 * memory-tagging-extension.rst in the kernel. Instructions are written as words: assemblers know their names only for
 * processors that have them.
 */
#pragma once

#include "base/base.h"

#if defined(__SANITIZE_ADDRESS__)
#define HK_HAS_TAGS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HK_HAS_TAGS 0
#endif
#endif
#if !defined(HK_HAS_TAGS) && defined(__aarch64__) && !HK_TSAN
#define HK_HAS_TAGS 1
#elif !defined(HK_HAS_TAGS)
#define HK_HAS_TAGS 0
#endif

enum { TAG_GRANULE = 16, TAG_SHIFT = 56 };

/* Turns tags on, for the calling thread and those that it starts from now on, if it can: once, at the start. Threads
 * that are there already would go on without, so `is_alone` is asked. */
void tags_init(bool is_alone(void));

/* What mmap(2) takes besides for memory with tags; 0: nothing. */
int tags_protection(void);

#if HK_HAS_TAGS
/* Constant after the start. */
extern bool hk_tags_are_on HK_HIDDEN;
HK_INLINE bool tags_are_on(void) { return hk_unlikely(hk_tags_are_on); }

/* The address with the tag of the memory there, which is mapped. */
HK_INLINE void *tags_load(const void *address) {
    register const void *x0 __asm__("x0") = address;
    __asm__ volatile(".inst 0xd9600000" : "+r"(x0) : : "memory"); /* ldg x0, [x0] */
    return (void *)(uintptr_t)x0;
}

/* PSTATE.TCO: while it is set, the thread's accesses are not looked at. */
HK_INLINE uint64_t tags_pause(void) {
    uint64_t before = 0;
    if (tags_are_on())
        __asm__ volatile("mrs %0, s3_3_c4_c2_7\n\tmsr s3_3_c4_c2_7, %1"
                         : "=&r"(before)
                         : "r"(UINT64_C(1) << 25)
                         : "memory");
    return before;
}
HK_INLINE void tags_resume(uint64_t before) {
    if (tags_are_on())
        __asm__ volatile("msr s3_3_c4_c2_7, %0" : : "r"(before) : "memory");
}

/* The block, of `size` bytes, gets a tag by chance: not 0, and not that of the memory at `below` and `above`, which may
 * be NULL. */
void tags_draw(void *block, size_t size, const void *below, const void *above);

/* It gets tag 0. */
void tags_clear(void *block, size_t size);
#else
HK_INLINE bool tags_are_on(void) { return false; }
HK_INLINE void *tags_load(const void *address) { return (void *)(uintptr_t)address; }
HK_INLINE uint64_t tags_pause(void) { return 0; }
HK_INLINE void tags_resume(uint64_t before) { (void)before; }
HK_INLINE void tags_draw(void *block, size_t size, const void *below, const void *above) {
    (void)block, (void)size, (void)below, (void)above;
}
HK_INLINE void tags_clear(void *block, size_t size) { (void)block, (void)size; }
#endif

/* The address without its tag, where there are tags: what the kernel has in these bits is 0. */
HK_INLINE uintptr_t tags_strip_word(uintptr_t word) {
    return tags_are_on() ? word & ~((uintptr_t)0xff << TAG_SHIFT) : word;
}
HK_INLINE void *tags_strip(const void *address) { return (void *)tags_strip_word((uintptr_t)address); }
