// SPDX-License-Identifier: MIT
// Containers, strings, over-aligned new, memory resources, exceptions, and threads that hand blocks to each other.
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <new>
#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

struct alignas(128) Wide {
    char bytes[200];
};
struct Number {
    std::uint32_t state;
    std::uint32_t operator()() { return state = state * 1664525u + 1013904223u, state >> 8; }
};
struct Node {
    std::unique_ptr<Node> left, right;
    std::string label;
};

static std::unique_ptr<Node> grow(int depth, Number &number) {
    if (depth == 0)
        return nullptr;
    auto node = std::make_unique<Node>();
    node->label = std::string(number() % 64, 'n');
    node->left = grow(depth - 1, number);
    node->right = grow(depth - 1, number);
    return node;
}
static std::size_t weigh(const Node *node) {
    return node ? node->label.size() + weigh(node->left.get()) + weigh(node->right.get()) : 0;
}

static std::uint64_t containers(std::uint32_t seed) {
    Number number{seed};
    std::map<std::string, std::vector<int>> index;
    std::unordered_map<int, std::shared_ptr<std::string>> shared;
    std::list<std::deque<double>> queues;
    std::uint64_t sum = 0;
    for (int i = 0; i < 40000; i++) {
        index["key" + std::to_string(number() % 3000)].push_back(i);
        shared[int(number() % 5000)] = std::make_shared<std::string>(number() % 100, 's');
        if (i % 100 == 0) {
            queues.emplace_back(number() % 500, 1.5);
            if (queues.size() > 50)
                queues.pop_front();
        }
    }
    for (auto &[key, values] : index)
        for (int v : values)
            sum = sum * 31 + std::uint64_t(v) + key.size();
    for (int i = 0; i < 5000; i++)
        if (auto it = shared.find(i); it != shared.end())
            sum = sum * 31 + it->second->size();
    for (auto &queue : queues)
        sum += queue.size();
    sum = sum * 31 + weigh(grow(13, number).get());
    std::vector<std::unique_ptr<Wide>> wide;
    for (int i = 0; i < 2000; i++) {
        wide.push_back(std::make_unique<Wide>());
        if (reinterpret_cast<std::uintptr_t>(wide.back().get()) % alignof(Wide)) {
            std::puts("misaligned");
            return 0;
        }
        if (i % 3 == 0)
            wide.erase(wide.begin() + long(number() % wide.size()));
    }
    std::pmr::unsynchronized_pool_resource pool;
    {
        std::pmr::vector<std::pmr::string> strings(&pool);
        for (int i = 0; i < 5000; i++)
            strings.emplace_back(number() % 200, 'p');
        sum += strings.size();
    }
    std::ostringstream out;
    for (int i = 0; i < 20000; i++)
        out << number() % 1000 << ' ';
    sum = sum * 31 + out.str().size();
    return sum;
}

static std::uint64_t hand_over() {
    std::mutex mutex;
    std::condition_variable ready;
    std::deque<std::unique_ptr<std::vector<int>>> queue;
    bool done = false;
    std::atomic<std::uint64_t> sum{0};
    auto consume = [&] {
        for (;;) {
            std::unique_lock lock(mutex);
            ready.wait(lock, [&] { return done || !queue.empty(); });
            if (queue.empty())
                return;
            auto item = std::move(queue.front());
            queue.pop_front();
            lock.unlock();
            sum += item->size() + std::uint64_t(item->back());
        }
    };
    std::vector<std::thread> consumers;
    for (int i = 0; i < 2; i++)
        consumers.emplace_back(consume);
    std::vector<std::thread> producers;
    for (int t = 0; t < 2; t++)
        producers.emplace_back([&, t] {
            for (int i = 0; i < 50000; i++) {
                auto item = std::make_unique<std::vector<int>>(1 + i % 300, t);
                {
                    std::lock_guard lock(mutex);
                    queue.push_back(std::move(item));
                }
                ready.notify_one();
            }
        });
    for (auto &p : producers)
        p.join();
    {
        std::lock_guard lock(mutex);
        done = true;
    }
    ready.notify_all();
    for (auto &c : consumers)
        c.join();
    return sum;
}

int main() {
    std::printf("%llu\n", (unsigned long long)containers(1));
    std::vector<std::thread> threads;
    std::vector<std::uint64_t> answers(6);
    for (unsigned i = 0; i < answers.size(); i++)
        threads.emplace_back([&, i] { answers[i] = containers(i + 2); });
    for (auto &t : threads)
        t.join();
    for (auto a : answers)
        std::printf("%llu\n", (unsigned long long)a);
    std::printf("handed over %llu\n", (unsigned long long)hand_over());
    int caught = 0;
    for (int i = 0; i < 100; i++)
        try {
            std::string text(std::size_t(1) << (i % 2 ? 60 : 20), 'x');
            if (text[7] != 'x')
                return 1;
            throw std::runtime_error(text.substr(0, 100));
        } catch (const std::bad_alloc &) {
            caught++;
        } catch (const std::exception &e) {
            caught += e.what()[99] == 'x';
        }
    std::printf("caught %d\n", caught);
    char *volatile nothing = new (std::nothrow) char[std::size_t(1) << 61];
    std::printf("nothrow %s\n", nothing ? "block" : "null");
    std::string text;
    for (int i = 0; i < 300; i++)
        text += "a" + std::to_string(i) + " ";
    std::printf("replaced %zu\n", std::regex_replace(text, std::regex("a([0-9]+)"), "<$1>").size());
}
