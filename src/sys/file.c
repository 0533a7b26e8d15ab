/* SPDX-License-Identifier: MIT */
#include "sys/file.h"

#include "sys/clock.h"
#include "sys/confined.h"
#include "sys/kernel.h"
#include "sys/raw_call.h"
#include "sys/signal_mask.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* --- Reading and writing ------------------------------------------------------------------------------------------ */

long sys_open_read(const char *path) {
    if (!sys_passage_begin())
        return -EPERM;
    long fd = sys_call4(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0);
    if (sys_failed(fd))
        sys_passage_end();
    return fd;
}

long sys_open_append(const char *path) {
    const int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    return sys_passage_call(SYS_openat, AT_FDCWD, (long)path, flags, 0666, 0, 0);
}

/* As a call that opens something would find it. faccessat(2) asks by the real user, and without the capabilities of one
 * who is not root. */
static long may_write_into(const char *folder) {
    const long may = W_OK | X_OK;
    const long got =
        !sys_may_make_new_calls() ? -ENOSYS : sys_call4(SYS_faccessat2, AT_FDCWD, (long)folder, may, AT_EACCESS);
    return got != -ENOSYS ? got : sys_call3(SYS_faccessat, AT_FDCWD, (long)folder, may);
}

/* What is not there can be made where its folder may be written to. */
static int may_make(const char *path) {
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t length = slash == NULL ? 0 : slash == path ? 1 : (size_t)(slash - path);
    if (length >= sizeof folder)
        return ENAMETOOLONG;
    memcpy(folder, slash == NULL ? "." : path, slash == NULL ? 1 : length);
    folder[slash == NULL ? 1 : length] = '\0';
    return (int)-may_write_into(folder);
}

int sys_may_append(const char *path) {
    if (!sys_passage_begin())
        return EPERM;
    long fd = sys_call4(SYS_openat, AT_FDCWD, (long)path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0);
    int error = fd == -ENOENT ? may_make(path) : sys_error(fd);
    if (!sys_failed(fd))
        sys_close(fd);
    sys_passage_end();
    return error;
}

bool sys_working_directory(char *path, size_t size) {
    long got = sys_passage_call(SYS_getcwd, (long)path, (long)size, 0, 0, 0, 0);
    return got > 0 && path[0] == '/';
}

void sys_close_read(long fd) {
    (void)sys_call1(SYS_close, fd);
    sys_passage_end();
}

long sys_read(long fd, void *buffer, size_t size) {
    long got;
    do
        got = sys_call3(SYS_read, fd, (long)buffer, (long)size);
    while (got == -EINTR);
    return got;
}

long sys_read_text(const char *path, char *text, size_t size) {
    const long fd = sys_open_read(path), length = sys_failed(fd) ? fd : sys_read(fd, text, size - 1);
    if (!sys_failed(fd))
        sys_close_read(fd);
    text[length > 0 ? length : 0] = '\0';
    return length;
}

const char *sys_text_behind(const char *text, const char *name) {
    const char *found = strstr(text, name);
    return found == NULL ? NULL : found + strlen(name);
}

uint64_t sys_parse_number(const char **text) {
    const char *first = *text += strspn(*text, " \t");
    uint64_t value = 0;
    for (; **text >= '0' && **text <= '9'; (*text)++)
        value = value * 10 + (uint64_t)(**text - '0');
    return *text == first ? UINT64_MAX : value;
}

void sys_close(long fd) { (void)sys_passage_call(SYS_close, fd, 0, 0, 0, 0, 0); }

long sys_poll(struct pollfd *entries, size_t count, uint32_t timeout_ms) {
    struct timespec rest = {.tv_sec = timeout_ms / 1000, .tv_nsec = (long)(timeout_ms % 1000) * 1000000};
    const long timeout = timeout_ms == UINT32_MAX ? 0 : (long)&rest;
    long got;
    do /* which leaves in `rest` what is left of it */
        got = sys_call6(SYS_ppoll, (long)entries, (long)count, timeout, 0, sizeof(uint64_t), 0);
    while (got == -EINTR && !sys_is_confined());
    return got;
}

/* A pipe or a terminal that does not wait by itself: true when there may be room, false after `end_ms`. */
static bool wait_for_room(int fd, uint64_t end_ms) {
    struct pollfd entry = {.fd = fd, .events = POLLOUT};
    uint64_t now = end_ms > 0 && !sys_is_confined() ? sys_now_ms() : end_ms;
    return now < end_ms && sys_poll(&entry, 1, (uint32_t)(end_ms - now)) == 1;
}

/* Returns what the last write(2) did. */
static long write_all(int fd, const char *at, size_t size, uint64_t end_ms) {
    long got = 0;
    while (size > 0) {
        got = sys_call3(SYS_write, fd, (long)at, (long)size);
        if (got == -EINTR || (got == -EAGAIN && wait_for_room(fd, end_ms)))
            continue;
        if (got <= 0)
            break;
        at += got;
        size -= (size_t)got;
    }
    return got;
}

/* The signal that such a failure of write(2) raises in the calling thread: nobody reads the pipe, or the file may grow
 * no further. */
static uint64_t signal_of(long error) {
    return error == -EPIPE ? SYS_SIGNAL_BIT(SIGPIPE) : error == -EFBIG ? SYS_SIGNAL_BIT(SIGXFSZ) : 0;
}

/* Whether no file could have a byte when the process was confined: relaxed, as the process has one thread that asks
 * for its confinement. */
