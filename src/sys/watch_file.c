/* SPDX-License-Identifier: MIT */
#include "sys/raw_call.h"
#include "sys/sys.h"

#include <fcntl.h>
#include <linux/stat.h>
#include <poll.h>
#include <sys/stat.h>
#include <time.h>

/* What the descriptor refers to: statx(2) is the same on every architecture. */
static bool identify(long fd, struct statx *what) {
    return !sys_failed(sys_call6(SYS_statx, fd, (long)"", AT_EMPTY_PATH, STATX_TYPE | STATX_INO, (long)what, 0));
}

bool sys_watch_open(sys_watch_t *watch, const char *path, const void *data, size_t size) {
    struct statx what;
    long fd = sys_call4(SYS_openat, AT_FDCWD, (long)path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
    if (sys_failed(fd))
        return false;
    bool good = identify(fd, &what) && (S_ISREG(what.stx_mode) || S_ISFIFO(what.stx_mode));
    good = good && (size == 0 || sys_call3(SYS_write, fd, (long)data, (long)size) == (long)size);
    if (!good) {
        sys_close(fd);
        return false;
    }
    *watch = (sys_watch_t){fd, what.stx_ino, S_ISFIFO(what.stx_mode)};
    return true;
}

/* The program may have closed the descriptor, and its number may be another file now. */
static bool is_still_ours(const sys_watch_t *watch) {
    struct statx what;
    return identify(watch->fd, &what) && what.stx_ino == watch->inode;
}

bool sys_watch_wait(const sys_watch_t *watch) {
    struct pollfd entry = {.fd = (int)watch->fd, .events = watch->is_pipe ? POLLIN : POLLPRI};
    long got;
    do
        got = sys_call6(SYS_ppoll, (long)&entry, 1, 0, 0, sizeof(uint64_t), 0);
    while (got == -EINTR);
    if (got <= 0 || (entry.revents & (POLLIN | POLLPRI)) == 0 || !is_still_ours(watch))
        return false;
    char drained[64];
    while (watch->is_pipe && sys_read(watch->fd, drained, sizeof drained) > 0)
        continue;
    return true;
}
