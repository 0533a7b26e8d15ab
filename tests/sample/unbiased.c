/* SPDX-License-Identifier: MIT
 *
 * A profile is right on average: what ten sites allocate and keep, by many runs with other random numbers, against what
 * they did. The mean of the estimates lies within three standard errors of the truth. One site allocates 16 bytes after
 * each 64 KiB of another. A series of runs makes ten million allocations.
 *
 *   unbiased [RUNS]
 */
#include "profile.h"

enum { SITES = 10, RUNS = 50, ROUNDS = 27200, SERIES = 3, KEPT_EACH = 7, INTERVAL = 2048 };

static const size_t sizes[SITES] = {65536, 16, 30, 48, 100, 1000, 3000, 20000, 300000, 130};

typedef void *site_t(size_t size);
#define SITE(n)                                                                                                        \
    PROFILE_SITE static void *site_##n(size_t size) {                                                                  \
        void *volatile block = malloc(size);                                                                           \
        return block;                                                                                                  \
    }                                                                                                                  \
    static void *site_##n(size_t size)
SITE(0);
SITE(1);
SITE(2);
SITE(3);
SITE(4);
SITE(5);
SITE(6);
SITE(7);
SITE(8);
SITE(9);

static site_t *const sites[SITES] = {site_0, site_1, site_2, site_3, site_4, site_5, site_6, site_7, site_8, site_9};

/* Rounds of large blocks are fewer. */
static int rounds_of(int site) { return sizes[site] > 10000 ? ROUNDS / 8 : ROUNDS; }

static void *kept[SITES][ROUNDS / KEPT_EACH + 1];

static void run(void) {
    for (int round = 0; round < ROUNDS; round++)
        for (int site = 0; site < SITES; site++) {
            if (round % (ROUNDS / rounds_of(site)) != 0)
                continue;
            int turn = round / (ROUNDS / rounds_of(site));
            void *block = sites[site](sizes[site]);
            if (turn % KEPT_EACH == 0)
                kept[site][turn / KEPT_EACH] = block;
            else
                free(block);
        }
}

static void release(void) {
    for (int site = 0; site < SITES; site++)
        for (int i = 0; i * KEPT_EACH < rounds_of(site); i++)
            free(kept[site][i]);
}

typedef struct sum {
    double total, squares;
} sum_t;

static void add(sum_t *sum, double value) {
    sum->total += value;
    sum->squares += value * value;
}

enum { FIGURES = 4 };
static const char *const figures[FIGURES] = {"bytes allocated", "blocks allocated", "bytes live", "blocks live"};
typedef sum_t series_t[SITES][FIGURES];

static double truth_of(int site, int figure) {
    const double allocated = rounds_of(site), live = (rounds_of(site) + KEPT_EACH - 1) / KEPT_EACH;
    const double truths[FIGURES] = {allocated * (double)sizes[site], allocated, live * (double)sizes[site], live};
    return truths[figure];
}

static bool is_within(sum_t sum, int runs, double truth) {
    double mean = sum.total / runs, variance = (sum.squares / runs - mean * mean) * runs / (runs - 1);
    double away = mean - truth;
    return away * away <= 3.0 * 3.0 * variance / runs + 1e-6 * truth * truth;
}

static void measure(series_t *series, int runs) {
    memset(series, 0, sizeof *series);
    for (int i = 0; i < runs; i++) {
        CHECK_EQ(hak_profile_start(INTERVAL), 0);
        run();
        hak_profile_stop();
        profile_image_t image = profile_take();
        for (int site = 0; site < SITES; site++) {
            profile_sums_t sums = profile_sums_of(&image, (uintptr_t)sites[site]);
            add(&(*series)[site][0], sums.alloc_bytes);
            add(&(*series)[site][1], sums.alloc_objects);
            add(&(*series)[site][2], sums.live_bytes);
            add(&(*series)[site][3], sums.live_objects);
        }
        profile_drop(&image);
        release();
        hak_profile_reset();
    }
}

/* Figures that were outside in this series and in all before it. */
static int count_biased(bool (*biased)[FIGURES], const series_t *series, int runs) {
    int count = 0;
    for (int site = 0; site < SITES; site++)
        for (int figure = 0; figure < FIGURES; figure++) {
            const sum_t sum = (*series)[site][figure];
            const double truth = truth_of(site, figure);
            if (is_within(sum, runs, truth))
                biased[site][figure] = false;
            else
                printf("blocks of %zu bytes: %s: %.0f on average of %d runs, not %.0f\n", sizes[site], figures[figure],
                       sum.total / runs, runs, truth);
            count += biased[site][figure];
        }
    return count;
}

/* One figure in 240 is outside by chance, so one of them all in each sixth series: then another decides. */
int main(int argc, char **argv) {
    static series_t series;
    static bool biased[SITES][FIGURES];
    test_require_hakmem();
    int runs = argc > 1 ? atoi(argv[1]) : RUNS, left = 1;
    memset(biased, true, sizeof biased);
    for (int i = 0; i < SERIES && left > 0; i++) {
        measure(&series, runs);
        left = count_biased(biased, &series, runs);
    }
    CHECK_SAY(left == 0, "%d figures are biased", left);
    return TEST_PASS;
}
