/* SPDX-License-Identifier: MIT
 *
 * Counting, scanning and rounding: every function of bits.h against a naive one.
 */
#include "base/bits.h"
#include "check.h"

static void words(void) {
    for (unsigned bit = 0; bit < 64; bit++) {
        uint64_t one = UINT64_C(1) << bit;
        CHECK_EQ(hk_ctz64(one), bit);
        CHECK_EQ(hk_ctz64(~UINT64_C(0) << bit), bit);
        CHECK_EQ(hk_msb64(one), bit);
        CHECK_EQ(hk_msb64(one | 1), bit);
        CHECK_EQ(hk_popcount64(one), 1);
        CHECK(hk_low_mask64(bit) == one - 1);
        CHECK_EQ(hk_popcount64(hk_low_mask64(bit)), bit);
    }
    for (unsigned bit = 0; bit < 32; bit++) {
        CHECK_EQ(hk_popcount32(UINT32_C(1) << bit), 1);
        CHECK_EQ(hk_popcount32(~(UINT32_MAX << bit)), bit);
    }
    CHECK(hk_popcount32(0) == 0 && hk_popcount32(UINT32_MAX) == 32);
    CHECK_EQ(hk_popcount64(0), 0);
    CHECK_EQ(hk_popcount64(UINT64_MAX), 64);
    CHECK(hk_low_mask64(0) == 0);
    CHECK(hk_low_mask64(64) == UINT64_MAX);
}

static void powers(void) {
    CHECK(!hk_is_pow2(0));
    for (size_t x = 1; x < 5000; x++) {
        unsigned log = 0;
        while (((size_t)1 << log) < x)
            log++;
        CHECK_EQ(hk_log2_ceil(x), log);
        CHECK_EQ(hk_is_pow2(x), ((size_t)1 << log) == x);
    }
    for (unsigned k = 1; k < 63; k++) {
        CHECK_EQ(hk_log2_ceil((size_t)1 << k), k);
        CHECK_EQ(hk_log2_ceil(((size_t)1 << k) + 1), k + 1);
    }
    CHECK_EQ(hk_log2_ceil(SIZE_MAX), 64);
}

static void rounding(void) {
    for (size_t align = 1; align <= 4096; align *= 2) {
        for (size_t x = 0; x < 9000; x++) {
            CHECK_EQ(hk_align_up(x, align), (x + align - 1) / align * align);
            CHECK_EQ(hk_align_down(x, align), x / align * align);
        }
        CHECK(hk_align_up(SIZE_MAX, align) < SIZE_MAX || align == 1);
    }
    CHECK_EQ(hk_align_up(SIZE_MAX - 10, 4096), 0);
    CHECK_EQ(hk_min(3, 5), 3);
    CHECK_EQ(hk_max(3, 5), 5);
}

int main(void) {
    words();
    powers();
    rounding();
    return CHECK_PASS;
}
