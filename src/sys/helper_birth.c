/* SPDX-License-Identifier: MIT */
#include "sys/helper_birth.h"

#include "sys/confined.h"
#include "sys/kernel.h"
#include "sys/file.h"
#include "sys/futex.h"
#include "sys/process.h"
#include "sys/raw_call.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum {
    STATUS_MAX = 4096,
    MAP_TEXT_MAX = 4096,  /* of uid_map: some 120 ranges */
    CPU_MASK_BYTES = 512, /* 4,096 processors */
    NICE_OFFSET = 20,     /* the system call answers 20 - nice value */
    NO_DUMP = 0,
    DUMP_BY_ALL = 1, /* prctl(2), PR_SET_DUMPABLE; 2 can only be read */
};

/* What a child has found, by its exit status. */
typedef enum trial { ALL_ALLOWED, SOME_REFUSED, KILLED } trial_t;

#define NOBODY UINT32_C(65534) /* where there is no /proc */

#define CAN(capability) (UINT32_C(1) << (capability)) /* of those below 32 */

/* --- Capabilities ------------------------------------------------------------------------------------------------- */

typedef struct capabilities {
    kernel_capability_word_t words[KERNEL_CAPABILITY_WORDS];
} capabilities_t;

static long capability_call(long number, capabilities_t *set) {
    kernel_capability_header_t header = {.version = KERNEL_CAPABILITY_VERSION};
    return sys_call2(number, (long)&header, (long)set->words);
}

/* What the calling thread may have: who has a capability that is not in effect can put it there. */
static capabilities_t capabilities_of_thread(void) {
    capabilities_t now = {0};
    (void)capability_call(SYS_capget, &now);
    return now;
}

static bool has(const capabilities_t *set, uint32_t any_of) { return (set->words[0].permitted & any_of) != 0; }

static bool may_change_ids(const capabilities_t *set) { return has(set, CAN(CAP_SETUID) | CAN(CAP_SETGID)); }

static void put_into_effect(capabilities_t *set) {
    for (unsigned i = 0; i < KERNEL_CAPABILITY_WORDS; i++)
        set->words[i].effective = set->words[i].permitted;
    (void)capability_call(SYS_capset, set);
}

static bool give_up_capabilities(void) {
    capabilities_t none = {0};
    long got = capability_call(SYS_capset, &none); /* the ambient ones go with the permitted */
    (void)sys_call6(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0);
    return !sys_failed(got);
}

/* --- Ids ---------------------------------------------------------------------------------------------------------- */

typedef struct ids {
    uint32_t real, effective, saved;
} ids_t;

static ids_t ids_by(long number) {
    ids_t ids = {0};
    (void)sys_call3(number, (long)&ids.real, (long)&ids.effective, (long)&ids.saved);
    return ids;
}

static bool are_one(ids_t ids) { return ids.real == ids.effective && ids.real == ids.saved; }

static bool are_one_each(void) { return are_one(ids_by(SYS_getresuid)) && are_one(ids_by(SYS_getresgid)); }

#define NO_ID UINT32_MAX /* which setresuid(2) takes for "as it is" */

/* The highest id that the user namespace has, the only one of some; NO_ID when it has none yet. Lines are "inside
 * outside count". */
static uint32_t last_id(const char *map) {
    char text[MAP_TEXT_MAX];
    if (sys_read_text(map, text, sizeof text) < 0)
        return NOBODY;
    uint64_t last = NO_ID, ids_end = 0;
    for (const char *at = text; *at != '\0'; at += *at == '\n') {
        uint64_t inside = sys_parse_number(&at);
        (void)sys_parse_number(&at);
        uint64_t count = sys_parse_number(&at);
        if (count != UINT64_MAX && count > 0 && inside + count > ids_end) {
            ids_end = inside + count;
            last = ids_end - 1;
        }
        at += strcspn(at, "\n");
    }
    return (uint32_t)last;
}

static uint32_t foreign_id(const char *map, ids_t own) {
    uint32_t id = last_id(map);
    return id > 0 && id != NO_ID && (id == own.real || id == own.effective || id == own.saved) ? id - 1 : id;
}

