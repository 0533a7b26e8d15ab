/* SPDX-License-Identifier: MIT */
#include "inspect/orders.h"

#include "core/options.h"
#include "core/request.h"
#include "limit/limit.h"
#include "report/figures.h"
#include "sample/image.h"
#include "sample/sampler.h"
#include "slow/reclaim.h"
#include "slow/tick.h"
#include "sys/sys.h"
#include "upkeep/round.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

/* The helper has no heap, and is where memory goes back anyway. */
static void limits_changed(hk_request_by_t by) {
    if (by != HK_REQUEST_BY_THREAD)
        (void)limit_look(0);
    else
        hk_limit_changed();
}

/* NAME=VALUE. The text is others' memory: it is taken over before it is read. */
static int set_option(const hk_order_t *order) {
    char text[HK_REQUEST_TEXT];
    memcpy(text, order->text, sizeof text);
    text[sizeof text - 1] = '\0';
    char *equals = strchr(text, '=');
    if (equals == NULL)
        return EINVAL;
    *equals = '\0';
    return hk_option_set(text, equals + 1);
}

/* As hak_profile_start. */
static int start_profile(const hk_order_t *order) {
    sample_start(order->arguments[0], SAMPLE_FOR_TOOL);
    heap_hurry_all();
    return 0;
}

enum { TEXT_BYTES = 128 * HK_KIB };

static inspect_statistics_t *statistics_text;

/* Mapped when it is first asked for, and kept. Touched by who made `writer` its process; a child of a fork makes it
 * its own where its parent's thread was at it. */
typedef struct text {
    _Atomic uint32_t writer; /* 0: nobody */
    char *at;
} text_t;

static int write_text(text_t *text, uint64_t *result) {
    if (text->at == NULL)
        text->at = sys_map(TEXT_BYTES);
    if (text->at == NULL)
        return ENOMEM;
    *result = (uint64_t)(uintptr_t)text->at;
    return statistics_text(text->at, TEXT_BYTES) < TEXT_BYTES ? 0 : ERANGE;
}

/* Who asks through the socket has a text of its own: it may be at it while somebody else is. */
static int statistics(hk_request_by_t by, uint64_t *result) {
    static text_t texts[2];
    text_t *text = &texts[by == HK_REQUEST_BY_CONTROL];
    const uint32_t mine = sys_process_id();
    uint32_t writer = atomic_load_explicit(&text->writer, memory_order_relaxed);
    /* Acquire: pairs with the release below, so that the mapping is there. */
    if (writer == mine || !atomic_compare_exchange_strong_explicit(&text->writer, &writer, mine, memory_order_acquire,
                                                                   memory_order_relaxed))
        return EAGAIN;
    const int error = write_text(text, result);
    atomic_store_explicit(&text->writer, 0, memory_order_release); /* pairs with the exchange above */
    return error;
}

static int follow(const hk_order_t *order, hk_request_by_t by, uint64_t *result) {
    int error;
    switch (order->command) {
    case HK_COMMAND_PROFILE_START:
        return start_profile(order);
    case HK_COMMAND_PROFILE_STOP:
        sample_stop();
        return 0;
    case HK_COMMAND_STATISTICS:
        return statistics(by, result);
    case HK_COMMAND_PROFILE_WRITE: /* a descriptor says something only to who gave it */
        return by == HK_REQUEST_BY_CONTROL ? image_write((int)order->arguments[0], hk_figures_text) : ENOSYS;
    case HK_COMMAND_TRIM:
        *result = by == HK_REQUEST_BY_THREAD ? hk_trim_all() : heap_trim();
        return 0;
    case HK_COMMAND_LIMIT:
        error = hk_limit_set(order->arguments[0], order->arguments[1]);
        break;
    case HK_COMMAND_OPTION:
        error = set_option(order);
        break;
    default:
        return ENOSYS;
    }
    if (error == 0)
        limits_changed(by);
    return error;
}

void inspect_follow_orders(inspect_statistics_t *text) {
    statistics_text = text;
    hk_request_by(follow);
}
