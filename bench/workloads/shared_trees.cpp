// SPDX-License-Identifier: MIT
// shared_trees TREES DEPTH SEED: a thread makes trees of shared pointers and strings, another one walks and drops them;
// at most 16 wait between the two. One operation is one node.
#include "common.h"
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

struct node {
    std::shared_ptr<node> left, right;
    std::string text;
};

static std::shared_ptr<node> grow(bench_rng *rng, size_t depth) {
    auto tree = std::make_shared<node>();
    tree->text.assign(bench_rng_below(rng, 60), 't');
    if (depth > 1) {
        tree->left = grow(rng, depth - 1);
        tree->right = grow(rng, depth - 1);
    }
    return tree;
}

static size_t count(const node *tree) { return tree ? 1 + count(tree->left.get()) + count(tree->right.get()) : 0; }

class queue {
    static const size_t MOST = 16;
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::shared_ptr<node>> trees;

  public:
    void push(std::shared_ptr<node> tree) {
        std::unique_lock<std::mutex> lock(mutex);
        changed.wait(lock, [this] { return trees.size() < MOST; });
        trees.push_back(std::move(tree));
        changed.notify_all();
    }

    std::shared_ptr<node> pop() {
        std::unique_lock<std::mutex> lock(mutex);
        changed.wait(lock, [this] { return !trees.empty(); });
        std::shared_ptr<node> tree = std::move(trees.front());
        trees.pop_front();
        changed.notify_all();
        return tree;
    }
};

int main(int argc, char **argv) {
    size_t trees = bench_arg(argc, argv, 1, 4000), depth = bench_arg(argc, argv, 2, 8), nodes = 0;
    bench_rng rng = bench_rng_make(bench_arg(argc, argv, 3, 42));
    bench_begin();
    queue between;
    uint64_t begin = bench_now_ns();
    std::thread dropper([&] {
        for (size_t i = 0; i < trees; i++)
            nodes += count(between.pop().get());
    });
    for (size_t i = 0; i < trees; i++)
        between.push(grow(&rng, depth));
    dropper.join();
    uint64_t elapsed = bench_now_ns() - begin;
    if (nodes != trees * ((size_t(1) << depth) - 1))
        bench_fail("nodes are missing");
    bench_result(static_cast<double>(nodes), elapsed);
    return 0;
}
