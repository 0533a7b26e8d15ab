/* SPDX-License-Identifier: MIT
 *
 * helper_thread.c: a kernel thread that libc does not know of.
 *
 * pthread_create would allocate from inside the allocator, would switch libc to its multi-threaded (slower) locks and
 * would keep a process alive whose main thread has called pthread_exit. A raw clone(2) does none of it. The price: the
 * thread must not rely on thread-local storage; the library is built without stack protectors for that reason. Its
 * thread pointer is set to a piece of its own stack, so that a read that a compiler moves forward finds memory. And
 * libc does not take it along when the program gives up rights: it gives them up before it runs (sys/helper_birth.h).
 * Nor does it when the last thread of the program calls exit(2), as a child of clone(2) does when its function returns:
 * the thread then ends the process.
 */
#include "sys/helper_thread.h"

#include "sys/confined.h"
#include "sys/file.h"
#include "sys/futex.h"
#include "sys/helper_birth.h"
#include "sys/kernel.h"
#include "sys/memory.h"
#include "sys/process.h"
#include "sys/raw_call.h"
#include "sys/signal_mask.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

enum {
    STATUS_MAX = 4096,
    STAT_MAX = 1024,   /* of a line of proc_pid_stat(5) */
    NAME_END_MAX = 64, /* the state is within so many */
    BY_SIGNAL = 128,   /* a wait status modulo this is the signal that killed */
    OURS_MAX = 3,      /* the helper, and who waits for pressure and at the socket */
    WAIT_MS = 1,
    WAITS_MAX = 100,
    SHORT_WAITS =
        20, /* the kernel takes a thread out of its lists some microseconds after it has said that it is gone */
    SHORT_WAIT_NS = 50000,
    STACK_BYTES = 64 * 1024,
    TLS_BYTES = 4096, /* on either side of the helper's thread pointer: half of it */
    OWN_OFFSET = 64,  /* from the thread pointer to what sys_helper_own finds */
};

enum {
    HELPER_FLAGS =
        /* CLONE_FS: chdir(2) and chroot(2) of the program concern the thread too, and it keeps no file system busy. */
    CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_CHILD_CLEARTID |
    CLONE_SETTLS
};

/* A number for the lines of a status file (proc(5)) that tell what a thread may do; 0 when it cannot be read. A thread
 * that has given up its rights at birth has nothing left to compare but the filter. */
static uint64_t credentials_of(const char *path) {
    static const char lines[][sizeof "NoNewPrivs:"] = {"Seccomp:", "Uid:", "Gid:", "Groups:", "Cap", "NoNewPrivs:"};
    const size_t wanted = helper_gives_up() ? 1 : sizeof lines / sizeof lines[0];
    char text[STATUS_MAX];
    (void)sys_read_text(path, text, sizeof text);
    uint64_t sum = 0;
    for (const char *line = text; *line != 0; line += *line == '\n') {
        bool counts = false;
        for (size_t i = 0; i < wanted && !counts; i++)
            counts = strncmp(line, lines[i], strlen(lines[i])) == 0;
        for (; *line != 0 && *line != '\n'; line++)
            sum = counts ? (sum ^ (unsigned char)*line) * UINT64_C(0x100000001b3) : sum;
    }
    return sum;
}

bool sys_helper_outlived_credentials(void) {
    return credentials_of("/proc/thread-self/status") != credentials_of("/proc/self/status");
}

void sys_helper_own_files(void) {
    if (sys_may_make_new_calls())
        (void)sys_call3(SYS_close_range, 0, UINT32_MAX, CLOSE_RANGE_UNSHARE);
}

bool sys_helper_own_file(long fd) {
    if (!sys_may_make_new_calls() || sys_failed(sys_call3(SYS_close_range, fd + 1, UINT32_MAX, CLOSE_RANGE_UNSHARE)))
        return false;
    if (fd > 0)
        (void)sys_call3(SYS_close_range, 0, fd - 1, 0);
    return true;
}

