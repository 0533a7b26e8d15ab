/* SPDX-License-Identifier: MIT
 *
 * Options: values from the environment and from the program, what is refused and what is said about it, origins.
 * Options are process-wide, so each case runs in a child; what it prints on stderr is what is checked.
 */
#include "check.h"
#include "core/options.h"

#include <errno.h>

static char text[8192];

static const char *said(void (*body)(void)) {
    CHECK_EQ(check_child(body, 2, text, sizeof text), 0);
    return text;
}

#define INIT(...)                                                                                                      \
    do {                                                                                                               \
        char *environment[] = {__VA_ARGS__, NULL};                                                                     \
        hk_options_init(environment);                                                                                  \
    } while (0)

static void defaults(void) {
    INIT("HOME=/", "HAKME=1", "XHAKMEM_SAFE=3", "HAKMEM_BENCH_THREADS=2", "HAKMEM_BENCH=1", "HAKMEM_SAFE");
#define HK_OPTION(id, name, kind, initial, ...) CHECK_EQ(hk_option(HK_OPT_##id), initial);
#include "core/options.def"
#undef HK_OPTION
}

static void no_environment(void) {
    hk_options_init(NULL);
    CHECK_EQ(hk_option(HK_OPT_SAFE), 1);
}

static void values(void) {
    INIT("HAKMEM_SAFE=3", "HAKMEM_STATS=json", "HAKMEM_PURGE_DELAY=-1", "HAKMEM_WARMUP=64M", "HAKMEM_BACKGROUND=off",
         "HAKMEM_ADAPT=0", "HAKMEM_CRASH_REPORT=1", "HAKMEM_HUGE=Force");
    CHECK_EQ(hk_option(HK_OPT_SAFE), 3);
    CHECK_EQ(hk_option(HK_OPT_STATS), HK_STATS_JSON);
    CHECK_EQ(hk_option(HK_OPT_PURGE_DELAY), -1);
    CHECK_EQ(hk_option(HK_OPT_WARMUP), 64 << 20);
    CHECK_EQ(hk_option(HK_OPT_BACKGROUND), 0);
    CHECK_EQ(hk_option(HK_OPT_ADAPT), 0);
    CHECK_EQ(hk_option(HK_OPT_CRASH_REPORT), 1);
    CHECK_EQ(hk_option(HK_OPT_HUGE), HK_HUGE_FORCE);
}

static void stats_by_number(void) {
    INIT("HAKMEM_STATS=1");
    CHECK_EQ(hk_option(HK_OPT_STATS), HK_STATS_TEXT);
}

/* Every word for no and yes, where the first choice is "off"; nowhere else. */
static void switches(void) {
    static const char *const words[2][5] = {{"off", "0", "false", "no", "No"}, {"on", "1", "true", "yes", "TRUE"}};
    static const char *const refused[] = {"", "2", "y", "tru", "true,", "0,false", "false,no", "10"};
    for (int wanted = 0; wanted < 2; wanted++) {
        for (size_t i = 0; i < sizeof words[0] / sizeof words[0][0]; i++) {
            CHECK_EQ(hk_option_set("ADAPT", wanted ? "off" : "on"), 0);
            CHECK_EQ(hk_option_set("ADAPT", words[wanted][i]), 0);
            CHECK_EQ(hk_option(HK_OPT_ADAPT), wanted);
        }
    }
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        CHECK_EQ(hk_option_set("ADAPT", refused[i]), EINVAL);
    CHECK_EQ(hk_option_set("STATS", "yes"), 0);
    CHECK_EQ(hk_option(HK_OPT_STATS), HK_STATS_TEXT);
    CHECK_EQ(hk_option_set("STATS", "on"), 0);
    CHECK_EQ(hk_option(HK_OPT_STATS), HK_STATS_TEXT);
    CHECK_EQ(hk_option_set("STATS", "false"), 0);
    CHECK_EQ(hk_option(HK_OPT_STATS), HK_STATS_OFF);
    CHECK_EQ(hk_option_set("HUGE", "yes"), EINVAL);
    CHECK_EQ(hk_option_set("ON_ERROR", "no"), EINVAL);
}

