/* SPDX-License-Identifier: MIT */
#include "core/options.h"

#include "base/bits.h"
#include "core/message.h"
#include "core/parse.h"
#include "sys/sys.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

typedef enum option_origin { ORIGIN_DEFAULT, ORIGIN_ENVIRONMENT, ORIGIN_PROGRAM, ORIGIN_COMPILED } option_origin_t;

/* Without pointers, which the loader would have to fill in. */
typedef struct option_info {
    char name[sizeof "CRASH_REPORT"];
    char choices[sizeof "auto,off,populate,touch"];
    uint8_t kind; /* hk_option_kind_t */
    uint8_t when; /* hk_option_when_t */
    int64_t min;
    int64_t max;
} option_info_t;

static const option_info_t option_table[HK_OPT_COUNT] = {
#define HK_OPTION(id, name, kind, initial, min, max, choices, when, help)                                              \
    [HK_OPT_##id] = {name, choices, HK_OPTION_##kind, HK_OPTION_AT_##when, min, max},
#include "core/options.def"
#undef HK_OPTION
};

_Atomic int64_t hk_option_values[HK_OPT_COUNT] = {
#define HK_OPTION(id, name, kind, initial, ...) [HK_OPT_##id] = initial,
#include "core/options.def"
#undef HK_OPTION
};

/* Written with the value of the same index; a reader may see one without the other, which only a listing can notice. */
_Atomic uint8_t hk_option_origins[HK_OPT_COUNT];

/* Set at the end of hk_options_init; from then on START options are closed. */
static _Atomic bool options_closed;

static const char ENVIRONMENT_PREFIX[] = "HAKMEM_";
static const char BENCHMARK_PREFIX[] = "HAKMEM_BENCH"; /* the benchmark tool's own variables */

enum {
    COMPILED_MAX = 512,   /* of one "NAME=value" that is compiled in */
    OPTION_TEXT_MAX = 64, /* of a value as text, and of what a message repeats of a name or a value */
    ANNOUNCE_MAX = 4096,  /* of all options with their values */
};

/* --- Text ------------------------------------------------------------------------------------------------------- */

static bool equal_any_case(const char *a, const char *b, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (hk_lower(a[i]) != hk_lower(b[i]) || a[i] == '\0')
            return false;
    return true;
}

static bool starts_with(const char *text, const char *prefix) { return strncmp(text, prefix, strlen(prefix)) == 0; }

/* What a message may repeat of `text`: short, and on one line. */
static void quote(char out[OPTION_TEXT_MAX + 1], const char *text, size_t length) {
    size_t shown = hk_min(length, OPTION_TEXT_MAX);
    for (size_t i = 0; i < shown; i++)
        out[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
    out[shown] = '\0';
}

/* Whether the value is the address of a name. */
static bool is_name(const option_info_t *info) { return info->kind == HK_OPTION_PATH || info->kind == HK_OPTION_FILE; }

/* --- Values ----------------------------------------------------------------------------------------------------- */

/* Start of the choice behind `choice`, NULL when it was the last. */
static const char *choice_next(const char *choice) {
    const char *comma = strchr(choice, ',');
    return comma != NULL ? comma + 1 : NULL;
}

static size_t choice_length(const char *choice) { return strcspn(choice, ","); }

static bool choice_is(const char *choice, const char *text) {
    size_t length = choice_length(choice);
    return strlen(text) == length && equal_any_case(choice, text, length);
}

/* The words that stand for a choice's number where the first is "off": no and yes in every spelling. */
static const char *const switch_words[] = {"0,false,no", "1,true,yes,on"};

/* The number of the first of `choices` that is `text`, -1 when none is. */
static int64_t choice_find(const char *choices, const char *text) {
    int64_t number = 0;
    for (const char *choice = choices; choice != NULL; choice = choice_next(choice), number++)
        if (choice_is(choice, text))
            return number;
    return -1;
}

static bool parse_choice(const option_info_t *info, const char *text, int64_t *value) {
    *value = choice_find(info->choices, text);
    for (int64_t i = 0; i < 2 && *value < 0 && choice_is(info->choices, "off"); i++)
        if (choice_find(switch_words[i], text) >= 0)
            *value = i;
    return *value >= 0;
}

static const char OFF[] = "off";

/* Where it may be 0, the words for no mean that. */
static bool parse_size(const option_info_t *info, const char *text, int64_t *value) {
    *value = 0;
    bool is_no = info->min == 0 && (choice_is(OFF, text) || choice_find(switch_words[0], text) > 0);
    return is_no || hk_parse_size(text, value);
}

/* SOFT or SOFT:HARD, where 0 is no limit, or off. */
static bool parse_limit(const char *text, int64_t *value) {
    int64_t soft, hard = 0;
    if (choice_is(OFF, text)) {
        *value = HK_LIMIT_OFF;
        return true;
    }
    if (!hk_parse_size_part(&text, &soft))
        return false;
    if (*text == ':') {
        text++;
        if (!hk_parse_size_part(&text, &hard) || (hard != 0 && soft > hard))
            return false;
    }
    *value = hk_limit_pack((uint64_t)soft, (uint64_t)hard);
    return *text == '\0' && *value >= 0;
}

/* A file's name is kept in a page of its own: what the program writes into its environment does not change it. NULL
 * when it is empty or too long. */
static const char *keep_name(const char *text) {
    size_t size = strlen(text) + 1;
    char *name = size > 1 && size <= sys_page_size() ? sys_map(sys_page_size()) : NULL;
    return name != NULL ? memcpy(name, text, size) : NULL;
}

static bool parse_output(const option_info_t *info, const char *text, int64_t *value) {
    const char *colon = strchr(text, ':');
    if (colon == NULL)
        return parse_choice(info, text, value);
    char choice[OPTION_TEXT_MAX] = "";
    if ((size_t)(colon - text) >= sizeof choice)
        return false;
    memcpy(choice, text, (size_t)(colon - text));
    const char *name = parse_choice(info, choice, value) && *value != 0 ? keep_name(colon + 1) : NULL;
    if (name == NULL)
        return false;
    *value |= (int64_t)((uintptr_t)name << HK_OUTPUT_CHOICE_BITS);
    return true;
}

static const char PROFILE_OUT[] = ",out=";

/* INTERVAL or INTERVAL,out=FILE. The interval is rounded up to a power of two. */
static bool parse_profile(const option_info_t *info, const char *text, int64_t *value) {
    char interval[OPTION_TEXT_MAX] = "";
    const char *out = strstr(text, PROFILE_OUT), *name = NULL;
    size_t length = out != NULL ? (size_t)(out - text) : strlen(text);
    int64_t bytes;
    if (length >= sizeof interval)
        return false;
    memcpy(interval, text, length);
    bool is_size = hk_parse_size(interval, &bytes) && bytes > 0;
    if (!is_size && !parse_choice(info, interval, &bytes))
        return false;
    if (!is_size && bytes == 0) {
        *value = 0;
        return out == NULL;
    }
    const unsigned log2 = is_size ? hk_log2_ceil((size_t)bytes) : HK_PROFILE_LOG2_ON;
    if (log2 > HK_PROFILE_LOG2_MAX || (out != NULL && (name = keep_name(out + strlen(PROFILE_OUT))) == NULL))
        return false;
    *value = (int64_t)((uintptr_t)name << HK_PROFILE_LOG2_BITS | (log2 + 1));
    return true;
}

/* off, or a file's name, whose address is the value: it means one file from then on, whatever the program's directory
 * becomes. A path must be one from the root on. */
static bool parse_file(const option_info_t *info, const char *text, int64_t *value) {
    char folder[PATH_MAX], whole[PATH_MAX];
    hk_out_t out;
    if (parse_choice(info, text, value))
        return *value == 0;
    if (info->kind == HK_OPTION_PATH && *text != '/')
        return false;
    hk_out_to_memory(&out, whole, sizeof whole);
    if (*text != '/' && sys_working_directory(folder, sizeof folder))
        hk_print(&out, "%s/", folder);
    hk_print(&out, "%s", text);
    const char *name = *text != '\0' && out.total < sizeof whole ? keep_name(whole) : NULL;
    *value = (int64_t)(uintptr_t)name;
    return name != NULL;
}

static bool option_parse(const option_info_t *info, const char *text, int64_t *value) {
    bool well_formed = info->kind == HK_OPTION_NUMBER    ? hk_parse_number(text, value)
                       : info->kind == HK_OPTION_SIZE    ? parse_size(info, text, value)
                       : info->kind == HK_OPTION_LIMIT   ? parse_limit(text, value)
                       : info->kind == HK_OPTION_OUTPUT  ? parse_output(info, text, value)
                       : info->kind == HK_OPTION_PROFILE ? parse_profile(info, text, value)
                       : is_name(info)                   ? parse_file(info, text, value)
                                                         : parse_choice(info, text, value);
    return well_formed && *value >= info->min && *value <= info->max;
}

static void print_profile(hk_out_t *out, int64_t value) {
    hk_print_size(out, INT64_C(1) << hk_profile_log2(value));
    if (hk_profile_file(value) != NULL)
        hk_print(out, "%s%s", PROFILE_OUT, hk_profile_file(value));
}

static void print_value(hk_out_t *out, const option_info_t *info, int64_t value) {
    if (info->kind == HK_OPTION_NUMBER) {
        hk_print(out, "%ld", (long)value);
    } else if (info->kind == HK_OPTION_SIZE) {
        hk_print_size(out, value);
    } else if (info->kind == HK_OPTION_PROFILE && hk_profile_is_on(value)) {
        print_profile(out, value);
    } else if (is_name(info) && value != 0) {
        hk_print(out, "%s", (const char *)(uintptr_t)value);
    } else if (info->kind == HK_OPTION_LIMIT && value == HK_LIMIT_OFF) {
        hk_print(out, "%s", OFF);
    } else if (info->kind == HK_OPTION_LIMIT) {
        hk_print_size(out, (int64_t)hk_limit_soft(value));
        hk_print(out, ":");
        hk_print_size(out, (int64_t)hk_limit_hard(value));
    } else {
        bool is_output = info->kind == HK_OPTION_OUTPUT;
        const char *choice = info->choices, *file = is_output ? hk_output_file(value) : NULL;
        for (int64_t i = 0; i < (is_output ? hk_output_choice(value) : value); i++)
            choice = choice_next(choice);
        hk_print(out, "%.*s", (int)choice_length(choice), choice);
        if (file != NULL)
            hk_print(out, ":%s", file);
    }
}

static void print_expected(hk_out_t *out, const option_info_t *info) {
    if (info->kind == HK_OPTION_NUMBER) {
        hk_print(out, "a number from %ld to %ld", (long)info->min, (long)info->max);
    } else if (info->kind == HK_OPTION_SIZE) {
        hk_print(out, "a size such as 64M, from ");
        hk_print_size(out, info->min);
        hk_print(out, " to ");
        hk_print_size(out, info->max);
    } else if (info->kind == HK_OPTION_LIMIT) {
        hk_print(out,
                 "SOFT or SOFT:HARD, sizes below 128T such as 2G:3G, SOFT not above HARD, where 0 is none, or off");
    } else {
        hk_print(out, "one of ");
        for (const char *choice = info->choices; choice != NULL; choice = choice_next(choice))
            hk_print(out, "%s%.*s", choice == info->choices ? "" : ", ", (int)choice_length(choice), choice);
        if (info->kind == HK_OPTION_OUTPUT)
            hk_print(out, ", the last two also with :FILE");
        if (info->kind == HK_OPTION_PATH)
            hk_print(out, ", or an absolute path such as /run/user/1000/hakmem.%%p");
        if (info->kind == HK_OPTION_FILE)
            hk_print(out, ", or a file such as /tmp/hakmem.%%p");
        if (info->kind == HK_OPTION_PROFILE)
            hk_print(out, ", or bytes such as 512K, both also with %sFILE", PROFILE_OUT);
    }
}

static void option_store(size_t index, int64_t value, option_origin_t origin) {
    atomic_store_explicit(&hk_option_values[index], value, memory_order_relaxed);
    atomic_store_explicit(&hk_option_origins[index], (uint8_t)origin, memory_order_relaxed);
    if (index == HK_OPT_LOG)
        hk_message_to((const char *)(uintptr_t)value);
}

/* --- The environment -------------------------------------------------------------------------------------------- */

static HK_COLD void complain_unknown(const char *name, size_t length) {
    char list[HK_OUT_BUFFER];
    hk_out_t out;
    hk_out_to_memory(&out, list, sizeof list);
    for (size_t i = 0; i < HK_OPT_COUNT; i++)
        hk_print(&out, "%s%s%s", i == 0 ? "" : ", ", ENVIRONMENT_PREFIX, option_table[i].name);
    char shown[OPTION_TEXT_MAX + 1];
    quote(shown, name, length);
    hk_message("%s%s is not an option; valid are %s", ENVIRONMENT_PREFIX, shown, list);
}

static HK_COLD void complain_malformed(size_t index, const char *text) {
    const option_info_t *info = &option_table[index];
    char detail[HK_OUT_BUFFER];
    hk_out_t out;
    hk_out_to_memory(&out, detail, sizeof detail);
    hk_print(&out, "not valid, expected ");
    print_expected(&out, info);
    hk_print(&out, "; using ");
    print_value(&out, info, hk_option((hk_option_t)index));
    char shown[OPTION_TEXT_MAX + 1];
    quote(shown, text, strlen(text));
    hk_message("%s%s=%s: %s", ENVIRONMENT_PREFIX, info->name, shown, detail);
}

/* `name` is `length` characters; HK_OPT_COUNT when there is no such option. */
static size_t option_find(const char *name, size_t length) {
    size_t index = 0;
    while (index < HK_OPT_COUNT &&
           !(strlen(option_table[index].name) == length && equal_any_case(option_table[index].name, name, length)))
        index++;
    return index;
}

/* Accepts "SAFE", "safe" and "HAKMEM_SAFE". */
static size_t option_named(const char *name) {
    if (strlen(name) > strlen(ENVIRONMENT_PREFIX) &&
        equal_any_case(name, ENVIRONMENT_PREFIX, strlen(ENVIRONMENT_PREFIX)))
        name += strlen(ENVIRONMENT_PREFIX);
    return option_find(name, strlen(name));
}

/* `entry` is "NAME=value". Names of the environment are in capitals, as everywhere. */
static void environment_read(const char *entry) {
    if (starts_with(entry, BENCHMARK_PREFIX))
        return;
    const char *name = entry + strlen(ENVIRONMENT_PREFIX);
    size_t length = strcspn(name, "=");
    if (name[length] == '\0')
        return;
    size_t index = option_find(name, length);
    if (index == HK_OPT_COUNT || strncmp(name, option_table[index].name, length) != 0) {
        complain_unknown(name, length);
        return;
    }
    int64_t value;
    if (option_parse(&option_table[index], name + length + 1, &value))
        option_store(index, value, ORIGIN_ENVIRONMENT);
    else
        complain_malformed(index, name + length + 1);
}

/* --- What the program was compiled with ------------------------------------------------------------------------- */

/* Of hakmem.h, if the program or a library has one. A reference, as a weak definition of ours would be found first in a
 * static program. */
extern HK_EXPORT const char hak_default_options[] __attribute__((weak));

/* `text` is "NAME=value" of one word. */
static void compiled_read_one(const char *text, size_t length) {
    char entry[COMPILED_MAX];
    size_t kept = hk_min(length, sizeof entry - 1);
    memcpy(entry, text, kept);
    entry[kept] = '\0';
    char *value = strchr(entry, '=');
    if (value != NULL)
        *value++ = '\0';
    size_t index = option_named(entry);
    int64_t parsed;
    if (index == HK_OPT_COUNT)
        complain_unknown(entry, strlen(entry));
    else if (value != NULL && kept == length && option_parse(&option_table[index], value, &parsed))
        option_store(index, parsed, ORIGIN_COMPILED);
    else
        complain_malformed(index, value != NULL ? value : "");
}

static void compiled_read(const char *text) {
    static const char spaces[] = " \t\n";
    for (text += strspn(text, spaces); *text != '\0'; text += strspn(text, spaces)) {
        size_t length = strcspn(text, spaces);
        compiled_read_one(text, length);
        text += length;
    }
}

/* What complains of an option goes where HAKMEM_LOG says, so that is read before the others. */
static void environment_read_all(char *const *environment) {
    static const char log[] = "HAKMEM_LOG=";
    for (char *const *entry = environment; *entry != NULL; entry++)
        if (starts_with(*entry, log))
            environment_read(*entry);
    for (char *const *entry = environment; *entry != NULL; entry++)
        if (starts_with(*entry, ENVIRONMENT_PREFIX) && !starts_with(*entry, log))
            environment_read(*entry);
}

static HK_COLD void announce(void) {
    char text[ANNOUNCE_MAX];
    hk_out_t out;
    hk_out_to_memory(&out, text, sizeof text);
    hk_print(&out, "hakmem: %s\n", hk_build_info);
    hk_options_print(&out);
    hk_message_write(text, hk_min(out.total, sizeof text - 1));
}

void hk_options_init(char *const *environment) {
    if (hak_default_options != NULL)
        compiled_read(hak_default_options);
    if (environment != NULL && !sys_is_secure())
        environment_read_all(environment);
    hk_message_check();
    atomic_store_explicit(&options_closed, true, memory_order_relaxed);
    if (hk_option(HK_OPT_VERBOSE) != 0)
        announce();
}

/* --- The program ------------------------------------------------------------------------------------------------ */

int hk_option_set(const char *name, const char *value) {
    if (name == NULL || value == NULL)
        return EINVAL;
    size_t index = option_named(name);
    if (index == HK_OPT_COUNT)
        return ENOENT;
    int64_t parsed;
    if (!option_parse(&option_table[index], value, &parsed))
        return EINVAL;
    if (option_table[index].when == HK_OPTION_AT_START && atomic_load_explicit(&options_closed, memory_order_relaxed))
        return EPERM;
    option_store(index, parsed, ORIGIN_PROGRAM);
    return 0;
}

int hk_option_get(const char *name, char *value, size_t value_size) {
    if (name == NULL || (value == NULL && value_size > 0))
        return EINVAL;
    size_t index = option_named(name);
    if (index == HK_OPT_COUNT)
        return ENOENT;
    hk_out_t out;
    hk_out_to_memory(&out, value, value_size);
    print_value(&out, &option_table[index], hk_option((hk_option_t)index));
    return out.total < value_size ? 0 : ERANGE;
}

const char *hk_option_name(hk_option_t option) { return option_table[option].name; }

int hk_limit_set(uint64_t soft, uint64_t hard) {
    int64_t packed = hk_limit_pack(soft, hard);
    if (packed < 0 || (hard != 0 && soft > hard))
        return EINVAL;
    option_store(HK_OPT_LIMIT, packed, ORIGIN_PROGRAM);
    return 0;
}

void hk_options_print(hk_out_t *out) {
    static const char origin_names[][sizeof "environment"] = {"default", "environment", "program", "compiled in"};
    for (size_t i = 0; i < HK_OPT_COUNT; i++) {
        char value[OPTION_TEXT_MAX];
        hk_out_t text;
        hk_out_to_memory(&text, value, sizeof value);
        print_value(&text, &option_table[i], hk_option((hk_option_t)i));
        uint8_t origin = atomic_load_explicit(&hk_option_origins[i], memory_order_relaxed);
        hk_print(out, "  %s%-14s %-10s %s\n", ENVIRONMENT_PREFIX, option_table[i].name, value, origin_names[origin]);
    }
}
