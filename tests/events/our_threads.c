/* SPDX-License-Identifier: MIT
 *
 * What the threads of ours, the helper and the one that watches memory pressure, have of the process: no right that the
 * program has given up, no directory of their own, and not the scheduling of the thread that happened to start them.
 *
 *   our_threads libc|raw     the program gives up its rights by libc's calls, or by system calls in each of its threads
 *                            (root)
 *   our_threads filter_allow, filter_docker      the same in a process that was started under a filter that allows it
 *                                                (root)
 *   our_threads filter_kill, filter_errno        under one that does not: within seconds (root)
 *   our_threads filter_user                      under one that kills, in a process without rights
 *   our_threads filter_namespace                 under one, in a program that has made a pid namespace for its children
 *                                                (root)
 *   our_threads choice       the program may still choose among its ids, but not give up one for good: there are none
 *                            (root)
 *   our_threads one          in a user namespace of one user
 *   our_threads ordinary     a process without rights: its user may trace it, as before
 *   our_threads places       chdir and chroot concern them, and what was the working directory can be unmounted
 *   our_threads scheduling   started by a thread of another policy, nice value and processor
 */
#include "testing.h"

#include <dirent.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { BLOCKS = 60000, WAIT_MS = 10000, OURS = 2, USER = 54321, TASKS_MAX = 16, NICE = 5 };

static char place[] = "/tmp/hakmem-threads-XXXXXX";

/* --- Threads, from /proc ------------------------------------------------------------------------------------------ */

static void free_much(void) {
    static void *blocks[BLOCKS];
    for (unsigned i = 0; i < BLOCKS; i++)
        blocks[i] = memset(malloc(1000), 1, 1000);
    for (unsigned i = 0; i < BLOCKS; i++)
        free(blocks[i]);
}

/* One line of a file of a thread; empty when there is none. */
static void line_of(long task, const char *file, const char *name, char *line, size_t size) {
    char path[64], text[8192] = "";
    snprintf(path, sizeof path, "/proc/self/task/%ld/%s", task, file);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[length > 0 ? length : 0] = 0;
    const char *found = strstr(text, name), *end = found != NULL ? strchrnul(found, '\n') : NULL;
    snprintf(line, size, "%.*s", found != NULL ? (int)(end - found) : 0, found != NULL ? found : "");
}

static bool is_ours(long task) {
    char name[32];
    line_of(task, "comm", "", name, sizeof name);
    return strcmp(name, "hakmem") == 0;
}

/* The threads of the process, or ours alone; their number. */
static unsigned tasks_now(long tasks[TASKS_MAX], bool ours) {
    DIR *directory = opendir("/proc/self/task");
    CHECK(directory != NULL);
    unsigned count = 0;
    for (struct dirent *entry; (entry = readdir(directory)) != NULL && count < TASKS_MAX;) {
        long task = atol(entry->d_name);
        if (task > 0 && (!ours || is_ours(task)))
            tasks[count++] = task;
    }
    closedir(directory);
    return count;
}

/* The helper leaves when it has nothing to do, and comes back. */
static void wait_for_ours(long tasks[TASKS_MAX], unsigned wanted) {
    unsigned count = 0;
    for (uint64_t end = test_now_ns() + WAIT_MS * UINT64_C(1000000); count != wanted && test_now_ns() < end;) {
        free_much();
        test_sleep_us(2000);
        count = tasks_now(tasks, true);
    }
    CHECK_SAY(count == wanted, "%u threads of ours, %u expected", count, wanted);
}

static void wait_until_helper_is_gone(void) {
    long tasks[TASKS_MAX];
    for (unsigned i = 0; i < WAIT_MS / 10 && tasks_now(tasks, true) == OURS; i++)
        test_sleep_us(10000);
    CHECK(tasks_now(tasks, true) < OURS);
}

/* --- Rights ------------------------------------------------------------------------------------------------------- */

static const char *const capability_lines[] = {"CapInh:", "CapPrm:", "CapEff:", "CapAmb:"};

static bool has_capabilities(long task) {
    char line[128];
    bool has = false;
    for (unsigned i = 0; i < sizeof capability_lines / sizeof capability_lines[0]; i++) {
        line_of(task, "status", capability_lines[i], line, sizeof line);
        has |= line[0] != 0 && strtoull(line + 7, NULL, 16) != 0;
    }
    return has;
}

