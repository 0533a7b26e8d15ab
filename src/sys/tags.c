/* SPDX-License-Identifier: MIT */
#include "sys/tags.h"

#if HK_HAS_TAGS

#include "sys/confined.h"
#include "sys/raw_call.h"

#include <sys/auxv.h>

/* Source: asm/hwcap.h, linux/prctl.h, asm/mman.h of aarch64; not in the headers of an older kernel. */
enum {
    HAS_TAGS = 1 << 18,
    SET_CONTROL = 55,
    GET_CONTROL = 56,
    CONTROL_ADDRESSES = 1, /* the kernel takes addresses with a tag */
    CONTROL_AT_ONCE = 1 << 1,
    CONTROL_LATER = 1 << 2,
    CONTROL_ALL_BUT_0 = 0xfffe << 3,
    PROTECTION = 0x20,
};

bool hk_tags_are_on;

void tags_init(bool is_alone(void)) {
    if ((getauxval(AT_HWCAP2) & HAS_TAGS) == 0 || !is_alone())
        return;
    long control = sys_call6(SYS_prctl, GET_CONTROL, 0, 0, 0, 0, 0);
    if (sys_failed(control))
        return;
    if ((control & (CONTROL_AT_ONCE | CONTROL_LATER)) == 0) /* the program has not chosen */
        control |= CONTROL_AT_ONCE;
    control |= CONTROL_ADDRESSES | CONTROL_ALL_BUT_0;
    hk_tags_are_on = !sys_failed(sys_call6(SYS_prctl, SET_CONTROL, control, 0, 0, 0, 0));
}

/* A filter may kill for a bit that no malloc asks for. */
int tags_protection(void) { return tags_are_on() && !sys_is_confined() ? PROTECTION : 0; }

/* Tag of a granule. */
static unsigned tag_of(const void *address) { return (uintptr_t)tags_load(address) >> TAG_SHIFT & 15; }

/* A tag that is not among `excluded`, bit n for tag n: irg x0, x0, x1. */
static char *draw(void *block, uint64_t excluded) {
    register void *x0 __asm__("x0") = block;
    register uint64_t x1 __asm__("x1") = excluded;
    __asm__ volatile(".inst 0x9ac11000" : "+r"(x0) : "r"(x1));
    return x0;
}

/* All granules of the block get the tag of its address: stg x0, [x0], #16 and st2g x0, [x0], #32. */
static void set(char *block, size_t size) {
    register char *x0 __asm__("x0") = block;
    if (size / TAG_GRANULE % 2 != 0)
        __asm__ volatile(".inst 0xd9201400" : "+r"(x0) : : "memory");
    size_t twos = size / (2 * TAG_GRANULE);
    for (; twos % 4 != 0; twos--)
        __asm__ volatile(".inst 0xd9a02400" : "+r"(x0) : : "memory");
    for (; twos != 0; twos -= 4)
        __asm__ volatile(".inst 0xd9a02400, 0xd9a02400, 0xd9a02400, 0xd9a02400" : "+r"(x0) : : "memory");
}

void tags_draw(void *block, size_t size, const void *below, const void *above) {
    uint64_t excluded = 1;
    if (below != NULL)
        excluded |= UINT64_C(1) << tag_of(below);
    if (above != NULL)
        excluded |= UINT64_C(1) << tag_of(above);
    char *tagged = draw(block, excluded);
    set(tagged, size);
    /* What was mapped under a filter has no tags and may lie beside what has: such a block has none at all. */
    if (tags_load(block) != tagged)
        set(block, size);
}

void tags_clear(void *block, size_t size) { set(block, size); }

#else

void tags_init(bool is_alone(void)) { (void)is_alone; }
int tags_protection(void) { return 0; }

#endif
