/* SPDX-License-Identifier: MIT
 *
 * A program on the C library's malloc opens and closes the library (argument 1) again and again, uses it by its own
 * names from several threads, and lets a thread that used it end after it was closed. Neither crashes nor grows without
 * bound, and static TLS space (which dlopen has little of) is enough.
 */
#include "testing.h"

enum { ROUNDS = 300 };

typedef struct api {
    void *(*malloc)(size_t);
    void *(*realloc)(void *, size_t);
    void (*free)(void *);
    size_t (*check)(void);
} api_t;

static const char *path;
static pthread_barrier_t closed;

static void *open_library(api_t *api) {
    static const char *const names[] = {"hak_malloc", "hak_realloc", "hak_free", "hak_check"};
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        test_fail("failed: %s\n", dlerror());
    void *found[4];
    for (unsigned i = 0; i < 4; i++) {
        found[i] = dlsym(library, names[i]);
        CHECK_SAY(found[i] != NULL, "%s", names[i]);
    }
    memcpy(api, found, sizeof *api);
    return library;
}

static void work(const api_t *api) {
    void *blocks[200];
    for (unsigned i = 0; i < 200; i++) {
        blocks[i] = api->malloc(1 + i * 977 % 20000);
        CHECK(blocks[i] != NULL);
        memset(blocks[i], 1, 1 + i * 977 % 20000);
    }
    for (unsigned i = 0; i < 200; i++)
        api->free(i % 2 ? blocks[i] : api->realloc(blocks[i], 300));
}

static void *use(void *argument) {
    work((const api_t *)argument);
    return NULL;
}

static void *use_and_outlive(void *argument) {
    work((const api_t *)argument);
    pthread_barrier_wait(&closed);
    pthread_barrier_wait(&closed); /* the library has been closed in between; this thread now ends */
    return NULL;
}

int main(int argc, char **argv) {
    test_alarm(60);
    CHECK(argc == 2);
    path = argv[1];
    pthread_barrier_init(&closed, NULL, 2);
    long early_kib = 0, early_size_kib = 0;
    for (unsigned i = 0; i < ROUNDS; i++) {
        api_t api;
        void *library = open_library(&api);
        work(&api);
        pthread_t other = test_thread(use, &api);
        test_join(other);
        CHECK(api.check() == 0);
        pthread_t outliving = test_thread(use_and_outlive, &api);
        pthread_barrier_wait(&closed);
        CHECK(dlclose(library) == 0);
        pthread_barrier_wait(&closed);
        test_join(outliving);
        if (i == 20) {
            early_kib = test_rss_kib();
            early_size_kib = test_status_kib("VmSize:");
        }
    }
    long late_kib = test_rss_kib(), late_size_kib = test_status_kib("VmSize:");
    test_say("after 20 rounds %ld KiB resident, %ld mapped; after %d: %ld, %ld\n", early_kib, early_size_kib, ROUNDS,
             late_kib, late_size_kib);
    CHECK(late_kib < early_kib + 4096);
    CHECK(late_size_kib < early_size_kib + 262144);
    return TEST_PASS;
}
