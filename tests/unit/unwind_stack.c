/* SPDX-License-Identifier: MIT
 *
 * Stacks whose frames are known: of functions of this program, of a thread, of code behind a frame record alone,
 * through a signal handler, after a jump to nowhere, on a stack of the program's own making, and in a confined process.
 * Each address that is found must lie in the function that is expected.
 */
#include "check.h"
#include "sys/confined.h"
#include "unwind/module.h"
#include "unwind/unwind.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <time.h>

#if defined(__GLIBC__)
enum { LIBC_HAS_CFI = 1 };
#else
enum { LIBC_HAS_CFI = 0 };
#endif

enum { PLACES = 128, PAGE = 4096, DEPTH = 24, MEGABYTE = 1 << 20 };

#define APART __attribute__((noinline, noclone, noipa))
#if defined(__clang__)
#undef APART
#define APART __attribute__((noinline, optnone))
#endif

static uintptr_t pcs[PLACES];
static unsigned count, capacity = PLACES;
static unwind_end_t why;

/* Keeps a call from being the last thing that a function does. */
static volatile int after;

APART static void capture_from(uintptr_t caller) {
    unwind_start_t start = {.at = sys_registers_here(), .caller = caller};
    count = unwind_capture(&start, pcs, capacity, &why);
    after++;
}

/* The three functions that a stack is expected to have, in this order; more may follow. */
APART static void inner(void) {
    capture_from(0);
    after++;
}

APART static void middle(int bytes) {
    volatile char room[bytes]; /* a frame of a size that only the frame pointer knows */
    room[0] = room[bytes - 1] = 1;
    inner();
    after += room[0];
}

APART static void outer(void) {
    middle(100 + after);
    after++;
}

static bool is_in(uintptr_t pc, uintptr_t function) { return pc > function && pc - function < 512; }

#define EXPECT(index, function) CHECK(is_in(pcs[index], (uintptr_t) & (function)))

static void expect_known(void) {
    CHECK(count >= 4);
    EXPECT(0, capture_from);
    EXPECT(1, inner);
    EXPECT(2, middle);
    EXPECT(3, outer);
}

/* Where the C library has CFI, down to the first function of a thread. */
static void expect_whole(void) { CHECK(why == UNWIND_COMPLETE || !LIBC_HAS_CFI); }

APART static void plain(void) {
    outer();
    expect_known();
    expect_whole();
    EXPECT(4, plain);
    capacity = 3;
    outer();
    CHECK_EQ(count, 3);
    CHECK_EQ(why, UNWIND_FULL);
    capacity = PLACES;
}

APART static void leaves_out(void) {
    unwind_start_t start = {.at = sys_registers_here(), .caller = (uintptr_t)__builtin_return_address(0)};
    count = unwind_capture(&start, pcs, capacity, &why);
    CHECK_EQ(pcs[0], start.caller);
    start.caller = 1; /* which is nowhere */
    unsigned all = unwind_capture(&start, pcs, capacity, &why);
    CHECK_EQ(all, count + 1);
    CHECK_EQ(pcs[1], (uintptr_t)__builtin_return_address(0));
}

static void *in_thread(void *unused) {
    outer();
    expect_known();
    expect_whole();
    return unused;
}

static void threads(void) {
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, in_thread, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

/* A recursion that is deeper than a page, and one frame that is nearly as large as a frame may be. */
APART static void deep(unsigned depth) {
    volatile char room[PAGE];
    room[0] = 1;
    if (depth > 0)
        deep(depth - 1);
    else
        capture_from(0);
    after += room[0];
}

APART static void wide(bool too_wide) {
    volatile char room[too_wide ? MEGABYTE + PAGE : MEGABYTE - PAGE];
    room[0] = 1;
    capture_from(0);
    after += room[0];
}

static void far(void) {
    deep(40);
    expect_whole();
    for (unsigned i = 1; i <= 41; i++)
        EXPECT(i, deep);
    wide(false);
    expect_whole();
    EXPECT(1, wide);
    wide(true);
    CHECK_EQ(why, UNWIND_OUT_OF_BOUNDS);
    CHECK_EQ(count, 2);
}

/* --- Signals ------------------------------------------------------------------------------------------------------ */

static void handle_by_stack(int number) {
    outer();
    after += number;
}

static void install(int number, void (*handler)(int, siginfo_t *, void *), int flags) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};
    CHECK_EQ(sigaction(number, &action, NULL), 0);
}

static unsigned find(uintptr_t function) {
    for (unsigned i = 0; i < count; i++)
        if (is_in(pcs[i], function))
            return i;
    return count;
}

/* Through the kernel's frame, where the interrupted code's stack goes on above it; up to there from a stack of the
 * handler's own. */
APART static void interrupted(void) {
    static char other[64 * 1024];
    const stack_t stack = {.ss_sp = other, .ss_size = sizeof other};
    struct sigaction action = {.sa_handler = handle_by_stack};
    CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
    CHECK_EQ(raise(SIGUSR1), 0);
    expect_known();
    EXPECT(4, handle_by_stack);
    CHECK(!LIBC_HAS_CFI || find((uintptr_t)&interrupted) < count);
    expect_whole();
    action.sa_flags = SA_ONSTACK;
    CHECK_EQ(sigaltstack(&stack, NULL), 0);
    CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
    CHECK_EQ(raise(SIGUSR1), 0);
    expect_known();
    EXPECT(4, handle_by_stack);
    CHECK(why != UNWIND_COMPLETE);
}

