/* SPDX-License-Identifier: MIT
 *
 * The helper leaves after some rounds without work, and looks once more before it does: memory that became free after
 * its last round was freed by threads that saw a helper there, and that started none. Nor do threads that find the door
 * taken: who holds it looks when it leaves. Rounds are the test's own here.
 */
#include "core/request.h"
#include "heap/wake.h"
#include "helper/control.h"
#include "helper/helper.h"
#include "helper/home.h"
#include "limit/limit.h"
#include "region/scarce.h"
#include "rooms.h"
#include "sys/clock.h"
#include "sys/confined.h"
#include "sys/sys.h"
#include "upkeep/round.h"

#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { DELAY_MS = 40, ROUNDS_IDLE = 8, WAIT_MS = 20000, RETRY_MS = 1000 };

static _Atomic unsigned rounds, looks, work_found;

/* As upkeep/round.c; the helper calls the first four. */
uint64_t upkeep_delay_ms(void) { return DELAY_MS; }

bool upkeep_round(void) {
    atomic_fetch_add(&rounds, 1);
    return false;
}

/* Something came in between the last round and the look, as often as the test says. */
bool upkeep_waits(void) {
    unsigned left = atomic_load(&work_found);
    atomic_fetch_add(&looks, 1);
    if (left > 0)
        atomic_store(&work_found, left - 1);
    return left > 0;
}

size_t heap_relieve(void) { return 0; }
void upkeep_after_fork_in_child(void) {}

static void until_it_has_left(void) {
    for (unsigned ms = 0; helper_threads() > control_is_alive(); ms++) {
        CHECK_SAY(ms < WAIT_MS, "%u rounds, %u looks", atomic_load(&rounds), atomic_load(&looks));
        usleep(1000);
    }
}

static void a_life(unsigned finds) {
    atomic_store(&rounds, 0);
    atomic_store(&looks, 0);
    atomic_store(&work_found, finds);
    helper_wake();
    CHECK(helper_threads() == 1 || atomic_load(&looks) > 0);
    until_it_has_left();
    CHECK_EQ(atomic_load(&looks), finds + 1);
    CHECK_EQ(atomic_load(&rounds), (finds + 1) * ROUNDS_IDLE);
}

/* Whoever comes while it is there starts no second one. */
static void one_at_a_time(void) {
    atomic_store(&rounds, 0);
    atomic_store(&work_found, 0);
    for (unsigned i = 0; i < 100; i++) {
        helper_wake();
        CHECK(helper_threads() <= 1);
    }
    until_it_has_left();
    CHECK_EQ(atomic_load(&rounds), ROUNDS_IDLE);
}

/* The word of the process is one that the kernel wipes in a child, if it knows how to. */
static void is_marked(void) {
    const _Atomic uint32_t *before = atomic_load(&hk_process_mark);
    sys_process_mark_wipe();
    CHECK(atomic_load(&hk_process_mark) == before);
}

/* A child that was made without handlers is found also where no thread of ours ever starts. */
static void marks_without_a_thread(void) {
    home_settle();
    atomic_store(&hk_option_values[HK_OPT_BACKGROUND], 0);
    CHECK(limit_look(0));
    helper_watch();
    CHECK_EQ(helper_threads(), 0);
    is_marked();
}

/* At a limit of address space the first one would take a stack from the program. Who frees does its work, and after a
 * while one starts. */
static void none_at_a_limit(void) {
    atomic_store(&rounds, 0);
    atomic_store(&work_found, 1);
    atomic_store(&hk_scarce_at_limit, true);
    helper_wake();
    CHECK_EQ(helper_threads(), 0);
    CHECK_EQ(atomic_load(&rounds), 1);
    is_marked();
    atomic_store(&hk_scarce_at_limit, false);
    /* By the clock that the helper reads, which stands still between ticks. */
    for (uint64_t refused_by = sys_now_ms(); sys_now_ms() - refused_by < RETRY_MS;)
        usleep(1000);
    a_life(0);
}

