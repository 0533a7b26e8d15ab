/* SPDX-License-Identifier: MIT */
#include "sys/confined.h"
#include "sys/kernel.h"
#include "sys/raw_call.h"
#include "sys/sys.h"

#include <fcntl.h>
#include <errno.h>
#include <sys/stat.h>

static const sys_file_t NO_FILE = {.fd = -1};

sys_file_t sys_file(long fd) {
    kernel_statx_t what;
    if (!sys_passage_begin())
        return NO_FILE;
    const long wanted = KERNEL_STATX_TYPE | KERNEL_STATX_INO | KERNEL_STATX_BTIME;
    long got = sys_call6(SYS_statx, fd, (long)"", AT_EMPTY_PATH, wanted, (long)&what, 0);
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

long sys_open_new(const char *path) {
    const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW;
    if (!sys_passage_begin())
        return -EPERM;
    long fd = sys_call4(SYS_openat, AT_FDCWD, (long)path, flags, 0666);
    sys_passage_end();
    return fd;
}

int sys_rename(const char *from, const char *to) {
    if (!sys_passage_begin())
        return EPERM;
    long done = sys_call6(SYS_renameat2, AT_FDCWD, (long)from, AT_FDCWD, (long)to, 0, 0);
    sys_passage_end();
    return sys_failed(done) ? (int)-done : 0;
}

void sys_unlink(const char *path) {
    if (!sys_passage_begin())
        return;
    (void)sys_call3(SYS_unlinkat, AT_FDCWD, (long)path, 0);
    sys_passage_end();
}

void sys_file_close(sys_file_t *file) {
    if (sys_file_is_still(file))
        sys_close(file->fd);
    *file = NO_FILE;
}
