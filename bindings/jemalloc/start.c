/* SPDX-License-Identifier: MIT
 *
 * start.c: blocks of mallocx go to free. Where malloc and free are another allocator's, the program would damage its
 * memory sooner or later: it ends at once and says why.
 */
#include "hakmem.h"

#include <stdlib.h>
#include <unistd.h>

__attribute__((constructor)) static void look(void) {
    static const char text[] =
        "hakmem: libhakmem-jemalloc.so needs libhakmem.so in front of it, but malloc is another library's here: "
        "LD_PRELOAD=\"libhakmem.so libhakmem-jemalloc.so\", or -Wl,--no-as-needed -lhakmem -lhakmem-jemalloc\n";
    void *block = malloc(1);
    int is_ours = block == NULL || hak_owns(block);
    free(block);
    if (is_ours)
        return;
    ssize_t ignored = write(STDERR_FILENO, text, sizeof text - 1);
    (void)ignored;
    _exit(127);
}
