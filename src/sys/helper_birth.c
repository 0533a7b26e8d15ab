/* SPDX-License-Identifier: MIT */
#include "sys/helper_birth.h"

#include "sys/confined.h"
#include "sys/raw_call.h"
#include "sys/sys.h"
#include "sys/text.h"

#include <linux/capability.h>
#include <linux/prctl.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>

enum {
    STATUS_MAX = 4096,
    MAP_TEXT_MAX = 4096,  /* of uid_map: some 120 ranges */
    CPU_MASK_BYTES = 512, /* 4,096 processors */
    NICE_OFFSET = 20,     /* the system call answers 20 - nice value */
    NO_DUMP = 0,
    DUMP_BY_ALL = 1, /* prctl(2), PR_SET_DUMPABLE; 2 can only be read */
};

#define NOBODY UINT32_C(65534) /* where there is no /proc */

#define CAN(capability) (UINT32_C(1) << (capability)) /* of those below 32 */

/* --- Capabilities ------------------------------------------------------------------------------------------------------ */

typedef struct capabilities {
    struct __user_cap_data_struct words[_LINUX_CAPABILITY_U32S_3];
} capabilities_t;

static long capability_call(long number, capabilities_t *set) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    return sys_call2(number, (long)&header, (long)set->words);
}

/* What the calling thread may have: who has a capability that is not in effect can put it there. */
static capabilities_t capabilities_of_thread(void) {
    capabilities_t now = {0};
    (void)capability_call(SYS_capget, &now);
    return now;
}

static bool may_change_ids(const capabilities_t *has) {
    return (has->words[0].permitted & (CAN(CAP_SETUID) | CAN(CAP_SETGID))) != 0;
}

static void put_into_effect(capabilities_t *has) {
    for (unsigned i = 0; i < _LINUX_CAPABILITY_U32S_3; i++)
        has->words[i].effective = has->words[i].permitted;
    (void)capability_call(SYS_capset, has);
}

static void give_up_capabilities(void) {
    capabilities_t none = {0};
    (void)capability_call(SYS_capset, &none); /* the ambient ones go with the permitted */
    (void)sys_call6(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0);
}

/* --- Ids --------------------------------------------------------------------------------------------------------------- */

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

/* The highest id that the user namespace has, the only one of some; NO_ID when it has none yet. Lines are "inside outside count". */
static uint32_t last_id(const char *map) {
    char text[MAP_TEXT_MAX];
    long fd = sys_open_read(map);
    if (fd < 0)
        return NOBODY;
    long got = sys_read(fd, text, sizeof text);
    sys_close_read(fd);
    uint64_t last = NO_ID, ids_end = 0;
    for (const char *at = text, *end = text + (got > 0 ? got : 0); at < end; at++) {
        uint64_t inside = sys_parse_number(&at, end);
        (void)sys_parse_number(&at, end);
        uint64_t count = sys_parse_number(&at, end);
        if (count != UINT64_MAX && count > 0 && inside + count > ids_end) {
            ids_end = inside + count;
            last = ids_end - 1;
        }
        while (at < end && *at != '\n')
            at++;
    }
    return (uint32_t)last;
}

static uint32_t foreign_id(const char *map, ids_t own) {
    uint32_t id = last_id(map);
    return id > 0 && id != NO_ID && (id == own.real || id == own.effective || id == own.saved) ? id - 1 : id;
}

/* What fails here the program cannot do either; that all three are one is looked at afterwards. */
static void change_ids(void) {
    uint32_t group = foreign_id("/proc/self/gid_map", ids_by(SYS_getresgid));
    uint32_t user = foreign_id("/proc/self/uid_map", ids_by(SYS_getresuid));
    (void)sys_call2(SYS_setgroups, 0, 0);
    (void)sys_call3(SYS_setresgid, group, group, group);
    (void)sys_call3(SYS_setresuid, user, user, user);
}

static void change_ids_quietly(capabilities_t *has) {
    put_into_effect(has);
    long before = sys_call2(SYS_prctl, PR_GET_DUMPABLE, 0);
    change_ids();
    long now = sys_call2(SYS_prctl, PR_GET_DUMPABLE, 0);
    if (now != before && (before == NO_DUMP || before == DUMP_BY_ALL))
        (void)sys_call6(SYS_prctl, PR_SET_DUMPABLE, before, 0, 0, 0, 0);
}

/* --- Scheduling ----------------------------------------------------------------------------------------------------------- */

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

/* --- In a process under a filter ------------------------------------------------------------------------------------------ */

/* The line of a status file, behind its name; NULL when there is none. */
static const char *line_of(const char *text, const char *name) {
    const char *found = strstr(text, name);
    return found == NULL ? NULL : found + strlen(name);
}

static bool has_capability(const char *line) {
    for (; line != NULL && *line != 0 && *line != '\n'; line++)
        if (*line > '0' && *line <= 'f')
            return true;
    return line == NULL;
}

/* "real effective saved", of which the first two are followed by tabs. */
static bool has_choice(const char *line, const char *end) {
    uint64_t ids[3] = {0};
    for (unsigned i = 0; line != NULL && i < 3; i++) {
        while (line < end && *line == '\t')
            line++;
        ids[i] = sys_parse_number(&line, end);
    }
    return line == NULL || ids[0] != ids[1] || ids[0] != ids[2];
}

bool helper_keeps_rights(void) {
    char text[STATUS_MAX];
    long fd = sys_open_read("/proc/thread-self/status");
    if (fd < 0)
        return true;
    long length = sys_read(fd, text, sizeof text - 1);
    sys_close_read(fd);
    const char *end = text + (length > 0 ? length : 0);
    text[end - text] = 0;
    return has_capability(line_of(text, "\nCapPrm:\t")) || has_choice(line_of(text, "\nUid:"), end) ||
           has_choice(line_of(text, "\nGid:"), end);
}

/* --- Birth ------------------------------------------------------------------------------------------------------------------ */

bool helper_birth_takes_long(void) {
    if (sys_is_filtered())
        return false;
    const capabilities_t has = capabilities_of_thread();
    return may_change_ids(&has) || !are_one_each();
}

/* Who waits is told before the thread leaves a real-time class, in which others might keep it from running. */
static void tell(_Atomic uint32_t *state, bool lives) {
    /* Release: pairs with the acquire in sys_helper_start. */
    atomic_store_explicit(state, lives ? BIRTH_DONE : BIRTH_REFUSED, memory_order_release);
    sys_futex_wake(state, 1);
}

bool helper_birth(_Atomic uint32_t *state) {
    if (sys_is_filtered())
        return true;
    capabilities_t has = capabilities_of_thread();
    take_place_of_main();
    if (may_change_ids(&has))
        change_ids_quietly(&has);
    bool lives = are_one_each();
    give_up_capabilities();
    tell(state, lives);
    leave_real_time();
    return lives;
}
