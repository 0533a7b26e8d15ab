/* SPDX-License-Identifier: MIT
 *
 * What the library does where dlopen and thread keys are in libraries of their own, as before glibc 2.34: not loaded
 * yet, come later, or brought by a plug-in before us.
 */
#include "check.h"
#include "sys/linked.h"
#include "sys/symbols.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>

static bool has_keys, has_dlopen_behind, has_dlopen_elsewhere;
static int opened, mode_given;

static int made_key(pthread_key_t *key, void (*destructor)(void *)) {
    (void)destructor;
    *key = 5;
    return 0;
}

static int set_key(pthread_key_t key, const void *value) { return key == 5 && value == &has_keys ? 0 : EINVAL; }

static void *open_one(const char *file, int mode) {
    (void)file;
    opened++;
    mode_given = mode;
    return &opened;
}

void *symbol_anywhere(const char *name) {
    if (!has_keys)
        return NULL;
    return strcmp(name, "pthread_key_create") == 0    ? (void *)(uintptr_t)&made_key
           : strcmp(name, "pthread_setspecific") == 0 ? (void *)(uintptr_t)&set_key
                                                      : NULL;
}

void *symbol_behind_us(const char *name) {
    return has_dlopen_behind && strcmp(name, "dlopen") == 0 ? (void *)(uintptr_t)&open_one : NULL;
}

void *symbol_in(const char *library, const char *name) {
    bool is_it = strcmp(library, "libdl.so.2") == 0 && strcmp(name, "dlopen") == 0;
    return has_dlopen_elsewhere && is_it ? (void *)(uintptr_t)&open_one : NULL;
}

static void keys(void) {
    pthread_key_t key = 0;
    CHECK_EQ(linked_key_create(&key, NULL), ENOSYS);
    has_keys = true;
    CHECK_EQ(linked_key_create(&key, NULL), 0);
    CHECK_EQ(key, 5);
    CHECK_EQ(linked_key_set(key, &has_keys), 0);
    CHECK(linked_single_threaded() == NULL);
}

static void loading(bool *has) {
    CHECK(dlopen("one", RTLD_NOW) == NULL);
    CHECK(dlopen("one", RTLD_NOW) == NULL);
    CHECK_EQ(opened, 0);
    *has = true;
    CHECK(dlopen("one", RTLD_NOW | RTLD_DEEPBIND) == &opened);
    CHECK_EQ(opened, 1);
    CHECK_EQ(mode_given, RTLD_NOW);
}

int main(int argc, char **argv) {
    (void)argv;
    keys();
    loading(argc > 1 ? &has_dlopen_elsewhere : &has_dlopen_behind);
    return 0;
}
