/* SPDX-License-Identifier: MIT
 *
 * bits.h: counting, scanning and rounding on machine words. Pure functions.
 */
#pragma once

#include "base/base.h"
#include "base/relaxed.h"

/* Index of the lowest set bit. `x` must not be 0. */
HK_INLINE unsigned hk_ctz64(uint64_t x) { return (unsigned)__builtin_ctzll(x); }

/* Index of the highest set bit. `x` must not be 0. */
HK_INLINE unsigned hk_msb64(uint64_t x) { return 63u ^ (unsigned)__builtin_clzll(x); }

/* The oldest x86-64 has no instruction for it, and the compiler would call a function. */
HK_INLINE unsigned hk_popcount64(uint64_t x) {
#if HK_X86_64 && !defined(__POPCNT__)
    x -= x >> 1 & UINT64_C(0x5555555555555555);
    x = (x & UINT64_C(0x3333333333333333)) + (x >> 2 & UINT64_C(0x3333333333333333));
    x = (x + (x >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    return (unsigned)(x * UINT64_C(0x0101010101010101) >> 56);
#else
    return (unsigned)__builtin_popcountll(x);
#endif
}

/* Of the slots of a superslab: shorter code. */
HK_INLINE unsigned hk_popcount32(uint32_t x) {
#if HK_X86_64 && !defined(__POPCNT__)
    x -= x >> 1 & 0x55555555;
    x = (x & 0x33333333) + (x >> 2 & 0x33333333);
    x = (x + (x >> 4)) & 0x0f0f0f0f;
    return x * 0x01010101 >> 24;
#else
    return (unsigned)__builtin_popcount(x);
#endif
}

HK_INLINE bool hk_is_pow2(size_t x) { return x != 0 && (x & (x - 1)) == 0; }

/* `align` is a power of two; wraps to a value below `x` on overflow. */
HK_INLINE size_t hk_align_up(size_t x, size_t align) { return (x + align - 1) & ~(align - 1); }
HK_INLINE size_t hk_align_down(size_t x, size_t align) { return x & ~(align - 1); }

/* A word with the `n` lowest bits set, 0 <= n <= 64. */
HK_INLINE uint64_t hk_low_mask64(unsigned n) { return n >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << n) - 1; }

/* The two halves of a product, xor-ed. Compilers keep both in memory where they may use vector registers. */
HK_INLINE uint64_t hk_fold64(uint64_t a, uint64_t b) {
#if HK_X86_64
    uint64_t high;
    __asm__("mulq %2" : "+a"(a), "=&d"(high) : "rm"(b) : "cc");
    return a ^ high;
#else
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)(product >> 64) ^ (uint64_t)product;
#endif
}

/* memcpy and memset, called: the C library knows the processor. Where code is compiled to be small, gcc puts `rep
 * movsb` and `rep stosb` in their place, which are slow to start. For the bytes of the program's blocks. */
void *hk_libc_memcpy(void *to, const void *from, size_t bytes) __asm__("memcpy");
void *hk_libc_memset(void *at, int byte, size_t bytes) __asm__("memset");

/* Zeros, by the widest stores that the processor has; `bytes` is a multiple of 16. No call. */
HK_INLINE void hk_zero_long(void *at, size_t bytes) {
#if HK_X86_64
    __asm__ volatile("rep stosb" : "+D"(at), "+c"(bytes) : "a"(0) : "memory");
#else
    typedef uint64_t __attribute__((vector_size(16), may_alias)) pair_t;
    for (pair_t *pair = at, *end = pair + bytes / sizeof *pair; pair < end; pair++) {
        *pair = (pair_t){0};
        HK_OPAQUE(pair); /* no call */
    }
#endif
}

/* Sets bit `n` of the bitmap at `*bits`, and clears it and tells whether it was set: one writer at a time, readers that
 * need no order, as in relaxed.h. On x86-64 in the five instructions that compilers do not find: bit number and word
 * number from one register, no address apart. */
#if HK_X86_64 && !HK_TSAN
#define HK_BIT_CHANGE(change)                                                                                          \
    "mov %[bits], %[base]\n\tmov %[n], %[word]\n\tshr $6, %[word]\n\tmov (%[base],%[word],8), %[value]\n\t" change     \
    " %[n], %[value]\n\tmov %[value], (%[base],%[word],8)"

