/* SPDX-License-Identifier: MIT */
#include "helper/pressure.h"

#include "core/counters.h"
#include "core/options.h"
#include "helper/door.h"
#include "helper/home.h"
#include "limit/limit.h"
#include "sys/confined.h"
#include "sys/helper_birth.h"
#include "sys/sys.h"
#include "upkeep/round.h"

#include <string.h>

enum {
    WRITE_MAX = 256,
    PAUSE_MS = 1000, /* between two notices that are followed */
};

enum { WATCH_OFF = 0, WATCH_WANTED, WATCH_RUNNING, WATCH_DISMISSED, WATCH_NEVER };

static _Atomic uint32_t watch_state; /* WATCH_* */
static sys_helper_t watcher;
static sys_watch_t watch; /* written while there is no watcher, and by one that leaves unasked */

static const char *environment_value(const char *name) {
    size_t length = strlen(name);
    char *const *entry = sys_environment();
    for (; entry != NULL && *entry != NULL; entry++)
        if (strncmp(*entry, name, length) == 0 && (*entry)[length] == '=')
            return *entry + length + 1;
    return NULL;
}

static int base64_digit(char c) {
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

size_t base64_decode(const char *text, unsigned char *out, size_t size) {
    uint32_t bits = 0;
    unsigned have = 0;
    size_t count = 0;
    for (; *text != '\0' && *text != '='; text++) {
        int digit = base64_digit(*text);
        if (digit < 0)
            return SIZE_MAX;
        bits = bits << 6 | (uint32_t)digit;
        have += 6;
        if (have < 8)
            continue;
        have -= 8;
        if (count == size)
            return SIZE_MAX;
        out[count++] = (unsigned char)(bits >> have);
    }
    return count;
}

static void relieve(void) {
    if (!door_enter_by(&watcher))
        return;
    home_work(1);
    heap_relieve();
    home_work(-1);
    door_leave_looking();
}

/* Until it is dismissed, no event will come, or it has outlived the credentials: true then. */
static bool watch_on(void) {
    uint32_t look_ms = helper_keeps_rights() ? OUR_LOOK_MS : OUR_LONG_LOOK_MS;
    while (!sys_helper_must_leave(&watcher)) {
        sys_watch_seen_t seen = sys_watch_wait(&watch, look_ms);
        if (seen == SYS_WATCH_OVER)
            break;
        if (sys_helper_outlived_credentials())
            return true;
        sys_helper_end_if_last();
        if (seen == SYS_WATCH_QUIET)
            continue;
        hk_count(pressure_events);
        relieve();
        sys_futex_wait(&watcher.leave, 0, PAUSE_MS);
    }
    return false;
}

/* False when somebody else has changed the state. */
static bool leave_running(uint32_t next) {
    uint32_t running = WATCH_RUNNING;
    return atomic_compare_exchange_strong_explicit(&watch_state, &running, next, memory_order_relaxed,
                                                   memory_order_relaxed);
}

/* Runs without libc: see sys/helper_thread.c. */
static void watcher_run(void) {
    const bool again = watch_on();
    /* The next one opens the file with the program's rights of that time, once this one is gone. Dismissed: the file is
     * closed by who waits, since it may be cancelling it right now. */
    if (leave_running(again ? WATCH_WANTED : WATCH_NEVER) && !again)
        sys_watch_close(&watch);
}

static bool open_watch(void) {
    const char *path = environment_value("MEMORY_PRESSURE_WATCH"), *text = environment_value("MEMORY_PRESSURE_WRITE");
    unsigned char data[WRITE_MAX];
    sys_watch_close(&watch); /* after a fork: the parent's */
    size_t size = text != NULL ? base64_decode(text, data, sizeof data) : 0;
    return path != NULL && size != SIZE_MAX && !sys_is_secure() && sys_watch_open(&watch, path, data, size);
}

bool pressure_is_wanted(void) {
    uint32_t state = atomic_load_explicit(&watch_state, memory_order_relaxed);
    return (state == WATCH_OFF && limit_has_looked()) || state == WATCH_WANTED || state == WATCH_DISMISSED;
}

/* One that was dismissed has left, at once or, when it was busy, by now: under the helper's lock. */
static void recall(void) {
    if (atomic_load_explicit(&watch_state, memory_order_relaxed) != WATCH_DISMISSED || sys_helper_is_alive(&watcher))
        return;
    sys_watch_close(&watch);
    atomic_store_explicit(&watch_state, WATCH_WANTED, memory_order_relaxed);
}

void pressure_start(void) {
    recall();
    if (!pressure_is_wanted() || sys_helper_is_alive(&watcher))
        return;
    sys_process_mark_wipe();
    bool allowed = hk_option(HK_OPT_BACKGROUND) != 0 && !HK_TSAN && !sys_is_confined() && open_watch();
    atomic_store_explicit(&watch_state, WATCH_RUNNING, memory_order_relaxed);
    if (!allowed || sys_helper_start(watcher_run, &watcher) != 0)
        atomic_store_explicit(&watch_state, WATCH_NEVER, memory_order_relaxed);
}

bool pressure_is_alive(void) { return sys_helper_is_alive(&watcher); }

void pressure_dismiss(void) {
    if (!sys_helper_is_here(&watcher))
        return;
    if (leave_running(WATCH_DISMISSED)) {
        sys_helper_dismiss(&watcher);
        sys_watch_cancel(&watch);
    }
    (void)sys_helper_wait(&watcher);
    recall();
}

void pressure_after_fork_in_child(void) {
    sys_helper_forget(&watcher);
    uint32_t state = atomic_load_explicit(&watch_state, memory_order_relaxed);
    if (state == WATCH_RUNNING || state == WATCH_DISMISSED)
        atomic_store_explicit(&watch_state, WATCH_WANTED, memory_order_relaxed);
}