/* All four ids of a line are `id`. A thread that is gone by now has what is asked for. */
static bool ids_are(long task, const char *name, unsigned id) {
    char line[128];
    unsigned ids[4] = {0};
    line_of(task, "status", name, line, sizeof line);
    return sscanf(line + strcspn(line, "\t"), "%u %u %u %u", &ids[0], &ids[1], &ids[2], &ids[3]) != 4 ||
           (ids[0] == id && ids[1] == id && ids[2] == id && ids[3] == id);
}

static bool has_groups(long task) {
    char line[1024];
    line_of(task, "status", "Groups:", line, sizeof line);
    return strpbrk(line, "0123456789") != NULL;
}

static void say_rights(long task) {
    static const char *const names[] = {"Name:", "Uid:", "Gid:", "Groups:", "CapPrm:"};
    char line[1024];
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        line_of(task, "status", names[i], line, sizeof line);
        test_say("%ld %s\n", task, line);
    }
}

static bool is_gone(long task) {
    char line[64];
    line_of(task, "status", "Name:", line, sizeof line);
    return line[0] == 0;
}

/* A thread with no more than the rights that an ordinary user has; one that is gone has none. */
static bool is_harmless(long task) {
    return (!has_capabilities(task) && !has_groups(task) && !ids_are(task, "Uid:", 0) && !ids_are(task, "Gid:", 0)) ||
           is_gone(task);
}

static void check_ours_are_harmless(void) {
    long tasks[TASKS_MAX];
    wait_for_ours(tasks, OURS);
    for (unsigned i = 0; i < OURS; i++) {
        char line[64];
        line_of(tasks[i], "status", "NoNewPrivs:", line, sizeof line);
        bool good = is_harmless(tasks[i]) && (line[0] == 0 || strtol(line + 11, NULL, 10) == 1);
        if (!good)
            say_rights(tasks[i]);
        CHECK(good);
    }
}

static bool all_are_harmless(bool say) {
    long tasks[TASKS_MAX];
    unsigned count = tasks_now(tasks, false), bad = 0;
    for (unsigned i = 0; i < count; i++) {
        bool good = is_harmless(tasks[i]);
        bad += !good;
        if (!good && say)
            say_rights(tasks[i]);
    }
    return bad == 0;
}

/* By libc's calls, which know of all threads but ours; by the kernel's, which are for the calling thread alone. */
static void give_up_here(void) {
    CHECK(syscall(SYS_setgroups, 0, NULL) == 0 && syscall(SYS_setresgid, USER, USER, USER) == 0 &&
          syscall(SYS_setresuid, USER, USER, USER) == 0);
}

static void give_up(void) {
    CHECK(setgroups(0, NULL) == 0 && setresgid(USER, USER, USER) == 0 && setresuid(USER, USER, USER) == 0);
}

/* Where the calls above are forbidden. */
static void give_up_by_others(void) { CHECK(setgroups(0, NULL) == 0 && setgid(USER) == 0 && setuid(USER) == 0); }

static _Atomic int step;

static void await(int wanted) {
    while (atomic_load(&step) != wanted)
        test_sleep_us(1000);
}

static void *another_thread(void *raw) {
    free(malloc(100));
    await(1);
    if (raw != NULL)
        give_up_here();
    atomic_store(&step, 2);
    await(3);
    return NULL;
}

static void rights(bool raw) {
    pthread_t other = test_thread(another_thread, raw ? &step : NULL);
    struct stat self;
    check_ours_are_harmless();
    CHECK(prctl(PR_GET_DUMPABLE) == 1 && stat("/proc/self", &self) == 0 && self.st_uid == 0);
    if (raw)
        give_up_here();
    atomic_store(&step, 1);
    await(2);
    if (!raw)
        give_up();
    CHECK(all_are_harmless(true));
    /* What the kernel made of a process that was root stays so. */
    int dumpable = prctl(PR_GET_DUMPABLE);
    CHECK(dumpable != 1);
    wait_until_helper_is_gone();
    long tasks[TASKS_MAX];
    wait_for_ours(tasks, OURS);
    CHECK(all_are_harmless(true) && (ids_are(tasks[0], "Uid:", USER) || ids_are(tasks[1], "Uid:", USER)));
    CHECK(prctl(PR_GET_DUMPABLE) == dumpable);
    atomic_store(&step, 3);
    test_join(other);
}

/* --- Under a filter ----------------------------------------------------------------------------------------------- */

static _Atomic int children_ended;