static void (*volatile nowhere)(void);
static char *volatile null_text;

APART __attribute__((no_sanitize("undefined"))) static void faults(void) {
    *null_text = 1;
    after++;
}

APART __attribute__((no_sanitize("undefined"))) static void jumps(void) {
    nowhere();
    after++;
}

/* What was running is the first frame, as it was. */
static void handle_fault(int number, siginfo_t *info, void *context) {
    (void)number;
    (void)info;
    unwind_start_t start = {.at = sys_registers_of(context)};
    count = unwind_capture(&start, pcs, capacity, &why);
    expect_whole();
    if (pcs[0] == 0)
        EXPECT(1, jumps);
    else
        EXPECT(0, faults);
    _exit(CHECK_PASS);
}

static void dies_in(void (*function)(void)) {
    char text[1024];
    const int status = check_child(function, 2, text, sizeof text);
    if (status != 0)
        fprintf(stderr, "%s", text);
    CHECK_EQ(status, 0);
}

static void fault(void) {
    install(SIGSEGV, handle_fault, SA_ONSTACK);
    faults();
    _exit(CHECK_FAIL);
}

static void jump(void) {
    install(SIGSEGV, handle_fault, SA_ONSTACK);
    jumps();
    _exit(CHECK_FAIL);
}

/* --- Code made at run time ---------------------------------------------------------------------------------------- */

#if defined(__x86_64__)
/* push %rbp; mov %rsp, %rbp; call *%rdi; pop %rbp; ret */
static const unsigned char with_record[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
/* push %rbp; mov $1, %ebp; call *%rdi; pop %rbp; ret */
static const unsigned char without_record[] = {0x55, 0xbd, 1, 0, 0, 0, 0xff, 0xd7, 0x5d, 0xc3};
#else
/* stp x29, x30, [sp, #-16]!; mov x29, sp; blr x0; ldp x29, x30, [sp], #16; ret */
static const uint32_t with_record[] = {0xa9bf7bfd, 0x910003fd, 0xd63f0000, 0xa8c17bfd, 0xd65f03c0};
/* stp x29, x30, [sp, #-16]!; mov x29, #1; blr x0; ldp x29, x30, [sp], #16; ret */
static const uint32_t without_record[] = {0xa9bf7bfd, 0xd280003d, 0xd63f0000, 0xa8c17bfd, 0xd65f03c0};
#endif

typedef void run_t(void (*function)(void));

static run_t *make_code(const void *code, size_t size) {
    void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    memcpy(page, code, size);
    __builtin___clear_cache((char *)page, (char *)page + size);
    run_t *run;
    memcpy(&run, &page, sizeof run);
    return run;
}

/* Which no list of modules has, and which is in vain looked for a second long. */
APART static void made(void) {
    run_t *run = make_code(with_record, sizeof with_record);
    run(outer);
    expect_known();
    expect_whole();
    EXPECT(4, *run);
    EXPECT(5, made);
    unwind_module_t module;
    CHECK(!unwind_module_find((uintptr_t)*run, &module) && !unwind_module_listed((uintptr_t)*run, &module));
    run = make_code(without_record, sizeof without_record);
    run(outer);
    expect_known();
    EXPECT(4, *run);
    CHECK_EQ(count, 5);
    CHECK_EQ(why, UNWIND_NO_RULE);
}

/* --- The list of mappings, where libc does not tell --------------------------------------------------------------- */

static void listed(void) {
    unwind_module_t by_libc, by_list;
    const uintptr_t pcs_of[] = {(uintptr_t)&listed, (uintptr_t)&pthread_create, (uintptr_t)&clock_gettime};
    for (unsigned i = 0; i < 3; i++) {
        CHECK(unwind_module_find(pcs_of[i], &by_libc));
        for (unsigned again = 0; again < 2; again++) {
            CHECK(unwind_module_listed(pcs_of[i], &by_list));
            CHECK_EQ(by_list.tables, by_libc.tables);
            CHECK_EQ(by_list.start, by_libc.start);
            CHECK(by_list.place != 0);
            CHECK(unwind_module_open(&by_list));
            CHECK(by_list.tables >= by_list.safe_start && by_list.tables < by_list.safe_end);
        }
    }
}

/* --- How long it takes -------------------------------------------------------------------------------------------- */

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

APART static void timed(unsigned depth) {
    if (depth > 0) {
        timed(depth - 1);
        after++;
        return;
    }
    enum { ROUNDS = 200, TIMES = 500 };
    uint64_t best = UINT64_MAX;
    for (unsigned round = 0; round < ROUNDS; round++) {
        const uint64_t begin = now_ns();
        for (unsigned i = 0; i < TIMES; i++) {
            unwind_start_t start = {.at = sys_registers_here()};
            count = unwind_capture(&start, pcs, DEPTH, &why);
        }
        const uint64_t each = (now_ns() - begin) / TIMES;
        best = each < best ? each : best;
    }
    CHECK_EQ(count, DEPTH);
    printf("%u frames: %llu ns\n", count, (unsigned long long)best);
}

int main(void) {
    listed();
    made(); /* before all other stacks: behind a guess the C library is read, not only remembered */
    plain();
    leaves_out();
    threads();
    far();
    interrupted();
    dies_in(fault);
    dies_in(jump);
    made();
    timed(DEPTH);
    sys_confine();
    plain();
    far();
    made();
    return CHECK_PASS;
}
