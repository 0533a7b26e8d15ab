/* SPDX-License-Identifier: MIT
 *
 * Statistics: the snapshot call, both written forms, cutting, and what HAKMEM_STATS prints at exit.
 */
#include "check.h"
#include "unit/fake_heap.h"

#include "api/exit_stats.h"
#include "report/stats.h"
#include "api/stats.h"
#include "sys/sys.h"
#include "core/options.h"

#include <errno.h>

static char text[32768];

static void get(void) {
    static hak_stats_t stats;
    CHECK_EQ(hak_stats_get(NULL), EINVAL);
    CHECK_EQ(hak_stats_get(&stats), EINVAL);
    const size_t wrong[] = {0, 4, sizeof stats - 4, sizeof stats + 8};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        stats.struct_size = (uint32_t)wrong[i];
        CHECK_EQ(hak_stats_get(&stats), EINVAL);
    }
    /* The record of a caller who knows less of it. */
    stats.struct_size = offsetof(hak_stats_t, slabs_adopted);
    CHECK_EQ(hak_stats_get(&stats), 0);
    CHECK_EQ(stats.struct_size, offsetof(hak_stats_t, slabs_adopted));
    CHECK_EQ(stats.slabs_reused, 90);
    CHECK_EQ(stats.classes[0].block_size, 0);
    stats.struct_size = sizeof stats;
    CHECK_EQ(hak_stats_get(&stats), 0);
    CHECK_EQ(stats.struct_size, sizeof stats);
    CHECK_EQ(stats.slabs_reused, 90);
    hak_class_stats_t sum = stats_class_sum(&stats);
    CHECK_EQ(sum.alloc_count, 3000);
    CHECK_EQ(sum.cached_blocks, 50);
    CHECK_EQ(sum.block_size, 0);
}

static void read_of_thread(void) {
    uint64_t value = 0;
    CHECK_EQ(hak_stat_read("thread/allocated", &value), 0);
    CHECK_EQ(value, 700);
    CHECK_EQ(hak_stat_read("thread/freed", &value), 0);
    CHECK_EQ(value, 300);
    CHECK_EQ(hak_stat_read("thread/", &value), ENOENT);
    CHECK_EQ(hak_stat_read("thread/live", &value), ENOENT);
    fake_has_classes = false;
    CHECK_EQ(hak_stat_read("thread/freed", &value), EAGAIN);
    hak_stats_t stats = {.struct_size = sizeof stats};
    CHECK_EQ(hak_stats_get(&stats), EAGAIN);
    fake_has_classes = true;
}

static void format_text(void) {
    size_t length = hak_stats_format(text, sizeof text, HAK_FORMAT_TEXT);
    CHECK_EQ(length, strlen(text));
    CHECK_HAS(text, "hakmem 0.");
    CHECK_HAS(text, "\n  slabs reused                         90               90 % of slabs opened\n");
    CHECK_HAS(text, "\n  resident                       20971520    20.0 MiB   31 % of address space\n");
    CHECK_HAS(text, "\n    live                         12582912    12.0 MiB   60 % of resident\n");
    CHECK_HAS(text, "\n  given back                     15269888    14.6 MiB\n");
    CHECK_HAS(text, "\n    inside slabs                  1310720     1.2 MiB    9 % of given back\n");
    CHECK_HAS(text, "\n  soft limit                      1835008     1.8 MiB\n");
    CHECK_HAS(text, "\n  hard limit                   1073741823  1024.0 MiB\n");
    CHECK_HAS(text, "\n  lock waits                            3               <1 % of lock takes\n");
    CHECK_HAS(text, "\n  large freed                           0\n");
    CHECK_HAS(text, "\n          16         1000          900 ");
    CHECK_HAS(text, "\n          48         2000         1500 ");
    CHECK_HAS(text, "\n         all         3000         2400 ");
    CHECK_HAS(text, " 98 %\n");
    CHECK(strstr(text, "\n          32 ") == NULL);
}

/* Braces, brackets and quotes pair up, and no comma ends a list. */
static void json_is_whole(const char *json) {
    int depth = 0;
    int quotes = 0;
    char before = ' ';
    for (; *json != '\0'; json++) {
        depth += (*json == '{' || *json == '[') - (*json == '}' || *json == ']');
        quotes += *json == '"';
        CHECK(depth >= 0);
        CHECK(!(before == ',' && (*json == '}' || *json == ']')));
        if (*json != ' ' && *json != '\n')
            before = *json;
    }
    CHECK_EQ(depth, 0);
    CHECK_EQ(quotes % 2, 0);
    CHECK_EQ(before, '}');
}

static void format_json(void) {
    size_t length = hak_stats_format(text, sizeof text, HAK_FORMAT_JSON);
    CHECK_EQ(length, strlen(text));
    json_is_whole(text);
    CHECK_HAS(text, "{\n  \"version\": \"0.");
    CHECK_HAS(text, ",\n  \"program\": \"api_stats\",\n");
    CHECK_HAS(text, ",\n  \"slabs_reused\": 90,\n");
    CHECK_HAS(text, "    {\"block_size\": 16, \"alloc_count\": 1000, \"free_local\": 900, ");
    CHECK_HAS(text, "\"slab_count\": 2}\n  ]\n}\n");
}

static void cut(void) {
    char small[10];
    size_t length = hak_stats_format(NULL, 0, HAK_FORMAT_TEXT);
    CHECK_EQ(hak_stats_format(small, sizeof small, HAK_FORMAT_TEXT), length);
    CHECK_STR(small, "hakmem 0.");
}

static void at_exit(void) { hk_stats_at_exit(); }

static void at_exit_text(void) {
    CHECK_EQ(hak_option_set("STATS", "text"), 0);
    hk_stats_at_exit();
}

static void at_exit_json(void) {
    CHECK_EQ(hak_option_set("STATS", "json"), 0);
    hk_stats_at_exit();
}

static void at_exit_prints(void) {
    CHECK_EQ(check_child(at_exit, 2, text, sizeof text), 0);
    CHECK_STR(text, "");
    CHECK_EQ(check_child(at_exit_text, 2, text, sizeof text), 0);
    CHECK_HAS(text, " (api_stats)\n\nmemory\n");
    CHECK_EQ(check_child(at_exit_json, 2, text, sizeof text), 0);
    json_is_whole(text);
}

static void without_snapshot(void) {
    fake_has_classes = false;
    CHECK(hak_stats_format(text, sizeof text, HAK_FORMAT_TEXT) > 0);
    CHECK_HAS(text, "hakmem: no statistics of process ");
    CHECK_HAS(text, ": no memory\n");
    sys_process_mark_set(SYS_MARK_STRANDED);
    CHECK(hak_stats_format(text, sizeof text, HAK_FORMAT_JSON) > 0);
    json_is_whole(text);
    CHECK_HAS(text, "\"no_statistics\": \"it was made while a thread of its parent held a lock of hakmem's\"}\n");
    sys_process_mark_set(SYS_MARK_KNOWN);
    fake_has_classes = true;
}

int main(void) {
    hk_stats_note_program();
    get();
    read_of_thread();
    format_text();
    format_json();
    cut();
    without_snapshot();
    at_exit_prints();
    return CHECK_PASS;
}
