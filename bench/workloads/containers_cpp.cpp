// SPDX-License-Identifier: MIT
// containers_cpp ROUNDS SEED: every container of the standard library grows, is copied, is thinned out and dies. One
// operation is one element inserted.
#include "common.h"
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

static const size_t ELEMENTS = 2000;

static size_t churn_vectors(bench_rng *rng) {
    std::vector<std::vector<uint32_t>> rows(64);
    for (size_t i = 0; i < ELEMENTS; i++)
        rows[bench_rng_below(rng, 64)].push_back(bench_rng_next(rng));
    std::vector<std::vector<uint32_t>> copy = rows;
    bench_keep(copy.data());
    return ELEMENTS;
}

static size_t churn_lists(bench_rng *rng) {
    std::list<std::string> list;
    for (size_t i = 0; i < ELEMENTS; i++)
        list.emplace_back(bench_rng_range(rng, 1, 48), 'l');
    list.remove_if([](const std::string &text) { return text.size() % 2 == 0; });
    std::list<std::string> copy = list;
    copy.sort();
    return ELEMENTS;
}

static size_t churn_maps(bench_rng *rng) {
    std::map<uint32_t, std::string> ordered;
    std::unordered_map<uint32_t, std::vector<char>> hashed;
    for (size_t i = 0; i < ELEMENTS / 2; i++) {
        uint32_t key = bench_rng_next(rng);
        ordered.emplace(key, std::string(key % 40, 'm'));
        hashed.emplace(key, std::vector<char>(key % 200 + 1));
    }
    ordered.erase(ordered.begin(), std::next(ordered.begin(), ELEMENTS / 8));
    std::map<uint32_t, std::string> copy = ordered;
    return ELEMENTS;
}

static size_t churn_deques(bench_rng *rng) {
    std::deque<std::unique_ptr<std::string>> queue;
    for (size_t i = 0; i < ELEMENTS; i++) {
        queue.push_back(std::make_unique<std::string>(bench_rng_range(rng, 1, 64), 'd'));
        if (i % 3 == 2)
            queue.pop_front();
    }
    return ELEMENTS;
}

static size_t churn_shared(bench_rng *rng) {
    std::set<std::shared_ptr<uint32_t>> owners;
    for (size_t i = 0; i < ELEMENTS; i++) {
        owners.insert(std::make_shared<uint32_t>(bench_rng_next(rng)));
        if (owners.size() > 256)
            owners.erase(owners.begin());
    }
    return ELEMENTS;
}

int main(int argc, char **argv) {
    size_t rounds = bench_arg(argc, argv, 1, 500);
    bench_rng rng = bench_rng_make(bench_arg(argc, argv, 2, 42));
    bench_begin();
    uint64_t begin = bench_now_ns();
    size_t elements = 0;
    for (size_t r = 0; r < rounds; r++)
        elements +=
            churn_vectors(&rng) + churn_lists(&rng) + churn_maps(&rng) + churn_deques(&rng) + churn_shared(&rng);
    bench_result(static_cast<double>(elements), bench_now_ns() - begin);
    return 0;
}
