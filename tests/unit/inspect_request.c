/* SPDX-License-Identifier: MIT
 *
 * Requests from outside: taken once, on slow paths, checked as options are, answered with what came of them.
 */
#include "check.h"
#include "core/options.h"
#include "core/request.h"
#include "inspect/orders.h"
#include "sample/sampler.h"
#include "slow/tick.h"
#include "start/start.h"

#include <errno.h>
#include <string.h>

static uint64_t nonces = 40;

static uint64_t ask(hk_command_t command, uint64_t first, uint64_t second, const char *text) {
    hk_request.order.command = command;
    hk_request.order.arguments[0] = first;
    hk_request.order.arguments[1] = second;
    memcpy(hk_request.order.text, text, hk_min(strlen(text) + 1, (size_t)HK_REQUEST_TEXT));
    atomic_store(&hk_request.nonce, ++nonces);
    return nonces;
}

/* As a slow path does. */
static int64_t answer_to(uint64_t nonce) {
    heap_tick_if_due(heap_current());
    CHECK_EQ(atomic_load(&hk_request.nonce), 0);
    CHECK_EQ(atomic_load(&hk_request.answer), nonce);
    return atomic_load(&hk_request.status);
}

/* What who asks is told while a text is being written. */
static int meanwhile[HK_REQUEST_BY_CONTROL + 1];
static bool asks_meanwhile;

static size_t text_of_figures(char *text, size_t size) {
    const hk_order_t order = {.command = HK_COMMAND_STATISTICS};
    uint64_t result;
    if (asks_meanwhile) {
        asks_meanwhile = false;
        for (hk_request_by_t by = HK_REQUEST_BY_THREAD; by <= HK_REQUEST_BY_CONTROL; by++)
            meanwhile[by] = hk_request_do(&order, by, &result);
    }
    snprintf(text, size, "figures");
    return strlen("figures");
}

static void is_not_taken_before_somebody_follows(void) {
    uint64_t nonce = ask(HK_COMMAND_TRIM, 0, 0, "");
    heap_tick_if_due(heap_current());
    CHECK_EQ(atomic_load(&hk_request.nonce), nonce);
    inspect_follow_orders(text_of_figures);
    CHECK_EQ(answer_to(nonce), 0);
    CHECK_EQ(atomic_load(&hk_request.by), HK_REQUEST_BY_THREAD);
}

static void options_are_checked(void) {
    CHECK_EQ(answer_to(ask(HK_COMMAND_OPTION, 0, 0, "PURGE_DELAY=125")), 0);
    CHECK_EQ(hk_option(HK_OPT_PURGE_DELAY), 125);
    CHECK_EQ(answer_to(ask(HK_COMMAND_OPTION, 0, 0, "PURGE_DELAY=x")), EINVAL);
    CHECK_EQ(answer_to(ask(HK_COMMAND_OPTION, 0, 0, "PURGE_DELAY")), EINVAL);
    CHECK_EQ(answer_to(ask(HK_COMMAND_OPTION, 0, 0, "NOSUCH=1")), ENOENT);
    CHECK_EQ(answer_to(ask(HK_COMMAND_OPTION, 0, 0, "SAFE=2")), EPERM);
    CHECK_EQ(hk_option(HK_OPT_PURGE_DELAY), 125);
    char long_text[HK_REQUEST_TEXT + 1];
    memset(long_text, 'x', sizeof long_text);
    long_text[HK_REQUEST_TEXT] = '\0';
    CHECK_EQ(answer_to(ask(HK_COMMAND_OPTION, 0, 0, long_text)), EINVAL);
}

static void limits_are_checked(void) {
    CHECK_EQ(answer_to(ask(HK_COMMAND_LIMIT, UINT64_C(1) << 40, UINT64_C(1) << 41, "")), 0);
    CHECK_EQ(hk_limit_soft(hk_option(HK_OPT_LIMIT)), UINT64_C(1) << 40);
    CHECK_EQ(answer_to(ask(HK_COMMAND_LIMIT, 2 << 20, 1 << 20, "")), EINVAL);
    CHECK_EQ(hk_limit_hard(hk_option(HK_OPT_LIMIT)), UINT64_C(1) << 41);
}

static void profiles_are_started_and_stopped(void) {
    CHECK(!sample_is_active());
    CHECK_EQ(answer_to(ask(HK_COMMAND_PROFILE_START, 65536, 0, "")), 0);
    CHECK(sample_is_active());
    CHECK_EQ(hk_profile.header.flags, PROFILE_IS_LIVE | PROFILE_IS_ACTIVE | PROFILE_IS_ASKED);
    sample_reset();
    CHECK((hk_profile.header.flags & PROFILE_IS_ASKED) != 0);
    CHECK_EQ(answer_to(ask(HK_COMMAND_PROFILE_STOP, 0, 0, "")), 0);
    CHECK(!sample_is_active());
    CHECK_EQ(hk_profile.header.flags, PROFILE_IS_LIVE);
    sample_start(65536, SAMPLE_FOR_PROGRAM);
    CHECK_EQ(hk_profile.header.flags, PROFILE_IS_LIVE | PROFILE_IS_ACTIVE);
    sample_stop();
}

/* The text lies in this process. Files are for who came through the socket, whose descriptors are its own. */
static void statistics_are_written(void) {
    CHECK_EQ(answer_to(ask(HK_COMMAND_STATISTICS, 0, 0, "")), 0);
    CHECK_STR((const char *)(uintptr_t)atomic_load(&hk_request.result), "figures");
    CHECK_EQ(answer_to(ask(HK_COMMAND_PROFILE_WRITE, 1, 0, "")), ENOSYS);
    const hk_order_t order = {.command = HK_COMMAND_STATISTICS};
    uint64_t result = 0;
    CHECK_EQ(hk_request_do(&order, HK_REQUEST_BY_CONTROL, &result), 0);
    CHECK(result != atomic_load(&hk_request.result));
    asks_meanwhile = true;
    CHECK_EQ(answer_to(ask(HK_COMMAND_STATISTICS, 0, 0, "")), 0);
    CHECK_EQ(meanwhile[HK_REQUEST_BY_THREAD], EAGAIN);
    CHECK_EQ(meanwhile[HK_REQUEST_BY_HELPER], EAGAIN);
    CHECK_EQ(meanwhile[HK_REQUEST_BY_CONTROL], 0);
    CHECK_EQ(answer_to(ask(HK_COMMAND_STATISTICS, 0, 0, "")), 0);
    CHECK_STR((const char *)(uintptr_t)result, "figures");
}

static void unknown_commands_are_refused(void) { CHECK_EQ(answer_to(ask((hk_command_t)99, 0, 0, "")), ENOSYS); }

static void a_child_forgets_its_parents(void) {
    ask(HK_COMMAND_TRIM, 0, 0, "");
    uint64_t last = atomic_load(&hk_request.answer);
    hk_request_forget();
    heap_tick_if_due(heap_current());
    CHECK_EQ(atomic_load(&hk_request.answer), last);
}

int main(void) {
    CHECK(heap_system_ready() && heap_current() != NULL);
    is_not_taken_before_somebody_follows();
    options_are_checked();
    limits_are_checked();
    profiles_are_started_and_stopped();
    statistics_are_written();
    unknown_commands_are_refused();
    a_child_forgets_its_parents();
    return CHECK_PASS;
}
