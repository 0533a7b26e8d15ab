/* SPDX-License-Identifier: MIT
 *
 * size_returning.hpp: the operators new that say how large the block is (P0901), as the C++ libraries have them.
 */
#ifndef HAKMEM_TEST_SIZE_RETURNING_HPP
#define HAKMEM_TEST_SIZE_RETURNING_HPP

#include <new>

struct sized_block {
    void *p;
    std::size_t n;
};
extern "C" {
sized_block __size_returning_new(std::size_t);
sized_block __size_returning_new_nothrow(std::size_t) noexcept;
sized_block __size_returning_new_aligned(std::size_t, std::align_val_t);
sized_block __size_returning_new_aligned_nothrow(std::size_t, std::align_val_t) noexcept;
}

#endif
