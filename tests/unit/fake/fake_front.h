/* SPDX-License-Identifier: MIT
 *
 * fake_front.h: what the fake front was asked, and whether it has memory. For C and C++.
 */
#ifndef HK_TEST_FAKE_FRONT_H
#define HK_TEST_FAKE_FRONT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fake_front {
    bool empty; /* out of memory */
    int allocs;
    int frees;
    size_t size; /* of the last call that gave one */
    size_t alignment;
    const char *verb;
} fake_front_t;

/* A function, so that program and library mean the same object whatever the linker does with data. */
fake_front_t *fake_front_get(void);
#define fake_front (*fake_front_get())

#ifdef __cplusplus
}
#endif

#endif
