/* SPDX-License-Identifier: MIT
 *
 * A child that is forked while a thread reads the limits of the group for the first time reads them itself.
 */
#include "check.h"
#include "limit/limit.h"
#include "sys/cgroup.h"

enum { MAX_BYTES = 1 << 30 };

static unsigned readings;

sys_memory_limits_t __wrap_sys_cgroup_limits(const char *membership, const char *root);

static void in_the_child(void) {
    CHECK_EQ(readings, 1);
    CHECK(!limit_has_looked());
    CHECK(limit_look(0) && limit_has_looked());
    CHECK_EQ(readings, 2);
    CHECK(limit_in_force().hard < SIZE_MAX);
    _exit(CHECK_PASS);
}

/* In place of sys_cgroup_limits. The child goes on as one of another thread does, in which nobody ends this reading. */
sys_memory_limits_t __wrap_sys_cgroup_limits(const char *membership, const char *root) {
    CHECK(membership != NULL && root != NULL);
    if (++readings == 1) {
        int status = 1;
        pid_t child = fork();
        if (child == 0)
            in_the_child();
        CHECK(child > 0 && waitpid(child, &status, 0) == child);
        CHECK_EQ(status, 0);
    }
    return (sys_memory_limits_t){.high = UINT64_MAX, .max = MAX_BYTES, .known = true};
}

int main(void) {
    CHECK(!limit_has_looked());
    CHECK(limit_look(0) && limit_has_looked());
    CHECK(limit_look(0));
    CHECK_EQ(readings, 1);
    CHECK(limit_in_force().hard < SIZE_MAX);
    return CHECK_PASS;
}
