/* SPDX-License-Identifier: MIT
 *
 * The heap is looked at and tidied while it is in use: one thread checks, one reads statistics, one trims, one sets and
 * reads options, and others allocate, free each others' blocks, start and end. A check finds nothing, a statistic is
 * never absurd.
 */
#define BUSY_HAK_NAMES
#include "busy.h"

enum { LOAD = 2, MILLISECONDS = 3000 };

static _Atomic bool stop;
static _Atomic unsigned checks, snapshots, trims;

static bool stopped(void) { return atomic_load_explicit(&stop, memory_order_relaxed); }

static void *check(void *unused) {
    (void)unused;
    while (!stopped()) {
        size_t violations = hak_check();
        CHECK_SAY(violations == 0, "%zu violations", violations);
        atomic_fetch_add(&checks, 1);
    }
    return NULL;
}

static void *snapshot(void *unused) {
    (void)unused;
    static hak_stats_t stats;
    static char text[200000];
    uint64_t last_remote = 0;
    while (!stopped()) {
        stats.struct_size = sizeof stats;
        CHECK(hak_stats_get(&stats) == 0);
        CHECK(stats.class_count > 0 && stats.class_count <= HAK_STATS_CLASS_MAX);
        CHECK_SAY(stats.mapped >= stats.metadata && stats.mapped < (uint64_t)1 << 46, "mapped %llu",
                  (unsigned long long)stats.mapped);
        CHECK(stats.remote_frees >= last_remote); /* events never go back */
        last_remote = stats.remote_frees;
        hak_format_t format = last_remote % 2 ? HAK_FORMAT_TEXT : HAK_FORMAT_JSON;
        size_t length = hak_stats_format(text, sizeof text, format);
        CHECK(length > 100 && length < sizeof text && strlen(text) == length);
        atomic_fetch_add(&snapshots, 1);
    }
    return NULL;
}

static void *trim(void *unused) {
    (void)unused;
    while (!stopped()) {
        hak_trim();
        test_sleep_us(500);
        atomic_fetch_add(&trims, 1);
    }
    return NULL;
}

static void *options(void *unused) {
    (void)unused;
    char value[64];
    for (unsigned i = 0; !stopped(); i++) {
        CHECK(hak_option_set("PURGE_DELAY", i % 3 == 0 ? "0" : i % 3 == 1 ? "50" : "500") == 0);
        CHECK(hak_option_set("ADAPT", i % 2 ? "on" : "off") == 0);
        CHECK(hak_option_get("PURGE_DELAY", value, sizeof value) == 0 && value[0] != 0);
        test_sleep_us(300);
    }
    return NULL;
}

static void *short_life(void *argument) {
    uint64_t random = (uintptr_t)argument;
    for (unsigned k = 0; k < 300; k++)
        busy_trade(&random, 2000);
    return NULL;
}

static void *short_lives(void *unused) {
    (void)unused;
    for (uintptr_t i = 1; !stopped(); i++)
        test_join(test_thread(short_life, (void *)i));
    return NULL;
}

int main(void) {
    test_alarm(90);
    pthread_t load[LOAD], lookers[5];
    void *(*const run[5])(void *) = {check, snapshot, trim, options, short_lives};
    busy_start(load, LOAD);
    for (unsigned i = 0; i < 5; i++)
        lookers[i] = test_thread(run[i], NULL);
    do
        test_sleep_us(MILLISECONDS * 1000);
    while (checks == 0 || snapshots <= 10 || trims <= 10);
    atomic_store(&stop, true);
    for (unsigned i = 0; i < 5; i++)
        test_join(lookers[i]);
    busy_end(load, LOAD);
    test_say("%u checks, %u snapshots, %u trims under load\n", atomic_load(&checks), atomic_load(&snapshots),
             atomic_load(&trims));
    CHECK_HEAP();
    return TEST_PASS;
}