/* What fails here the program cannot do either; that all three are one is looked at afterwards. False when a filter
 * refuses what there is a capability for. Groups that a user namespace or a filter keeps are the program's for good. */
static bool change_ids(const capabilities_t *set) {
    uint32_t group = foreign_id("/proc/self/gid_map", ids_by(SYS_getresgid));
    uint32_t user = foreign_id("/proc/self/uid_map", ids_by(SYS_getresuid));
    (void)sys_call2(SYS_setgroups, 0, 0);
    bool failed = sys_failed(sys_call3(SYS_setresgid, group, group, group)) && has(set, CAN(CAP_SETGID));
    return !(sys_failed(sys_call3(SYS_setresuid, user, user, user)) && has(set, CAN(CAP_SETUID))) && !failed;
}

static bool change_ids_quietly(capabilities_t *set) {
    put_into_effect(set);
    long before = sys_call2(SYS_prctl, PR_GET_DUMPABLE, 0);
    bool changed = change_ids(set);
    long now = sys_call2(SYS_prctl, PR_GET_DUMPABLE, 0);
    if (now != before && (before == NO_DUMP || before == DUMP_BY_ALL))
        (void)sys_call6(SYS_prctl, PR_SET_DUMPABLE, before, 0, 0, 0, 0);
    return changed;
}

/* --- Scheduling --------------------------------------------------------------------------------------------------- */

/* While capabilities are there: a lower nice value may need one. The mask is as large as the kernel's own. */
static void take_place_of_main(void) {
    uint64_t mask[CPU_MASK_BYTES / sizeof(uint64_t)];
    long process = (long)sys_process_id();
    long nice = sys_call2(SYS_getpriority, PRIO_PROCESS, process);
    if (!sys_failed(nice))
        (void)sys_call3(SYS_setpriority, PRIO_PROCESS, 0, NICE_OFFSET - nice);
    long bytes = sys_call3(SYS_sched_getaffinity, process, sizeof mask, (long)mask);
    if (!sys_failed(bytes))
        (void)sys_call3(SYS_sched_setaffinity, 0, bytes, (long)mask);
}

static void leave_real_time(void) {
    const struct sched_param none = {0};
    (void)sys_call3(SYS_sched_setscheduler, 0, SCHED_OTHER, (long)&none);
}

/* --- Everything --------------------------------------------------------------------------------------------------- */

typedef struct given_up {
    bool lives; /* false: it has a choice among ids still */
    bool all;   /* false: a filter has refused something */
} given_up_t;

static given_up_t give_up(void) {
    capabilities_t set = capabilities_of_thread();
    take_place_of_main();
    given_up_t result = {.all = !may_change_ids(&set) || change_ids_quietly(&set)};
    result.lives = are_one_each();
    result.all &= give_up_capabilities();
    return result;
}

/* --- In a process under a filter ---------------------------------------------------------------------------------- */

static bool has_capability(const char *line) {
    for (; line != NULL && *line != 0 && *line != '\n'; line++)
        if (*line > '0' && *line <= 'f')
            return true;
    return line == NULL;
}

/* "real effective saved". */
static bool has_choice(const char *line) {
    uint64_t ids[3] = {0};
    for (unsigned i = 0; line != NULL && i < 3; i++)
        ids[i] = sys_parse_number(&line);
    return line == NULL || ids[0] != ids[1] || ids[0] != ids[2];
}

static bool has_rights(void) {
    char text[STATUS_MAX];
    if (sys_read_text("/proc/thread-self/status", text, sizeof text) < 0)
        return true;
    return has_capability(sys_text_behind(text, "\nCapPrm:\t")) ||
           has_capability(sys_text_behind(text, "\nCapInh:\t")) || has_choice(sys_text_behind(text, "\nUid:")) ||
           has_choice(sys_text_behind(text, "\nGid:"));
}

/* A first child in a pid namespace that the program has made for its own would be the init of it. */
static bool has_children_elsewhere(void) {
    enum { LINK_MAX = 32 }; /* "pid:[4026531836]" */
    char own[LINK_MAX] = {0}, theirs[LINK_MAX] = {0};
    long a = sys_call4(SYS_readlinkat, AT_FDCWD, (long)"/proc/self/ns/pid", (long)own, sizeof own);
    long b = sys_call4(SYS_readlinkat, AT_FDCWD, (long)"/proc/self/ns/pid_for_children", (long)theirs, sizeof theirs);
    return sys_failed(a) || a != b || memcmp(own, theirs, sizeof own) != 0;
}