/* All that ever were started, under the lock of their start; read by themselves. */
static sys_helper_t *_Atomic ours[OURS_MAX];

static void remember(sys_helper_t *helper) {
    for (size_t i = 0; i < OURS_MAX; i++) {
        sys_helper_t *known = atomic_load_explicit(&ours[i], memory_order_relaxed);
        if (known == NULL)
            atomic_store_explicit(&ours[i], helper, memory_order_relaxed);
        if (known == NULL || known == helper)
            return;
    }
}

/* Never more than the kernel counts: one that is being started does not run yet, and one that was killed is not alive
 * (sys_helper_is_alive acquires what sys_helper_start has released). */
static unsigned count_ours(void) {
    unsigned count = 0;
    for (size_t i = 0; i < OURS_MAX; i++) {
        const sys_helper_t *known = atomic_load_explicit(&ours[i], memory_order_relaxed);
        count += known != NULL && sys_helper_is_alive(known) &&
                 atomic_load_explicit(&known->runs, memory_order_relaxed) != 0;
    }
    return count;
}

static __attribute__((used)) void helper_main(sys_helper_t *helper) {
    atomic_store_explicit(&helper->runs, 1, memory_order_relaxed);
    (void)sys_call2(SYS_prctl, PR_SET_NAME, (long)"hakmem");
    if (helper_birth(&helper->birth))
        helper->run();
    atomic_store_explicit(&helper->runs, 0, memory_order_relaxed);
}

/* Valgrind ends a program that makes a thread it does not know. It answers a sequence of instructions that does nothing
 * on a processor (valgrind.h, request RUNNING_ON_VALGRIND). */
static bool runs_under_valgrind(void) {
    volatile uint64_t request[6] = {0x1001};
    uint64_t answer = 0;
#if defined(__x86_64__)
    __asm__ volatile("rolq $3, %%rdi\n\trolq $13, %%rdi\n\trolq $61, %%rdi\n\trolq $51, %%rdi\n\txchgq %%rbx, %%rbx"
                     : "+d"(answer)
                     : "a"(request)
                     : "cc", "memory");
#else
    register uint64_t x3 __asm__("x3") = answer;
    register volatile uint64_t *x4 __asm__("x4") = request;
    __asm__ volatile("ror x12, x12, #3\n\tror x12, x12, #13\n\tror x12, x12, #51\n\tror x12, x12, #61\n\t"
                     "orr x10, x10, x10"
                     : "+r"(x3)
                     : "r"(x4)
                     : "cc", "memory");
    answer = x3;
#endif
    return answer != 0;
}

#if defined(__x86_64__)
static long clone_onto(void *stack_top, long flags, sys_helper_t *helper, void *tls) {
    long result;
    register long r10 __asm__("r10") = (long)&helper->alive;
    register void *r8 __asm__("r8") = tls;
    register sys_helper_t *r12 __asm__("r12") = helper;
    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "xor %%ebp, %%ebp\n\t"
                     "mov %%r12, %%rdi\n\t"
                     "call *%[entry]\n\t"
                     "mov %[exit], %%eax\n\t"
                     "xor %%edi, %%edi\n\t"
                     "syscall\n\t"
                     "hlt\n\t"
                     "1:"
                     : "=a"(result)
                     : "a"((long)SYS_clone), "D"(flags), "S"(stack_top), "d"(0L), "r"(r10), "r"(r8),
                       "r"(r12), [entry] "b"(helper_main), [exit] "i"(SYS_exit)
                     : "rcx", "r11", "memory");
    return result;
}
#else
static long clone_onto(void *stack_top, long flags, sys_helper_t *helper, void *tls) {
    register long x8 __asm__("x8") = SYS_clone;
    register long x0 __asm__("x0") = flags;
    register void *x1 __asm__("x1") = stack_top;
    register long x2 __asm__("x2") = 0;
    register void *x3 __asm__("x3") = tls;
    register _Atomic uint32_t *x4 __asm__("x4") = &helper->alive;
    register sys_helper_t *x19 __asm__("x19") = helper;
    register void (*x20)(sys_helper_t *) __asm__("x20") = helper_main;
    __asm__ volatile("svc 0\n\t"
                     "cbnz x0, 1f\n\t"
                     "mov x29, xzr\n\t"
                     "mov x0, x19\n\t"
                     "blr x20\n\t"
                     "mov x8, %[exit]\n\t"
                     "mov x0, xzr\n\t"
                     "svc 0\n\t"
                     "1:"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x19), "r"(x20), [exit] "i"(SYS_exit)
                     : "memory", "x30");
    return x0;
}
#endif

