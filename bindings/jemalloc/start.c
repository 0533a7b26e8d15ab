/* SPDX-License-Identifier: MIT
 *
 * start.c: blocks of mallocx go to free. Where malloc and free are another allocator's, the program would damage its
 * memory sooner or later: it ends at once and says why.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Whether the names lead into one library. */
static int are_together(const char *one, const char *other) {
    Dl_info first, second;
    return dladdr(dlsym(RTLD_DEFAULT, one), &first) != 0 && dladdr(dlsym(RTLD_DEFAULT, other), &second) != 0 &&
           first.dli_fbase == second.dli_fbase;
}

__attribute__((constructor)) static void look(void) {
    static const char text[] =
        "hakmem: libhakmem-jemalloc.so needs libhakmem.so in front of it, but malloc is another library's here: "
        "LD_PRELOAD=\"libhakmem.so libhakmem-jemalloc.so\", or -lhakmem before -lhakmem-jemalloc\n";
    if (are_together("malloc", "hak_malloc"))
        return;
    ssize_t ignored = write(STDERR_FILENO, text, sizeof text - 1);
    (void)ignored;
    _exit(127);
}
