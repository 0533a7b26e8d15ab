// SPDX-License-Identifier: MIT
// tree_cpp LIVE OPS SEED: an ordered map of LIVE keys with string values; each operation erases one key and inserts
// another.
#include "common.h"
#include <map>
#include <string>

int main(int argc, char **argv) {
    uint32_t live = static_cast<uint32_t>(bench_arg(argc, argv, 1, 100000));
    size_t operations = bench_arg(argc, argv, 2, 1000000);
    bench_rng rng = bench_rng_make(bench_arg(argc, argv, 3, 42));
    bench_begin();
    std::map<uint32_t, std::string> tree;
    while (tree.size() < live)
        tree.emplace(bench_rng_next(&rng), std::string(bench_rng_range(&rng, 8, 64), 'x'));
    uint64_t begin = bench_now_ns();
    for (size_t i = 0; i < operations; i++) {
        auto victim = tree.lower_bound(bench_rng_next(&rng));
        tree.erase(victim == tree.end() ? tree.begin() : victim);
        tree.emplace(bench_rng_next(&rng), std::string(bench_rng_range(&rng, 8, 64), 'y'));
    }
    bench_result(static_cast<double>(operations), bench_now_ns() - begin);
    return 0;
}
