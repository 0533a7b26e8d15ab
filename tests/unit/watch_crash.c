/* SPDX-License-Identifier: MIT
 *
 * The crash report: never unasked; says what is known of the address; what would have happened still happens, with the
 * original siginfo. Each case is a child that dies or exits.
 */
#include "check.h"
#include "core/options.h"
#include "watch/crash.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>

enum { EXIT_HANDLED = 42, PAGE = 4096 };

static char text[8192];
static char *forbidden; /* mapped without access; stands for a block */
static hk_description_t answer;
static bool is_ours;

static bool describe(const void *ptr, hk_description_t *out) {
    *out = answer;
    out->offset = (size_t)((const char *)ptr - (const char *)answer.block);
    return is_ours;
}

static void arm(void) {
    CHECK_EQ(hk_option_set("CRASH_REPORT", "on"), 0);
    crash_report_init(describe);
}

/* Volatile, so that no compiler sees where the address comes from. */
static void touch(char *address) {
    char *volatile hidden = address;
    *(volatile char *)hidden = 1;
}

static void unasked(void) {
    crash_report_init(describe);
    touch(forbidden);
}

static void fault(void) {
    arm();
    touch(forbidden + 24);
}

static void fault_null(void) {
    arm();
    touch((char *)8);
}

static void aborts(void) {
    arm();
    abort();
}

static void killed(void) {
    arm();
    kill(getpid(), SIGBUS);
    for (;;)
        pause();
}

static volatile bool endless = true;

static void overflow_stack(volatile char *above) {
    volatile char here[PAGE];
    here[0] = above != NULL ? *above : 0;
    if (endless)
        overflow_stack(here);
    here[1] = here[0];
}

static void overflows(void) {
    arm();
    overflow_stack(NULL);
}

#if defined(__x86_64__)
static void not_canonical(void) {
    arm();
    touch((char *)(uintptr_t)0x8000000000001000u);
}
#endif

static siginfo_t seen;
static void *wanted_address;

static void handler(int number, siginfo_t *info, void *context) {
    (void)context;
    seen = *info;
    if (number == SIGSEGV && info->si_addr == wanted_address && info->si_code == SEGV_ACCERR)
        _exit(EXIT_HANDLED);
}

static void install(int number) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    CHECK_EQ(sigaction(number, &action, NULL), 0);
}

static void previous_handler(void) {
    wanted_address = forbidden + 24;
    install(SIGSEGV);
    arm();
    touch(forbidden + 24);
}

static void later_handler(void) {
    wanted_address = forbidden + 24;
    arm();
    install(SIGSEGV);
    touch(forbidden + 24);
}

/* A signal that was sent keeps its value and sender, and the program goes on behind it. */
static void previous_handler_sent(void) {
    install(SIGSEGV);
    arm();
    CHECK_EQ(sigqueue(getpid(), SIGSEGV, (union sigval){.sival_int = 7}), 0);
    CHECK_EQ(seen.si_code, SI_QUEUE);
    CHECK_EQ(seen.si_value.sival_int, 7);
    CHECK_EQ(seen.si_pid, getpid());
    _exit(EXIT_HANDLED);
}

static void ignored(void) {
    signal(SIGABRT, SIG_IGN);
    arm();
    CHECK_EQ(raise(SIGABRT), 0);
    CHECK_EQ(raise(SIGABRT), 0);
    _exit(EXIT_HANDLED);
}

static void dies(void (*body)(void), int number) {
    int status = check_child(body, 2, text, sizeof text);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != number)
        fprintf(stderr, "status %#x\n%s", (unsigned)status, text);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == number);
}

static void handles(void (*body)(void)) {
    int status = check_child(body, 2, text, sizeof text);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != EXIT_HANDLED)
        fprintf(stderr, "status %#x\n%s", (unsigned)status, text);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_HANDLED);
}

/* `format` with the faulting address and the start of the block. */
static void says(const char *format) {
    char line[256];
    snprintf(line, sizeof line, format, (void *)(forbidden + 24), (void *)forbidden);
    CHECK_HAS(text, line);
}

static void addresses(void) {
    answer = (hk_description_t){.where = HK_WHERE_BLOCK, .block = forbidden, .block_size = 64, .is_free = true};
    is_ours = true;
    dies(fault, SIGSEGV);
    says("hakmem: crash: SIGSEGV at %p (access is not permitted)\n");
    says("hakmem: crash: %p is in a free 64-byte block at %p, offset 24, 40 bytes before its end\n");
    CHECK_HAS(text, "hakmem: crash: hakmem 0.");
    answer = (hk_description_t){.where = HK_WHERE_SLAB_TAIL, .block = forbidden, .block_size = 16};
    dies(fault, SIGSEGV);
    says("hakmem: crash: %p is 8 bytes past the end of the live 16-byte block at %p\n");
    answer.where = HK_WHERE_FREE_SLOT;
    dies(fault, SIGSEGV);
    says("hakmem: crash: %p is in memory of hakmem that holds no block now\n");
    answer.where = HK_WHERE_METADATA;
    dies(fault, SIGSEGV);
    says("hakmem: crash: %p is in hakmem's own records\n");
    answer = (hk_description_t){.where = HK_WHERE_NOT_OURS};
    is_ours = false;
    dies(fault, SIGSEGV);
    says("hakmem: crash: %p is not hakmem's: anonymous memory not from hakmem\n");
    dies(fault_null, SIGSEGV);
    CHECK_HAS(text, "hakmem: crash: SIGSEGV at 0x8 (nothing is mapped there)\n");
    CHECK_HAS(text, "hakmem: crash: 0x8 is not hakmem's: not mapped\n");
}

int main(void) {
    if (CHECK_INSTRUMENTED)
        return check_skip("a sanitizer handles these signals itself");
    forbidden = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(forbidden != MAP_FAILED);
    dies(unasked, SIGSEGV);
    CHECK_STR(text, "");
    addresses();
    dies(aborts, SIGABRT);
    CHECK_HAS(text, "hakmem: crash: SIGABRT, sent by process ");
    dies(killed, SIGBUS);
    CHECK_HAS(text, "hakmem: crash: SIGBUS, sent by process ");
    dies(overflows, SIGSEGV);
    CHECK_HAS(text, "hakmem: crash: SIGSEGV at ");
#if defined(__x86_64__)
    dies(not_canonical, SIGSEGV);
    CHECK_HAS(text, "hakmem: crash: SIGSEGV (general protection, address not known)\n");
#endif
    handles(previous_handler);
    CHECK_HAS(text, "hakmem: crash: SIGSEGV at ");
    handles(previous_handler_sent);
    CHECK_HAS(text, "hakmem: crash: SIGSEGV, sent by process ");
    handles(later_handler);
    CHECK_STR(text, "");
    handles(ignored);
    return CHECK_PASS;
}
