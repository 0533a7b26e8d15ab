/* SPDX-License-Identifier: MIT
 *
 * An address that one thread gives back and another one is handed has another owner: ThreadSanitizer, which does not
 * see the system calls, is told (sys/memory.c) and reports no race. The threads share nothing else.
 */
#include "check.h"
#include "sys/sys.h"

#include <errno.h>
#include <pthread.h>

enum { GIVEN = 16 * 4096 };

static _Atomic uintptr_t given_back;

static void *gives_back(void *unused) {
    char *block = sys_map(GIVEN);
    CHECK(block != NULL);
    memset(block, 1, GIVEN);
    CHECK(sys_unmap(block, GIVEN));
    atomic_store_explicit(&given_back, (uintptr_t)block, memory_order_relaxed);
    return unused;
}

static void *is_handed(void *unused) {
    uintptr_t place;
    while ((place = atomic_load_explicit(&given_back, memory_order_relaxed)) == 0)
        ;
    char *block = (char *)place + GIVEN / 2;
    int error = sys_map_at(block, sys_page_size()); /* another mapping may be there by now */
    CHECK(error == 0 || error == EEXIST);
    if (error == 0)
        *block = 2;
    return unused;
}

int main(void) {
    pthread_t other, one;
    CHECK(pthread_create(&other, NULL, is_handed, NULL) == 0 && pthread_create(&one, NULL, gives_back, NULL) == 0);
    CHECK(pthread_join(other, NULL) == 0 && pthread_join(one, NULL) == 0);
    return CHECK_PASS;
}