/* The first word behind a helper's thread pointer: neither an address nor 0, as each C library has one of them
 * there. */
#define HELPER_MARK UINT64_C(0x68616b6d656d0001)

/* The helper finds it from its thread pointer: an address, which is read as the second word behind it. */
typedef struct own_tls {
    uint64_t mark;
    void *own;
} own_tls_t;

_Static_assert(OWN_OFFSET >= sizeof(own_tls_t) && OWN_OFFSET + SYS_HELPER_OWN_BYTES <= TLS_BYTES / 2, "within it");

static void prepare_tls(char *tls) {
    memset(tls, 0, TLS_BYTES / 2);
    *(own_tls_t *)(void *)tls = (own_tls_t){HELPER_MARK, tls + OWN_OFFSET};
}

#if defined(__x86_64__)
void *sys_helper_own(void) {
    uint64_t mark;
    void *own = NULL;
    __asm__ volatile("mov %%fs:0, %0" : "=r"(mark));
    if (mark == HELPER_MARK)
        __asm__ volatile("mov %%fs:8, %0" : "=r"(own));
    return own;
}
#else
void *sys_helper_own(void) {
    const own_tls_t *tls;
    __asm__ volatile("mrs %0, tpidr_el0" : "=r"(tls));
    return tls->mark == HELPER_MARK ? tls->own : NULL;
}
#endif

/* True unless the thread must not live. */
static bool wait_for_birth(const sys_helper_t *helper) {
    uint32_t state;
    /* Acquire: pairs with the release in tell. */
    while ((state = atomic_load_explicit(&helper->birth, memory_order_acquire)) == BIRTH_UNDER_WAY)
        sys_futex_wait(&helper->birth, BIRTH_UNDER_WAY, UINT32_MAX);
    return state == BIRTH_DONE;
}

int sys_helper_start(void (*run)(void), sys_helper_t *helper) {
    if (sys_is_confined())
        return EPERM;
    if (runs_under_valgrind())
        return ENOSYS;
    if (helper->stack == NULL && (helper->stack = sys_map(STACK_BYTES)) == NULL)
        return ENOMEM;
    char *end = (char *)helper->stack + STACK_BYTES, *tls = end - TLS_BYTES / 2;
    prepare_tls(tls);
    helper->run = run;
    remember(helper);
    atomic_store_explicit(&helper->leave, 0, memory_order_relaxed);
    atomic_store_explicit(&helper->runs, 0, memory_order_relaxed);
    atomic_store_explicit(&helper->birth, BIRTH_UNDER_WAY, memory_order_relaxed);
    uint64_t before = 0;
    bool held = sys_signals_hold(SYS_SIGNALS_ALL, false, &before), takes_long = helper_birth_takes_long();
    atomic_store_explicit(&helper->alive, 1, memory_order_release);
    long got = clone_onto(end - TLS_BYTES, HELPER_FLAGS, helper, tls);
    if (!sys_failed(got))
        helper->id = (uint32_t)got;
    else
        atomic_store_explicit(&helper->alive, 0, memory_order_relaxed);
    bool lives = sys_failed(got) || !takes_long || wait_for_birth(helper);
    if (held)
        sys_signals_release(before);
    return lives ? sys_error(got) : EPERM;
}

