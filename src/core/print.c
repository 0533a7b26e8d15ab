/* SPDX-License-Identifier: MIT */
#include "core/print.h"

#include "sys/sys.h"

#include <string.h>

enum { PRINT_DIGITS_MAX = 20 }; /* of a 64-bit number in base 10, the longest of our bases */

/* One conversion: `%-12lu` is {left, width 12, wide}. */
typedef struct print_spec {
    bool left;
    bool wide; /* `l` or `z`: a 64-bit argument */
    size_t width;
    size_t precision; /* SIZE_MAX: none */
    char conversion;
} print_spec_t;

void hk_out_to_fd(hk_out_t *out, int fd, char *buffer, size_t buffer_size) {
    *out = (hk_out_t){.fd = fd, .memory = buffer, .memory_size = buffer_size};
}

void hk_out_to_memory(hk_out_t *out, char *memory, size_t memory_size) {
    hk_out_to_fd(out, -1, memory, memory_size);
    if (memory_size > 0)
        memory[0] = '\0';
}

void hk_out_flush(hk_out_t *out) {
    if (out->length > 0)
        sys_write_all(out->fd, out->memory, out->length);
    out->length = 0;
}

static void put_memory(hk_out_t *out, const char *text, size_t length) {
    if (out->total + 1 >= out->memory_size)
        return;
    size_t fits = hk_min(length, out->memory_size - 1 - out->total);
    memcpy(out->memory + out->total, text, fits);
    out->memory[out->total + fits] = '\0';
}

static void put_fd(hk_out_t *out, const char *text, size_t length) {
    while (length > 0) {
        size_t fits = hk_min(length, out->memory_size - out->length);
        memcpy(out->memory + out->length, text, fits);
        out->length += fits;
        text += fits;
        length -= fits;
        if (out->length == out->memory_size)
            hk_out_flush(out);
    }
}

static void put(hk_out_t *out, const char *text, size_t length) {
    if (out->fd < 0)
        put_memory(out, text, length);
    else
        put_fd(out, text, length);
    out->total += length;
}

static void put_spaces(hk_out_t *out, size_t count) {
    for (size_t i = 0; i < count; i++)
        put(out, " ", 1);
}

/* `text` in a field of spec->width. */
static void put_field(hk_out_t *out, const print_spec_t *spec, const char *text, size_t length) {
    size_t padding = spec->width > length ? spec->width - length : 0;
    if (!spec->left)
        put_spaces(out, padding);
    put(out, text, length);
    if (spec->left)
        put_spaces(out, padding);
}

/* `prefix` is the sign or "0x". */
static void put_number(hk_out_t *out, const print_spec_t *spec, uint64_t value, unsigned base, const char *prefix) {
    char text[PRINT_DIGITS_MAX + 2];
    char *end = text + sizeof text;
    char *start = end;
    do {
        *--start = "0123456789abcdef"[value % base];
        value /= base;
    } while (value != 0);
    size_t prefix_length = strlen(prefix);
    start -= prefix_length;
    memcpy(start, prefix, prefix_length);
    put_field(out, spec, start, (size_t)(end - start));
}

static void put_signed(hk_out_t *out, const print_spec_t *spec, int64_t value) {
    uint64_t magnitude = value < 0 ? UINT64_C(0) - (uint64_t)value : (uint64_t)value;
    put_number(out, spec, magnitude, 10, value < 0 ? "-" : "");
}

static void put_string(hk_out_t *out, const print_spec_t *spec, const char *text) {
    if (text == NULL)
        text = "(null)";
    put_field(out, spec, text, strnlen(text, spec->precision));
}

/* Reads the conversion behind a `%`; returns what follows it. */
static const char *spec_parse(const char *format, print_spec_t *spec, va_list *args) {
    *spec = (print_spec_t){.precision = SIZE_MAX};
    if (*format == '-') {
        spec->left = true;
        format++;
    }
    for (; *format >= '0' && *format <= '9'; format++)
        spec->width = spec->width * 10 + (size_t)(*format - '0');
    if (format[0] == '.' && format[1] == '*') {
        int precision = va_arg(*args, int);
        spec->precision = precision < 0 ? SIZE_MAX : (size_t)precision;
        format += 2;
    }
    for (; *format == 'l' || *format == 'z'; format++)
        spec->wide = true;
    spec->conversion = *format;
    return *format == '\0' ? format : format + 1;
}

static void put_conversion(hk_out_t *out, const print_spec_t *spec, va_list *args) {
    char character;
    switch (spec->conversion) {
    case 's':
        put_string(out, spec, va_arg(*args, const char *));
        break;
    case 'c':
        character = (char)va_arg(*args, int);
        put_field(out, spec, &character, 1);
        break;
    case 'd':
        put_signed(out, spec, spec->wide ? va_arg(*args, int64_t) : va_arg(*args, int));
        break;
    case 'u':
        put_number(out, spec, spec->wide ? va_arg(*args, uint64_t) : va_arg(*args, unsigned), 10, "");
        break;
    case 'x':
        put_number(out, spec, spec->wide ? va_arg(*args, uint64_t) : va_arg(*args, unsigned), 16, "");
        break;
    case 'p':
        put_number(out, spec, (uintptr_t)va_arg(*args, const void *), 16, "0x");
        break;
    default: /* `%%`; any other character is a bug of ours and shows itself */
        put(out, &spec->conversion, spec->conversion != '\0');
    }
}

void hk_vprint(hk_out_t *out, const char *format, va_list args) {
    va_list rest;
    va_copy(rest, args);
    while (*format != '\0') {
        size_t plain = strcspn(format, "%");
        put(out, format, plain);
        format += plain;
        if (*format == '%') {
            print_spec_t spec;
            format = spec_parse(format + 1, &spec, &rest);
            put_conversion(out, &spec, &rest);
        }
    }
    va_end(rest);
}

void hk_print(hk_out_t *out, const char *format, ...) {
    va_list args;
    va_start(args, format);
    hk_vprint(out, format, args);
    va_end(args);
}

size_t hk_vformat(char *memory, size_t memory_size, const char *format, va_list args) {
    hk_out_t out;
    hk_out_to_memory(&out, memory, memory_size);
    hk_vprint(&out, format, args);
    return out.total;
}

bool hk_path_expand(char *path, size_t size, const char *name) {
    hk_out_t out;
    hk_out_to_memory(&out, path, size);
    for (const char *mark; (mark = strstr(name, "%p")) != NULL; name = mark + 2)
        hk_print(&out, "%.*s%u", (int)(mark - name), name, sys_process_id());
    hk_print(&out, "%s", name);
    return out.total < size;
}
