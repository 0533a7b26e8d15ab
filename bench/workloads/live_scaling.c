// SPDX-License-Identifier: MIT
// live_scaling LIVE OPS SEED: does the cost of a call grow with the heap? LIVE blocks of 16 - 128 bytes; each operation
// replaces a random one. floor_ns is one hop of a chase through LIVE nodes of 64 bytes in random order: what the memory
// hierarchy itself asks for touching something cold.
#include "common.h"

typedef struct node {
    struct node *next;
    char rest[56];
} node;

// One cycle through all nodes in random order, by Sattolo's algorithm (1986).
static node *make_chain(node *nodes, size_t count, bench_rng *rng) {
    for (size_t i = 0; i < count; i++)
        nodes[i].next = &nodes[i];
    for (size_t i = count - 1; i > 0; i--) {
        size_t j = bench_rng_below(rng, (uint32_t)i);
        node *swap = nodes[i].next;
        nodes[i].next = nodes[j].next;
        nodes[j].next = swap;
    }
    return nodes;
}

static double chase_ns(size_t count, size_t hops, bench_rng *rng) {
    node *nodes = bench_map(count * sizeof *nodes);
    node *at = make_chain(nodes, count, rng);
    uint64_t begin = bench_now_ns();
    for (size_t i = 0; i < hops; i++)
        at = at->next;
    double ns = (double)(bench_now_ns() - begin) / (double)hops;
    bench_keep(at);
    munmap(nodes, count * sizeof *nodes);
    return ns;
}

static void replace(void **slot, bench_rng *rng) {
    size_t size = bench_rng_range(rng, 16, 128);
    free(*slot);
    *slot = bench_malloc(size);
    bench_touch_first(*slot);
}

int main(int argc, char **argv) {
    size_t live = bench_arg(argc, argv, 1, 1000000);
    size_t operations = bench_arg(argc, argv, 2, 2000000);
    bench_rng rng = bench_rng_make(bench_arg(argc, argv, 3, 42));
    bench_begin();
    void **slot = bench_map(live * sizeof *slot);
    double floor_ns = chase_ns(live, operations, &rng);
    for (size_t i = 0; i < live; i++)
        replace(&slot[i], &rng);
    for (size_t i = 0; i < live / 8; i++) // age the heap: its address order is no longer that of the calls
        replace(&slot[bench_rng_below(&rng, (uint32_t)live)], &rng);
    uint64_t begin = bench_now_ns();
    for (size_t i = 0; i < operations; i++)
        replace(&slot[bench_rng_below(&rng, (uint32_t)live)], &rng);
    uint64_t elapsed = bench_now_ns() - begin;
    bench_open_result();
    bench_speed_fields((double)operations, elapsed);
    bench_field("floor_ns", floor_ns);
    bench_close_result();
    return 0;
}
