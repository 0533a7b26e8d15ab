/* SPDX-License-Identifier: MIT
 *
 * fuzz.h: what the fuzz targets share. A target is a function of some bytes that ends the process by abort() when what
 * it tried went wrong: libFuzzer makes up the bytes (scripts/fuzz), and replay.c gives it those of a corpus in
 * `make test`.
 */
#ifndef HAKMEM_TEST_FUZZ_H
#define HAKMEM_TEST_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(condition)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition);                                    \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

/* The bytes that are left; behind the last, zeros. */
typedef struct fuzz_input {
    const uint8_t *at, *end;
} fuzz_input_t;

static inline uint8_t fuzz_byte(fuzz_input_t *in) { return in->at < in->end ? *in->at++ : 0; }

static inline uint32_t fuzz_number(fuzz_input_t *in, unsigned bytes) {
    uint32_t value = 0;
    for (unsigned i = 0; i < bytes; i++)
        value = value << 8 | fuzz_byte(in);
    return value;
}

/* The rest as text, cut at `size`; its length. */
static inline size_t fuzz_text(fuzz_input_t *in, char *text, size_t size) {
    size_t length = (size_t)(in->end - in->at);
    length = length < size ? length : size - 1;
    if (length > 0)
        memcpy(text, in->at, length);
    text[length] = '\0';
    in->at += length;
    return length;
}

#endif
