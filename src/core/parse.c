/* SPDX-License-Identifier: MIT */
#include "core/parse.h"

#include <string.h>

bool hk_parse_digits(const char **text, int64_t *value) {
    const char *digit = *text;
    int64_t sum = 0;
    for (; *digit >= '0' && *digit <= '9'; digit++)
        if (__builtin_mul_overflow(sum, 10, &sum) || __builtin_add_overflow(sum, *digit - '0', &sum))
            return false;
    bool any = digit != *text;
    *text = digit;
    *value = sum;
    return any;
}

bool hk_parse_number(const char *text, int64_t *value) {
    bool negative = *text == '-';
    text += negative;
    if (!hk_parse_digits(&text, value) || *text != '\0')
        return false;
    if (negative)
        *value = -*value;
    return true;
}

bool hk_parse_size_part(const char **text, int64_t *value) {
    if (!hk_parse_digits(text, value))
        return false;
    static const char units[] = "kmgt";
    const char *at = *text;
    const char *unit = *at != '\0' ? strchr(units, hk_lower(*at)) : NULL;
    if (unit != NULL) {
        int64_t factor = INT64_C(1) << (10 * (unit - units + 1));
        if (__builtin_mul_overflow(*value, factor, value))
            return false;
        at += hk_lower(at[1]) == 'i' && hk_lower(at[2]) == 'b' ? 2 : 1;
    }
    if (hk_lower(*at) == 'b')
        at++;
    *text = at;
    return true;
}

bool hk_parse_size(const char *text, int64_t *value) { return hk_parse_size_part(&text, value) && *text == '\0'; }

void hk_print_size(hk_out_t *out, int64_t size) {
    static const char units[] = "KMGT";
    int64_t rest = size;
    size_t steps = 0;
    while (steps < strlen(units) && rest != 0 && rest % 1024 == 0) {
        rest /= 1024;
        steps++;
    }
    hk_print(out, "%ld", (long)rest);
    if (steps > 0)
        hk_print(out, "%c", units[steps - 1]);
}