static void on_child(int number) {
    (void)number;
    atomic_fetch_add(&children_ended, 1);
}

/* What asks the filter is not seen by the program. */
static void check_no_child_was_seen(void) {
    errno = 0;
    CHECK(wait(NULL) == -1 && errno == ECHILD && atomic_load(&children_ended) == 0);
}

static void filter_allows(void) {
    CHECK(signal(SIGCHLD, on_child) != SIG_ERR);
    rights(false);
    check_no_child_was_seen();
}

/* The calls by which threads of ours would give up rights are not to be had; the program has others. */
static void filter_refuses(void) {
    long tasks[TASKS_MAX];
    CHECK(signal(SIGCHLD, on_child) != SIG_ERR);
    wait_for_ours(tasks, OURS);
    check_no_child_was_seen();
    give_up_by_others();
    for (unsigned i = 0; i < WAIT_MS / 10 && !all_are_harmless(false); i++)
        test_sleep_us(10000);
    CHECK(all_are_harmless(true));
    free_much();
    wait_for_ours(tasks, OURS);
    CHECK(all_are_harmless(true));
}

/* The first child is the init of the namespace: with its end nobody else can be born there. */
static void filter_namespace(void) {
    if (syscall(SYS_unshare, CLONE_NEWPID) != 0)
        test_skip("no pid namespaces here");
    for (unsigned i = 0; i < 5; i++, test_sleep_us(100000))
        free_much();
    int status = 0;
    pid_t first = fork();
    CHECK(first >= 0);
    if (first == 0)
        _exit(getpid() == 1 ? TEST_PASS : TEST_FAIL);
    CHECK(waitpid(first, &status, 0) == first && WIFEXITED(status) && WEXITSTATUS(status) == TEST_PASS);
}

/* --- A process without rights ------------------------------------------------------------------------------------- */

static void trace_all(pid_t pid, const long *tasks, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        if (ptrace(PTRACE_SEIZE, (pid_t)tasks[i], NULL, NULL) == 0)
            continue;
        if (tasks[i] == pid)
            _exit(TEST_SKIP); /* nobody may trace here */
        CHECK_SAY(errno == ESRCH, "thread %ld cannot be traced: errno %d", tasks[i], errno);
    }
    CHECK(kill(pid, 0) == 0);
    _exit(TEST_PASS);
}

static void ordinary(void) {
    if (geteuid() == 0)
        give_up_by_others();
    (void)prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    CHECK(prctl(PR_SET_DUMPABLE, 1) == 0);
    long tasks[TASKS_MAX], all[TASKS_MAX];
    wait_for_ours(tasks, OURS);
    for (unsigned i = 0; i < OURS; i++)
        CHECK(!has_capabilities(tasks[i]) && ids_are(tasks[i], "Uid:", geteuid()) &&
              ids_are(tasks[i], "Gid:", getegid()));
    CHECK(prctl(PR_GET_DUMPABLE) == 1);
    unsigned count = tasks_now(all, false);
    int status = 0;
    pid_t tracer = fork();
    CHECK(tracer >= 0);
    if (tracer == 0)
        trace_all(getppid(), all, count);
    CHECK(waitpid(tracer, &status, 0) == tracer && WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == TEST_PASS || WEXITSTATUS(status) == TEST_SKIP);
}

/* One that is born just now leaves at once. */
static void choice(void) {
    long tasks[TASKS_MAX];
    CHECK(setgroups(0, NULL) == 0 && setresgid(USER, USER, USER) == 0 && setresuid(USER, USER + 1, USER + 1) == 0);
    for (unsigned i = 0; i < 5; i++) {
        free_much();
        test_sleep_us(300000);
        CHECK(tasks_now(tasks, true) == 0);
    }
}

static void write_to(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && close(fd) == 0);
}

/* Nobody there can become anybody else: so they live, without capabilities. */
static void one_user(void) {
    char user[32], group[32];
    snprintf(user, sizeof user, "0 %u 1\n", (unsigned)geteuid());
    snprintf(group, sizeof group, "0 %u 1\n", (unsigned)getegid());
    if (unshare(CLONE_NEWUSER) != 0)
        test_skip("user namespaces are not permitted");
    write_to("/proc/self/uid_map", user);
    write_to("/proc/self/setgroups", "deny");
    write_to("/proc/self/gid_map", group);
    CHECK(geteuid() == 0 && getegid() == 0);
    long tasks[TASKS_MAX];
    wait_for_ours(tasks, OURS);
    for (unsigned i = 0; i < OURS; i++)
        CHECK(!has_capabilities(tasks[i]));
}

