// SPDX-License-Identifier: MIT
// pairs_cpp SIZE ALIGN ITERS LIMIT_MS: a delete with the size and a new, as compilers call them, ITERS times or until
// LIMIT_MS have passed; sixteen blocks are alive. ALIGN 0: what new gives by itself. One operation is a pair.
#include "common.h"
#include <new>

static const size_t ALIVE = 16, PART = 10000; // pairs between two looks at the clock

static void *take(size_t size, size_t align) {
    void *block = align == 0 ? operator new(size) : operator new(size, std::align_val_t(align));
    bench_touch_first(block);
    return block;
}

static void drop(void *block, size_t size, size_t align) {
    if (align == 0)
        operator delete(block, size);
    else
        operator delete(block, size, std::align_val_t(align));
}

int main(int argc, char **argv) {
    size_t size = bench_arg(argc, argv, 1, 2048), align = bench_arg(argc, argv, 2, 0);
    size_t iterations = bench_arg(argc, argv, 3, 10000000), limit_ms = bench_arg(argc, argv, 4, 0), done = 0;
    bench_begin();
    void *blocks[ALIVE];
    for (void *&block : blocks)
        block = take(size, align);
    uint64_t begin = bench_now_ns();
    for (; done < iterations && !bench_is_over(begin, limit_ms); done += PART)
        for (size_t i = 0; i < PART; i++) {
            void *&block = blocks[i % ALIVE];
            drop(block, size, align);
            block = take(size, align);
        }
    bench_result(static_cast<double>(done), bench_now_ns() - begin);
    for (void *block : blocks)
        drop(block, size, align);
    return 0;
}
