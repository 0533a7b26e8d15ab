/* SPDX-License-Identifier: MIT
 *
 * The library of place.py: free_twice_in_library makes a double free.
 */
#include "testing.h"

void free_twice_in_library(void);

void free_twice_in_library(void) {
    void *p = malloc(64);
    free(p);
    free(test_opaque(p));
    test_say("survived\n");
}
