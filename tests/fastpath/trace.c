/* SPDX-License-Identifier: MIT
 *
 * Which instructions do malloc and free execute? Runs in two processes: the child calls them on warm caches between two
 * breakpoints, the parent steps it instruction by instruction and prints, per call, the offsets within the library:
 *
 *   CASE NAME: 0xOFFSET 0xOFFSET ...
 *
 *   trace LIBRARY-NAME (a part of the library's file name), under LD_PRELOAD. fastpath.py reads the output.
 */
#include "testing.h"

#include <elf.h>
#include <link.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

enum { REPEATS = 9, WARM_UP = 2000, STEPS_MAX = 100000 };

static const size_t sizes[] = {16, 64, 200, 1024, 2000, 5000, 30000, 65536, 200000};
enum { SIZE_COUNT = sizeof sizes / sizeof *sizes };

typedef struct range {
    const char *name;
    uintptr_t base, end;
} range_t;

static void *(*the_malloc)(size_t);
static void (*the_free)(void *);

#if defined(__x86_64__)
#define BREAK()     __asm__ volatile("int3" : : : "memory")
#define PC(regs)    ((regs).rip)
#define BREAK_CODE  SI_KERNEL
#define AFTER_BREAK 0
#elif defined(__aarch64__)
#define BREAK()     __asm__ volatile("brk #0" : : : "memory")
#define PC(regs)    ((regs).pc)
#define BREAK_CODE  TRAP_BRKPT
#define AFTER_BREAK 4 /* the program counter stays at the breakpoint */
#else
#error "no breakpoint known for this machine"
#endif

static int find_library(struct dl_phdr_info *info, size_t size, void *data) {
    range_t *range = (range_t *)data;
    (void)size;
    if (strstr(info->dlpi_name, range->name) == NULL)
        return 0;
    range->base = info->dlpi_addr;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type == PT_LOAD && info->dlpi_addr + segment->p_vaddr + segment->p_memsz > range->end)
            range->end = info->dlpi_addr + segment->p_vaddr + segment->p_memsz;
    }
    return 1;
}

/* Every size is warm: its magazine holds blocks, and has room for more. */
static void child(void) {
    static void *held[64];
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
        _exit(TEST_SKIP);
    BREAK();
    for (unsigned s = 0; s < SIZE_COUNT; s++) {
        unsigned some = sizes[s] < 10000 ? 64 : 4;
        for (unsigned i = 0; i < WARM_UP; i++) {
            for (unsigned k = 0; k < some; k++)
                held[k] = the_malloc(sizes[s]);
            for (unsigned k = 0; k < some; k++)
                the_free(held[k]);
        }
        for (unsigned i = 0; i < REPEATS; i++) {
            held[0] = the_malloc(sizes[s]);
            BREAK();
            void *p = the_malloc(sizes[s]);
            BREAK();
            BREAK();
            the_free(p);
            BREAK();
            the_free(held[0]);
        }
    }
    _exit(0);
}

static uintptr_t program_counter(pid_t pid) {
    struct user_regs_struct regs;
    struct iovec io = {&regs, sizeof regs};
    CHECK(ptrace(PTRACE_GETREGSET, pid, (void *)(uintptr_t)NT_PRSTATUS, &io) == 0);
    return (uintptr_t)PC(regs);
}

static void skip_break(pid_t pid) {
    struct user_regs_struct regs;
    struct iovec io = {&regs, sizeof regs};
    if (AFTER_BREAK == 0)
        return;
    CHECK(ptrace(PTRACE_GETREGSET, pid, (void *)(uintptr_t)NT_PRSTATUS, &io) == 0);
    PC(regs) += AFTER_BREAK;
    CHECK(ptrace(PTRACE_SETREGSET, pid, (void *)(uintptr_t)NT_PRSTATUS, &io) == 0);
}

static void wait_for_trap(pid_t pid) {
    int status = 0;
    CHECK(waitpid(pid, &status, 0) == pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == TEST_SKIP)
        test_skip("ptrace is not allowed");
    CHECK_SAY(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP, "status %#x", status);
}

/* A single step ends in SIGTRAP as a breakpoint does; the kernel tells them apart by si_code. */
static bool at_breakpoint(pid_t pid) {
    siginfo_t info;
    CHECK(ptrace(PTRACE_GETSIGINFO, pid, NULL, &info) == 0);
    return info.si_code == BREAK_CODE;
}

static void trace_call(pid_t pid, const char *name, size_t size, const range_t *library) {
    CHECK(ptrace(PTRACE_CONT, pid, NULL, NULL) == 0);
    wait_for_trap(pid);
    skip_break(pid);
    test_say("%s %zu:", name, size);
    for (unsigned steps = 0; steps < STEPS_MAX; steps++) {
        uintptr_t pc = program_counter(pid);
        if (pc >= library->base && pc < library->end)
            test_say(" %#zx", (size_t)(pc - library->base));
        CHECK(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) == 0);
        wait_for_trap(pid);
        if (at_breakpoint(pid)) {
            skip_break(pid);
            test_say("\n");
            return;
        }
    }
    test_fail("failed: %s(%zu) does not return\n", name, size);
}

int main(int argc, char **argv) {
    test_alarm(60);
    CHECK(argc == 2);
    range_t library = {argv[1], 0, 0};
    if (dl_iterate_phdr(find_library, &library) == 0)
        test_fail("failed: no library named %s in this process\n", argv[1]);
    TEST_SYMBOL(the_malloc, "malloc");
    TEST_SYMBOL(the_free, "free");
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        child();
    wait_for_trap(pid);
    skip_break(pid);
    for (unsigned s = 0; s < SIZE_COUNT; s++)
        for (unsigned i = 0; i < REPEATS; i++) {
            trace_call(pid, "malloc", sizes[s], &library);
            trace_call(pid, "free", sizes[s], &library);
        }
    kill(pid, SIGKILL);
    return TEST_PASS;
}
