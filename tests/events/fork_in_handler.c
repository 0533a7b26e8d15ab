/* SPDX-License-Identifier: MIT
 *
 * A signal handler forks in a process of one thread, whatever it has interrupted: malloc, free or fork itself. Neither
 * process may hang, nor may a child that allocates there and ends. The process is of one thread after each fork, by the
 * kernel's count, and what it had freed is back with the system. The handler's stack may have SIGSTKSZ bytes, as that
 * was for long. Nor does it matter which other threads of hakmem's there are: the watcher of memory pressure, which
 * gives memory back meanwhile, or the one that takes orders; or that the process is confined, or that
 * the main thread has left.
 *
 *   fork_in_handler [watched|control|confined|left]
 */
#include "testing.h"

#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum {
    BLOCKS = 2000,
    FORKS = 400,
    LARGE = 64,
    STACK_BYTES = 8 * 1024, /* SIGSTKSZ before glibc 2.34, */
    STACK_MIN = 4608, /* ... and what the kernel's frame leaves of it with AVX-512: where that is larger, so much */
    CLOSED_BYTES = 64 * 1024,
};

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

static volatile sig_atomic_t forked;
static char *blocks[BLOCKS];
static timer_t timer;

static void replace_some(uint64_t *random, size_t max) {
    for (unsigned i = 0; i < 200; i++) {
        size_t at = test_random_below(random, BLOCKS);
        free(blocks[at]);
        blocks[at] = malloc(1 + test_random_below(random, max));
        CHECK(blocks[at] != NULL);
        blocks[at][0] = 1;
    }
}

/* The block that the interrupted call is at may be freed or none yet: the child leaves the parent's alone. */
static void allocate_in_child(void) {
    uint64_t random = 3;
    memset(blocks, 0, sizeof blocks);
    for (unsigned i = 0; i < 5; i++)
        replace_some(&random, i % 2 == 0 ? 5000 : 500000);
}

static void fork_once(void) {
    pid_t pid = fork();
    if (pid == 0) {
        test_alarm(60);
        if (forked % 2 == 0)
            allocate_in_child();
        _exit(0);
    }
    int status = 1;
    CHECK(pid > 0);
    while (waitpid(pid, &status, 0) < 0)
        CHECK(errno == EINTR);
    CHECK_SAY(status == 0, "status %d", status);
}

static void on_alarm(int signal_number) {
    int saved = errno;
    (void)signal_number;
    fork_once();
    forked = forked + 1;
    errno = saved;
}

static void arm(uint64_t *random) {
    struct itimerspec soon = {{0, 0}, {0, 1000 + (long)test_random_below(random, 60000)}};
    CHECK(timer_settime(timer, 0, &soon, NULL) == 0);
}

/* The child of a handler's fork goes on where malloc or free was, and allocates. */
static void child_goes_on(uint64_t *random) {
    pid_t parent = getpid();
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        for (unsigned i = 0; i < 20; i++)
            replace_some(random, 100000);
        CHECK_HEAP();
        _exit(TEST_PASS);
    }
    int status = 1;
    CHECK(getpid() == parent);
    while (waitpid(pid, &status, 0) < 0)
        CHECK(errno == EINTR);
    CHECK(status == 0);
}

static void interrupted_malloc(uint64_t *random, size_t max, int forks) {
    forked = 0;
    while (forked < forks) {
        arm(random);
        replace_some(random, max);
    }
    child_goes_on(random);
}

static void interrupted_fork(uint64_t *random) {
    forked = 0;
    for (unsigned i = 0; i < FORKS; i++) {
        replace_some(random, 20000);
        arm(random);
        fork_once();
    }
    test_say("%d forks interrupted or just not\n", (int)forked);
}

static void alone_after_fork(long threads_max) {
    static char *large[LARGE];
    for (unsigned i = 0; i < LARGE; i++) {
        large[i] = malloc(TEST_MIB);
        CHECK(large[i] != NULL);
        memset(large[i], 1, TEST_MIB);
    }
    long full = test_rss_kib();
    for (unsigned i = 0; i < LARGE; i++)
        free(large[i]);
    fork_once();
    long threads = test_status_kib("Threads:"), after = test_rss_kib();
    test_say("%ld KiB resident before all was freed, %ld after the fork, %ld threads\n", full, after, threads);
    CHECK(threads <= threads_max);
    CHECK(full - after >= (long)(LARGE - 8) * 1024);
}

static void fork_here(int signal_number) {
    (void)signal_number;
    fork_once();
}

