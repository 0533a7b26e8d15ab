/* SPDX-License-Identifier: MIT
 *
 * A program of jemalloc's names that names nothing else of an allocator: libhakmem.so must be there all the same.
 */
#include <hakmem.h>

void *mallocx(size_t size, int flags);
void dallocx(void *block, int flags);

int main(void) {
    void *block = mallocx(100, 0);
    dallocx(block, 0);
    return block != NULL ? 0 : 1;
}
