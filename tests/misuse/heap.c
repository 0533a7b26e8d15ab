/* SPDX-License-Identifier: MIT
 *
 * Mistakes with heaps that a program makes: each is found at the call and named with its address, and nothing else is
 * damaged. A child each, which goes on after the report. At HAKMEM_SAFE=0 nothing is said.
 */
#include "testing.h"

static char text[65536];

static hak_heap_t *heap_of_blocks(char **small, char **mid, char **large, char **huge) {
    hak_heap_t *heap = hak_heap_new(NULL);
    *small = hak_heap_malloc(heap, 100);
    *mid = hak_heap_malloc(heap, 10000);
    *large = hak_heap_malloc(heap, TEST_MIB);
    *huge = hak_heap_malloc(heap, TEST_GIB + 1);
    CHECK(*huge != NULL);
    return heap;
}

static void say(const char *what, void *address) { fprintf(stderr, "expect %s %p\n", what, address); }

static char *neighbour;

static void begin(void) {
    CHECK_EQ(hak_option_set("ON_ERROR", "report"), 0);
    neighbour = hak_heap_malloc(hak_heap_new(NULL), 100);
    memset(neighbour, 7, 100);
}

static void end(void) {
    for (unsigned i = 0; i < 100; i++)
        CHECK_EQ(neighbour[i], 7);
    CHECK_EQ(hak_check(), 0);
}

static void after_end(void (*end_heap)(hak_heap_t *)) {
    char *small, *mid, *large, *huge;
    begin();
    hak_heap_t *heap = heap_of_blocks(&small, &mid, &large, &huge);
    end_heap(heap);
    char *blocks[] = {small, mid, large, huge};
    for (unsigned i = 0; i < 4; i++) {
        say("double free of", blocks[i]);
        hak_free(blocks[i]);
    }
    end();
}

static void reset_it(hak_heap_t *heap) { (void)hak_heap_reset(heap); }
static void after_destroy(void) { after_end(hak_heap_destroy); }
static void after_reset(void) { after_end(reset_it); }

static void free_twice(hak_heap_t *(*made)(char **, char **, char **, char **)) {
    char *small, *mid, *large, *huge;
    begin();
    (void)made(&small, &mid, &large, &huge);
    char *blocks[] = {small, mid, large, huge};
    for (unsigned i = 0; i < 4; i++) {
        hak_free(blocks[i]);
        say("double free of", blocks[i]);
        hak_free(blocks[i]);
    }
    end();
}

static void twice(void) { free_twice(heap_of_blocks); }

static void inside(void) {
    char *small, *mid, *large, *huge;
    begin();
    (void)heap_of_blocks(&small, &mid, &large, &huge);
    char *blocks[] = {small + 16, mid + 48, large + 65536, huge + 4096};
    for (unsigned i = 0; i < 4; i++) {
        say("free of interior pointer", blocks[i]);
        hak_free(blocks[i]);
    }
    end();
}

/* After it was released, a block is like any other. */
static hak_heap_t *released(char **small, char **mid, char **large, char **huge) {
    hak_heap_release(heap_of_blocks(small, mid, large, huge));
    return NULL;
}

static void after_release(void) { free_twice(released); }

static void no_heap(void) {
    begin();
    hak_heap_t *heap = hak_heap_new(NULL);
    hak_heap_destroy(heap);
    say("hak_heap_malloc of", heap);
    CHECK(hak_heap_malloc(heap, 10) == NULL && errno == ENOMEM);
    say("hak_heap_calloc of", text);
    CHECK(hak_heap_calloc((hak_heap_t *)(void *)text, 10, 1) == NULL);
    say("hak_heap_destroy of", heap);
    hak_heap_destroy(heap);
    say("hak_heap_release of", heap);
    hak_heap_release(heap);
    say("hak_heap_reset of", heap);
    CHECK_EQ(hak_heap_reset(heap), 0);
    hak_heap_stats_t stats = {.struct_size = sizeof stats};
    say("hak_heap_stats_get of", heap);
    CHECK_EQ(hak_heap_stats_get(heap, &stats), EINVAL);
    fprintf(stderr, "expect hak_heap_stats_get of 0x0\n");
    CHECK_EQ(hak_heap_stats_get(NULL, &stats), EINVAL);
    end();
}

/* A thread that allocates of a heap again and again has blocks of it at hand, and what it frees comes to them. */
static void resized_after_free(void) {
    begin();
    hak_heap_t *heap = hak_heap_new(NULL);
    for (unsigned i = 0; i < 1000; i++)
        hak_free(test_opaque(hak_heap_malloc(heap, 60)));
    char *freed = hak_heap_malloc(heap, 60), *stale = test_opaque(freed);
    hak_free(freed);
    say("realloc of freed block", stale);
    CHECK(hak_realloc(stale, 62) == NULL);
    end();
}

/* Of a heap's run the slot table does not say how long it is. */
static void wrong_size(void) {
    begin();
    char *run = hak_heap_aligned_alloc(hak_heap_new(NULL), TEST_MIB, 100);
    CHECK(run != NULL);
    say("free_sized of wrong size", run);
    hak_free_sized(run, 270000);
    end();
}

/* What such a thread has at hand is nobody's when the heap has ended. */
static void no_heap_after_one(void) {
    begin();
    hak_heap_t *heap = hak_heap_new(NULL);
    for (unsigned i = 0; i < 1000; i++)
        hak_free(test_opaque(hak_heap_malloc(heap, 60)));
    hak_heap_destroy(heap);
    fprintf(stderr, "expect hak_heap_malloc of 0x0\n");
    CHECK(hak_heap_malloc(NULL, 60) == NULL && errno == ENOMEM);
    end();
}

static bool is_silent(void) {
    const char *level = getenv("HAKMEM_SAFE");
    return level != NULL && strcmp(level, "0") == 0;
}

/* Each line of ours comes right behind what was expected, and nothing is reported that was not. */
static void run(const char *name, void (*body)(void)) {
    CHECK_SAY(check_child(body, STDERR_FILENO, text, sizeof text) == 0, "%s: %s", name, text);
    if (is_silent()) {
        CHECK_SAY(strstr(text, "hakmem: ") == NULL, "%s: %s", name, text);
        return;
    }
    unsigned expected = 0, reports = 0;
    char wanted[128] = "";
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        if (strncmp(line, "expect ", 7) == 0) {
            CHECK_SAY(wanted[0] == 0, "%s: not reported: %s", name, wanted);
            snprintf(wanted, sizeof wanted, "hakmem: %s ", line + 7);
            expected++;
        } else if (strncmp(line, "hakmem:   ", 10) != 0) {
            CHECK_SAY(wanted[0] != 0 && strncmp(line, wanted, strlen(wanted)) == 0, "%s: \"%s\" for \"%s\"", name, line,
                      wanted);
            wanted[0] = 0;
            reports++;
        }
    }
    CHECK_SAY(expected == reports && expected > 0, "%s: %u of %u", name, reports, expected);
}

int main(void) {
    run("no heap", no_heap);
    run("no heap after one", no_heap_after_one);
    if (is_silent()) /* and a block that is freed twice may be handed out twice */
        return TEST_PASS;
    run("destroy", after_destroy);
    run("reset", after_reset);
    run("wrong size", wrong_size);
    run("twice", twice);
    run("inside", inside);
    run("release", after_release);
    run("resized after free", resized_after_free);
    return TEST_PASS;
}
