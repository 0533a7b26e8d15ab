// SPDX-License-Identifier: MIT
// strings_cpp LINES ROUNDS SEED: text processing in C++. Splits LINES lines into words, counts them in a hash map,
// joins them again; the strings come and go through operator new and delete. One operation is a word.
#include "common.h"
#include <string>
#include <unordered_map>
#include <vector>

static std::string make_line(bench_rng *rng) {
    std::string line;
    size_t words = bench_rng_range(rng, 4, 12);
    for (size_t w = 0; w < words; w++) {
        line.append(bench_rng_range(rng, 3, 40), static_cast<char>('a' + bench_rng_below(rng, 26)));
        line.push_back(' ');
    }
    return line;
}

static std::vector<std::string> split(const std::string &line) {
    std::vector<std::string> words;
    size_t from = 0;
    for (size_t at = line.find(' '); at != std::string::npos; at = line.find(' ', from)) {
        words.emplace_back(line, from, at - from);
        from = at + 1;
    }
    return words;
}

static std::string join(const std::vector<std::string> &words) {
    std::string line;
    for (const std::string &word : words)
        line += word + "-";
    return line;
}

static size_t process(std::vector<std::string> *lines) {
    std::unordered_map<std::string, size_t> counts;
    size_t total = 0;
    for (std::string &line : *lines) {
        std::vector<std::string> words = split(line);
        for (const std::string &word : words)
            total += ++counts[word] ? 1 : 0;
        std::string joined = join(words);
        bench_keep(&joined[0]);
    }
    return total;
}

int main(int argc, char **argv) {
    size_t count = bench_arg(argc, argv, 1, 10000);
    size_t rounds = bench_arg(argc, argv, 2, 20);
    bench_rng rng = bench_rng_make(bench_arg(argc, argv, 3, 42));
    bench_begin();
    std::vector<std::string> lines;
    for (size_t i = 0; i < count; i++)
        lines.push_back(make_line(&rng));
    uint64_t begin = bench_now_ns();
    size_t words = 0;
    for (size_t r = 0; r < rounds; r++)
        words += process(&lines);
    bench_result(static_cast<double>(words), bench_now_ns() - begin);
    return 0;
}
