/* SPDX-License-Identifier: MIT
 *
 * A program on the C library's malloc opens a plug-in (argument 1) that has the allocator's archive in it, uses it from
 * two threads and closes it. The helper thread, the destructor of the thread key and the fork handlers run later: the
 * plug-in's code is still there.
 */
#include "testing.h"

#include <sys/wait.h>

enum { ROUNDS = 5 };

static pthread_barrier_t closed;

static void *use_and_outlive(void *work) {
    ((void (*)(void))(uintptr_t)work)();
    pthread_barrier_wait(&closed);
    pthread_barrier_wait(&closed); /* the plug-in has been closed in between; this thread now ends */
    return NULL;
}

static void forks(void) {
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

int main(int argc, char **argv) {
    test_alarm(60);
    CHECK(argc == 2);
    pthread_barrier_init(&closed, NULL, 2);
    void *first = NULL;
    for (unsigned i = 0; i < ROUNDS; i++) {
        void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
        if (plugin == NULL)
            test_fail("failed: %s\n", dlerror());
        void *work = dlsym(plugin, "plugin_work");
        CHECK(work != NULL && (first == NULL || work == first)); /* one allocator, whatever its plug-in is opened for */
        first = work;
        ((void (*)(void))(uintptr_t)work)();
        pthread_t outliving = test_thread(use_and_outlive, work);
        pthread_barrier_wait(&closed);
        CHECK(dlclose(plugin) == 0);
        void *still = dlopen(argv[1], RTLD_LAZY | RTLD_NOLOAD);
        CHECK_SAY(still != NULL, "round %u: unloaded", i);
        CHECK(dlclose(still) == 0);
        forks();
        pthread_barrier_wait(&closed);
        test_join(outliving);
    }
    sleep(2); /* rounds of the helper, and its end */
    ((void (*)(void))(uintptr_t)first)();
    return TEST_PASS;
}
