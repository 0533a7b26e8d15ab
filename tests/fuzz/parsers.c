/* SPDX-License-Identifier: MIT
 *
 * Fuzz target: what hakmem reads as text. The first byte says which.
 *
 *   0  an option of any name and value: what is accepted is printed as a value that is accepted and means the same
 *   1  an environment
 *   2  numbers and sizes: what is printed of one is read as the same
 *   3  the kernel's list of mappings, cut anywhere: it says the same as in one piece
 *   4  a process's control groups, and their limits
 *   5  an option of a made-up name: it is known to be read and to be set, or to neither
 */
#include "core/mappings.h"
#include "core/options.h"
#include "core/parse.h"
#include "fuzz.h"
#include "sys/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TEXT_MAX = 4096, ENTRIES_MAX = 16 };

/* A log file would be written wherever the input says. */
static bool is_harmless(const char *name) { return strcasestr(name, "LOG") == NULL; }

/* --- Options ------------------------------------------------------------------------------------------------------ */

static const char *const names[] = {
#define HK_OPTION(id, name, ...) name,
#include "core/options.def"
#undef HK_OPTION
};

static void options(fuzz_input_t *in) {
    char value[TEXT_MAX], now[TEXT_MAX], again[TEXT_MAX];
    const char *name = names[fuzz_byte(in) % (sizeof names / sizeof names[0])];
    fuzz_text(in, value, sizeof value);
    if (!is_harmless(name) || hk_option_set(name, value) != 0)
        return;
    FUZZ_CHECK(hk_option_get(name, now, sizeof now) == 0);
    FUZZ_CHECK(hk_option_set(name, now) == 0);
    FUZZ_CHECK(hk_option_get(name, again, sizeof again) == 0 && strcmp(now, again) == 0);
}

static void any_name(fuzz_input_t *in) {
    char text[TEXT_MAX], value[16];
    fuzz_text(in, text, sizeof text);
    char *equals = strchr(text, '=');
    if (equals == NULL || !is_harmless(text))
        return;
    *equals = '\0';
    int set = hk_option_set(text, equals + 1), got = hk_option_get(text, value, sizeof value);
    FUZZ_CHECK((set == ENOENT) == (got == ENOENT));
}

static void environment(fuzz_input_t *in) {
    char text[TEXT_MAX], *entries[ENTRIES_MAX + 1] = {NULL};
    fuzz_text(in, text, sizeof text);
    if (!is_harmless(text))
        return;
    unsigned count = 0;
    for (char *at = text; at != NULL && count < ENTRIES_MAX; count++) {
        entries[count] = at;
        at = strchr(at, '\n');
        if (at != NULL)
            *at++ = '\0';
    }
    hk_options_init(entries);
}

/* --- Numbers ------------------------------------------------------------------------------------------------------ */

static void numbers(fuzz_input_t *in) {
    char text[TEXT_MAX], printed[64];
    fuzz_text(in, text, sizeof text);
    int64_t value, again;
    const char *at = text;
    if (hk_parse_digits(&at, &value))
        FUZZ_CHECK(at > text && at <= text + strlen(text) && value >= 0);
    if (hk_parse_number(text, &value)) {
        snprintf(printed, sizeof printed, "%lld", (long long)value);
        FUZZ_CHECK(hk_parse_number(printed, &again) && again == value);
    }
    if (hk_parse_size(text, &value)) {
        FUZZ_CHECK(value >= 0);
        hk_out_t out;
        hk_out_to_memory(&out, printed, sizeof printed);
        hk_print_size(&out, value);
        FUZZ_CHECK(out.total < sizeof printed && hk_parse_size(printed, &again) && again == value);
    }
}

/* --- Mappings ----------------------------------------------------------------------------------------------------- */

typedef struct seen {
    uint64_t sum;
    unsigned count, most;
} seen_t;