static _Noreturn void try_in_child(bool with_rights) {
    (void)sys_call6(SYS_prctl, PR_SET_DUMPABLE, NO_DUMP, 0, 0, 0, 0); /* no core of it */
    given_up_t result = {.all = true};
    if (with_rights) {
        result = give_up();
        leave_real_time();
    }
    (void)sys_call3(SYS_close_range, UINT32_MAX, UINT32_MAX, CLOSE_RANGE_UNSHARE);
    (void)sys_call6(SYS_process_madvise, -1, 0, 0, 0, 0, 0);
    for (;;)
        (void)sys_call1(SYS_exit_group, result.all ? ALL_ALLOWED : SOME_REFUSED);
}

/* A child with a copy of the memory makes the calls first, and may be killed for them. No tracer stops it
 * (CLONE_UNTRACED), no signal tells of its end, and wait(2) does not see it but with __WALL or __WCLONE. Signals are
 * held back: no handler runs in it. */
static trial_t tried_by_child(bool with_rights) {
    int status = -1;
    long got, child = sys_call6(SYS_clone, CLONE_FS | CLONE_FILES | CLONE_UNTRACED, 0, 0, 0, 0, 0);
    if (child == 0)
        try_in_child(with_rights);
    if (sys_failed(child))
        return KILLED;
    do
        got = sys_call4(SYS_wait4, child, (long)&status, __WALL, 0);
    while (got == -EINTR);
    return got == child && WIFEXITED(status) ? (trial_t)WEXITSTATUS(status) : KILLED;
}

enum { FILTER_UNKNOWN = 0, FILTER_ALLOWS, FILTER_REFUSES };
static _Atomic int
    filter_answer; /* FILTER_*: written once, by who starts the first thread that has something to give up */

bool helper_gives_up(void) {
    return !sys_is_filtered() || atomic_load_explicit(&filter_answer, memory_order_relaxed) == FILTER_ALLOWS;
}

bool helper_keeps_rights(void) { return !helper_gives_up() && has_rights(); }

/* Where children are elsewhere no thread can be born (clone(2): EINVAL): that is no answer for good. */
static void ask_filter(void) {
    static _Atomic bool new_calls_are_tried; /* as filter_answer */
    const bool with_rights =
        atomic_load_explicit(&filter_answer, memory_order_relaxed) == FILTER_UNKNOWN && helper_keeps_rights();
    const bool are_tried = atomic_load_explicit(&new_calls_are_tried, memory_order_relaxed);
    if (!sys_is_filtered() || (!with_rights && are_tried) || has_children_elsewhere())
        return;
    const trial_t trial = tried_by_child(with_rights);
    if (with_rights)
        atomic_store_explicit(&filter_answer, trial == ALL_ALLOWED ? FILTER_ALLOWS : FILTER_REFUSES,
                              memory_order_relaxed);
    const bool lives = trial != KILLED || (with_rights && tried_by_child(false) != KILLED);
    atomic_store_explicit(&hk_new_calls_allowed, lives, memory_order_relaxed);
    atomic_store_explicit(&new_calls_are_tried, true, memory_order_relaxed);
}

/* --- Birth -------------------------------------------------------------------------------------------------------- */

bool helper_birth_takes_long(void) {
    ask_filter();
    if (!helper_gives_up())
        return false;
    const capabilities_t set = capabilities_of_thread();
    return may_change_ids(&set) || !are_one_each();
}

/* Who waits is told before the thread leaves a real-time class, in which others might keep it from running. */
static void tell(_Atomic uint32_t *state, bool lives) {
    /* Release: pairs with the acquire in sys_helper_start. */
    atomic_store_explicit(state, lives ? BIRTH_DONE : BIRTH_REFUSED, memory_order_release);
    sys_futex_wake(state, 1);
}

bool helper_birth(_Atomic uint32_t *state) {
    if (!helper_gives_up())
        return true;
    given_up_t result = give_up();
    tell(state, result.lives);
    leave_real_time();
    return result.lives;
}
