/* SPDX-License-Identifier: MIT */
#include "helper/control.h"

#include "core/errors.h"
#include "core/options.h"
#include "core/message.h"
#include "core/print.h"
#include "core/request.h"
#include "helper/door.h"
#include "helper/home.h"
#include "sys/confined.h"
#include "sys/control_socket.h"
#include "sys/helper_birth.h"
#include "sys/sys.h"

#include <string.h>

enum {
    PATIENCE_MS = 1000,  /* with one who has connected and sends nothing */
    BIRTH_WAIT_MS = 100, /* between two looks whether the thread that starts still lives */
    PATH_BYTES = SYS_CONTROL_PATH_MAX,
};

enum { CONTROL_OFF = 0, CONTROL_WANTED, CONTROL_STARTING, CONTROL_RUNNING, CONTROL_NEVER };

static _Atomic uint32_t state; /* CONTROL_*; a futex while it starts */
static sys_helper_t thread;
static char path[PATH_BYTES]; /* these three are written under the door, before the thread is born */
static long listener;
static uint32_t user;

static const char *option(void) { return (const char *)(uintptr_t)hk_option(HK_OPT_CONTROL); }

static void become(uint32_t next) { atomic_store_explicit(&state, next, memory_order_relaxed); }

static bool is(uint32_t wanted) { return atomic_load_explicit(&state, memory_order_relaxed) == wanted; }

/* --- An order ----------------------------------------------------------------------------------------------------- */

/* The process's effective user of now, else of the start, or root. */
static bool may_ask(long peer) {
    const uint32_t uid = sys_control_peer(peer), now = sys_effective_user();
    return uid != SYS_NO_USER && (uid == 0 || uid == (now != SYS_NO_USER ? now : user));
}

static bool wants_file(const hk_order_t *order) {
    return order->command == HK_COMMAND_STATISTICS || order->command == HK_COMMAND_PROFILE_WRITE;
}

/* The statistics are a text that lies where `result` says. */
static int carry_out(hk_order_t *order, long file, uint64_t *result) {
    order->arguments[0] = wants_file(order) ? (uint64_t)file : order->arguments[0];
    home_work(1);
    int error = hk_request_do(order, HK_REQUEST_BY_CONTROL, result);
    if (error == 0 && order->command == HK_COMMAND_STATISTICS) {
        const char *text = (const char *)(uintptr_t)*result;
        error = sys_write_whole((int)file, text, strlen(text), PATIENCE_MS);
    }
    home_work(-1);
    return error;
}

/* What came is read whoever it is: a connection that is closed before that loses its answer. */
static void answer(long peer) {
    hk_order_t order;
    control_reply_t reply = {.status = EPERM};
    long file = -1;
    if (sys_control_receive(peer, &order, sizeof order, PATIENCE_MS) != (long)sizeof order)
        return;
    if (may_ask(peer)) {
        file = wants_file(&order) ? sys_memory_file("hakmem") : -1;
        if (wants_file(&order) && file < 0) {
            reply.status = -file;
        } else if (door_enter_by(&thread)) {
            reply.status = carry_out(&order, file, &reply.result);
            door_leave_looking();
        } else {
            reply.status = EAGAIN;
        }
    }
    sys_control_send(peer, &reply, sizeof reply, reply.status == 0 ? file : -1);
    if (file >= 0)
        sys_close(file);
}

/* --- The thread --------------------------------------------------------------------------------------------------- */

/* Under a filter that came after it was asleep, it may not even end. */
static void sleep_for_good(void) {
    static const _Atomic uint32_t never;
    for (;;)
        sys_futex_wait(&never, 0, UINT32_MAX);
}

static void serve(void) {
    const uint32_t look_ms = helper_keeps_rights() ? OUR_LOOK_MS : OUR_LONG_LOOK_MS;
    sys_control_guests_t guests = {0};
    while (!sys_helper_must_leave(&thread)) {
        const long peer = sys_control_next(listener, &guests, look_ms, PATIENCE_MS);
        if (sys_is_confined())
            sleep_for_good();
        const bool is_over =
            (peer < 0 && peer != -EAGAIN && peer != -ECONNABORTED) || sys_helper_outlived_credentials();
        sys_helper_end_if_last();
        if (peer >= 0 && !is_over && !sys_helper_must_leave(&thread))
            answer(peer);
        if (peer >= 0)
            sys_close(peer);
        if (is_over)
            return;
    }
}

/* Runs without libc: see sys/helper_thread.c. */
static void control_run(void) {
    const bool is_apart = sys_helper_own_file(listener);
    become(is_apart ? CONTROL_RUNNING : CONTROL_NEVER);
    sys_futex_wake(&state, 1);
    if (!is_apart)
        return;
    serve();
    uint32_t running = CONTROL_RUNNING;
    (void)atomic_compare_exchange_strong_explicit(&state, &running, CONTROL_WANTED, memory_order_relaxed,
                                                  memory_order_relaxed);
}

/* --- Start and stop ----------------------------------------------------------------------------------------------- */

void control_init(void) {
    if (option() != NULL && !sys_is_secure() && !HK_TSAN)
        become(CONTROL_WANTED);
}

bool control_is_wanted(void) { return is(CONTROL_WANTED); }

bool control_is_alive(void) { return sys_helper_is_alive(&thread); }

/* Somebody else listens there: a parent, whose option this process has inherited, keeps its name. */
static HK_COLD void give_up(const char *what, long error) {
    become(CONTROL_NEVER);
    if (error == EADDRINUSE && hk_option(HK_OPT_VERBOSE) == 0)
        return;
    char text[HK_ERROR_TEXT];
    hk_message("HAKMEM_CONTROL: cannot %s %s: %s%s", what, path, hk_error_text(error, text),
               error == EADDRINUSE     ? "; write %p in the name for one socket a process"
               : error == ENAMETOOLONG ? "; a socket's has at most 107 bytes"
                                       : "");
}

static long start_thread(void) {
    sys_process_mark_wipe();
    become(CONTROL_STARTING);
    int error = sys_helper_start(control_run, &thread);
    while (error == 0 && is(CONTROL_STARTING) && sys_helper_is_alive(&thread))
        sys_futex_wait(&state, CONTROL_STARTING, BIRTH_WAIT_MS);
    return error != 0 ? error : is(CONTROL_NEVER) ? ENOSYS : 0; /* ENOSYS: before Linux 5.9 */
}

void control_start(void) {
    if (!control_is_wanted() || sys_helper_is_alive(&thread))
        return;
    if (!hk_path_expand(path, sizeof path, option())) {
        give_up("listen at", ENAMETOOLONG);
        return;
    }
    user = sys_effective_user();
    listener = sys_control_listen(path);
    long error = listener < 0 ? -listener : start_thread();
    if (listener >= 0)
        sys_close(listener); /* the thread has it */
    if (listener >= 0 && error != 0)
        sys_unlink(path);
    if (error != 0)
        give_up(listener < 0 ? "listen at" : "start a thread for", error);
}

void control_dismiss(void) {
    if (!sys_helper_is_here(&thread))
        return;
    sys_helper_dismiss(&thread);
    sys_control_wake(path);
    (void)sys_helper_wait(&thread);
}

void control_after_fork_in_child(void) {
    sys_helper_forget(&thread);
    if (!is(CONTROL_OFF))
        become(strstr(option(), "%p") != NULL ? CONTROL_WANTED : CONTROL_NEVER);
}

/* Not in a child that was made without fork handlers: the name is its parent's. */
void control_at_exit(void) {
    if (is(CONTROL_RUNNING) && home_is_here())
        sys_unlink(path);
}