static void add(seen_t *seen, uint64_t value) { seen->sum = (seen->sum ^ value) * UINT64_C(0x100000001b3); }

static bool visit(const hk_mapping_t *mapping, void *argument) {
    seen_t *seen = argument;
    size_t length = strlen(mapping->name);
    FUZZ_CHECK(length < HK_MAPPING_NAME_MAX + 128 && strchr(mapping->name, '\n') == NULL);
    add(seen, mapping->start), add(seen, mapping->end), add(seen, mapping->offset);
    add(seen, (uint64_t)mapping->readable << 1 | mapping->writable);
    for (size_t i = 0; i < length; i++)
        add(seen, (unsigned char)mapping->name[i]);
    char name[HK_MAPPING_NAME_MAX];
    hk_mapping_name_copy(name, mapping->name);
    FUZZ_CHECK(strlen(name) < sizeof name);
    return ++seen->count < seen->most;
}

static seen_t read_in_pieces(const char *text, size_t length, size_t piece, unsigned most) {
    seen_t seen = {.most = most};
    hk_mappings_reader_t reader;
    hk_mappings_reader_init(&reader, visit, &seen);
    bool more = true;
    for (size_t at = 0; at < length && more; at += piece)
        more = hk_mappings_reader_feed(&reader, text + at, length - at < piece ? length - at : piece);
    FUZZ_CHECK(seen.count <= most && more == (seen.count < most));
    return seen;
}

static void mappings(fuzz_input_t *in) {
    char text[TEXT_MAX];
    unsigned piece = fuzz_byte(in) + 1u, most = fuzz_byte(in) + 1u;
    size_t length = fuzz_text(in, text, sizeof text);
    if (length == 0)
        return;
    seen_t whole = read_in_pieces(text, length, length, most), parts = read_in_pieces(text, length, piece, most);
    FUZZ_CHECK(whole.sum == parts.sum && whole.count == parts.count);
}

/* --- Control groups ----------------------------------------------------------------------------------------------- */

static char root[] = "/tmp/hakmem-fuzz-XXXXXX";

static void remove_root(void) {
    char path[64];
    static const char *const files[] = {"membership", "memory.max", "memory.high", "cpu.max"};
    for (unsigned i = 0; i < sizeof files / sizeof files[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", root, files[i]);
        (void)unlink(path);
    }
    (void)rmdir(root);
}

static void put(const char *name, const char *text, size_t length) {
    char path[64];
    snprintf(path, sizeof path, "%s/%s", root, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    FUZZ_CHECK(fd >= 0 && write(fd, text, length) == (ssize_t)length);
    close(fd);
}

/* The limits first, a line for each file, then the membership. */
static void groups(fuzz_input_t *in) {
    static bool there;
    if (!there) {
        FUZZ_CHECK(mkdtemp(root) != NULL && atexit(remove_root) == 0);
        there = true;
    }
    char text[TEXT_MAX], path[64], *rest = text;
    fuzz_text(in, text, sizeof text);
    static const char *const files[] = {"memory.max", "memory.high", "cpu.max"};
    for (unsigned i = 0; i < sizeof files / sizeof files[0]; i++) {
        size_t length = strcspn(rest, "\n");
        put(files[i], rest, length);
        rest += length + (rest[length] == '\n');
    }
    put("membership", rest, strlen(rest));
    snprintf(path, sizeof path, "%s/membership", root);
    sys_memory_limits_t limits = sys_cgroup_limits(path, root);
    FUZZ_CHECK(limits.known || (limits.high == UINT64_MAX && limits.max == UINT64_MAX));
    FUZZ_CHECK(sys_cgroup_cpus(path, root) > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static void (*const readers[])(fuzz_input_t *) = {options, environment, numbers, mappings, groups, any_name};
    fuzz_input_t in = {data, data + size};
    readers[fuzz_byte(&in) % (sizeof readers / sizeof readers[0])](&in);
    return 0;
}
