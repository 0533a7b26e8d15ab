/* SPDX-License-Identifier: MIT
 *
 * Run by setuid.py with HAKMEM_* in the environment: prints what is in force. Linked statically, so that a privileged
 * start finds the allocator.
 */
#include "testing.h"

#include <sys/auxv.h>

int main(void) {
    char safe[32] = "?", verbose[32] = "?";
    free(malloc(10));
    CHECK(hak_option_get("SAFE", safe, sizeof safe) == 0);
    CHECK(hak_option_get("VERBOSE", verbose, sizeof verbose) == 0);
    test_say("secure %lu safe %s verbose %s\n", getauxval(AT_SECURE), safe, verbose);
    return TEST_PASS;
}
