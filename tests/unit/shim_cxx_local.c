/* SPDX-License-Identifier: MIT
 *
 * The C++ operators in a C program: without a C++ runtime, running out of memory ends in a clear message; a plugin that
 * brings the runtime along, in a scope of its own, gets its bad_alloc. The argument is the plugin.
 */
#include "check.h"
#include "fake_front.h"

#include <dlfcn.h>
#include <signal.h>

void *_Znwm(size_t size);
void _ZdlPv(void *p);

static char text[4096];

/* Volatile: a compiler that knows what these are would leave out a pair that nobody uses. */
static void *(*volatile make)(size_t) = _Znwm;
static void (*volatile destroy)(void *) = _ZdlPv;

static void exhausted(void) {
    fake_front.empty = true;
    destroy(make(100));
}

int main(int count, char **arguments) {
    CHECK_EQ(count, 2);
    destroy(make(100));
    CHECK_EQ(fake_front.allocs, 1);
    int status = check_child(exhausted, 2, text, sizeof text);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    CHECK_STR(text, "hakmem: fatal: operator new is out of memory, and there is no C++ runtime to throw bad_alloc\n");

    void *plugin = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    if (plugin == NULL)
        fprintf(stderr, "%s\n", dlerror());
    CHECK(plugin != NULL);
    int (*catches)(void) = (int (*)(void))dlsym(plugin, "plugin_catches");
    int (*stays_nothrow)(void) = (int (*)(void))dlsym(plugin, "plugin_stays_nothrow");
    CHECK(catches != NULL && stays_nothrow != NULL);
    fake_front.empty = true;
    CHECK_EQ(catches(), 1);
    CHECK_EQ(stays_nothrow(), 1);
    return CHECK_PASS;
}
