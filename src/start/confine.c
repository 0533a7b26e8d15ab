/* SPDX-License-Identifier: MIT */
#include "start/confine.h"

#include "helper/helper.h"
#include "start/start.h"
#include "sys/confined.h"
#include "sys/sys.h"

/* What would need other system calls later is done now: the start, if nobody has allocated yet, and the hooks that the
 * first thread would register. */
void hk_confine(void) {
    if (sys_is_confined())
        return;
    if (heap_system_ready())
        heap_ensure_hooks();
    hk_threads_pause();
    sys_write_note_limit(sys_file_limit() == 0);
    sys_confine();
    hk_threads_resume();
    /* The thread that forks is in a passage until after the fork: a fork handler of the program would wait for its
     * own. */
    if (!helper_is_forking())
        sys_wait_for_passages();
}