/* With free slots, and with pages free inside slabs, which go back before the fork. */
static void on_a_small_stack(void) {
    size_t frame = getauxval(AT_MINSIGSTKSZ), size = STACK_BYTES;
    if (frame + STACK_MIN > size)
        size = frame + STACK_MIN;
    char *area = test_pages(CLOSED_BYTES + size);
    CHECK(mprotect(area, CLOSED_BYTES, PROT_NONE) == 0);
    stack_t stack = {.ss_sp = area + CLOSED_BYTES, .ss_size = size}, none = {.ss_flags = SS_DISABLE};
    CHECK(sigaltstack(&stack, NULL) == 0);
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = fork_here;
    action.sa_flags = SA_ONSTACK;
    CHECK(sigaction(SIGUSR2, &action, NULL) == 0);
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(3000);
        CHECK(blocks[i] != NULL);
        memset(blocks[i], 1, 3000);
    }
    for (unsigned i = 0; i < BLOCKS; i++)
        if (i % 8 != 0) {
            free(blocks[i]);
            blocks[i] = NULL;
        }
    raise(SIGUSR2);
    CHECK(sigaltstack(&none, NULL) == 0);
}

/* Once more, with the variable that `kind` is about. */
static int begin_again(char *program, const char *kind) {
    static char path[64];
    bool watched = strcmp(kind, "watched") == 0;
    snprintf(path, sizeof path, "/tmp/hakmem-fork-in-handler-%d", (int)getpid());
    CHECK(!watched || mkfifo(path, 0600) == 0);
    setenv(watched ? "MEMORY_PRESSURE_WATCH" : "HAKMEM_CONTROL", path, 1);
    execl("/proc/self/exe", program, kind, path, (char *)NULL);
    return TEST_FAIL;
}

/* It comes with allocations, once the heap has been large. A fork ends the helper: what is left is the other one. */
static void until_it_is_there(uint64_t *random) {
    alone_after_fork(2);
    for (test_wait_t wait = test_wait_for(10000); test_status_kib("Threads:") != 2; fork_once()) {
        for (unsigned i = 0; i < 20; i++)
            replace_some(random, 20000);
        CHECK_SAY(test_wait_more(&wait), "%s", "no thread besides the program's own");
    }
}

/* `end`: where pressure is told by writing; -1: nowhere. */
static void beside_ours(int end) {
    uint64_t random = 7;
    until_it_is_there(&random);
    for (unsigned i = 0; i < 10; i++) {
        CHECK(end < 0 || write(end, "!", 1) == 1);
        interrupted_malloc(&random, 20000, FORKS / 20);
    }
    CHECK_HEAP();
}

static void handle_signals(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_alarm;
    action.sa_flags = SA_RESTART;
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    struct sigevent event;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGUSR1;
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
}

static int confined(void) {
    uint64_t random = 13;
    test_alarm(30);
    handle_signals();
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    interrupted_fork(&random);
    CHECK_HEAP();
    return TEST_PASS;
}

static void *is_left(void *main_thread) {
    uint64_t random = 17;
    CHECK(pthread_join(*(pthread_t *)main_thread, NULL) == 0);
    interrupted_malloc(&random, 20000, FORKS / 4);
    CHECK_HEAP();
    exit(TEST_PASS);
}

static void leave(void) {
    handle_signals();
    static pthread_t self;
    self = pthread_self();
    (void)test_thread(is_left, &self);
    pthread_exit(NULL);
}

/* In a child, as a thread that waits for itself in a fork holds back what would end it. */
static int left(void) {
    pid_t child = fork();
    if (child == 0)
        leave();
    int status = 1;
    for (test_wait_t wait = test_wait_for(30000); waitpid(child, &status, WNOHANG) == 0 && test_wait_more(&wait);)
        ;
    (void)kill(child, SIGKILL);
    CHECK_SAY(status == 0, "status %d", status);
    return TEST_PASS;
}

int main(int argc, char **argv) {
    test_require_hakmem();
    if (argc == 2 && strcmp(argv[1], "confined") == 0)
        return confined();
    if (argc == 2 && strcmp(argv[1], "left") == 0)
        return left();
    if (argc == 2)
        return begin_again(argv[0], argv[1]);
    test_alarm(100);
    handle_signals();
    if (argc == 3) {
        bool watched = strcmp(argv[1], "watched") == 0;
        beside_ours(watched ? open(argv[2], O_RDWR | O_NONBLOCK) : -1);
        CHECK(unlink(argv[2]) == 0);
        return TEST_PASS;
    }
    uint64_t random = 11;
    alone_after_fork(1);
    forked = 1; /* its child allocates nothing */
    on_a_small_stack();
    interrupted_malloc(&random, 20000, FORKS);
    interrupted_malloc(&random, 100000, FORKS);
    interrupted_fork(&random);
    CHECK_HEAP();
    return TEST_PASS;
}
