/* SPDX-License-Identifier: MIT
 *
 * Symbols of loaded libraries are found where dlsym finds them, in each library and in the kernel's; and what is not
 * there is not found.
 */
#include "check.h"
#include "sys/symbols.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/auxv.h>
#include <time.h>

/* Of the C library: some by many letters, so that many chains of its hash are walked. */
static const char *const names[] = {
    "abs",   "bsearch", "calloc", "daemon", "environ",   "free",     "getenv", "hsearch", "isalpha", "jrand48",
    "kill",  "labs",    "malloc", "nice",   "open",      "printf",   "qsort",  "realloc", "strdup",  "tolower",
    "umask", "vprintf", "write",  "putenv", "sigaction", "memalign", "fork",   "dup2",    "read",    "pipe",
};

/* Without those that are chosen for the processor at load (IFUNC), as strlen may be. */
static void libc_is_as_dlsym_has_it(void) {
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        void *expected = dlsym(RTLD_DEFAULT, names[i]);
        CHECK(expected != NULL);
        CHECK_SAY(symbol_anywhere(names[i]) == expected, "%s is at %p, not at %p", names[i], symbol_anywhere(names[i]),
                  expected);
    }
}

static void what_is_not_there(void) {
    CHECK(symbol_anywhere("hakmem_has_no_such_name") == NULL);
    CHECK(symbol_anywhere("") == NULL);
    CHECK(symbol_in("libno-such-library.so.1", "open") == NULL);
    CHECK(symbol_in("", "open") == NULL);
    CHECK(symbol_behind_us("main") == NULL);
    CHECK(symbol_of_kernel("malloc") == NULL);
}

/* A name that has an old version too: the one that new programs get. */
static void the_default_version(void) {
    static const char *const versioned[] = {
        "pthread_cond_wait", "posix_spawn", "realpath", "fclose", "fopen", "nftw", "glob", "dlopen"};
    for (size_t i = 0; i < sizeof versioned / sizeof versioned[0]; i++) {
        void *expected = dlsym(RTLD_DEFAULT, versioned[i]), *found = symbol_anywhere(versioned[i]);
        CHECK_SAY(found == expected, "%s is at %p, not at %p", versioned[i], found, expected);
    }
}

#if defined(__GLIBC__)
static void of_a_library(void) {
    CHECK(symbol_in("libc.so.6", "labs") == dlsym(RTLD_NEXT, "labs"));
    CHECK(symbol_in("libc.so.6", "_r_debug") == NULL); /* the dynamic linker has it */
    CHECK(symbol_anywhere("_r_debug") == (void *)&_r_debug);
    CHECK(symbol_behind_us("open") == dlsym(RTLD_NEXT, "open"));
}
#else
static void of_a_library(void) {}
#endif

/* The kernel's clock answers as the C library's, which asks it too. */
static void of_the_kernel(void) {
    if (getauxval(AT_SYSINFO_EHDR) == 0)
        return; /* under emulation */
    int (*read)(clockid_t, struct timespec *) =
        (int (*)(clockid_t, struct timespec *))symbol_of_kernel("__vdso_clock_gettime");
    if (read == NULL)
        read = (int (*)(clockid_t, struct timespec *))symbol_of_kernel("__kernel_clock_gettime");
    CHECK(read != NULL);
    struct timespec before, now, after;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &before) == 0 && read(CLOCK_MONOTONIC, &now) == 0 &&
          clock_gettime(CLOCK_MONOTONIC, &after) == 0);
    int64_t first = before.tv_sec * 1000000000LL + before.tv_nsec, second = now.tv_sec * 1000000000LL + now.tv_nsec;
    CHECK(first <= second && second <= after.tv_sec * 1000000000LL + after.tv_nsec);
}

/* A library that came late, whose symbols no other library sees; with each of the two kinds of hash tables. */
static void of_a_late_library(const char *file, const char *soname) {
    CHECK(symbol_in(soname, "symbols_function") == NULL);
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    CHECK_SAY(library != NULL, "%s: %s", file, dlerror());
    static const char *const found[] = {"symbols_function", "symbols_data"};
    for (size_t i = 0; i < sizeof found / sizeof found[0]; i++)
        CHECK(dlsym(library, found[i]) != NULL && symbol_in(soname, found[i]) == dlsym(library, found[i]));
    int (*function)(void) = (int (*)(void))symbol_in(soname, "symbols_function");
    CHECK_EQ(function(), 3);
    CHECK_EQ(*(int *)symbol_in(soname, "symbols_data"), 7);
    static const char *const none[] = {"symbols_absent", "symbols_hidden", "symbols_of_a_thread", "symbols_functio",
                                       "malloc"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        CHECK_SAY(symbol_in(soname, none[i]) == NULL, "%s is found in %s", none[i], soname);
    CHECK(dlclose(library) == 0);
}

int main(int argc, char **argv) {
    CHECK_EQ(argc, 3);
    libc_is_as_dlsym_has_it();
    what_is_not_there();
    the_default_version();
    of_a_library();
    of_the_kernel();
    of_a_late_library(argv[1], "symbols-gnu.so");
    of_a_late_library(argv[2], "symbols-sysv.so");
    return 0;
}
