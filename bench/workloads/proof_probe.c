// SPDX-License-Identifier: MIT
// proof_probe.so: preloaded behind the allocator, makes a program that knows nothing of this suite prove its allocator:
// its constructor writes the line of bench_prove() before main. Without HAKMEM_BENCH_PROOF it does nothing.
#include "common.h"

__attribute__((constructor)) static void prove(void) {
    if (getenv("HAKMEM_BENCH_PROOF"))
        bench_prove();
}