static void no_size(void) {
    static const char *const words[] = {"0", "off", "false", "NO"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        char entry[32];
        snprintf(entry, sizeof entry, "HAKMEM_GUARD=%s", words[i]);
        INIT("HAKMEM_WARMUP=1M", entry);
        CHECK_EQ(hk_option(HK_OPT_GUARD), 0);
    }
}
static void no_size_where_one_must_be(void) { INIT("HAKMEM_QUARANTINE=off"); }

static void unknown(void) { INIT("HAKMEM_SAEF=1"); }
static void unknown_long(void) {
    INIT("HAKMEM_THIS_NAME_IS_LONGER_THAN_ANY_OPTION_COULD_EVER_HOPE_TO_BE_IN_THIS_LIBRARY=1");
}
static void unknown_lower_case(void) { INIT("HAKMEM_safe=2"); }
static void unknown_empty(void) { INIT("HAKMEM_=2"); }
static void bad_number(void) { INIT("HAKMEM_SAFE=9"); }
static void bad_number_text(void) { INIT("HAKMEM_SAFE=two"); }
static void bad_number_huge(void) { INIT("HAKMEM_SAFE=99999999999999999999"); }
static void bad_empty(void) { INIT("HAKMEM_SAFE="); }
static void bad_choice(void) { INIT("HAKMEM_HUGE=1"); }
static void bad_size(void) { INIT("HAKMEM_WARMUP=2T"); }
static void bad_size_below(void) { INIT("HAKMEM_QUARANTINE=1K"); }
static void bad_line(void) { INIT("HAKMEM_SAFE=1\nhakmem: forged"); }

static const char VALID[] = "is not an option; valid are HAKMEM_VERBOSE, ";

static void complaints(void) {
    CHECK_HAS(said(unknown), "hakmem: HAKMEM_SAEF is not an option; valid are HAKMEM_VERBOSE, ");
    CHECK_HAS(text, "HAKMEM_GUARD, HAKMEM_QUARANTINE, HAKMEM_LOG\n");
    CHECK_HAS(said(unknown_long), VALID);
    CHECK_HAS(said(unknown_lower_case), "hakmem: HAKMEM_safe is not an option; valid are ");
    CHECK_HAS(said(unknown_empty), "hakmem: HAKMEM_ is not an option");
    CHECK_STR(said(bad_number), "hakmem: HAKMEM_SAFE=9: not valid, expected a number from 0 to 3; using 1\n");
    CHECK_STR(said(bad_number_text), "hakmem: HAKMEM_SAFE=two: not valid, expected a number from 0 to 3; using 1\n");
    CHECK_HAS(said(bad_number_huge), "HAKMEM_SAFE=99999999999999999999: not valid");
    CHECK_STR(said(bad_empty), "hakmem: HAKMEM_SAFE=: not valid, expected a number from 0 to 3; using 1\n");
    CHECK_STR(said(bad_choice), "hakmem: HAKMEM_HUGE=1: not valid, expected one of auto, off, force; using auto\n");
    CHECK_STR(said(bad_size),
              "hakmem: HAKMEM_WARMUP=2T: not valid, expected a size such as 64M, from 0 to 1T; using 0\n");
    CHECK_STR(said(bad_size_below),
              "hakmem: HAKMEM_QUARANTINE=1K: not valid, expected a size such as 64M, from 64K to 1T; using 1M\n");
    CHECK_HAS(said(bad_line), "HAKMEM_SAFE=1?hakmem: forged: not valid");
}

