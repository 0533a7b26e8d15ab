/* SPDX-License-Identifier: MIT */
#include "start/stay.h"

#include "sys/symbols.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/auxv.h>

/* Weak: a static program has no dynamic linker, and needs none for our sake. dlopen is looked up instead of named,
 * because the link editor warns of a static program that names it. */
extern __typeof__(dladdr) dladdr __attribute__((weak));
typedef void *(*dlopen_fn)(const char *, int);

/* What the archive's objects are linked into is another's to mark: a plug-in that is closed would take our code
 * along. Nothing in a program. The mark stays when the handle is closed; it is not, for a loader that knows no marks.
 * RTLD_NOLOAD: what is not there is not loaded. */
void stay_loaded(void) {
    Dl_info own, program;
    if (dladdr == NULL || dladdr((const void *)(uintptr_t)&stay_loaded, &own) == 0)
        return;
    if (dladdr((const void *)(uintptr_t)getauxval(AT_PHDR), &program) != 0 && program.dli_fbase == own.dli_fbase)
        return;
    dlopen_fn loader = (dlopen_fn)symbol_anywhere("dlopen");
    if (loader != NULL)
        (void)loader(own.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}
