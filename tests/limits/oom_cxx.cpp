// SPDX-License-Identifier: MIT
//
// C++ under RLIMIT_AS: new throws bad_alloc, the new_handler's reserve saves the call that runs out, containers survive
// a refused growth with their contents, nothrow new says null, and memory is usable again afterwards.
#include "testing.h"

#include <sys/resource.h>

#include <memory>
#include <new>
#include <string>
#include <vector>

static char *reserve;
static int handler_calls;

static void give_reserve() {
    handler_calls++;
    if (reserve == nullptr)
        throw std::bad_alloc();
    delete[] reserve;
    reserve = nullptr;
}

static std::size_t until_refused(std::size_t size) {
    std::vector<std::unique_ptr<char[]>> blocks;
    blocks.reserve(100000);
    try {
        while (blocks.size() < 100000) {
            blocks.emplace_back(new char[size]);
            blocks.back()[0] = blocks.back()[size - 1] = 'x';
        }
    } catch (const std::bad_alloc &) {
    }
    CHECK(blocks.size() < 100000);
    CHECK(new (std::nothrow) char[test_opaque_size(800 * TEST_MIB)] == nullptr);
    return blocks.size();
}

int main(int argc, char **argv) {
    test_require_hakmem();
    test_alarm(60);
    if (argc == 1) {
        char under[] = "under";
        char *const again[] = {argv[0], under, nullptr};
        rlimit limit = {512000 * 1024ul, 512000 * 1024ul};
        CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
        execv("/proc/self/exe", again);
        return TEST_FAIL;
    }
    for (std::size_t size : {std::size_t{10000}, std::size_t{300000}, std::size_t{20000000}}) {
        std::size_t first = until_refused(size), second = until_refused(size);
        test_say("%zu blocks of %zu bytes, then %zu\n", first, size, second);
        CHECK(second >= first - first / 10);
    }
    std::vector<std::string> lines;
    bool refused = false;
    while (!refused) {
        try {
            lines.push_back(std::string(100000, static_cast<char>('a' + lines.size() % 26)));
        } catch (const std::bad_alloc &) {
            refused = true;
        }
    }
    for (std::size_t i = 0; i < lines.size(); i++)
        CHECK(lines[i].size() == 100000 && lines[i][99999] == static_cast<char>('a' + i % 26));
    lines.clear();
    lines.shrink_to_fit();

    reserve = new char[64 * TEST_MIB];
    std::set_new_handler(give_reserve);
    std::vector<std::unique_ptr<char[]>> blocks;
    try {
        for (;;)
            blocks.emplace_back(new char[TEST_MIB]);
    } catch (const std::bad_alloc &) {
    }
    CHECK_SAY(handler_calls == 2, "%d calls of the handler", handler_calls);
    blocks.clear();
    CHECK_HEAP();
    return TEST_PASS;
}