static void sizes(void) {
    static const struct {
        const char *written;
        int64_t bytes;
        const char *read;
    } cases[] = {
        {"0", 0, "0"},
        {"4096", 4096, "4K"},
        {"1000", 1000, "1000"},
        {"64k", 65536, "64K"},
        {"64KB", 65536, "64K"},
        {"1MiB", 1 << 20, "1M"},
        {"3G", INT64_C(3) << 30, "3G"},
        {"1t", INT64_C(1) << 40, "1T"},
        {"12B", 12, "12"},
        {"1536K", 1536 << 10, "1536K"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char value[32];
        CHECK_EQ(hk_option_set("WARMUP", cases[i].written), 0);
        CHECK_EQ(hk_option(HK_OPT_WARMUP), cases[i].bytes);
        CHECK_EQ(hk_option_get("WARMUP", value, sizeof value), 0);
        CHECK_STR(value, cases[i].read);
    }
    static const char *const refused[] = {"",      "M",   "-1", "1X",          "1 M", " 1",
                                          "1MiBs", "1iB", "2T", "9999999999T", "0x10"};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        CHECK_EQ(hk_option_set("WARMUP", refused[i]), EINVAL);
}

static void program(void) {
    char value[8];
    CHECK_EQ(hk_option_set("safe", "2"), 0); /* still before the start */
    INIT("HAKMEM_ADAPT=off");
    CHECK_EQ(hk_option(HK_OPT_SAFE), 2);
    CHECK_EQ(hk_option_set("SAFE", "0"), EPERM);
    CHECK_EQ(hk_option_set("SAFE", "7"), EINVAL);
    CHECK_EQ(hk_option_set("NOPE", "1"), ENOENT);
    CHECK_EQ(hk_option_set("", "1"), ENOENT);
    CHECK_EQ(hk_option_set(NULL, "1"), EINVAL);
    CHECK_EQ(hk_option_set("STATS", NULL), EINVAL);
    CHECK_EQ(hk_option_set("hakmem_purge_delay", "20"), 0);
    CHECK_EQ(hk_option(HK_OPT_PURGE_DELAY), 20);
    CHECK_EQ(hk_option_get("On_Error", value, sizeof value), 0);
    CHECK_STR(value, "abort");
    CHECK_EQ(hk_option_get("ON_ERROR", value, 5), ERANGE);
    CHECK_EQ(hk_option_get("ON_ERROR", NULL, 0), ERANGE);
    CHECK_EQ(hk_option_get("NOPE", value, sizeof value), ENOENT);
    char buffer[HK_OUT_BUFFER];
    hk_out_t out;
    hk_out_to_fd(&out, 2, buffer, sizeof buffer);
    hk_options_print(&out);
    hk_out_flush(&out);
}

static void listing(void) {
    CHECK_HAS(said(program), "  HAKMEM_SAFE           2          program\n");
    CHECK_HAS(text, "  HAKMEM_ADAPT          off        environment\n");
    CHECK_HAS(text, "  HAKMEM_PURGE_DELAY    20         program\n");
    CHECK_HAS(text, "  HAKMEM_HUGE           auto       default\n");
}

static void verbose(void) { INIT("HAKMEM_VERBOSE=1"); }

/* Two sizes in one value. */
static void limits(void) {
    static const char *const written[] = {"100M", "1G:2GiB", "0:64k", "0", "1:2", "off", "OFF"};
    static const char *const read[] = {"100M:0", "1G:2G", "0:64K", "0:0", "64K:64K", "off", "off"};
    static const char *const refused[] = {"", "x", "2G:1G", "1G:", "1G:2G:3G", "200000G", "-1", "offx", "of", "off:1G"};
    char value[32];
    for (size_t i = 0; i < sizeof written / sizeof written[0]; i++) {
        CHECK_EQ(hk_option_set("LIMIT", written[i]), 0);
        CHECK_EQ(hk_option_get("LIMIT", value, sizeof value), 0);
        CHECK_STR(value, read[i]);
    }
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        CHECK_EQ(hk_option_set("LIMIT", refused[i]), EINVAL);
    CHECK_EQ(hk_option_set("LIMIT", "off"), 0);
    CHECK_EQ(hk_limit_soft(hk_option(HK_OPT_LIMIT)), 0);
    CHECK_EQ(hk_limit_hard(hk_option(HK_OPT_LIMIT)), 0);
    CHECK_EQ(hk_limit_set((uint64_t)3 << 30, (uint64_t)4 << 30), 0);
    CHECK_EQ(hk_limit_soft(hk_option(HK_OPT_LIMIT)), (uint64_t)3 << 30);
    CHECK_EQ(hk_limit_hard(hk_option(HK_OPT_LIMIT)), (uint64_t)4 << 30);
    CHECK_EQ(hk_limit_set(2, 1), EINVAL);
    CHECK_EQ(hk_limit_set(0, 0), 0);
}

static void a_profile_has_an_interval_and_a_file(void) {
    char value[64];
    INIT("HAKMEM_PROFILE=500K,out=heap.%p");
    CHECK_EQ(hk_profile_log2(hk_option(HK_OPT_PROFILE)), 19);
    CHECK(strcmp(hk_profile_file(hk_option(HK_OPT_PROFILE)), "heap.%p") == 0);
    CHECK_EQ(hk_option_get("PROFILE", value, sizeof value), 0);
    CHECK(strcmp(value, "512K,out=heap.%p") == 0);
    INIT("HAKMEM_PROFILE=1");
    CHECK(hk_profile_is_on(hk_option(HK_OPT_PROFILE)) && hk_profile_log2(hk_option(HK_OPT_PROFILE)) == 0);
    INIT("HAKMEM_PROFILE=on");
    CHECK_EQ(hk_profile_log2(hk_option(HK_OPT_PROFILE)), 19);
    INIT("HAKMEM_PROFILE=off");
    CHECK(!hk_profile_is_on(hk_option(HK_OPT_PROFILE)));
}

static void a_path_begins_at_the_root(void) {
    char value[64];
    INIT("HAKMEM_CONTROL=/run/hakmem.%p");
    CHECK_EQ(hk_option_get("CONTROL", value, sizeof value), 0);
    CHECK_STR(value, "/run/hakmem.%p");
    INIT("HAKMEM_CONTROL=off");
    CHECK_EQ(hk_option(HK_OPT_CONTROL), 0);
}

static void a_file_has_any_name(void) {
    char value[4200];
    INIT("HAKMEM_LOG=/tmp/hakmem.%p");
    CHECK_EQ(hk_option_get("LOG", value, sizeof value), 0);
    CHECK_STR(value, "/tmp/hakmem.%p");
    CHECK_EQ(hk_option_set("LOG", "here"), 0); /* means one file from now on */
    CHECK_EQ(hk_option_get("LOG", value, sizeof value), 0);
    CHECK(value[0] == '/' && strcmp(value + strlen(value) - 5, "/here") == 0);
    CHECK_EQ(hk_option_set("LOG", ""), EINVAL);
    CHECK_EQ(hk_option_set("LOG", "yes"), EINVAL);
    CHECK_EQ(hk_option_set("LOG", "off"), 0);
    CHECK_EQ(hk_option(HK_OPT_LOG), 0);
}

static void a_path_elsewhere(void) { INIT("HAKMEM_CONTROL=hakmem.%p"); }

int main(void) {
    limits();
    CHECK_STR(said(a_path_begins_at_the_root), "");
    CHECK_STR(said(a_file_has_any_name), "");
    CHECK_STR(said(a_path_elsewhere),
              "hakmem: HAKMEM_CONTROL=hakmem.%p: not valid, expected one of off, or an absolute path such as "
              "/run/user/1000/hakmem.%p; using off\n");
    CHECK_STR(said(defaults), "");
    CHECK_STR(said(a_profile_has_an_interval_and_a_file), "");
    CHECK_STR(said(no_environment), "");
    CHECK_STR(said(values), "");
    CHECK_STR(said(stats_by_number), "");
    CHECK_STR(said(switches), "");
    CHECK_STR(said(no_size), "");
    CHECK_HAS(said(no_size_where_one_must_be), "HAKMEM_QUARANTINE=off: not valid, expected a size such as 64M");
    CHECK_STR(said(sizes), "");
    complaints();
    listing();
    CHECK_HAS(said(verbose), "hakmem: hakmem 0.");
    CHECK_HAS(text, " build");
    CHECK_HAS(text, "  HAKMEM_VERBOSE        on         environment\n");
    return CHECK_PASS;
}
