/* SPDX-License-Identifier: MIT */
#include "core/panic.h"

#include "core/events.h"
#include "core/options.h"
#include "core/place.h"
#include "core/message.h"
#include "core/print.h"
#include "sys/sys.h"

#include <stdatomic.h>

enum { PANIC_DETAIL_MAX = 512, HARMLESS_TOLD = 8 };

/* Written by every thread that misuses the interface, read by statistics. Relaxed: it only counts. */
_Atomic uint64_t hk_misuses;

/* Written by hk_misuse_show_by, constant afterwards. */
static void (*show_rest)(const hk_misuse_t *misuse);

void hk_misuse_show_by(void (*show)(const hk_misuse_t *misuse)) { show_rest = show; }

static void report(const hk_misuse_t *misuse, const char *detail) {
    char place[HK_PLACE_TEXT_MAX] = "";
    const char *verb = misuse->verb != NULL ? misuse->verb : "";
    if (misuse->caller != NULL)
        hk_place_describe(misuse->caller, place);
    hk_message("%s%s %p (%s)%s%s", verb, misuse->what, misuse->address, detail,
               misuse->caller != NULL ? ", called from " : "", place);
    if (show_rest != NULL)
        show_rest(misuse);
}

/* A program that works elsewhere goes on here too, and does not fill its log. */
static bool is_told(const hk_misuse_t *misuse, int64_t on_error) {
    static _Atomic unsigned told; /* relaxed: it only counts */
    if (on_error == HK_ON_ERROR_ABORT && misuse->harmless)
        return atomic_fetch_add_explicit(&told, 1, memory_order_relaxed) < HARMLESS_TOLD;
    return on_error != HK_ON_ERROR_IGNORE;
}

bool hk_misuse_is_watched(void) { return hk_option(HK_OPT_SAFE) > 0; }

void hk_misuse(const hk_misuse_t *misuse, const char *detail_format, ...) {
    if (!hk_misuse_is_watched())
        return;
    atomic_fetch_add_explicit(&hk_misuses, 1, memory_order_relaxed);
    event_misuse(misuse->address);
    int64_t on_error = hk_option(HK_OPT_ON_ERROR);
    if (!is_told(misuse, on_error))
        return;
    char detail[PANIC_DETAIL_MAX];
    va_list args;
    va_start(args, detail_format);
    (void)hk_vformat(detail, sizeof detail, detail_format, args);
    va_end(args);
    report(misuse, detail);
    if (on_error == HK_ON_ERROR_ABORT && !misuse->harmless)
        sys_abort();
}

uint64_t hk_misuse_count(void) { return atomic_load_explicit(&hk_misuses, memory_order_relaxed); }

void hk_fatal(const char *format, ...) {
    char text[PANIC_DETAIL_MAX];
    va_list args;
    va_start(args, format);
    (void)hk_vformat(text, sizeof text, format, args);
    va_end(args);
    hk_message("fatal: %s", text);
    sys_abort();
}

void hk_assert_failed(const char *what, const char *file, int line) {
    hk_message("invariant broken at %s:%d: %s", file, line, what);
    sys_abort();
}
