/* SPDX-License-Identifier: MIT
 *
 * A confined process opens nothing, does not ask what is resident, starts no thread, and gives pages back range by range.
 */
#include "check.h"
#include "sys/confined.h"
#include "sys/sys.h"

enum { STACK_BYTES = 64 * 1024, RANGES = 3 };

static void run_nothing(void *unused) { (void)unused; }

int main(void) {
    size_t page = sys_page_size();
    unsigned char flags[1];
    char *at = sys_map(2 * RANGES * page), *stack = sys_map(STACK_BYTES);
    sys_helper_t thread = {0};
    CHECK(at != NULL && stack != NULL && !sys_is_confined());
    memset(at, 1, 2 * RANGES * page);
    CHECK_EQ(sys_resident(at, page, flags), 0);

    sys_confine();
    CHECK(sys_is_confined());
    CHECK_EQ(sys_open_read("/proc/self/maps"), -EPERM);
    CHECK_EQ(sys_anonymous_bytes(), 0);
    CHECK_EQ(sys_resident(at, page, flags), EPERM);
    CHECK_EQ(sys_helper_start(run_nothing, NULL, stack, STACK_BYTES, &thread), EPERM);
    CHECK(!sys_helper_is_alive(&thread) && !sys_helper_is_here(&thread) && sys_helper_wait(&thread));

    sys_range_t ranges[RANGES];
    for (size_t i = 0; i < RANGES; i++)
        ranges[i] = (sys_range_t){at + 2 * i * page, page};
    CHECK_EQ(sys_purge_many(ranges, RANGES), RANGES);
    for (size_t i = 0; i < 2 * RANGES; i++)
        CHECK_EQ(at[i * page], i % 2);
    return CHECK_PASS;
}
