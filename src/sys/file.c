/* SPDX-License-Identifier: MIT */
#include "sys/confined.h"
#include "sys/raw_call.h"
#include "sys/sys.h"

#include <fcntl.h>
#include <errno.h>
#include <linux/stat.h> /* alone: musl's <sys/stat.h> has, since 1.2.5, a struct statx as well */

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

bool sys_file_is_same(const sys_file_t *one, const sys_file_t *other) {
    return one->inode != 0 && one->inode == other->inode && one->device == other->device && one->born == other->born;
}

bool sys_file_is_still(const sys_file_t *file) {
    if (file->inode == 0)
        return false;
    const sys_file_t now = sys_file(file->fd);
    return sys_file_is_same(file, &now);
}

bool sys_is_data(long fd) {
    bool is_regular = (sys_file(fd).mode & S_IFMT) == S_IFREG;
    return is_regular && (sys_call3(SYS_fcntl, fd, F_GETFL, 0) & O_ACCMODE) == O_RDWR;
}

void sys_file_close(sys_file_t *file) {
    if (sys_file_is_still(file))
        sys_close(file->fd);
    *file = NO_FILE;
}
