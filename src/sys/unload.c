/* SPDX-License-Identifier: MIT */
#include "sys/libc_doors.h"

#include <stdint.h>
#include <sys/auxv.h>

/* musl never unloads anything. Weak, so that a static program, of which nothing can be unloaded, does not get a dynamic loader for this. */
#if defined(__GLIBC__)
__attribute__((weak)) void *dlopen(const char *file, int mode);
__attribute__((weak)) int dladdr(const void *address, Dl_info *info);

void libc_refuse_unload(void) {
    Dl_info own, program;
    if (&dlopen == NULL || &dladdr == NULL || dladdr((const void *)(uintptr_t)&libc_refuse_unload, &own) == 0)
        return;
    if (dladdr((const void *)(uintptr_t)getauxval(AT_PHDR), &program) != 0 && program.dli_fbase == own.dli_fbase)
        return;
    /* The mark stays when the handle is closed; it is not, for a loader that knows no marks. */
    (void)dlopen(own.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}
#else
void libc_refuse_unload(void) {}
#endif
