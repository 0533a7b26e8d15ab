/* SPDX-License-Identifier: MIT
 *
 * A statically linked program (glibc's or musl's libc) with the allocator in it: all names, threads, fork, exit, and
 * the system calls that it wraps.
 */
#include "busy.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>

int main(void) {
    test_alarm(60);
    CHECK(hak_version() > 0);
    void *p = malloc(100);
    CHECK(hak_owns(p)); /* malloc is the library's, not libc's */
    p = realloc(p, 100000);
    CHECK(p != NULL && hak_owns(p));
    free(p);
    char *copy = strdup("made by libc");
    CHECK(hak_owns(copy));
    free(copy);
    void *aligned = NULL;
    CHECK(posix_memalign(&aligned, 4096, 10) == 0 && (uintptr_t)aligned % 4096 == 0);
    CHECK(malloc_usable_size(aligned) >= 10);
    free(aligned);
    char *zero = (char *)calloc(1000, 1000);
    CHECK(zero != NULL && test_is_zero(zero, 1000000));
    free(zero);
    errno = 0;
    CHECK(malloc(test_opaque_size(SIZE_MAX / 2 + 1)) == NULL && errno == ENOMEM);

    pthread_t threads[3];
    busy_start(threads, 3);
    for (unsigned i = 0; i < 20; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            test_alarm(10);
            for (size_t size = 1; size < TEST_MIB; size *= 3)
                free(malloc(size));
            exit(3);
        }
        int status = 0;
        CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 3);
    }
    busy_end(threads, 3);
    CHECK(unshare(0) == 0 && setns(-1, 0) == -1 && errno == EBADF);
    CHECK(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
    CHECK_HEAP();
    return TEST_PASS;
}
