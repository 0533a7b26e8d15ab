/* SPDX-License-Identifier: MIT
 *
 * Memory of the C library's own malloc, which the program reaches past the interposed names: it frees such blocks, asks
 * for their size and reallocates them, from several threads. All of it goes to its owner, contents are kept, nothing is
 * reported.
 */
#include "testing.h"

static void *(*libc_malloc)(size_t);
static void *(*libc_aligned)(size_t, size_t);

static void find(void *libc, const char *name, void *function) {
    void *address = dlsym(libc, name);
    CHECK_SAY(address != NULL, "%s", name);
    memcpy(function, &address, sizeof address);
}

static void *trade(void *unused) {
    (void)unused;
    for (size_t i = 0; i < 20000; i++) {
        size_t size = 1 + i * 37 % 3000;
        char *p = (char *)libc_malloc(size);
        test_fill(p, size, i);
        if (i % 3 == 0) {
            CHECK(malloc_usable_size(p) >= size);
            p = (char *)realloc(p, 2 * size);
            CHECK(p != NULL && test_holds(p, size, i));
        }
        free(p);
        free(malloc(size));
    }
    return NULL;
}

int main(void) {
    test_require_hakmem();
    test_alarm(60);
    void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    if (libc == NULL)
        test_skip("the C library is not glibc");
    find(libc, "malloc", &libc_malloc);
    find(libc, "aligned_alloc", &libc_aligned);

    char *text = strcpy((char *)libc_malloc(11), "libc's own");
    free(text);
    void *mapped = libc_malloc(8 * TEST_MIB); /* libc maps it on its own */
    CHECK(malloc_usable_size(mapped) >= 8 * TEST_MIB);
    mapped = realloc(mapped, 16 * TEST_MIB);
    CHECK(mapped != NULL);
    free(mapped);
    free(libc_aligned(4096, 8192));
    trade(NULL);
    pthread_t threads[4];
    for (unsigned i = 0; i < 4; i++)
        threads[i] = test_thread(trade, NULL);
    for (unsigned i = 0; i < 4; i++)
        test_join(threads[i]);

    hak_stats_t *stats = (hak_stats_t *)test_pages(sizeof *stats);
    if (test_stats(stats) == 0) {
        CHECK_SAY(stats->errors == 0, "%llu errors", (unsigned long long)stats->errors);
        CHECK_SAY(stats->foreign_forwards >= 100000, "%llu forwards", (unsigned long long)stats->foreign_forwards);
    }
    CHECK_HEAP();
    return TEST_PASS;
}