/* --- Places ------------------------------------------------------------------------------------------------------- */

static void link_of(int proc, long task, const char *name, char *to, size_t size) {
    char path[64];
    snprintf(path, sizeof path, "self/task/%ld/%s", task, name);
    ssize_t length = readlinkat(proc, path, to, size - 1);
    to[length > 0 ? length : 0] = 0;
}

/* "" : the thread is gone by now. */
static void check_all_are_at(int proc, const long *tasks, const char *name, const char *where) {
    for (unsigned i = 0; i < OURS; i++) {
        char is[256];
        link_of(proc, tasks[i], name, is, sizeof is);
        CHECK_SAY(is[0] == 0 || strcmp(is, where) == 0, "%s of a thread of ours is %s, not %s", name, is, where);
    }
}

/* By its inode: a path would be as seen from the new root. */
static void check_all_have_our_root(int proc, const long *tasks) {
    struct stat ours, its;
    CHECK(stat("/", &ours) == 0);
    for (unsigned i = 0; i < OURS; i++) {
        char path[64];
        snprintf(path, sizeof path, "self/task/%ld/root", tasks[i]);
        CHECK(fstatat(proc, path, &its, 0) != 0 || (its.st_ino == ours.st_ino && its.st_dev == ours.st_dev));
    }
}

static void places(void) {
    int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    long tasks[TASKS_MAX];
    char folder[64];
    snprintf(folder, sizeof folder, "%s/folder", place);
    CHECK(mkdir(folder, 0755) == 0);
    bool mounted = unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
                   mount("tmpfs", folder, "tmpfs", 0, "size=1m") == 0;
    CHECK(proc >= 0 && chdir(folder) == 0);
    wait_for_ours(tasks, OURS);
    check_all_are_at(proc, tasks, "cwd", folder);
    CHECK(chdir("/") == 0);
    check_all_are_at(proc, tasks, "cwd", "/");
    if (mounted)
        CHECK(umount(folder) == 0);
    if (chroot(folder) == 0)
        check_all_have_our_root(proc, tasks);
}

/* --- Scheduling --------------------------------------------------------------------------------------------------- */

static cpu_set_t of_main;

static void take_a_place_of_its_own(void) {
    const struct sched_param first = {.sched_priority = 1}, none = {0};
    cpu_set_t one;
    CPU_ZERO(&one);
    for (size_t cpu = CPU_SETSIZE; cpu-- > 0 && CPU_COUNT(&one) == 0;)
        if (CPU_ISSET(cpu, &of_main))
            CPU_SET(cpu, &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
    CHECK(setpriority(PRIO_PROCESS, (id_t)gettid(), NICE) == 0);
    if (sched_setscheduler(0, SCHED_FIFO, &first) != 0)
        CHECK(sched_setscheduler(0, SCHED_BATCH, &none) == 0);
}

static bool is_like_main(long task) {
    cpu_set_t its;
    errno = 0;
    bool has_nice = getpriority(PRIO_PROCESS, (id_t)task) == getpriority(PRIO_PROCESS, 0) || geteuid() != 0;
    return has_nice && sched_getscheduler((pid_t)task) == SCHED_OTHER &&
           sched_getaffinity((pid_t)task, sizeof its, &its) == 0 && CPU_EQUAL(&its, &of_main);
}

static void *starts_ours(void *unused) {
    take_a_place_of_its_own();
    free_much();
    atomic_store(&step, 1);
    await(2);
    return unused;
}

/* One that is gone when it is looked at is started again. */
static void scheduling(void) {
    CHECK(sched_getaffinity(0, sizeof of_main, &of_main) == 0);
    uint64_t end = test_now_ns() + WAIT_MS * UINT64_C(1000000);
    bool seen = false;
    while (!seen && test_now_ns() < end) {
        long tasks[TASKS_MAX];
        atomic_store(&step, 0);
        pthread_t other = test_thread(starts_ours, NULL);
        await(1);
        for (unsigned i = 0; i < 50 && !seen; i++, test_sleep_us(1000))
            seen = tasks_now(tasks, true) == OURS && is_like_main(tasks[0]) && is_like_main(tasks[1]);
        atomic_store(&step, 2);
        test_join(other);
        test_sleep_us(100000);
    }
    CHECK(seen);
}

/* --- Start -------------------------------------------------------------------------------------------------------- */

#define ANSWER(call, answer) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), BPF_STMT(BPF_RET | BPF_K, answer)
#define FILTER(...)                                                                                                    \
    static struct sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),         \
                                        __VA_ARGS__ BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};                     \
    return (struct sock_fprog) { sizeof code / sizeof code[0], code }

