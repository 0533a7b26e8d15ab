// SPDX-License-Identifier: MIT
// proof_probe.so: preloaded behind the allocator, makes a program that knows nothing of this suite prove its allocator:
// its constructor writes the line of bench_prove() before main, and its destructor the peak of a server. Without
// HAKMEM_BENCH_PROOF it does nothing.
//
// The address of malloc would not do here: in a program that is not position independent it can be an entry of the
// program's own call table. So the probe reads from its own call table where a call to malloc really goes.
#include "common.h"
#include <elf.h>
#include <link.h>

extern void *_Znwm(size_t) __attribute__((weak));
extern ElfW(Dyn) _DYNAMIC[] __attribute__((visibility("hidden")));

#if defined(__x86_64__)
enum { CALL_SLOT = R_X86_64_JUMP_SLOT };
#else
enum { CALL_SLOT = R_AARCH64_JUMP_SLOT };
#endif

// Never true; the calls behind it make the linker give each function a slot in the call table.
static volatile int never;

static void keep_slots(void) {
    void *block = malloc(1);
    free(block);
    bench_keep(_Znwm(1));
}

static const ElfW(Dyn) * entry(ElfW(Sxword) tag) {
    const ElfW(Dyn) *e = _DYNAMIC;
    while (e->d_tag != tag && e->d_tag != DT_NULL)
        e++;
    return e;
}

static void *target_of_call(const char *name) {
    Dl_info self;
    if (!dladdr((void *)(uintptr_t)keep_slots, &self))
        return NULL;
    const char *names = (const char *)entry(DT_STRTAB)->d_un.d_ptr;
    const ElfW(Sym) *symbols = (const ElfW(Sym) *)entry(DT_SYMTAB)->d_un.d_ptr;
    const ElfW(Rela) *slots = (const ElfW(Rela) *)entry(DT_JMPREL)->d_un.d_ptr;
    size_t count = entry(DT_PLTRELSZ)->d_un.d_val / sizeof *slots;
    for (size_t i = 0; i < count; i++) {
        const ElfW(Sym) *symbol = &symbols[ELF64_R_SYM(slots[i].r_info)];
        if (ELF64_R_TYPE(slots[i].r_info) == CALL_SLOT && strcmp(names + symbol->st_name, name) == 0)
            return *(void **)((char *)self.dli_fbase + slots[i].r_offset);
    }
    return NULL;
}

__attribute__((constructor)) static void prove(void) {
    if (never)
        keep_slots();
    if (getenv("HAKMEM_BENCH_PROOF"))
        bench_write_proof(target_of_call("malloc"), target_of_call("free"), target_of_call("_Znwm"));
}

// The kernel's figure for this process alone: that of getrusage() has the program that called exec in it. Only the jobs
// of servers need it, which have HAKMEM_BENCH_PRELOAD. A program that may not open the file any more, for it has given
// up its rights or its root, ends as it would without the probe.
__attribute__((destructor)) static void tell_peak(void) {
    char status[4096], line[64];
    int is_wanted = getenv("HAKMEM_BENCH_PROOF") && getenv("HAKMEM_BENCH_PRELOAD");
    int fd = is_wanted ? open("/proc/self/status", O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    ssize_t length = read(fd, status, sizeof status - 1);
    close(fd);
    status[length > 0 ? length : 0] = 0;
    const char *peak = strstr(status, "VmHWM:");
    if (peak)
        bench_write_to_proof(line, snprintf(line, sizeof line, "allocator-peak: %ld\n", strtol(peak + 6, NULL, 10)));
}
