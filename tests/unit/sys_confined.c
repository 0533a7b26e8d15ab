/* SPDX-License-Identifier: MIT
 *
 * A confined process opens nothing, does not ask what is resident, starts no thread, and gives pages back range by
 * range; nor does it close what it has open, or ask who it is. Who confines it waits until no other thread has a file
 * open; not for ever, when it is the thread itself that has.
 */
#include "check.h"
#include "sys/confined.h"
#include "sys/sys.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum { RANGES = 3, READING_MS = 50 };

static _Atomic int reading;

static void run_nothing(void) {}

static void *reads(void *unused) {
    long fd = sys_open_read("/proc/self/statm");
    CHECK(fd >= 0);
    atomic_store(&reading, 1);
    usleep(READING_MS * 1000);
    atomic_store(&reading, 2);
    sys_close_read(fd);
    return unused;
}

static void confine_beside_a_reader(void) {
    pthread_t reader;
    CHECK(pthread_create(&reader, NULL, reads, NULL) == 0);
    while (atomic_load(&reading) == 0)
        usleep(100);
    sys_confine();
    CHECK(sys_is_confined());
    sys_wait_for_passages();
    CHECK_EQ(atomic_load(&reading), 2);
    CHECK(pthread_join(reader, NULL) == 0);
    CHECK_EQ(atomic_load(&hk_passages), 0);
}

static void confine_within_a_passage(void) {
    alarm(20);
    CHECK(sys_passage_begin());
    sys_confine();
    sys_wait_for_passages();
    CHECK(!sys_passage_begin());
    sys_passage_end();
    CHECK_EQ(atomic_load(&hk_passages), 0);
}

#define KILLED(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL)

static void calls_that_are_not_made(void) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        KILLED(getpid),
        KILLED(gettid),
        KILLED(getrandom),
        KILLED(close),
        KILLED(fcntl),
        KILLED(tgkill),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog filter = {sizeof rules / sizeof rules[0], rules};
    unsigned char bytes[16];
    const unsigned process = sys_process_id();
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
        return; /* no filters here */
    CHECK_EQ(sys_process_id_unless_confined() + sys_thread_id_unless_confined(), 0);
    CHECK(!sys_thread_is_gone(process) && !sys_thread_is_gone(0));
    CHECK(!sys_is_data(STDOUT_FILENO));
    sys_random(bytes, sizeof bytes);
    sys_close(STDIN_FILENO);
    _exit(CHECK_PASS); /* not by libc's way */
}

int main(void) {
    size_t page = sys_page_size();
    unsigned char flags[1];
    char *at = sys_map(2 * RANGES * page);
    sys_helper_t thread = {0};
    CHECK(at != NULL && !sys_is_confined());
    memset(at, 1, 2 * RANGES * page);
    CHECK_EQ(sys_resident(at, page, flags), 0);

    char text[256];
    CHECK_EQ(check_child(confine_within_a_passage, 2, text, sizeof text), 0);
    confine_beside_a_reader();
    CHECK_EQ(sys_open_read("/proc/self/maps"), -EPERM);
    CHECK_EQ(sys_anonymous_bytes(), 0);
    CHECK_EQ(sys_resident(at, page, flags), EPERM);
    CHECK_EQ(sys_helper_start(run_nothing, &thread), EPERM);
    CHECK(!sys_helper_is_alive(&thread) && !sys_helper_is_here(&thread) && sys_helper_wait(&thread));

    CHECK_EQ(check_child(calls_that_are_not_made, 2, text, sizeof text), 0);

    sys_range_t ranges[RANGES];
    for (size_t i = 0; i < RANGES; i++)
        ranges[i] = (sys_range_t){at + 2 * i * page, page};
    CHECK_EQ(sys_purge_many(ranges, RANGES), RANGES);
    for (size_t i = 0; i < 2 * RANGES; i++)
        CHECK_EQ(at[i * page], i % 2);
    return CHECK_PASS;
}