enum { REFUSE = SECCOMP_RET_ERRNO | EPERM, UNKNOWN = SECCOMP_RET_ERRNO | ENOSYS };

static struct sock_fprog filter_of(const char *kind) {
    if (strcmp(kind, "filter_allow") == 0) {
        FILTER();
    } else if (strcmp(kind, "filter_docker") == 0 || strcmp(kind, "filter_namespace") == 0) {
        FILTER(ANSWER(mount, REFUSE), ANSWER(umount2, REFUSE), ANSWER(setns, REFUSE), ANSWER(ptrace, REFUSE),
               ANSWER(bpf, REFUSE), ANSWER(keyctl, REFUSE), ANSWER(clone3, UNKNOWN), );
    } else if (strcmp(kind, "filter_errno") == 0) {
        FILTER(ANSWER(capset, REFUSE), ANSWER(setresuid, REFUSE), ANSWER(setresgid, REFUSE), );
    } else {
        FILTER(ANSWER(mincore, SECCOMP_RET_KILL_PROCESS), ANSWER(capset, SECCOMP_RET_KILL_PROCESS),
               ANSWER(setresuid, SECCOMP_RET_KILL_PROCESS), ANSWER(setresgid, SECCOMP_RET_KILL_PROCESS), );
    }
}

static void install_filter(const char *kind) {
    struct sock_fprog program = filter_of(kind);
    if (geteuid() != 0)
        CHECK(syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0)
        test_skip("no filters here");
}

/* The watcher is there only where MEMORY_PRESSURE_WATCH is set at the start. */
static void start_again(char **argv) {
    char path[64];
    CHECK(mkdtemp(place) != NULL && chmod(place, 0777) == 0);
    snprintf(path, sizeof path, "%s/pipe", place);
    CHECK(mkfifo(path, 0666) == 0 && chmod(path, 0666) == 0 && setenv("MEMORY_PRESSURE_WATCH", path, 1) == 0);
    if (strncmp(argv[1], "filter_", 7) == 0)
        install_filter(argv[1]);
    execl("/proc/self/exe", argv[0], argv[1], place, (char *)NULL);
    CHECK(false);
}

static void run(const char *kind) {
    if (strcmp(kind, "libc") == 0 || strcmp(kind, "raw") == 0)
        rights(strcmp(kind, "raw") == 0);
    else if (strcmp(kind, "filter_allow") == 0 || strcmp(kind, "filter_docker") == 0)
        filter_allows();
    else if (strcmp(kind, "filter_kill") == 0 || strcmp(kind, "filter_errno") == 0)
        filter_refuses();
    else if (strcmp(kind, "filter_namespace") == 0)
        filter_namespace();
    else if (strcmp(kind, "choice") == 0)
        choice();
    else if (strcmp(kind, "ordinary") == 0 || strcmp(kind, "filter_user") == 0)
        ordinary();
    else if (strcmp(kind, "one") == 0)
        one_user();
    else if (strcmp(kind, "places") == 0)
        places();
    else
        scheduling();
}

int main(int argc, char **argv) {
    CHECK(argc >= 2);
    test_require_hakmem();
    bool needs_root = strstr("libc raw choice", argv[1]) != NULL ||
                      (strncmp(argv[1], "filter_", 7) == 0 && strcmp(argv[1], "filter_user") != 0);
    if (needs_root && (geteuid() != 0 || setgroups(1, (const gid_t[]){5}) != 0))
        test_skip("the test needs root");
    if (argc == 2)
        start_again(argv);
    memcpy(place, argv[2], sizeof place);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        test_alarm(60);
        run(argv[1]);
        CHECK_HEAP();
        _exit(TEST_PASS);
    }
    int status = 0;
    CHECK(waitpid(pid, &status, 0) == pid);
    char folder[64];
    snprintf(folder, sizeof folder, "%s/folder", place);
    (void)rmdir(folder);
    unlink(getenv("MEMORY_PRESSURE_WATCH"));
    CHECK(rmdir(place) == 0 && WIFEXITED(status));
    return WEXITSTATUS(status);
}
