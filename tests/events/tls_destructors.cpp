// SPDX-License-Identifier: MIT
//
// malloc and free in the last moments of a thread: destructors of pthread keys, which set their key again and so run in
// several rounds, some made before and some after the allocator's own, and destructors of C++ thread_local objects.
#include "testing.h"

#include <string>
#include <vector>

enum { KEYS = 20, THREADS = 300 };

static pthread_key_t keys[KEYS];
static int destroyed;

struct note {
    unsigned rounds;
    char *text;
};

static void work() {
    void *blocks[50];
    for (unsigned i = 0; i < 50; i++) {
        blocks[i] = malloc(16 + i * 40);
        CHECK(blocks[i] != nullptr);
        memset(blocks[i], 0x77, 16 + i * 40);
    }
    for (unsigned i = 0; i < 50; i++)
        free(blocks[i]);
}

static void destroy(void *value) {
    note *n = static_cast<note *>(value);
    CHECK(strcmp(n->text, "kept to the end") == 0);
    work();
    char *again = strdup(n->text);
    free(n->text);
    n->text = again;
    if (n->rounds-- > 0) {
        // Setting a key in a destructor asks for another round (PTHREAD_DESTRUCTOR_ITERATIONS of them).
        for (pthread_key_t key : keys)
            if (pthread_getspecific(key) == nullptr) {
                pthread_setspecific(key, n);
                return;
            }
    }
    free(n->text);
    free(n);
    __atomic_fetch_add(&destroyed, 1, __ATOMIC_RELAXED);
}

struct keeper {
    std::vector<std::string> lines;
    void *raw = malloc(5000);
    ~keeper() {
        for (int i = 0; i < 100; i++)
            lines.push_back(std::string(static_cast<std::size_t>(i) + 20, 'y'));
        free(raw);
        raw = malloc(100);
        work();
        free(raw);
    }
};

static thread_local keeper kept;

static void *run(void *) {
    kept.lines.emplace_back("a line that does not fit into the string itself");
    for (unsigned i = 0; i < KEYS / 2; i++) {
        note *n = static_cast<note *>(malloc(sizeof *n));
        n->rounds = i % 4;
        n->text = strdup("kept to the end");
        pthread_setspecific(keys[i * 2 % KEYS], n);
    }
    work();
    return nullptr;
}

int main() {
    test_require_hakmem();
    test_alarm(60);
    for (unsigned i = 0; i < KEYS / 2; i++)
        CHECK(pthread_key_create(&keys[i], destroy) == 0);
    test_join(test_thread([](void *) -> void * { return malloc(10); }, nullptr));
    for (unsigned i = KEYS / 2; i < KEYS; i++)
        CHECK(pthread_key_create(&keys[i], destroy) == 0);
    for (unsigned round = 0; round < THREADS / 10; round++) {
        pthread_t threads[10];
        for (pthread_t &t : threads)
            t = test_thread(run, nullptr);
        for (pthread_t t : threads)
            test_join(t);
    }
    CHECK_SAY(destroyed == THREADS * KEYS / 2, "%d destroyed", destroyed);
    CHECK_HEAP();
    return TEST_PASS;
}
