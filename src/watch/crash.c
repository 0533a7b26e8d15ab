/* SPDX-License-Identifier: MIT */
#include "watch/crash.h"

#include "core/options.h"
#include "core/message.h"
#include "sys/signals.h"
#include "sys/sys.h"
#include "sys/tags.h"
#include "watch/foreign.h"
#include "watch/stack.h"

enum { CRASH_STACK_BYTES = 64 * 1024 }; /* a frame of the kernel's with every vector register takes 12 KB */

enum { CRASH_SEGV, CRASH_BUS, CRASH_ABRT, CRASH_COUNT };
static const int crash_numbers[CRASH_COUNT] = {SIGSEGV, SIGBUS, SIGABRT};
static const char crash_names[CRASH_COUNT][sizeof "SIGSEGV"] = {"SIGSEGV", "SIGBUS", "SIGABRT"};

/* Written by crash_report_init before the handlers are there, constant afterwards. */
static struct sigaction crash_previous[CRASH_COUNT] HK_RARE;
static bool (*crash_describe)(const void *, hk_description_t *);

/* The processor does not say which address a general protection fault was about. */
static bool has_address(int number, const siginfo_t *info) {
    return sys_signal_comes_again(number, info) && info->si_code != SI_KERNEL;
}

static const char *fault_reason(int number, int code) {
    if (code == SI_KERNEL)
        return "general protection, address not known";
    if (number == SIGSEGV && (code == SYS_CODE_TAG_LATER || code == SYS_CODE_TAG))
        return "the memory has another tag than the pointer";
    if (number == SIGSEGV)
        return code == SEGV_MAPERR ? "nothing is mapped there" : "access is not permitted";
    return code == BUS_ADRALN ? "misaligned" : code == BUS_ADRERR ? "no memory behind the mapping" : "hardware error";
}

static void report_signal(size_t index, const siginfo_t *info) {
    int number = crash_numbers[index];
    if (has_address(number, info))
        hk_message("crash: %s at %p (%s)", crash_names[index], tags_strip(info->si_addr),
                   fault_reason(number, info->si_code));
    else if (sys_signal_comes_again(number, info) || (number == SIGSEGV && info->si_code == SYS_CODE_TAG_LATER))
        hk_message("crash: %s (%s)", crash_names[index], fault_reason(number, info->si_code));
    else
        hk_message("crash: %s, sent by process %d", crash_names[index], (int)info->si_pid);
}

static void report_block(const void *address, const hk_description_t *d) {
    const char *state = d->is_free ? "free" : "live";
    if (d->offset < d->block_size)
        hk_message("crash: %p is in a %s %zu-byte block at %p, offset %zu, %zu bytes before its end", address, state,
                   d->block_size, d->block, d->offset, d->block_size - d->offset);
    else
        hk_message("crash: %p is %zu bytes past the end of the %s %zu-byte block at %p", address,
                   d->offset - d->block_size, state, d->block_size, d->block);
}

static void report_foreign(const void *address) {
    char text[FOREIGN_TEXT_MAX];
    foreign_describe(address, text);
    hk_message("crash: %p is not hakmem's: %s", address, text);
}

static void report_address(const void *address) {
    hk_description_t d = {.where = HK_WHERE_NOT_OURS};
    (void)crash_describe(address, &d);
    if (d.where == HK_WHERE_NOT_OURS)
        report_foreign(address);
    else if (d.where == HK_WHERE_FREE_SLOT)
        hk_message("crash: %p is in memory of hakmem that holds no block now", address);
    else if (d.where == HK_WHERE_METADATA)
        hk_message("crash: %p is in hakmem's own records", address);
    else
        report_block(address, &d);
}

static void crash_handler(int number, siginfo_t *info, void *context) {
    const sys_registers_t at = sys_registers_of(context);
    size_t index = number == SIGSEGV ? CRASH_SEGV : number == SIGBUS ? CRASH_BUS : CRASH_ABRT;
    report_signal(index, info);
    if (has_address(number, info))
        report_address(tags_strip(info->si_addr));
    stack_show_interrupted(&at, "crash:");
    hk_message("crash: %s", hk_build_info);
    sys_signal_hand_back(number, info, &crash_previous[index]);
}

static void stack_init(void) {
    void *stack = sys_map(CRASH_STACK_BYTES);
    if (stack != NULL && !sys_signal_stack(stack, CRASH_STACK_BYTES))
        sys_unmap(stack, CRASH_STACK_BYTES);
}

void crash_report_init(bool (*describe)(const void *, hk_description_t *)) {
    if (hk_option(HK_OPT_CRASH_REPORT) == 0)
        return;
    crash_describe = describe;
    stack_init();
    for (size_t i = 0; i < CRASH_COUNT; i++)
        (void)sys_signal_catch(crash_numbers[i], crash_handler, &crash_previous[i]);
}