void sys_helper_dismiss(sys_helper_t *helper) {
    atomic_store_explicit(&helper->leave, 1, memory_order_relaxed);
    sys_futex_wake(&helper->leave, 1);
}

void sys_helper_forget(sys_helper_t *helper) {
    void *stack = helper->stack;
    *helper = (sys_helper_t){.stack = stack};
}

/* Signal 0 is not sent: only the answer counts. */
bool sys_helper_is_here(sys_helper_t *helper) {
    if (helper->id == 0)
        return false;
    if (sys_call3(SYS_tgkill, (long)sys_process_id(), helper->id, 0) != -ESRCH)
        return true;
    if (!sys_helper_is_alive(helper))
        helper->id = 0;
    return false;
}

/* The state of the main thread in a line of proc_pid_stat(5), behind the name, which may hold anything, and what
 * follows; NULL when it cannot be read. */
static const char *state_of_main(char *text, size_t text_size) {
    long length = sys_read_text("/proc/self/stat", text, text_size);
    const char *behind = length > 0 ? memrchr(text, ')', (size_t)length) : NULL;
    return behind != NULL && behind + 2 < text + length ? behind + 2 : NULL;
}

static bool has_left(const char *state) { return state != NULL && *state == 'Z'; }

/* The last field of the line: what wait(2) says of a process whose main thread has called exit(2), or was killed. */
static uint32_t wait_status(const char *line) {
    const char *field = strrchr(line, ' ');
    const uint64_t status = field != NULL ? sys_parse_number(&field) : UINT64_MAX;
    return status != UINT64_MAX ? (uint32_t)status : 0;
}

/* The main thread is looked at first: once it has left, only threads that are in the count can begin others. The kernel
 * would take the status of the thread that ends last (since Linux 5.19). */
void sys_helper_end_if_last(void) {
    char text[STAT_MAX];
    const char *state = state_of_main(text, sizeof text);
    if (!has_left(state) || sys_thread_count() != 1 + count_ours())
        return;
    const uint32_t status = wait_status(state);
    if (status % BY_SIGNAL == 0)
        (void)sys_call1(SYS_exit_group, status >> 8);
}

bool sys_thread_is_gone(uint32_t thread) {
    uint32_t process = sys_process_id_unless_confined();
    bool gone = sys_passage_call(SYS_tgkill, (long)process, thread, 0, 0, 0, 0) == -ESRCH;
    char text[NAME_END_MAX];
    if (!gone && thread == process)
        gone = has_left(state_of_main(text, sizeof text));
    /* Acquire: the kernel takes a thread out of its lists after its last store, with full barriers between. */
    atomic_thread_fence(memory_order_acquire);
    return gone;
}

/* False when it was not alive. */
static bool wait_while_alive(const sys_helper_t *helper) {
    const uint32_t alive = atomic_load_explicit(&helper->alive, memory_order_relaxed);
    if (alive != 0)
        sys_futex_wait_shared(&helper->alive, alive, WAIT_MS);
    return alive != 0;
}

void sys_helper_wait_a_moment(sys_helper_t *helper) { (void)wait_while_alive(helper); }

static void pause_for(long nanoseconds) {
    const struct timespec time = {.tv_nsec = nanoseconds};
    (void)sys_call2(SYS_nanosleep, (long)&time, 0);
}

bool sys_helper_wait(sys_helper_t *helper) {
    for (int i = 0; i < WAITS_MAX && sys_helper_is_here(helper); i++)
        if (!wait_while_alive(helper))
            pause_for(i < SHORT_WAITS ? SHORT_WAIT_NS : WAIT_MS * 1000000);
    /* Its stack has been free all the time: a thread of the program has the number now. */
    if (!sys_helper_is_alive(helper))
        helper->id = 0;
    return helper->id == 0;
}
