/* SPDX-License-Identifier: MIT
 *
 * The helper leaves after some rounds without work, and looks once more before it does: memory that became free after
 * its last round was freed by threads that saw a helper there, and that started none. Rounds are the test's own here.
 */
#include "heap/wake.h"
#include "helper/helper.h"
#include "rooms.h"
#include "sys/sys.h"
#include "upkeep/round.h"

#include <stdatomic.h>

enum { DELAY_MS = 40, ROUNDS_IDLE = 8, WAIT_MS = 20000 };

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
    for (unsigned ms = 0; helper_threads() > 0; ms++) {
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

/* It leaves for who must be alone, whatever there is to do. */
static void leaves_when_asked(void) {
    atomic_store(&work_found, 1000);
    helper_wake();
    hk_threads_pause();
    CHECK_EQ(helper_threads(), 0);
    hk_threads_resume();
    atomic_store(&work_found, 0);
}

int main(void) {
    if (HK_TSAN)
        return check_skip("ThreadSanitizer knows no helper thread");
    start_map();
    helper_init();
    sys_process_mark_set(SYS_MARK_KNOWN);
    a_life(0);
    a_life(3);
    one_at_a_time();
    leaves_when_asked();
    a_life(1);
    return CHECK_PASS;
}