/* It leaves for who must be alone, whatever there is to do. */
static void leaves_when_asked(void) {
    atomic_store(&work_found, 1000);
    helper_wake();
    hk_threads_pause();
    CHECK_EQ(helper_threads(), 0);
    hk_threads_resume();
    atomic_store(&work_found, 0);
}

static void has_started_one(void) {
    for (unsigned ms = 0; atomic_load(&rounds) < ROUNDS_IDLE; ms++) {
        CHECK_SAY(ms < WAIT_MS, "%u rounds, %u looks", atomic_load(&rounds), atomic_load(&looks));
        usleep(1000);
    }
    until_it_has_left();
    CHECK_EQ(atomic_load(&rounds), ROUNDS_IDLE);
    atomic_store(&rounds, 0);
}

/* What other threads free during a fork, of a process that goes on with them. */
static void starts_one_after_a_fork(void) {
    atomic_store(&rounds, 0);
    (void)helper_before_fork();
    atomic_store(&work_found, 1);
    helper_wake();
    CHECK_EQ(helper_threads(), 0);
    helper_after_fork(false, false);
    has_started_one();
}

static char path[sizeof((struct sockaddr_un *)NULL)->sun_path];

/* Who starts the thread for orders holds the door meanwhile. */
static void starts_one_after_the_threads_start(void) {
    snprintf(path, sizeof path, "/tmp/helper_leave.%d", (int)getpid());
    atomic_store(&hk_option_values[HK_OPT_CONTROL], (int64_t)(uintptr_t)path);
    control_init();
    atomic_store(&rounds, 0);
    atomic_store(&work_found, 1);
    helper_watch();
    CHECK(control_is_alive());
    has_started_one();
}

static _Atomic int at_order; /* 1: it is being carried out; 2: it may end */

static int wait_for_main(const hk_order_t *order, hk_request_by_t by, uint64_t *result) {
    (void)order, (void)by, (void)result;
    atomic_store(&at_order, 1);
    while (atomic_load(&at_order) == 1)
        sys_cpu_relax();
    return 0;
}

/* What a thread frees during an order goes back too. */
static void starts_one_after_an_order(void) {
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    const hk_order_t order = {.command = HK_COMMAND_TRIM};
    control_reply_t reply = {.status = -1};
    memcpy(at.sun_path, path, sizeof path);
    hk_request_by(wait_for_main);
    int asker = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    CHECK_EQ(connect(asker, (struct sockaddr *)&at, sizeof at), 0);
    CHECK_EQ(send(asker, &order, sizeof order, 0), sizeof order);
    while (atomic_load(&at_order) != 1)
        usleep(1000);
    atomic_store(&work_found, 1);
    helper_wake();
    CHECK_EQ(helper_threads(), 1);
    atomic_store(&at_order, 2);
    CHECK_EQ(recv(asker, &reply, sizeof reply, 0), sizeof reply);
    CHECK_EQ(reply.status, 0);
    close(asker);
    has_started_one();
}

int main(void) {
    if (HK_TSAN)
        return check_skip("ThreadSanitizer knows no helper thread");
    start_map();
    helper_init();
    sys_process_mark_set(SYS_MARK_KNOWN);
    in_child(marks_without_a_thread);
    none_at_a_limit();
    a_life(3);
    one_at_a_time();
    leaves_when_asked();
    a_life(1);
    heap_wake_by(helper_wake);
    starts_one_after_a_fork();
    starts_one_after_the_threads_start();
    starts_one_after_an_order();
    hk_threads_pause();
    CHECK_EQ(helper_threads(), 0);
    unlink(path);
    CHECK(home_is_here());
    sys_confine(); /* and may not ask any more */
    CHECK(!home_is_here() && !home_moves_here());
    return CHECK_PASS;
}