static _Atomic bool is_limited;

void sys_write_note_limit(bool limited) { atomic_store_explicit(&is_limited, limited, memory_order_relaxed); }

/* A confined process may take no signal. One that this write raised is held back for good, as it would end the program:
 * where no file may be written, as in the sandbox of sshd, whose filter allows more than the least. */
static long write_confined(int fd, const void *buffer, size_t size, uint64_t end_ms, uint64_t held) {
    uint64_t before;
    if (!atomic_load_explicit(&is_limited, memory_order_relaxed) || !sys_signals_hold(held, true, &before))
        return write_all(fd, buffer, size, end_ms);
    const long got = write_all(fd, buffer, size, end_ms);
    sys_signals_release(before | signal_of(got));
    return got;
}

/* Holds the calling thread's SIGPIPE and SIGXFSZ back, takes the one that this write raised, and leaves what was
 * pending before. */
static long write_quietly(int fd, const void *buffer, size_t size, uint64_t end_ms) {
    const uint64_t held = SYS_SIGNAL_BIT(SIGPIPE) | SYS_SIGNAL_BIT(SIGXFSZ);
    uint64_t before = 0, pending = 0;
    if (!sys_signals_hold(held, false, &before))
        return write_confined(fd, buffer, size, end_ms, held);
    if ((before & held) != 0)
        (void)sys_call2(SYS_rt_sigpending, (long)&pending, sizeof pending);
    const struct timespec at_once = {0};
    const long got = write_all(fd, buffer, size, end_ms);
    const uint64_t raised = signal_of(got) & ~pending;
    if (raised != 0)
        (void)sys_call4(SYS_rt_sigtimedwait, (long)&raised, 0, (long)&at_once, sizeof raised);
    sys_signals_release(before);
    return got;
}

void sys_write_all(int fd, const void *buffer, size_t size) { (void)write_quietly(fd, buffer, size, 0); }

int sys_write_whole(int fd, const void *buffer, size_t size, uint32_t milliseconds) {
    const long got = size == 0 ? 1 : write_quietly(fd, buffer, size, sys_now_ms() + milliseconds);
    return got > 0 ? 0 : got == 0 ? EIO : (int)-got;
}

/* --- What a descriptor leads to ----------------------------------------------------------------------------------- */

static const sys_file_t NO_FILE = {.fd = -1};

sys_file_t sys_file(long fd) {
    kernel_statx_t what;
    const long wanted = KERNEL_STATX_TYPE | KERNEL_STATX_INO | KERNEL_STATX_BTIME;
    if (sys_failed(sys_passage_call(SYS_statx, fd, (long)"", AT_EMPTY_PATH, wanted, (long)&what, 0)))
        return NO_FILE;
    const uint64_t device = (uint64_t)what.stx_dev_major << 32 | what.stx_dev_minor;
    const uint64_t born = (uint64_t)what.stx_btime.tv_sec * UINT64_C(1000000000) + what.stx_btime.tv_nsec;
    return (sys_file_t){.fd = fd, .inode = what.stx_ino, .device = device, .born = born, .mode = what.stx_mode};
}

static bool is_same(const sys_file_t *one, const sys_file_t *other) {
    return one->inode != 0 && one->inode == other->inode && one->device == other->device && one->born == other->born;
}

bool sys_file_is_still(const sys_file_t *file) {
    if (file->inode == 0)
        return false;
    const sys_file_t now = sys_file(file->fd);
    return is_same(file, &now);
}

bool sys_is_data(long fd) {
    bool is_regular = (sys_file(fd).mode & S_IFMT) == S_IFREG;
    return is_regular && (sys_passage_call(SYS_fcntl, fd, F_GETFL, 0, 0, 0, 0) & O_ACCMODE) == O_RDWR;
}

/* Whatever another user put there goes, or is refused. */
long sys_open_new(const char *path) {
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
    if (!sys_passage_begin())
        return -EPERM;
    (void)sys_call3(SYS_unlinkat, AT_FDCWD, (long)path, 0);
    long fd = sys_call4(SYS_openat, AT_FDCWD, (long)path, flags, 0666);
    sys_passage_end();
    return fd;
}

/* Where the kind of a file cannot be asked, it is taken for one that is replaced. */
long sys_open_special(const char *path) {
    const int flags = O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    if (!sys_passage_begin())
        return -EPERM;
    long fd = sys_call4(SYS_openat, AT_FDCWD, (long)path, flags | O_NOFOLLOW, 0);
    const uint32_t kind = sys_failed(fd) ? 0 : sys_file(fd).mode & S_IFMT;
    if (fd == -ELOOP) {
        fd = sys_call4(SYS_openat, AT_FDCWD, (long)path, flags | O_CREAT | O_TRUNC, 0666);
    } else if (!sys_failed(fd) && (kind == 0 || kind == S_IFREG)) {
        sys_close(fd);
        fd = -ENOENT;
    }
    sys_passage_end();
    return fd;
}

int sys_rename(const char *from, const char *to) {
    return sys_error(sys_passage_call(SYS_renameat2, AT_FDCWD, (long)from, AT_FDCWD, (long)to, 0, 0));
}

void sys_unlink(const char *path) { (void)sys_passage_call(SYS_unlinkat, AT_FDCWD, (long)path, 0, 0, 0, 0); }

void sys_file_close(sys_file_t *file) {
    if (sys_file_is_still(file))
        sys_close(file->fd);
    *file = NO_FILE;
}
