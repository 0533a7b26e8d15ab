/* SPDX-License-Identifier: MIT
 *
 * base64 as MEMORY_PRESSURE_WRITE has it.
 */
#include "check.h"
#include "helper/pressure.h"

int main(void) {
    unsigned char out[16];
    CHECK_EQ(base64_decode("c29tZSAyMDAwMDAgMgA=", out, sizeof out), 14);
    CHECK(memcmp(out, "some 200000 2", 14) == 0);
    CHECK_EQ(base64_decode("", out, sizeof out), 0);
    CHECK_EQ(base64_decode("QQ==", out, sizeof out), 1);
    CHECK_EQ(out[0], 'A');
    CHECK(base64_decode("Q-", out, sizeof out) == (size_t)-1);
    CHECK(base64_decode("QUFBQUFBQUFBQUFBQUFBQUFBQUE=", out, sizeof out) == (size_t)-1);
    return CHECK_PASS;
}