HK_INLINE void hk_bit_set(uint64_t *const *bits, size_t n) {
    uint64_t *base, value;
    size_t word;
    __asm__ volatile(HK_BIT_CHANGE("bts")
                     : [base] "=&r"(base), [word] "=&r"(word), [value] "=&r"(value)
                     : [bits] "m"(*bits), [n] "r"(n)
                     : "cc", "memory");
}

/* hk_bit_set in two steps. */
typedef struct hk_bit_place {
    uint64_t *base, value;
    size_t word;
} hk_bit_place_t;

HK_INLINE bool hk_bit_find(uint64_t *const *bits, size_t n, hk_bit_place_t *place) {
    bool was;
    __asm__ volatile("mov %[bits], %[base]\n\tmov %[n], %[word]\n\tshr $6, %[word]\n\tmov (%[base],%[word],8), "
                     "%[value]\n\tbts %[n], %[value]"
                     : [base] "=&r"(place->base), [word] "=&r"(place->word), [value] "=&r"(place->value), "=@ccc"(was)
                     : [bits] "m"(*bits), [n] "r"(n));
    return was;
}

HK_INLINE void hk_bit_mark(const hk_bit_place_t *place) {
    __asm__ volatile("mov %2, (%0,%1,8)" : : "r"(place->base), "r"(place->word), "r"(place->value) : "memory");
}

HK_INLINE bool hk_bit_clear(uint64_t *const *bits, size_t n) {
    uint64_t *base, value;
    size_t word;
    bool was;
    __asm__ volatile(HK_BIT_CHANGE("btr")
                     : [base] "=&r"(base), [word] "=&r"(word), [value] "=&r"(value), "=@ccc"(was)
                     : [bits] "m"(*bits), [n] "r"(n)
                     : "memory");
    return was;
}

/* Clears bit `n` of a byte, n < 8, and tells whether it was set: no other byte is written. */
HK_INLINE bool hk_bit_clear_in_byte(uint8_t *byte, size_t n) {
    unsigned value = hk_read(*byte);
    bool was;
    __asm__("btr %[n], %[value]" : [value] "+r"(value), "=@ccc"(was) : [n] "r"((unsigned)n));
    hk_write(*byte, (uint8_t)value);
    return was;
}
#else
HK_INLINE void hk_bit_set(uint64_t *const *bits, size_t n) {
    uint64_t *word = *bits + n / 64;
    hk_write(*word, hk_read(*word) | UINT64_C(1) << (n % 64));
}

typedef struct hk_bit_place {
    uint64_t *word, value;
} hk_bit_place_t;

HK_INLINE bool hk_bit_find(uint64_t *const *bits, size_t n, hk_bit_place_t *place) {
    uint64_t *word = *bits + n / 64, value = hk_read(*word), bit = UINT64_C(1) << (n % 64);
    *place = (hk_bit_place_t){word, value | bit};
    return (value & bit) != 0;
}

HK_INLINE void hk_bit_mark(const hk_bit_place_t *place) { hk_write(*place->word, place->value); }

HK_INLINE bool hk_bit_clear(uint64_t *const *bits, size_t n) {
    uint64_t *word = *bits + n / 64, value = hk_read(*word), bit = UINT64_C(1) << (n % 64);
    hk_write(*word, value & ~bit);
    return (value & bit) != 0;
}

HK_INLINE bool hk_bit_clear_in_byte(uint8_t *byte, size_t n) {
    unsigned value = hk_read(*byte), bit = 1u << n;
    hk_write(*byte, (uint8_t)(value & ~bit));
    return (value & bit) != 0;
}
#endif

/* The bits at which `count` neighbours begin that are set. */
HK_INLINE uint64_t hk_stretches64(uint64_t bits, unsigned count) {
    for (unsigned have = 1, more; have < count; have += more) {
        more = have < count - have ? have : count - have;
        bits &= bits >> more;
    }
    return bits;
}

/* Whether a caller's record of `given` bytes is what this version knows, `whole` bytes, or the beginning of it. */
HK_INLINE bool hk_is_record_size(size_t given, size_t whole) { return given >= 8 && given <= whole && given % 8 == 0; }

/* Smallest k with 2^k >= x, x >= 1. */
HK_INLINE unsigned hk_log2_ceil(size_t x) { return x <= 1 ? 0 : hk_msb64(x - 1) + 1; }
