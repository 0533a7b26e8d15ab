/* SPDX-License-Identifier: MIT
 *
 * One double free, for place.py: in this program, in the library that is named, or here after the program has confined
 * itself.
 *
 *   place program|confined|LIBRARY
 */
#include "testing.h"

#include <dlfcn.h>
#include <sys/prctl.h>

static __attribute__((noinline)) void free_twice_in_program(void) {
    void *p = malloc(64);
    free(p);
    free(test_opaque(p));
    test_say("survived\n");
}

static __attribute__((noinline)) void free_twice_in(const char *library) {
    void *handle = dlopen(library, RTLD_NOW), *found = handle != NULL ? dlsym(handle, "free_twice_in_library") : NULL;
    void (*free_twice)(void);
    CHECK_SAY(found != NULL, "%s", dlerror());
    memcpy(&free_twice, &found, sizeof free_twice);
    free_twice();
    test_say("back from the library\n");
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    test_require_hakmem();
    if (strchr(argv[1], '/') != NULL) {
        free_twice_in(argv[1]);
        return TEST_PASS;
    }
    if (strcmp(argv[1], "confined") == 0)
        CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    free_twice_in_program();
    return TEST_PASS;
}
