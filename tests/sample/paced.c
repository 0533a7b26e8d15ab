/* SPDX-License-Identifier: MIT
 *
 * Threads that are sampled at a pace of their own (src/sample/pace.h), as they allocate hundreds of gigabytes a second:
 * what each site allocates and keeps is right all the same. Two threads do so at the same time, in haste and calm by
 * turns; blocks of the one phase grow in the other. What is kept is not touched: it takes no memory.
 *
 * A site that allocates B bytes, sampled each R at most, has a variance of at most B R, and R is known: the longest
 * interval of the run. So the sums of all runs are within 4.5 standard errors of the truth.
 *
 *   paced [RUNS]
 */
#include "profile.h"

#include <math.h>

enum {
    RUNS = 30,
    THREADS = 2,
    PHASES = 3,
    CYCLES = 640,
    CALM = 40,
    GROWN_EACH = 32,
    GROWN = CYCLES / GROWN_EACH,
    INTERVAL = 512 << 10
};
enum { LARGE = 1 << 20, TOUCHED = 96 << 10, BESIDE = 64 << 10, KEPT = 1 << 20, KEPT_EACH = 4, SLOW = 4 << 20 };
enum { BEFORE = 5 << 20, AFTER = BEFORE + (768 << 10), REST_US = 1000 };

typedef struct work {
    void *kept[PHASES * CYCLES / KEPT_EACH], *slow[PHASES * CALM], *grown[PHASES][GROWN];
    unsigned stayed;
} work_t;

static work_t works[THREADS];

#define SITE(name)                                                                                                     \
    PROFILE_SITE static void *name(void *old, size_t size) {                                                           \
        void *volatile block = realloc(old, size);                                                                     \
        return block;                                                                                                  \
    }
SITE(large)
SITE(beside)
SITE(keep)
SITE(slow)
SITE(grow)

static void in_haste(work_t *my, unsigned phase) {
    for (unsigned i = 0; i < CYCLES; i++) {
        void *block = large(NULL, LARGE);
        memset(block, 1, TOUCHED);
        free(block);
        free(beside(NULL, BESIDE));
        if (i % KEPT_EACH == 0)
            my->kept[(phase * CYCLES + i) / KEPT_EACH] = keep(NULL, KEPT);
        if (i % GROWN_EACH == 0)
            my->grown[phase][i / GROWN_EACH] = grow(NULL, BEFORE);
    }
}

static void calm(work_t *my, unsigned phase) {
    test_sleep_us(REST_US);
    for (unsigned i = 0; i < CALM; i++)
        my->slow[phase * CALM + i] = slow(NULL, SLOW);
    for (unsigned i = 0; i < GROWN; i++) {
        void *before = my->grown[phase][i];
        my->grown[phase][i] = grow(before, AFTER);
        my->stayed += my->grown[phase][i] == before;
    }
}

PROFILE_SITE static void *work(void *argument) {
    for (unsigned phase = 0; phase < PHASES; phase++) {
        in_haste((work_t *)argument, phase);
        calm((work_t *)argument, phase);
    }
    return NULL;
}

static void free_all(void **blocks, unsigned count) {
    for (unsigned i = 0; i < count; i++)
        free(blocks[i]);
}

static void release(work_t *my) {
    free_all(my->kept, PHASES * CYCLES / KEPT_EACH);
    free_all(my->slow, PHASES * CALM);
    free_all(my->grown[0], PHASES * GROWN);
}

/* --- What there is, and what the profile says --------------------------------------------------------------------- */

enum { TURNS = THREADS * PHASES };

/* In a run. A block that grows is one of each size, and the second stays. */
static const struct site {
    const char *name;
    void *(*function)(void *, size_t);
    double size, blocks, is_kept;
    double size_2;
} sites[] = {
    {"large", large, LARGE, TURNS *CYCLES, 0, 0},
    {"beside", beside, BESIDE, TURNS *CYCLES, 0, 0},
    {"kept", keep, KEPT, TURNS *(CYCLES / KEPT_EACH), 1, 0},
    {"slow", slow, SLOW, TURNS *CALM, 1, 0},
    {"grown", grow, BEFORE, TURNS *GROWN, 1, AFTER},
};
enum { SITES = sizeof sites / sizeof *sites };

static profile_sums_t sums[SITES]; /* of all runs */
static double longest;             /* interval in bytes, the sum of all runs */
static unsigned stayed, paced;

static void run(void) {
    pthread_t threads[THREADS];
    CHECK_EQ(hak_profile_start(INTERVAL), 0);
    for (unsigned i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, work, &works[i]), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    hak_profile_stop();
    profile_image_t image = profile_take();
    for (unsigned i = 0; i < SITES; i++) {
        profile_sums_t of = profile_sums_of(&image, (uintptr_t)sites[i].function);
        sums[i].alloc_bytes += of.alloc_bytes;
        sums[i].alloc_objects += of.alloc_objects;
        sums[i].live_bytes += of.live_bytes;
        sums[i].live_objects += of.live_objects;
    }
    paced += profile_header(&image)->longest_log2 > profile_header(&image)->interval_log2;
    longest += fmax(INTERVAL, ldexp(1, (int)profile_header(&image)->longest_log2));
    profile_drop(&image);
    for (unsigned i = 0; i < THREADS; i++) {
        stayed += works[i].stayed;
        release(&works[i]);
    }
    memset(works, 0, sizeof works);
    hak_profile_reset();
}

/* `size` is that of the smallest block that counts. */
static void near(const char *name, const char *what, double is, double truth, double unit, double size) {
    const double error = sqrt(truth / unit * size * longest) / size * unit;
    if (fabs(is - truth) > 4.5 * error + 1e-6 * truth)
        test_fail("%s: %s: %.0f, not %.0f, with a standard error of %.0f at most", name, what, is, truth, error);
}

int main(int argc, char **argv) {
    test_require_hakmem();
    const int runs = argc > 1 ? atoi(argv[1]) : RUNS;
    for (int i = 0; i < runs; i++)
        run();
    longest /= runs;
    for (unsigned i = 0; i < SITES; i++) {
        const struct site *site = &sites[i];
        const double count = runs * site->blocks, bytes = count * (site->size + site->size_2);
        const double last = site->size_2 > 0 ? site->size_2 : site->size, kept = count * site->is_kept;
        near(site->name, "bytes allocated", sums[i].alloc_bytes, bytes, last, last);
        near(site->name, "blocks allocated", sums[i].alloc_objects, count * (site->size_2 > 0 ? 2 : 1), 1, site->size);
        near(site->name, "bytes live", sums[i].live_bytes, kept * last, last, last);
        near(site->name, "blocks live", sums[i].live_objects, kept, 1, last);
    }
    printf("%u of %d runs had a pace, %.0f MiB at most on average; %u blocks grew in place\n", paced, runs,
           longest / TEST_MIB, stayed);
    CHECK(paced >= (unsigned)runs / 2 && stayed > 0);
    CHECK_HEAP();
    return TEST_PASS;
}
