// SPDX-License-Identifier: MIT
// strings_c LIVE OPS SEED: text processing in C. LIVE strings of 8 - 120 characters; each operation copies one, joins
// two with realloc, or drops one and duplicates another in its place.
#include "common.h"

static char *make_string(bench_rng *rng) {
    size_t length = bench_rng_range(rng, 8, 120);
    char *text = bench_malloc(length + 1);
    memset(text, 'a' + (int)(length % 26), length);
    text[length] = 0;
    return text;
}

static char *join(char *left, const char *right) {
    size_t a = strlen(left), b = strlen(right);
    if (a + b > 240) {
        left[a / 2] = 0;
        a /= 2;
    }
    char *both = realloc(left, a + b + 1);
    if (!both)
        bench_fail("realloc returned NULL");
    memcpy(both + a, right, b + 1);
    return both;
}

static char *copy(const char *text) {
    char *twin = strdup(text);
    if (!twin)
        bench_fail("strdup returned NULL");
    return twin;
}

static void step(char **text, size_t live, bench_rng *rng) {
    char **to = &text[bench_rng_below(rng, (uint32_t)live)];
    char *from = text[bench_rng_below(rng, (uint32_t)live)];
    uint32_t kind = bench_rng_below(rng, 4);
    if (kind == 0 && *to != from) {
        *to = join(*to, from);
    } else if (kind == 1) {
        free(*to);
        *to = make_string(rng);
    } else {
        char *twin = copy(from);
        free(*to);
        *to = twin;
    }
}

int main(int argc, char **argv) {
    size_t live = bench_arg(argc, argv, 1, 20000);
    size_t operations = bench_arg(argc, argv, 2, 5000000);
    bench_rng rng = bench_rng_make(bench_arg(argc, argv, 3, 42));
    bench_begin();
    char **text = bench_map(live * sizeof *text);
    for (size_t i = 0; i < live; i++)
        text[i] = make_string(&rng);
    uint64_t begin = bench_now_ns();
    for (size_t i = 0; i < operations; i++)
        step(text, live, &rng);
    bench_result((double)operations, bench_now_ns() - begin);
    return 0;
}
