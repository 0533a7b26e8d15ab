/* SPDX-License-Identifier: MIT
 *
 * mallctl.c: names in parts between dots. A mib has the number of the name's row in front, so that a program may change
 * a number within the name, as it does with jemalloc.
 */
#include "names.h"
#include "values.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { INDEX_NONE = 0, DIGITS_MAX = 9 };

static const size_t index_max = ((size_t)1 << INDEX_BITS) - 1;

static const size_t kind_sizes[] = {
    [KIND_BOOL] = sizeof(bool),
    [KIND_U32] = sizeof(unsigned),
    [KIND_U64] = sizeof(uint64_t),
    [KIND_SIZE] = sizeof(size_t),
    [KIND_SSIZE] = sizeof(ssize_t),
    [KIND_TEXT] = sizeof(const char *),
    [KIND_NONE] = 0,
};

/* --- Names -------------------------------------------------------------------------------------------------------- */

/* The number that the text begins with; its digits, 0 when there is none. */
static size_t digits(const char *text, size_t *number) {
    size_t count = 0;
    for (*number = 0; text[count] >= '0' && text[count] <= '9' && count <= DIGITS_MAX; count++)
        *number = *number * 10 + (size_t)(text[count] - '0');
    return count <= DIGITS_MAX ? count : 0;
}

/* Whether the name is the pattern's, in which each `*`, of two at most, stands for a number. */
static bool matches(const char *pattern, const char *name, size_t *index) {
    unsigned shift = 0;
    for (*index = INDEX_NONE; *pattern != 0; pattern++) {
        if (*pattern != '*') {
            if (*name++ != *pattern)
                return false;
            continue;
        }
        size_t part, count = digits(name, &part);
        if (count == 0)
            return false;
        *index |= part << shift;
        shift += INDEX_BITS;
        name += count;
    }
    return *name == 0;
}

static const row_t *find(const char *name, size_t *number, size_t *index) {
    const row_t *row;
    for (*number = 0; (row = values_row(*number)) != NULL; (*number)++)
        if (matches(row->name, name, index))
            return row;
    return NULL;
}

static size_t depth_of(const row_t *row) {
    size_t depth = 1;
    for (const char *at = row->name; *at != 0; at++)
        depth += *at == '.';
    return depth;
}

/* The parts of the name that are numbers, as bits: the first part, which is none, is bit 0. */
static size_t index_places(const row_t *row) {
    size_t places = 0, place = 0;
    for (const char *at = row->name; *at != 0; at++) {
        place += *at == '.';
        places |= (size_t)(*at == '*') << place;
    }
    return places;
}

static void say(const char *text) {
    ssize_t ignored = write(STDERR_FILENO, text, strlen(text));
    (void)ignored;
}

/* Once a process, where it is wanted: what a program looks for and does not find. */
static int unknown(const char *name) {
    static atomic_flag was_said = ATOMIC_FLAG_INIT;
    char verbose[16];
    if (hak_option_get("VERBOSE", verbose, sizeof verbose) != 0 || strcmp(verbose, "on") != 0 ||
        atomic_flag_test_and_set(&was_said))
        return ENOENT;
    say("hakmem: mallctl: no ");
    say(name);
    say(" here, nor others that hakmem has nothing for (docs/from-jemalloc.md)\n");
    return ENOENT;
}

/* --- Values ------------------------------------------------------------------------------------------------------- */

/* As jemalloc: of a place of another size, as much as fits is written, and that is an error. */
static int give(const row_t *row, const value_t *value, void *old, size_t *old_size) {
    size_t size = kind_sizes[row->kind], room = *old_size;
    memcpy(old, value, room < size ? room : size);
    if (room == size)
        return 0;
    *old_size = room < size ? room : size;
    return EINVAL;
}

static int act(const row_t *row, size_t index, const void *given, size_t given_size) {
    value_t value = {.u64 = 0};
    if (given == NULL)
        return row->act(index, NULL);
    if (given_size != kind_sizes[row->kind])
        return EINVAL;
    memcpy(&value, given, given_size);
    return row->act(index, &value);
}

/* What is read is what held before the write. It is looked up also when nobody wants it: the number may be none. */
static int serve(const row_t *row, size_t index, void *old, size_t *old_size, const void *given, size_t given_size) {
    bool reads = old != NULL && old_size != NULL, writes = given != NULL || given_size != 0;
    if ((reads && row->read == NULL) || (writes && (row->act == NULL || row->kind == KIND_NONE)))
        return EPERM;
    value_t value = {.u64 = 0};
    int error = row->read != NULL ? row->read(index, row->of, &value) : 0;
    if (error == 0 && reads)
        error = give(row, &value, old, old_size);
    if (error != 0)
        return error;
    if (writes || (row->act != NULL && row->read == NULL))
        return act(row, index, given, given_size);
    return 0;
}

NAMES_EXPORT int mallctl(const char *name, void *old, size_t *old_size, void *value, size_t value_size) {
    size_t number, index;
    const row_t *row = find(name, &number, &index);
    return row != NULL ? serve(row, index, old, old_size, value, value_size) : unknown(name);
}

NAMES_EXPORT int mallctlnametomib(const char *name, size_t *mib, size_t *length) {
    size_t number, index;
    const row_t *row = find(name, &number, &index);
    if (row == NULL)
        return unknown(name);
    size_t depth = depth_of(row), places = index_places(row);
    *length = depth < *length ? depth : *length;
    for (size_t i = 0; i < *length; i++) {
        bool is_index = (places >> i & 1) != 0;
        mib[i] = i == 0 ? number : is_index ? index & index_max : 0;
        index = is_index ? index >> INDEX_BITS : index;
    }
    return 0;
}

NAMES_EXPORT int mallctlbymib(const size_t *mib, size_t length, void *old, size_t *old_size, void *value,
                              size_t value_size) {
    size_t number = 0;
    while (length > 0 && number < mib[0] && values_row(number) != NULL)
        number++;
    const row_t *row = length > 0 ? values_row(number) : NULL;
    if (row == NULL || depth_of(row) != length)
        return ENOENT;
    size_t places = index_places(row), index = INDEX_NONE;
    unsigned shift = 0;
    for (size_t i = 1; i < length; i++) {
        if ((places >> i & 1) == 0)
            continue;
        if (mib[i] > index_max)
            return ENOENT;
        index |= mib[i] << shift;
        shift += INDEX_BITS;
    }
    return serve(row, index, old, old_size, value, value_size);
}
