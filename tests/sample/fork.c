/* SPDX-License-Identifier: MIT
 *
 * A profile across a fork: the child has its parent's, goes on by itself, and neither learns of the other's. Threads of
 * the parent sample meanwhile, so that their locks are taken.
 */
#include "profile.h"

#include <stdatomic.h>

#include <sys/wait.h>

enum { BLOCKS = 200, SIZE = 1000, CHILDREN = 20, THREADS = 3 };

PROFILE_SITE static void *before(void) {
    void *volatile block = malloc(SIZE);
    return block;
}
PROFILE_SITE static void *after(void) {
    void *volatile block = malloc(SIZE);
    return block;
}

static atomic_int over;
static void *blocks[2 * BLOCKS];

PROFILE_SITE static void *busy(void *unused) {
    while (!over)
        free(malloc(100));
    return unused;
}

static void check(double of_before, double of_after) {
    profile_image_t image = profile_take();
    CHECK_EQ(profile_header(&image)->process_id, getpid());
    CHECK_EQ(profile_sums_of(&image, (uintptr_t)before).live_objects, of_before);
    CHECK_EQ(profile_sums_of(&image, (uintptr_t)after).live_objects, of_after);
    profile_drop(&image);
}

static void child(void) {
    for (int i = 0; i < BLOCKS / 2; i++)
        free(blocks[i]);
    for (int i = 0; i < BLOCKS; i++)
        blocks[BLOCKS + i] = after();
    check(BLOCKS - BLOCKS / 2, BLOCKS);
    _exit(0);
}

int main(void) {
    test_require_hakmem();
    pthread_t threads[THREADS];
    CHECK_EQ(hak_profile_start(1), 0);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, busy, NULL), 0);
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = before();
    for (int i = 0; i < CHILDREN; i++) {
        int status;
        pid_t made = fork();
        if (made == 0)
            child();
        CHECK(waitpid(made, &status, 0) == made && status == 0);
    }
    over = 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    check(BLOCKS, 0);
    return TEST_PASS;
}
