/* SPDX-License-Identifier: MIT */
#include "sys/confined.h"
#include "sys/raw_call.h"
#include "sys/sys.h"

#include <fcntl.h>
#include <errno.h>
#include <linux/stat.h> /* alone: musl's <sys/stat.h> has, since 1.2.5, a struct statx as well */
#include <sys/resource.h>

static const sys_file_t NO_FILE = {.fd = -1};

/* statx(2) is the same on every architecture. */
sys_file_t sys_file(long fd) {
    struct statx what;
    if (!sys_passage_begin())
        return NO_FILE;
    long got = sys_call6(SYS_statx, fd, (long)"", AT_EMPTY_PATH, STATX_TYPE | STATX_INO | STATX_BTIME, (long)&what, 0);
    sys_passage_end();
    if (sys_failed(got))
        return NO_FILE;
    const uint64_t device = (uint64_t)what.stx_dev_major << 32 | what.stx_dev_minor;
    const uint64_t born = (uint64_t)what.stx_btime.tv_sec * UINT64_C(1000000000) + what.stx_btime.tv_nsec;
    return (sys_file_t){.fd = fd, .inode = what.stx_ino, .device = device, .born = born, .mode = what.stx_mode};
}

bool sys_is_open(long fd) { return !sys_failed(sys_call3(SYS_fcntl, fd, F_GETFD, 0)); }

bool sys_file_is_same(const sys_file_t *one, const sys_file_t *other) {
    return one->inode != 0 && one->inode == other->inode && one->device == other->device && one->born == other->born;
}

bool sys_file_is_still(const sys_file_t *file) {
    if (file->inode == 0)
        return false;
    const sys_file_t now = sys_file(file->fd);
    return sys_file_is_same(file, &now);
}

bool sys_file_is_log(const sys_file_t *file) {
    long flags = (file->mode & S_IFMT) == S_IFREG ? sys_call3(SYS_fcntl, file->fd, F_GETFL, 0) : -EBADF;
    return !sys_failed(flags) && (flags & (O_ACCMODE | O_APPEND)) == (O_WRONLY | O_APPEND);
}

/* The number stays below the process's limit. */
sys_file_t sys_file_keep(const sys_file_t *file, unsigned least) {
    struct rlimit limit = {.rlim_cur = least};
    if (file->inode == 0)
        return NO_FILE;
    (void)sys_call4(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, (long)&limit);
    if (least >= limit.rlim_cur)
        least = (unsigned)(limit.rlim_cur / 4 * 3);
    long fd = sys_call3(SYS_fcntl, file->fd, F_DUPFD_CLOEXEC, least);
    return sys_failed(fd) ? NO_FILE : sys_file(fd);
}

bool sys_file_is_kept(const sys_file_t *file) {
    return sys_file_is_still(file) && sys_call3(SYS_fcntl, file->fd, F_GETFD, 0) == FD_CLOEXEC;
}

void sys_file_close(sys_file_t *file) {
    if (sys_file_is_still(file))
        sys_close(file->fd);
    *file = NO_FILE;
}
